//! What provider and host say to each other, as `wit/types.wit` documents it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{mark::Mark, profile::Profile};

/// Whom a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Derived by the host; unique for installation, UID and incarnation.
    pub name: String,
    /// The Proxy's UID; empty only for an item without a mark that the collector hands back.
    pub uid: String,
    /// From 1; 0 where the UID is empty.
    pub incarnation: u32,
    /// The Proxy's namespace.
    pub namespace: String,
    /// The Proxy's name.
    pub proxy: String,
    /// The newest that create answered, pending or done.
    pub id: Option<String>,
    /// What the last answer about this target left behind, create's or delete's.
    pub progress: Option<String>,
}

/// What a Proxy asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The TCP port that the proxy listens at.
    pub port: u16,
    /// Where and on what.
    #[serde(default)]
    pub placement: Placement,
}

/// Where an instance is to stand and on what.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// A backend's region.
    pub region: Option<String>,
    /// A zone, host or node.
    pub zone: Option<String>,
    /// A machine type.
    pub machine_type: Option<String>,
    /// An image.
    pub image: Option<String>,
    /// What a later host may ask that this provider doesn't know: to be refused, not ignored.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

impl Placement {
    /// The fields that are set, by their names in a Proxy.
    pub fn set(&self) -> Vec<String> {
        let known = [
            ("region", &self.region),
            ("zone", &self.zone),
            ("machineType", &self.machine_type),
            ("image", &self.image),
        ];
        let known = known.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.to_owned());
        let unknown = self.unknown.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone());
        known.chain(unknown).collect()
    }
}

/// The backend is at work and needs nobody to wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The instance's id as soon as it is known.
    pub id: Option<String>,
    /// Given back with the next call.
    pub progress: String,
    /// When to call again.
    pub poll_ms: u32,
    /// For people.
    pub message: String,
}

/// How far create is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The instance runs; its id.
    Done(String),
    /// To be called again.
    Pending(Pending),
}

/// How far delete is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Nothing is left.
    Done,
    /// To be called again.
    Pending(Pending),
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not usable yet.
    Provisioning,
    /// Usable: has an address.
    Running,
    /// Stands still.
    Stopped,
    /// Being removed.
    Deleting,
}

/// From where an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Inside the backend's network.
    Internal,
    /// From outside.
    External,
}

impl AddressKind {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

/// Where an instance answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// From where.
    pub kind: AddressKind,
    /// An IPv4 or IPv6 literal.
    pub ip: String,
}

/// What the backend shows of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// What it is doing.
    pub state: State,
    /// Best first; never empty when running.
    pub addresses: Vec<Address>,
    /// As read back.
    pub mark: Mark,
    /// Milliseconds since 1970 UTC.
    pub created_ms: Option<u64>,
    /// Why, in the backend's terms; or empty.
    pub reason: String,
    /// The same for people; or empty.
    pub message: String,
    /// Whatever helps.
    pub details: Map<String, Value>,
}

/// Something that this installation owns at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// The target's name that it belongs to.
    pub name: String,
    /// What it is when it stands without its instance.
    pub leftover: Option<String>,
    /// As read back.
    pub mark: Mark,
    /// Milliseconds since 1970 UTC.
    pub created_ms: Option<u64>,
}

/// A part of what list found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What was found.
    pub items: Vec<Item>,
    /// What could not be read, with the cause.
    pub unread: Vec<String>,
    /// Where to go on.
    pub next: Option<String>,
}

/// Why a place is ready or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthReason {
    /// All is well.
    Reachable,
    /// No answer in time.
    Timeout,
    /// No connection.
    Unreachable,
    /// The backend doesn't know us.
    Unauthorized,
    /// The backend, or the grant, doesn't let us.
    Forbidden,
    /// The backend answered with an error of its own.
    ApiError,
    /// The host has no usable credentials.
    CredentialsUnavailable,
    /// The backend's certificate is not trusted.
    CertificateInvalid,
    /// A storage pool is missing.
    PoolNotFound,
    /// A storage pool is not active.
    PoolNotActive,
    /// A storage is missing.
    StorageNotFound,
    /// A template is missing.
    TemplateNotFound,
    /// Rights that the provider needs are missing.
    RightsMissing,
}

impl HealthReason {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::ApiError => "api-error",
            Self::CredentialsUnavailable => "credentials-unavailable",
            Self::CertificateInvalid => "certificate-invalid",
            Self::PoolNotFound => "pool-not-found",
            Self::PoolNotActive => "pool-not-active",
            Self::StorageNotFound => "storage-not-found",
            Self::TemplateNotFound => "template-not-found",
            Self::RightsMissing => "rights-missing",
        }
    }
}

/// Whether a place could serve a create.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Whether it could.
    pub ready: bool,
    /// Why.
    pub reason: HealthReason,
    /// For people.
    pub message: String,
    /// Short values.
    pub details: Map<String, Value>,
}

/// Who a provider is.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its own name.
    pub name: &'static str,
    /// SemVer.
    pub version: &'static str,
    /// One value for each axis.
    pub profile: Profile,
    /// JSON Schema of its config, as JSON.
    pub config_schema: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_field_of_a_later_host_is_told_like_a_known_one() {
        let spec: Spec = serde_json::from_str(
            r#"{"port": 3128, "placement": {"zone": "a", "image": null, "spot": true, "rack": null}}"#,
        )
        .unwrap();
        assert_eq!(spec.placement.set(), ["zone", "spot"]);
    }
}
