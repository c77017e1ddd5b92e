//! Objects of the API as things of a backend.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use egress_runtime::capability::Resource;
use egress_sim::backend::Thing;
use serde_json::{Map, Value};

/// Keeps an object from going.
pub const HOLD: &str = "conformance.egressproxies.dev/hold";
/// The prefix of the labels that a mark stands in.
pub const PREFIX: &str = "egressproxies.dev/";
/// What may be an instance when nothing else made it.
const INSTANCES: [&str; 6] =
    ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "VirtualMachine", "VirtualMachineInstance"];
/// What a cluster makes by itself.
const OF_THE_CLUSTER: [&str; 8] = [
    "Event",
    "Endpoints",
    "EndpointSlice",
    "ControllerRevision",
    "Lease",
    "Node",
    "Namespace",
    "ResourceQuota",
];

/// A text in an object; empty when it isn't there.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `team-a/web`, or `web` where there is no namespace.
pub fn full_name(object: &Value) -> String {
    match (text(object, "/metadata/namespace"), text(object, "/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// `pods`, `deployments.apps`.
pub fn resource(object: &Value) -> String {
    let kind = text(object, "/kind").to_ascii_lowercase();
    let plural = match kind.as_str() {
        kind if kind.ends_with("ss") => format!("{kind}es"),
        kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
        kind if kind.ends_with('s') => kind.to_owned(),
        kind => format!("{kind}s"),
    };
    match text(object, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{plural}.{group}"),
        None => plural,
    }
}

/// The object as a thing; none for what a provider can't have made.
pub fn thing(place: &str, object: &Value) -> Option<Thing> {
    let kind = text(object, "/kind");
    if OF_THE_CLUSTER.contains(&kind) || is_made_by_a_controller(object) {
        return None;
    }
    Some(Thing {
        kind: resource(object),
        place: place.to_owned(),
        name: full_name(object),
        instance: INSTANCES.contains(&kind),
        deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
        mark: mark(object),
        content: content(object).to_string(),
    })
}

/// A Proxy may own what a provider makes; any other controller makes it itself.
fn is_made_by_a_controller(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.is_some_and(|owners| {
        owners.iter().any(|owner| {
            owner.get("controller") == Some(&Value::Bool(true))
                && owner.get("kind").is_some_and(|kind| kind != "Proxy")
        })
    })
}

/// Sorted, names as the contract gives them.
pub fn mark(object: &Value) -> Vec<(String, String)> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pair = |(key, value): (&String, &Value)| {
        Some((key.strip_prefix(PREFIX)?.to_owned(), value.as_str().unwrap_or_default().to_owned()))
    };
    let mut mark: Vec<_> = labels.map(|labels| labels.iter().filter_map(pair).collect()).unwrap_or_default();
    mark.sort();
    mark
}

/// What somebody wrote, without what the cluster keeps book of.
fn content(object: &Value) -> Value {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.remove("status");
    for (part, books) in [
        (
            "metadata",
            &[
                "resourceVersion",
                "managedFields",
                "generation",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ][..],
        ),
        ("spec", &["nodeName"][..]),
    ] {
        if let Some(Value::Object(part)) = content.get_mut(part) {
            books.iter().for_each(|key| drop(part.remove(*key)));
        }
    }
    Value::Object(content)
}

/// What an instance of this name was given as user-data: KubeVirt's way, a Secret or ConfigMap of its name.
pub fn user_data(object: &Value, instance: &str) -> Option<Vec<u8>> {
    if !["Secret", "ConfigMap"].contains(&text(object, "/kind")) || !full_name(object).starts_with(instance) {
        return None;
    }
    let at = |field: &str| object.get(field).and_then(Value::as_object).and_then(word).map(str::to_owned);
    let decoded = |encoded: String| STANDARD.decode(encoded).ok();
    match text(object, "/kind") {
        "Secret" => at("data").and_then(decoded).or_else(|| at("stringData").map(String::into_bytes)),
        _ => at("binaryData").and_then(decoded).or_else(|| at("data").map(String::into_bytes)),
    }
}

fn word(data: &Map<String, Value>) -> Option<&str> {
    ["userdata", "user-data", "userData"].iter().find_map(|key| data.get(*key)?.as_str())
}

/// Namespace and name.
pub fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// As the capability asks for it.
pub fn api_resource(kind: &str) -> Resource {
    match kind.split_once('.') {
        Some((plural, group)) => Resource { api_version: format!("{group}/v1"), plural: plural.to_owned() },
        None => Resource { api_version: "v1".to_owned(), plural: kind.to_owned() },
    }
}

/// Labels and annotations, where marks can stand; what is not to be kept goes.
pub fn each_label(object: &mut Value, mut keep: impl FnMut(&str, &mut Value) -> bool) {
    for part in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(Value::Object(pairs)) = object.pointer_mut(part) {
            pairs.retain(|key, value| keep(key, value));
        }
    }
}
