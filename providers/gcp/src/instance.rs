//! What stands at an instance's name, and whose it is.

use provider_sdk::{
    Address, AddressKind, Context, Error, Http, Mark, Target, Verdict, mark::show, reason, time,
};
use serde_json::{Map, Value};

use crate::{api::Api, config::External, failure::Trouble, id::Location, mark};

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Nothing,
    /// It bears another mark, or none.
    Foreign(Mark),
    Ours(Machine),
}

/// A VM's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// PENDING, PROVISIONING, STAGING, REPAIRING: it comes up by itself.
    Coming(String),
    Running,
    /// It is being stopped, or deleted: the status does not say which.
    Stopping,
    /// STOPPED and TERMINATED are the same.
    Stopped,
    Suspending,
    Suspended,
    Deprovisioning,
    Unknown(String),
}

impl Status {
    fn read(word: &str) -> Self {
        match word {
            "PENDING" | "PROVISIONING" | "STAGING" | "REPAIRING" => Self::Coming(word.to_owned()),
            "RUNNING" => Self::Running,
            "PENDING_STOP" | "STOPPING" => Self::Stopping,
            "STOPPED" | "TERMINATED" => Self::Stopped,
            "SUSPENDING" => Self::Suspending,
            "SUSPENDED" => Self::Suspended,
            "DEPROVISIONING" => Self::Deprovisioning,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// A VM that was read back as ours: only [`find`] makes one, and only with one is something started or deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    at: Location,
    number: String,
    mark: Mark,
    created_ms: Option<u64>,
    status: Status,
    started: String,
    spot: bool,
    protected: bool,
    legacy: bool,
    object: Value,
}

impl Machine {
    pub fn at(&self) -> &Location {
        &self.at
    }

    /// Compute Engine's own number for it: a successor of the same name has another.
    pub fn number(&self) -> &str {
        &self.number
    }

    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    pub fn created_ms(&self) -> Option<u64> {
        self.created_ms
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    /// When it was started last, as it says it.
    pub fn started(&self) -> &str {
        &self.started
    }

    /// Whether it may be taken away at any time.
    pub fn is_spot(&self) -> bool {
        self.spot
    }

    /// Whether somebody forbade that it is deleted.
    pub fn is_protected(&self) -> bool {
        self.protected
    }

    /// The entry's rule that lets clients in to it.
    pub fn firewall(&self) -> Option<String> {
        let rule = self.object.get("labels").and_then(|labels| labels.get(mark::FIREWALL)?.as_str());
        rule.map(str::to_owned)
    }

    /// Whether its mark is still the earlier operator's.
    pub fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// Its labels, with our mark in the place of the earlier operator's, and the fingerprint that they had.
    pub fn relabelled(&self, mark: &Mark) -> Value {
        let labels = self.object.get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut labels: Map<String, Value> =
            labels.into_iter().filter(|(key, _)| !key.starts_with(mark::LEGACY)).collect();
        labels.extend(mark::to_labels(mark));
        serde_json::json!({ "labels": labels, "labelFingerprint": self.fingerprint() })
    }

    /// Changes whenever its labels do.
    pub fn fingerprint(&self) -> String {
        text(&self.object, "/labelFingerprint")
    }

    /// Where it can be reached, best first; empty while the address that is to serve is missing.
    pub fn addresses(&self, external: External) -> Vec<Address> {
        let nics = self.object.get("networkInterfaces").and_then(Value::as_array);
        let Some(nic) = nics.and_then(|nics| nics.first()) else { return Vec::new() };
        let of = |list: &str, field: &str| -> Vec<String> {
            let configs = nic.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            configs.iter().map(|config| text(config, &format!("/{field}"))).collect()
        };
        let public = of("accessConfigs", "natIP").into_iter().chain(of("ipv6AccessConfigs", "externalIpv6"));
        let private = [text(nic, "/networkIP"), text(nic, "/ipv6Address")];
        let address = |kind: AddressKind| move |ip: String| Address { kind, ip };
        let legal = |address: &Address| address.ip.parse::<std::net::IpAddr>().is_ok();
        let public: Vec<Address> = public.map(address(AddressKind::External)).filter(legal).collect();
        let private: Vec<Address> =
            private.into_iter().map(address(AddressKind::Internal)).filter(legal).collect();
        match external {
            External::None => private.into_iter().chain(public).collect(),
            External::Ephemeral | External::Reserved if public.is_empty() => Vec::new(),
            External::Ephemeral | External::Reserved => public.into_iter().chain(private).collect(),
        }
    }

    /// What helps to find it.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [
            ("zone", self.at.zone.clone()),
            ("status", text(&self.object, "/status")),
            ("statusMessage", text(&self.object, "/statusMessage")),
            ("machineType", last(&text(&self.object, "/machineType")).to_owned()),
            ("cpuPlatform", text(&self.object, "/cpuPlatform")),
            ("provisioning", text(&self.object, "/scheduling/provisioningModel")),
        ] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        details
    }

    fn read(at: &Location, object: Value, mark: Mark, legacy: bool) -> Self {
        let provisioning = text(&object, "/scheduling/provisioningModel");
        let preemptible = object.pointer("/scheduling/preemptible").and_then(Value::as_bool);
        Self {
            at: at.clone(),
            number: text(&object, "/id"),
            mark,
            created_ms: time::rfc3339_ms(&text(&object, "/creationTimestamp")),
            status: Status::read(&text(&object, "/status")),
            started: text(&object, "/lastStartTimestamp"),
            spot: provisioning == "SPOT" || preemptible == Some(true),
            protected: object.get("deletionProtection").and_then(Value::as_bool).unwrap_or(false),
            legacy,
            object,
        }
    }
}

/// Looks a name up in a zone and reads its mark.
///
/// An earlier operator's machine is ours only where the Proxy names its id.
pub fn find<H: Context + Http>(api: &Api<'_, H>, at: &Location, target: &Target) -> Result<Found, Error> {
    let asked = || api.asked(format!("look {} up in {}", at.name, at.zone));
    let object = match api.read(&["zones", &at.zone, "instances", &at.name], &[]) {
        Ok(object) => object,
        Err(trouble) if trouble.is_not_found() => return Ok(Found::Nothing),
        Err(trouble) => return Err(asked().error(&trouble)),
    };
    // What has not even our name is no stranger's machine: it is none.
    if text(&object, "/kind") != "compute#instance" || text(&object, "/name") != at.name {
        return Err(asked().error(&Trouble::Garbled("the answer is not that instance".to_owned())));
    }
    let mark = read_mark(&object, &api.host().mark());
    Ok(match api.host().verify(&mark) {
        Verdict::ThisTarget => Found::Ours(Machine::read(at, object, mark, false)),
        Verdict::Legacy if target.id.as_deref() == Some(at.id().as_str()) => {
            Found::Ours(Machine::read(at, object, mark, true))
        }
        Verdict::ThisInstallation | Verdict::Legacy | Verdict::Foreign => Found::Foreign(mark),
    })
}

/// The mark in an object's labels.
pub fn read_mark(object: &Value, like: &Mark) -> Mark {
    let labels = object.get("labels").and_then(Value::as_object);
    labels.map(|labels| mark::from_labels(labels, like)).unwrap_or_default()
}

/// Our name with another's mark, or none.
pub fn foreign(project: &str, at: &Location, found: &Mark, ours: &Mark) -> Error {
    Error::permanent(
        reason::FOREIGN,
        format!(
            "project {project}: the instance {} in {} bears {}, not {}; delete it, or give it back its labels if it is \
             this Proxy's",
            at.name,
            at.zone,
            show(found),
            show(ours)
        ),
    )
}

/// A text in an object; empty when it isn't there.
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The last segment of a link: hosts in links differ from the one that was asked.
pub fn last(link: &str) -> &str {
    link.rsplit('/').next().unwrap_or(link)
}
