//! Who this provider is, and what an entry may say: every fault with its path, not only the first.

use provider_sdk::{
    BackendTest, CreatedAt, Error, Fault, GcMark, IpSource, NotFound, Placement, PrimaryKey,
    Profile, ProvisioningState, Quota, Readiness, SecondaryResources,
    config::{self, Object},
    reason,
};
use serde_json::Value;

use crate::NAME;

/// One value for each axis on which providers differ; make them what your provider is.
pub const PROFILE: Profile = Profile {
    readiness: Readiness::ProvisioningWindow,
    ip_source: IpSource::Discovered,
    gc_mark: GcMark::WrittenMetadata,
    created_at: CreatedAt::WrittenAtCreate,
    quota: Quota::Absent,
    not_found: NotFound::ErrorCode,
    primary_key: PrimaryKey::NameIsKey,
    provisioning_state: ProvisioningState::NoAddress,
    secondary_resources: SecondaryResources::Explicit,
    backend_test: BackendTest::ManualRunbook,
};

/// What the entry says. Addresses and keys are no part of it: they stand in the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Hosts of the grant: the places.
    pub hosts: Vec<String>,
    pub pool: String,
    pub bridge: String,
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, |root| Self {
            hosts: hosts(root),
            pool: text(root, "pool", "a storage pool that the grant lists"),
            bridge: text(root, "bridge", "a bridge that the grant lists"),
        })
    }

    pub fn places(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// Where a Proxy's machine goes, or why it can't be had. Ignoring a field would make something
    /// else than was asked for.
    pub fn place(&self, placement: &Placement) -> Result<String, Error> {
        if let Some(field) = placement.set().into_iter().find(|field| field != "zone") {
            return Err(Error::permanent(
                reason::PLACEMENT,
                format!("spec.placement.{field} is set, but {NAME} honours only zone; remove it"),
            ));
        }
        let known = self.hosts.join(", ");
        let found = match &placement.zone {
            Some(zone) => self.hosts.iter().find(|host| *host == zone),
            None => self.hosts.first(),
        };
        found.cloned().ok_or_else(|| {
            let zone = placement.zone.as_deref().unwrap_or_default();
            Error::permanent(
                reason::PLACEMENT,
                format!("spec.placement.zone is {zone:?}, but the entry has the hosts {known}"),
            )
        })
    }
}

fn hosts(root: &mut Object<'_>) -> Vec<String> {
    let Some(field) = root.required("hosts", "names of hosts under grants.libvirt.hosts") else {
        return Vec::new();
    };
    let hosts = field.list();
    if hosts.is_empty() && field.value().is_array() {
        field.fault("must name at least one host");
    }
    hosts
        .iter()
        .filter_map(|host| host.text().map(str::to_owned))
        .collect()
}

fn text(root: &mut Object<'_>, key: &'static str, what: &str) -> String {
    let field = root.required(key, what);
    field
        .and_then(|field| field.text().map(str::to_owned))
        .unwrap_or_default()
}

/// Configs that are none, and where.
#[cfg(test)]
pub fn faulty() -> Vec<(Value, Vec<&'static str>)> {
    use serde_json::json;
    vec![
        (json!({ "hosts": [] }), vec!["hosts", "pool", "bridge"]),
        (
            json!({ "hosts": ["hv1", 2], "pool": "", "bridge": "br0", "host": "hv1" }),
            vec!["hosts[1]", "pool", "host"],
        ),
    ]
}
