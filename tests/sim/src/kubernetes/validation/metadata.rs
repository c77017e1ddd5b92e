//! Names, labels, annotations, owners, finalizers.

use serde_json::{Value, json};

use super::{
    super::{
        faults::Faults,
        json::{at, fields, list, text},
        kinds::Kind,
        names,
    },
    labels,
};

const ANNOTATIONS_BYTES: usize = 262_144;
const IMMUTABLE: &str = "field is immutable";

/// Of a new object.
pub(super) fn create(kind: &Kind, object: &Value) -> Faults {
    let mut faults = Faults::default();
    let generate = text(object, &["metadata", "generateName"]);
    for fault in name_faults(kind, &masked(generate)).into_iter().filter(|_| !generate.is_empty()) {
        faults.invalid("metadata.generateName", generate, &fault);
    }
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        faults.required_for("metadata.name", "name or generateName is required");
    } else {
        for fault in name_faults(kind, name) {
            faults.invalid("metadata.name", name, &fault);
        }
    }
    faults.extend(both(object));
    faults
}

/// What is checked of every object.
fn both(object: &Value) -> Faults {
    let mut faults = labels("metadata.labels", object, &["metadata", "labels"]);
    let mut size = 0;
    for (key, value) in fields(object, &["metadata", "annotations"]).into_iter().flatten() {
        if let Some(fault) = names::label_key_fault(&key.to_lowercase()) {
            faults.invalid("metadata.annotations", key.as_str(), &fault);
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_BYTES {
        faults.too_long("metadata.annotations", ANNOTATIONS_BYTES);
    }
    faults.extend(owners(list(object, &["metadata", "ownerReferences"])));
    for (index, finalizer) in list(object, &["metadata", "finalizers"]).iter().enumerate() {
        let (field, value) =
            (format!("metadata.finalizers[{index}]"), finalizer.as_str().unwrap_or_default());
        if let Some(fault) = names::label_key_fault(value) {
            faults.invalid(field, value, &fault);
        } else if !value.contains('/') && !matches!(value, "orphan" | "foregroundDeletion" | "kubernetes") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.invalid(field, value, why);
        }
    }
    faults
}

fn owners(owners: &[Value]) -> Faults {
    let mut faults = Faults::default();
    for owner in owners {
        let of = |field: &str| format!("metadata.ownerReferences.{field}");
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, &[field]).is_empty() {
                faults.invalid(of(field), "", why);
            }
        }
    }
    let controllers: Vec<String> = owners
        .iter()
        .filter(|owner| owner.get("controller") == Some(&json!(true)))
        .map(|owner| format!("{}/{}", text(owner, &["kind"]), text(owner, &["name"])))
        .collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
             {second}"
        );
        faults.invalid_shown("metadata.ownerReferences", &in_go_order(owners), &why);
    }
    faults
}

fn in_go_order(owners: &[Value]) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let show = |owner: &Value| {
        let present = fields.iter().filter_map(|field| Some(format!("\"{field}\":{}", owner.get(*field)?)));
        format!("{{{}}}", present.collect::<Vec<_>>().join(","))
    };
    format!("[{}]", owners.iter().map(show).collect::<Vec<_>>().join(","))
}

/// Of an object that takes the place of another.
pub(super) fn update(kind: &Kind, before: &Value, object: &Value) -> Faults {
    let mut faults = Faults::default();
    let had = list(before, &["metadata", "finalizers"]);
    if at(before, &["metadata", "deletionTimestamp"]).is_some() {
        let new: Vec<String> = list(object, &["metadata", "finalizers"])
            .iter()
            .filter(|finalizer| !had.contains(finalizer))
            .map(Value::to_string)
            .collect();
        if !new.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.join(", ")
            );
            faults.forbidden("metadata.finalizers", &why);
        }
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (was, is) = (at(before, &["metadata", field]), at(object, &["metadata", field]));
        if was != is {
            faults.invalid(format!("metadata.{field}"), is.cloned().unwrap_or_default(), IMMUTABLE);
        }
    }
    // Found by what all kinds share, and again by the kind's own check.
    faults.twice();
    let looks = if matches!(kind.kind.as_ref(), "Service" | "Deployment") { 3 } else { 4 };
    for _ in 0..looks {
        faults.extend(both(object));
    }
    faults
}

fn name_faults(kind: &Kind, name: &str) -> Vec<String> {
    match kind.kind.as_ref() {
        "Namespace" | "Service" if name.contains('.') => vec!["must not contain dots".to_owned()],
        "Namespace" | "Service" => names::label_faults(name),
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => {
            let legal = !matches!(name, "." | "..") && !name.contains(['/', '%']);
            if legal {
                Vec::new()
            } else {
                vec!["may not contain '/' or '%', and may not be '.' or '..'".to_owned()]
            }
        }
        _ => names::subdomain_faults(name),
    }
}

/// A prefix may end in a dash, since something is put behind it.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) => format!("{rest}a"),
        None => prefix.to_owned(),
    }
}
