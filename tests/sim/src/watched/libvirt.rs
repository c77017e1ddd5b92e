//! libvirt, watched.
//!
//! The first connection of a host's process to a hypervisor is a call; from then on the pooled one is there, and
//! whoever opens it asks nobody, until it breaks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use egress_runtime::capability::{
    Allowed, Domain, DomainState, HostInfo, InterfaceAddress, Libvirt, LibvirtConnection, LibvirtFailure,
    LibvirtStage as Stage, PoolInfo,
};
use serde_json::{Value, json};

use super::{Call, Failing, Said, Watch};
use crate::{
    fault::{Fault, When},
    journal::Effect,
};

const STAGES: [Stage; 13] = [
    Stage::Denied,
    Stage::Credentials,
    Stage::Name,
    Stage::Connect,
    Stage::Handshake,
    Stage::HostKey,
    Stage::Authentication,
    Stage::Channel,
    Stage::Libvirt,
    Stage::Timeout,
    Stage::Cut,
    Stage::TooLarge,
    Stage::Invalid,
];

fn number<T: TryFrom<u64>>(value: &Value, key: &str) -> Option<T> {
    value.get(key)?.as_u64().and_then(|number| T::try_from(number).ok())
}

fn small(value: &Value, key: &str) -> Option<i32> {
    value.get(key)?.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn text(value: &Value, key: &str) -> Option<String> {
    Some(value.get(key)?.as_str()?.to_owned())
}

/// An answer and its form in a recording.
macro_rules! said {
    ($type:ty, $outcome:expr, $to:expr, $from:expr) => {
        impl Said for $type {
            fn outcome(&self) -> String {
                ($outcome)(self)
            }
            fn to_json(&self) -> Value {
                ($to)(self)
            }
            fn from_json(value: &Value) -> Option<Self> {
                ($from)(value)
            }
        }
    };
}

fn ok<T>(_: &T) -> String {
    "ok".to_owned()
}

said!((), ok, |(): &()| Value::Null, |_: &Value| Some(()));
said!(u64, u64::to_string, |it: &u64| (*it).into(), Value::as_u64);
said!(
    Vec<u8>,
    |it: &Vec<u8>| format!("{} bytes", it.len()),
    |it: &Vec<u8>| it.as_slice().into(),
    |value: &Value| {
        let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
        value.as_array()?.iter().map(byte).collect()
    }
);
said!(
    Vec<String>,
    |it: &Vec<String>| format!("{} names", it.len()),
    |it: &Vec<String>| it.as_slice().into(),
    |value: &Value| value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
);
said!(Domain, |it: &Domain| it.uuid.clone(), domain_json, domain_from);
said!(
    Vec<Domain>,
    |it: &Vec<Domain>| format!("{} domains", it.len()),
    |it: &Vec<Domain>| it.iter().map(domain_json).collect(),
    |value: &Value| value.as_array()?.iter().map(domain_from).collect()
);
said!(
    DomainState,
    |it: &DomainState| format!("state {} ({})", it.state, it.reason),
    |it: &DomainState| json!({ "state": it.state, "reason": it.reason }),
    |value: &Value| Some(DomainState { state: small(value, "state")?, reason: small(value, "reason")? })
);
said!(
    HostInfo,
    |it: &HostInfo| it.hostname.clone(),
    |it: &HostInfo| {
        json!({ "user": it.user, "hostname": it.hostname, "libvirtVersion": it.libvirt_version })
    },
    |value: &Value| {
        Some(HostInfo {
            user: text(value, "user")?,
            hostname: text(value, "hostname")?,
            libvirt_version: number(value, "libvirtVersion")?,
        })
    }
);
said!(
    PoolInfo,
    |it: &PoolInfo| format!("state {}, {} bytes left", it.state, it.available),
    |it: &PoolInfo| {
        json!({
            "state": it.state, "capacity": it.capacity, "allocation": it.allocation, "available": it.available,
        })
    },
    |value: &Value| {
        Some(PoolInfo {
            state: small(value, "state")?,
            capacity: number(value, "capacity")?,
            allocation: number(value, "allocation")?,
            available: number(value, "available")?,
        })
    }
);
said!(
    Vec<InterfaceAddress>,
    |it: &Vec<InterfaceAddress>| format!("{} addresses", it.len()),
    |it: &Vec<InterfaceAddress>| {
        let address = |it: &InterfaceAddress| json!({ "device": it.device, "mac": it.mac, "ip": it.ip, "prefix": it.prefix });
        it.iter().map(address).collect()
    },
    |value: &Value| {
        let address = |value: &Value| {
            Some(InterfaceAddress {
                device: text(value, "device")?,
                mac: text(value, "mac")?,
                ip: text(value, "ip")?,
                prefix: number(value, "prefix")?,
            })
        };
        value.as_array()?.iter().map(address).collect()
    }
);
said!(
    Allowed,
    ok,
    |it: &Allowed| json!({ "pools": it.pools, "bridges": it.bridges, "prefix": it.prefix }),
    |value: &Value| {
        Some(Allowed {
            pools: Vec::from_json(value.get("pools")?)?,
            bridges: Vec::from_json(value.get("bridges")?)?,
            prefix: text(value, "prefix")?,
        })
    }
);

fn domain_json(it: &Domain) -> Value {
    json!({ "name": it.name, "uuid": it.uuid })
}

fn domain_from(value: &Value) -> Option<Domain> {
    Some(Domain { name: text(value, "name")?, uuid: text(value, "uuid")? })
}

impl Said for String {
    fn outcome(&self) -> String {
        format!("{} letters", self.len())
    }

    fn to_json(&self) -> Value {
        self.as_str().into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    /// All texts are documents.
    fn garbage() -> Option<Self> {
        Some("<html><body>no such page</body></html>".to_owned())
    }
}

/// A connection as a recording knows it: that there is one.
struct Opened(Option<Arc<dyn LibvirtConnection>>);

said!(Opened, ok, |_: &Opened| Value::Null, |_: &Value| Some(Opened(None)));

impl Said for LibvirtFailure {
    fn outcome(&self) -> String {
        match self.stage {
            Stage::Libvirt => format!("code {} domain {}", self.code, self.domain),
            stage => stage.as_str().to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "stage": self.stage.as_str(), "code": self.code, "domain": self.domain, "errno": self.errno,
            "message": self.message, "sent": self.sent,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let stage = value.get("stage")?.as_str()?;
        Some(Self {
            stage: STAGES.into_iter().find(|known| known.as_str() == stage)?,
            code: small(value, "code")?,
            domain: small(value, "domain")?,
            errno: small(value, "errno")?,
            message: text(value, "message")?,
            sent: value.get("sent")?.as_bool()?,
        })
    }
}

fn failed(stage: Stage, place: &str, sent: bool, message: &str) -> LibvirtFailure {
    LibvirtFailure { stage, code: 0, domain: 0, errno: 0, message: format!("host {place}: {message}"), sent }
}

impl Failing for LibvirtFailure {
    fn of(fault: &Fault, when: When, place: &str) -> Option<Self> {
        let failed = |stage, sent, message: &str| failed(stage, place, sent, message);
        Some(match (fault, when) {
            (Fault::Refused, When::Before) => {
                failed(Stage::Connect, false, "no connection: Connection refused (os error 111)")
            }
            (Fault::Refused | Fault::Lost, _) => {
                failed(Stage::Cut, true, "the connection broke: Connection reset by peer (os error 104)")
            }
            (Fault::Timeout(time), _) => failed(
                Stage::Timeout,
                true,
                &format!("no answer within {} ms; whether the call took effect is unknown", time.as_millis()),
            ),
            (Fault::CutShort | Fault::Garbage, _) => {
                failed(Stage::Cut, true, "the answer is no packet of libvirt's: length 1952803941")
            }
            (Fault::WrongContentType, _) => Self {
                code: 39,
                domain: 7,
                ..failed(Stage::Libvirt, true, "Cannot find program 536903813 version 1")
            },
            (Fault::NoCredentials, When::Before) => {
                failed(Stage::Credentials, false, "the Secret with the key is gone")
            }
            (Fault::NoCredentials, When::After) => {
                failed(Stage::Authentication, false, "the host takes none of the keys (publickey)")
            }
            // libvirt has no such answer.
            (Fault::RateLimited(_) | Fault::Slow(_) | Fault::Death, _) => return None,
        })
    }

    fn denied(place: &str, why: &str) -> Self {
        failed(Stage::Denied, place, false, why)
    }
}

/// See the module.
pub struct WatchedLibvirt {
    watch: Watch,
    inner: Arc<dyn Libvirt>,
    pooled: Arc<Pooled>,
}

/// The connections that are there, by host.
#[derive(Default)]
struct Pooled(Mutex<BTreeMap<String, Arc<dyn LibvirtConnection>>>);

impl Pooled {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn LibvirtConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedLibvirt {
    /// Around it, for one process.
    pub fn new(watch: Watch, inner: Arc<dyn Libvirt>) -> Self {
        Self { watch, inner, pooled: Arc::default() }
    }

    fn known(&self, host: &str) -> Option<Arc<dyn LibvirtConnection>> {
        self.pooled.all().get(host).cloned()
    }
}

fn call<'a>(function: &'static str, place: &'a str, effect: Effect, about: impl Into<String>) -> Call<'a> {
    Call { capability: "libvirt", function, place, about: about.into(), effect }
}

#[async_trait]
impl Libvirt for WatchedLibvirt {
    /// Of the grant the host knows by itself: no hypervisor is asked.
    async fn granted(&self, host: &str) -> Result<Allowed, LibvirtFailure> {
        let request = || json!({ "host": host });
        let asked = self.inner.granted(host);
        self.watch.call(call("granted", "", Effect::Read, host), request, asked).await
    }

    async fn open(&self, host: &str, dedicated: bool) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure> {
        if let Some(known) = self.known(host).filter(|_| !dedicated) {
            return Ok(known);
        }
        let request = || json!({ "host": host, "dedicated": dedicated });
        let about = if dedicated { "dedicated" } else { "" };
        let asked = async { Ok(Opened(Some(self.inner.open(host, dedicated).await?))) };
        let Opened(inner) = self.watch.call(call("open", host, Effect::Read, about), request, asked).await?;
        let pooled = (!dedicated).then(|| Arc::clone(&self.pooled));
        let (watch, name) = (self.watch.clone(), host.to_owned());
        let opened: Arc<dyn LibvirtConnection> =
            Arc::new(WatchedConnection { watch, host: name.clone(), inner, pooled });
        if !dedicated {
            self.pooled.all().insert(name, Arc::clone(&opened));
        }
        Ok(opened)
    }
}

struct WatchedConnection {
    watch: Watch,
    host: String,
    /// None where a recording answers.
    inner: Option<Arc<dyn LibvirtConnection>>,
    /// Where it is found while it works; none for a dedicated one.
    pooled: Option<Arc<Pooled>>,
}

impl WatchedConnection {
    async fn asked<T: Said>(
        &self,
        function: &'static str,
        effect: Effect,
        about: &str,
        arguments: Value,
        ask: impl Future<Output = Result<T, LibvirtFailure>>,
    ) -> Result<T, LibvirtFailure> {
        let request = || json!({ "host": self.host, "arguments": arguments });
        let answer = self.watch.call(call(function, &self.host, effect, about), request, ask).await;
        if let (Err(LibvirtFailure { stage: Stage::Cut, .. }), Some(pooled)) = (&answer, &self.pooled) {
            pooled.all().remove(&self.host);
        }
        answer
    }

    fn behind(&self) -> Result<&dyn LibvirtConnection, LibvirtFailure> {
        let nothing = || failed(Stage::Invalid, &self.host, false, "nothing stands behind a recording");
        self.inner.as_deref().ok_or_else(nothing)
    }
}

/// One method after the other: name, effect, what it is about, what is kept of the request.
macro_rules! watched {
    ($($function:literal $effect:ident fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty,
        $about:expr, $kept:expr;)+) => {
        #[async_trait]
        impl LibvirtConnection for WatchedConnection {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$answer, LibvirtFailure> {
                let kept = $kept;
                let about: String = $about.into();
                let ask = async { self.behind()?.$name($($argument),*).await };
                self.asked($function, Effect::$effect, &about, kept, ask).await
            })+
        }
    };
}

watched! {
    "info" Read fn info(&self) -> HostInfo, "", json!({});
    "free-memory" Read fn free_memory(&self) -> u64, "", json!({});
    "capabilities" Read fn capabilities(&self) -> String, "", json!({});
    "domains" Read fn domains(&self) -> Vec<Domain>, "", json!({});
    "lookup" Read fn lookup(&self, name: &str) -> Domain, name, json!({ "name": name });
    "define" Write fn define(&self, xml: &str) -> Domain, named(xml), json!({ "xml": xml });
    "start" Write fn start(&self, domain: &Domain) -> (), domain.name.as_str(), domain_json(domain);
    "destroy" Write fn destroy(&self, domain: &Domain) -> (), domain.name.as_str(), domain_json(domain);
    "undefine" Write fn undefine(&self, domain: &Domain, flags: u32) -> (), domain.name.as_str(),
        json!({ "domain": domain_json(domain), "flags": flags });
    "set-autostart" Write fn set_autostart(&self, domain: &Domain, on: bool) -> (), domain.name.as_str(),
        json!({ "domain": domain_json(domain), "on": on });
    "state" Read fn state(&self, domain: &Domain) -> DomainState, domain.name.as_str(), domain_json(domain);
    "xml" Read fn xml(&self, domain: &Domain) -> String, domain.name.as_str(), domain_json(domain);
    "metadata" Read fn metadata(&self, domain: &Domain, uri: &str) -> String,
        format!("{} {uri}", domain.name), json!({ "domain": domain_json(domain), "uri": uri });
    "set-metadata" Write fn set_metadata(&self, domain: &Domain, key: &str, uri: &str, xml: &str) -> (),
        format!("{} {uri}", domain.name),
        json!({ "domain": domain_json(domain), "key": key, "uri": uri, "xml": xml });
    "addresses" Read fn addresses(&self, domain: &Domain, source: u32) -> Vec<InterfaceAddress>,
        format!("{} source {source}", domain.name), json!({ "domain": domain_json(domain), "source": source });
    "pool-info" Read fn pool_info(&self, pool: &str) -> PoolInfo, pool, json!({ "pool": pool });
    "storage-capabilities" Read fn storage_capabilities(&self) -> String, "", json!({});
    "pool-refresh" Read fn pool_refresh(&self, pool: &str) -> (), pool, json!({ "pool": pool });
    "volumes" Read fn volumes(&self, pool: &str) -> Vec<String>, pool, json!({ "pool": pool });
    "volume-xml" Read fn volume_xml(&self, pool: &str, name: &str) -> String, format!("{pool}/{name}"),
        json!({ "pool": pool, "name": name });
    "volume-create" Write fn volume_create(&self, pool: &str, xml: &str) -> (), format!("{pool}/{}", named(xml)),
        json!({ "pool": pool, "xml": xml });
    "volume-delete" Write fn volume_delete(&self, pool: &str, name: &str) -> (), format!("{pool}/{name}"),
        json!({ "pool": pool, "name": name });
    "volume-upload" Write fn volume_upload(&self, pool: &str, name: &str, data: Vec<u8>) -> (),
        format!("{pool}/{name}"), json!({ "pool": pool, "name": name, "data": data });
    "volume-download" Read fn volume_download(&self, pool: &str, name: &str, max: u32) -> Vec<u8>,
        format!("{pool}/{name}"), json!({ "pool": pool, "name": name, "max": max });
}

/// The name in a document, for the journal.
fn named(xml: &str) -> String {
    let inner = xml.split_once("<name>").and_then(|(_, rest)| rest.split_once("</name>"));
    inner.map(|(name, _)| name.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::VirtualClock,
        fault::{Plan, Point},
        journal::Journal,
        libvirt::{HostSpec, Hosts},
    };

    #[tokio::test]
    async fn a_pooled_connection_is_opened_anew_once_it_broke() {
        let (clock, plan, journal) = (VirtualClock::default(), Plan::default(), Journal::default());
        let hosts = Hosts::new(Arc::new(clock.clone()), &[HostSpec::new("hv1")]);
        let watch = Watch::new("a", journal.clone(), plan.clone(), Arc::new(clock));
        let libvirt = WatchedLibvirt::new(watch, Arc::new(hosts));
        plan.at(Point { number: 2, when: When::Before }, Fault::Lost);
        let opened = libvirt.open("hv1", false).await.unwrap();
        assert_eq!(opened.info().await.unwrap_err().stage, Stage::Cut);
        for _ in 0..2 {
            libvirt.open("hv1", false).await.unwrap().info().await.unwrap();
        }
        let calls: Vec<String> = journal.lines().into_iter().map(|line| line.call).collect();
        let [open, info] = ["libvirt.open", "libvirt.info"];
        assert_eq!(calls, [open, info, open, info, info]);
    }
}
