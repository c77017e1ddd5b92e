//! The resources that people write and read: `Proxy` and `ProviderHealth`.
//!
//! Data only. The loops in [`crate::core`] use the structs below and know no API server.
//!
//! Compiling is not being accepted: an API server stores a u32 above its range and refuses the null of an
//! optional enum, and one object that can't be read back blinds a whole list. So integers have their range,
//! optional fields are left out rather than null, and strings that CEL reads have a length.

#![expect(clippy::duplicated_attributes, reason = "each printcolumn of kube's derive names its own type")]

mod candidate;
mod collected;
mod health;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use serde::{Deserialize, Serialize};

pub use candidate::{CanaryStatus, RefusalStatus, ShadowStatus};
pub use collected::{AsksStatus, CollectorStatus, OrphanStatus, UnreadStatus};
pub use health::{HealthCheck, ProbeType};

/// The API group of both kinds.
pub const GROUP: &str = "egressproxies.dev";
/// Held until nothing of a Proxy is left at its backend.
pub const FINALIZER: &str = "egressproxies.dev/instance";
/// On a Proxy: any new value frees it from a permanent failure.
pub const RETRY_ANNOTATION: &str = "egressproxies.dev/retry";

/// On a Proxy that is being deleted, with the value `true`: it goes, and its instance stays where it is.
pub const ABANDON_ANNOTATION: &str = "egressproxies.dev/abandon";
/// On a Proxy that has no instance yet: the id of one that an earlier operator made, which it takes over.
pub const ADOPT_ANNOTATION: &str = "egressproxies.dev/adopt";
/// On a ProviderHealth: the sweep of the collector whose instances may go, although they are many.
pub const COLLECT_ANNOTATION: &str = "egressproxies.dev/collect";

/// The definitions of both kinds, as an API server takes them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![Proxy::crd(), ProviderHealth::crd()]
}

/// The same as one stream of YAML documents.
pub fn crds_yaml() -> Result<String, serde_saphyr::ser::Error> {
    crds().iter().map(|crd| Ok(format!("---\n{}", serde_saphyr::to_string(crd)?))).collect()
}

/// What is wanted of an egress proxy.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "egressproxies.dev",
    version = "v1alpha1",
    kind = "Proxy",
    doc = "An egress proxy: a small machine, or a Pod, that runs Squid and has its own way out.",
    plural = "proxies",
    namespaced,
    status = "ProxyStatus",
    category = "egress",
    selectable = ".spec.provider",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Healthy",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Healthy\")].status"
    ),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(name = "Egress", type_ = "string", json_path = ".status.egressAddress", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.revision", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct ProxySpec {
    /// The provider entry that makes it: a key of the providers ConfigMap.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(validation = ("self.matches('^[a-z0-9-]+$')", "a provider entry's name matches [a-z0-9-]{1,20}"))]
    pub provider: String,
    /// The TCP port that the proxy listens at. Changing it replaces the instance.
    #[serde(default = "default_port")]
    #[schemars(schema_with = "port_schema")]
    pub port: u16,
    /// Where and on what the instance is made. Each provider's page says which fields it honours; one that
    /// it does not is refused, not ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<ProxyPlacement>,
    /// User-data for the instance, passed on byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
    /// How it is probed, where that differs from its entry. Changing it replaces nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
}

fn default_port() -> u16 {
    3128
}

/// An API server knows no unsigned formats: it warns of them, and stores what does not fit.
fn port_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "integer", "format": "int32", "minimum": 1, "maximum": u16::MAX})
}

fn count_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX})
}

/// Where and on what.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProxyPlacement {
    /// A backend's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub region: Option<String>,
    /// A zone, host or node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub zone: Option<String>,
    /// A key of the provider's catalogue, or a backend's machine type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub machine_type: Option<String>,
    /// A key of the provider's catalogue, or an image's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,
}

/// User-data: inline, or a key of a Secret or ConfigMap in the Proxy's namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("[has(self.inline), has(self.secretRef), has(self.configMapRef)].filter(x, x).size() == 1", "give exactly one of inline, secretRef and configMapRef"))]
pub struct CloudInit {
    /// The text itself. What holds secrets belongs into a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 262_144))]
    pub inline: Option<String>,
    /// A Secret's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
    /// A ConfigMap's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
}

/// A key of an object in the same namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct KeyRef {
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "an object's name has a-z, 0-9, '-' and '.', and each part begins and ends with a letter or digit"))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[-._a-zA-Z0-9]+$')", "a key matches [-._a-zA-Z0-9]+"))]
    pub key: String,
}

/// What became of a Proxy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    /// One word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What is going on, or what is wrong and the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Raised before each create that follows a delete: part of the instance's name and mark.
    #[serde(default)]
    #[schemars(schema_with = "count_schema")]
    pub incarnation: u32,
    /// The instance that was begun and is not yet gone; there is at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceStatus>,
    /// The best address, while the instance runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// All addresses, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<ProxyAddress>,
    /// The address that its requests come from, as it was last seen outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_address: Option<String>,
    /// The revision of the provider that last advanced the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The failure that the Proxy rests on or retries after. That of an instance that ended by itself stays
    /// until its successor has run for ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// When instances ended by themselves within the last hour, oldest first: so many and no more are followed
    /// by others in that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ends: Vec<Time>,
    /// `Ready` and `Progressing`; `Healthy` and `EgressAddressUnique` where that is found out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_string()]))]
    pub conditions: Vec<Condition>,
}

/// One word for what a Proxy is doing.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its provider entry.
    Waiting,
    /// Its instance is being made.
    Creating,
    /// Made, without an address yet.
    Provisioning,
    /// Usable.
    Running,
    /// Stands still.
    Stopped,
    /// The old instance is removed before a new one is made.
    Replacing,
    /// Being removed.
    Deleting,
    /// Won't succeed until somebody changes something.
    Failed,
}

/// An instance from the moment its name is fixed until nothing of it is left.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The provider entry that makes it.
    pub provider: String,
    /// Its name at the backend.
    pub name: String,
    /// Its id, once the provider told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Hash over the fields of the spec that it was made from: `1:` and 16 hexadecimal digits.
    pub spec_hash: String,
    /// Whether create answered `done`.
    #[serde(default)]
    pub created: bool,
    /// Whether a delete was begun: it is then never created or adopted again.
    #[serde(default)]
    pub deleting: bool,
    /// The provider's own note on the step that is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The revision that its first step began on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Time>,
}

/// Where a proxy answers.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct ProxyAddress {
    /// `internal` or `external`.
    pub kind: String,
    /// IPv4 or IPv6.
    pub ip: String,
}

/// Why a Proxy does not advance.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// `transient`, `permanent` or `quota-exceeded`.
    pub class: String,
    /// Stable.
    pub reason: String,
    /// The thing, the cause, the way out.
    pub message: String,
    /// The failures in a row.
    #[schemars(schema_with = "count_schema")]
    pub count: u32,
    /// When the last of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// What it was seen with: a change of any of these frees a permanent failure.
    pub key: String,
}

/// What people may ask of the entry.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "egressproxies.dev",
    version = "v1alpha1",
    kind = "ProviderHealth",
    doc = "What the operator knows of one provider entry, and the hold that rolls it back.",
    plural = "providerhealths",
    status = "ProviderHealthStatus",
    category = "egress",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Provider", type_ = "string", json_path = ".status.active.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.active.version"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.active.revision"),
    printcolumn(name = "Refused", type_ = "string", json_path = ".status.refusal.reason"),
    printcolumn(name = "Held", type_ = "string", json_path = ".spec.hold.revision", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderHealthSpec {
    /// Keeps the entry on one revision: until its source changes to something new, or until it is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

/// A revision that stays, whatever the source offers.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The revision to run.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = ("self.matches('^[0-9a-f]+$')", "a revision is written in hexadecimal digits, as status.history shows it"))]
    pub revision: String,
    /// The revision that the source offered when the hold was set: it ends when that changes. Without, it stands
    /// until somebody takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("self.matches('^[0-9a-f]{0,64}$')", "a revision is written in hexadecimal digits, as status.offered shows it"))]
    pub instead_of: Option<String>,
    /// Why, where the operator set it: what went wrong with the revision that is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub reason: Option<String>,
}

/// What the operator saw.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProviderHealthStatus {
    /// What calls go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveRevision>,
    /// Earlier revisions that a rollback can name, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ActiveRevision>,
    /// The revision that the source offers, whether it is active, held back or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<String>,
    /// The revision that is to make the next few Proxies before it gets all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
    /// How the active revision looked beside the one before it, where it did not look the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// The last candidate that was refused, until one is taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalStatus>,
    /// Its places, in config order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceStatus>,
    /// What the collector found.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub collector: CollectorStatus,
    /// `Ready`: an active revision, and every place ready. `Listed`: False while there is no providers ConfigMap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_string()]))]
    pub conditions: Vec<Condition>,
}

fn is_nothing(collector: &CollectorStatus) -> bool {
    *collector == CollectorStatus::default()
}

/// A revision and where it came from.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ActiveRevision {
    /// Over component, config, grants and limits.
    pub revision: String,
    /// What the component calls itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `sha256:` and 64 hexadecimal digits, of the unpacked component.
    pub digest: String,
    /// The contract's line.
    pub contract: String,
    /// The interfaces that it imports.
    #[serde(default)]
    pub imports: Vec<String>,
    /// Its hosts, nodes, projects or API servers, in config order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// Where the component was read from.
    pub source: String,
    /// When it became active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// One place of an entry.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlaceStatus {
    /// A host, node, project or API server.
    pub name: String,
    /// Whether it could serve a create.
    pub ready: bool,
    /// From the contract's list.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When it was last found ready after it had not been. Failures from before that are tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Time>,
    /// Short values.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub details: std::collections::BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_render_as_yaml_that_reads_back() {
        let yaml = crds_yaml().unwrap();
        let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&yaml).unwrap();
        assert_eq!(read, crds());
    }

    #[test]
    fn every_field_has_a_text_for_kubectl_explain() {
        for crd in crds() {
            let crd = serde_json::to_value(crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
            undocumented(schema, &mut String::from("."));
        }
    }

    /// The conditions' texts are Kubernetes' own, and `spec` and `status` have their kind's.
    fn undocumented(properties: &serde_json::Value, path: &mut String) {
        let Some(fields) = properties.as_object() else { return };
        for (name, schema) in fields {
            let at = format!("{path}{name}");
            assert!(schema["description"].is_string(), "{at} has no description");
            undocumented(&schema["properties"], &mut format!("{at}."));
            undocumented(&schema["items"]["properties"], &mut format!("{at}[]."));
        }
    }

    #[test]
    fn what_goes_into_a_path_of_the_api_has_its_rule_at_the_door() {
        let schema = |crd| {
            let crd: serde_json::Value = serde_json::to_value::<CustomResourceDefinition>(crd).unwrap();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                .clone()
        };
        let rule = |field: &serde_json::Value| {
            let rule = field["x-kubernetes-validations"][0]["rule"].as_str();
            assert!(rule.is_some_and(|rule| rule.starts_with("self.matches('^")), "{field:#}");
        };
        let proxy = schema(Proxy::crd());
        for of in ["secretRef", "configMapRef"] {
            let at = &proxy["cloudInit"]["properties"][of]["properties"];
            rule(&at["name"]);
            rule(&at["key"]);
        }
        rule(&schema(ProviderHealth::crd())["hold"]["properties"]["revision"]);
        rule(&schema(ProviderHealth::crd())["hold"]["properties"]["insteadOf"]);
    }

    #[test]
    fn no_integer_is_stored_that_does_not_read_back() {
        for crd in crds() {
            let crd = serde_json::to_string(&crd).unwrap();
            assert!(!crd.contains("\"uint"), "an API server checks no unsigned format");
        }
        let proxy = serde_json::to_value(Proxy::crd()).unwrap();
        let schema = &proxy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(schema["spec"]["properties"]["port"]["maximum"], 65535.0);
        assert_eq!(schema["status"]["properties"]["incarnation"]["maximum"], 4_294_967_295.0);
    }
}
