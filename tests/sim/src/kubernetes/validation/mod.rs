//! Whether an object is one of its kind. Every fault is found, and told in the API server's words and order.

mod containers;
mod metadata;
mod others;
mod pods;

use serde_json::Value;

use super::{
    faults::Faults,
    json::{at, fields, text},
    kinds::Kind,
    names,
};

/// All faults of a new object.
pub(super) fn create(kind: &Kind, object: &Value) -> Faults {
    let mut faults = metadata::create(kind, object);
    faults.extend(of_kind(kind, object));
    faults
}

/// All faults of an object that takes the place of another.
pub(super) fn update(kind: &Kind, before: &Value, object: &Value) -> Faults {
    let mut faults = metadata::update(kind, before, object);
    match kind.kind.as_ref() {
        // The API server looks at a Pod's spec both as a new one and as a changed one.
        "Pod" => {
            let mut spec = pods::spec(object);
            let removed = pods::containers_differ(before, object);
            if !removed && !spec.is_empty() {
                spec.twice();
            }
            faults.extend(spec);
            faults.extend(pods::update(before, object));
        }
        "ConfigMap" => {
            faults.extend(others::immutable_data(before, object));
            faults.extend(others::config_map(object));
        }
        "Secret" => {
            faults.extend(others::immutable_data(before, object));
            faults.extend(others::changed_type(before, object));
            faults.extend(others::secret(object));
        }
        _ => {
            faults.extend(of_kind(kind, object));
            faults.extend(others::update(kind, before, object));
        }
    }
    faults
}

fn of_kind(kind: &Kind, object: &Value) -> Faults {
    match kind.kind.as_ref() {
        "Pod" => pods::spec(object),
        "ConfigMap" => others::config_map(object),
        "Secret" => others::secret(object),
        "Service" => others::service(object),
        "Deployment" => others::deployment(object),
        "ResourceQuota" => others::quota(object),
        "Namespace" => others::namespace(object),
        "RoleBinding" | "ClusterRoleBinding" => others::binding(object),
        _ => Faults::default(),
    }
}

/// `spec.nodeSelector` and the like.
fn labels(field: &str, object: &Value, path: &[&str]) -> Faults {
    let mut faults = Faults::default();
    for (key, value) in fields(object, path).into_iter().flatten() {
        if let Some(fault) = names::label_key_fault(key) {
            faults.invalid(field, key.as_str(), &fault);
        }
        if let Some(fault) = value.as_str().and_then(names::label_value_fault) {
            faults.invalid(field, value.clone(), &fault);
        }
    }
    faults
}

fn port(faults: &mut Faults, field: String, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.as_i64().is_some_and(|port| (1..=65535).contains(&port)))
    {
        faults.invalid(field, value.clone(), "must be between 1 and 65535, inclusive");
    }
}

fn one_of(faults: &mut Faults, field: String, object: &Value, path: &[&str], supported: &[&str]) {
    let value = text(object, path);
    if at(object, path).is_some() && !supported.contains(&value) {
        faults.unsupported(field, value, supported);
    }
}
