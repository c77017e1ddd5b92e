//! Who this provider is, and what an entry may say: every fault with its path, not only the first.

use provider_sdk::{
    BackendTest, CreatedAt, Error, Fault, GcMark, IpSource, NotFound, Placement, PrimaryKey,
    Profile, ProvisioningState, Quota, Readiness, SecondaryResources, config, reason,
};
use serde_json::Value;

use crate::NAME;

/// One value for each axis on which providers differ; make them what your backend is.
pub const PROFILE: Profile = Profile {
    readiness: Readiness::ProvisioningWindow,
    ip_source: IpSource::AssignedAtCreate,
    gc_mark: GcMark::NativeLabels,
    created_at: CreatedAt::BackendTimestamp,
    quota: Quota::Detected,
    not_found: NotFound::Status404,
    primary_key: PrimaryKey::NameIsKey,
    provisioning_state: ProvisioningState::Native,
    secondary_resources: SecondaryResources::None,
    backend_test: BackendTest::ManualRunbook,
};

/// What the entry says. Addresses and credentials are no part of it: they stand in the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// An endpoint of the grant: the only place.
    pub endpoint: String,
    pub zones: Vec<String>,
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, |root| Self {
            endpoint: root
                .required(
                    "endpoint",
                    "the name of an endpoint under grants.http.endpoints",
                )
                .and_then(|field| field.text().map(str::to_owned))
                .unwrap_or_default(),
            zones: root
                .optional("zones")
                .map(|field| field.list())
                .unwrap_or_default()
                .iter()
                .filter_map(|zone| zone.text().map(str::to_owned))
                .collect(),
        })
    }

    pub fn places(&self) -> Vec<String> {
        vec![self.endpoint.clone()]
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
        match &placement.zone {
            Some(zone) if !self.zones.contains(zone) => {
                let zones = self.zones.join(", ");
                Err(Error::permanent(
                    reason::PLACEMENT,
                    format!("spec.placement.zone is {zone:?}, but the entry has the zones {zones}"),
                ))
            }
            _ => Ok(self.endpoint.clone()),
        }
    }
}

/// Configs that are none, and where.
#[cfg(test)]
pub fn faulty() -> Vec<(Value, Vec<&'static str>)> {
    use serde_json::json;
    vec![
        (json!({}), vec!["endpoint"]),
        (
            json!({ "endpoint": 7, "zones": ["a", ""], "zone": "a" }),
            vec!["endpoint", "zones[1]", "zone"],
        ),
    ]
}
