//! Sets of fields: which parts of an object somebody wrote.
//!
//! The form is the API's own `FieldsV1`: a tree of fields, of list items by their keys, and of values.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Whether this place itself is in the set.
    here: bool,
    below: BTreeMap<String, Fields>,
}

/// What a value is to whoever merges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Changed as a whole.
    Atomic,
    /// Field by field.
    Granular,
    /// A list of objects that these fields tell apart.
    Keyed(&'static [&'static str]),
    /// A list of values, each once.
    Set,
}

/// By the field's name and the one above it: the API's schema says more, but nothing else of our kinds.
fn form(field: &str, above: &str, value: &Value) -> Form {
    match value {
        Value::Object(_) => match field {
            "nodeSelector" | "selector" | "fieldRef" | "configMapKeyRef" | "secretKeyRef"
            | "resourceFieldRef" | "roleRef" => Form::Atomic,
            // Items of lists whose keys are all that tells of them.
            "" if matches!(above, "ownerReferences" | "imagePullSecrets") => Form::Atomic,
            _ => Form::Granular,
        },
        Value::Array(_) => match (field, above) {
            ("ports", "spec") => Form::Keyed(&["port", "protocol"]),
            ("ports", _) => Form::Keyed(&["containerPort", "protocol"]),
            (
                "containers"
                | "initContainers"
                | "ephemeralContainers"
                | "env"
                | "volumes"
                | "imagePullSecrets"
                | "secrets",
                _,
            ) => Form::Keyed(&["name"]),
            ("volumeMounts", _) => Form::Keyed(&["mountPath"]),
            ("ownerReferences", _) => Form::Keyed(&["uid"]),
            ("conditions", _) => Form::Keyed(&["type"]),
            ("finalizers", "metadata") => Form::Set,
            _ => Form::Atomic,
        },
        _ => Form::Atomic,
    }
}

/// What tells an item of a list apart. A protocol that is left open is TCP.
fn key(item: &Value, by: &[&str]) -> String {
    let mut key = Map::new();
    for field in by {
        let value = match item.get(*field) {
            Some(value) if !value.is_null() => value.clone(),
            _ if *field == "protocol" => json!("TCP"),
            _ => Value::Null,
        };
        key.insert((*field).to_owned(), value);
    }
    format!("k:{}", Value::Object(key))
}

/// An object without what belongs to nobody.
pub(super) fn stripped(object: &Value, subresource: &str) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fields.remove("apiVersion");
        fields.remove("kind");
        if subresource.is_empty() {
            fields.remove("status");
        }
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            for field in [
                "name",
                "namespace",
                "uid",
                "creationTimestamp",
                "generation",
                "resourceVersion",
                "managedFields",
                "selfLink",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ] {
                metadata.remove(field);
            }
        }
    }
    object
}

/// What of a new object is there before anybody writes it: Go's zero values.
pub(super) fn zero(object: &Value) -> Value {
    let mut zero = json!({ "metadata": {}, "spec": { "containers": null, "strategy": {}, "template": {
        "metadata": {}, "spec": { "containers": null },
    } }, "status": {} });
    // Only what the object has, too.
    keep(&mut zero, object);
    zero
}

fn keep(zero: &mut Value, like: &Value) {
    if let (Value::Object(zero), Value::Object(like)) = (zero, like) {
        zero.retain(|field, _| like.contains_key(field));
        for (field, value) in zero {
            if let Some(like) = like.get(field) {
                keep(value, like);
            }
        }
    }
}

impl Fields {
    fn leaf() -> Self {
        Self { here: true, below: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.is_empty()
    }

    /// Those that an applied object names: its leaves, and the items of its lists.
    pub(super) fn applied(object: &Value) -> Self {
        let mut fields = named(object, "", "");
        // Metadata that name nothing but the object are nobody's.
        if object.get("metadata") == Some(&json!({})) {
            fields.below.remove("f:metadata");
        }
        // An object is not a part of itself.
        fields.here = false;
        fields
    }

    /// What was added or changed, and what was taken away.
    pub(super) fn changed(before: &Value, after: &Value) -> (Self, Self) {
        let (mut written, mut gone) = (Self::default(), Self::default());
        diff(Some(before), Some(after), "", "", &mut written, &mut gone);
        (written, gone)
    }

    pub(super) fn with(mut self, other: &Self) -> Self {
        self.here |= other.here;
        for (key, of) in &other.below {
            let own = self.below.remove(key).unwrap_or_default();
            self.below.insert(key.clone(), own.with(of));
        }
        self
    }

    pub(super) fn without(mut self, other: &Self) -> Self {
        self.here &= !other.here;
        for (key, of) in &other.below {
            if let Some(own) = self.below.remove(key) {
                let left = own.without(of);
                if !left.is_empty() {
                    self.below.insert(key.clone(), left);
                }
            }
        }
        self
    }

    /// With all places on the way: who has a part of an item keeps the item.
    pub(super) fn with_ways(mut self) -> Self {
        self.here |= !self.below.is_empty();
        self.below = self.below.into_iter().map(|(key, of)| (key, of.with_ways())).collect();
        self
    }

    /// Takes these fields out of an object, and what is left empty by it.
    pub(super) fn take_from(&self, object: &mut Value) {
        take(self, object, "", "");
    }

    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.here && !self.below.is_empty() {
            fields.insert(".".to_owned(), json!({}));
        }
        for (key, of) in &self.below {
            fields.insert(key.clone(), of.to_json());
        }
        Value::Object(fields)
    }

    pub(super) fn from_json(value: &Value) -> Self {
        let mut fields = Self::default();
        for (key, of) in value.as_object().into_iter().flatten() {
            if key == "." {
                fields.here = true;
            } else {
                let mut child = Self::from_json(of);
                child.here |= child.below.is_empty();
                fields.below.insert(key.clone(), child);
            }
        }
        fields
    }
}

fn named(value: &Value, field: &str, above: &str) -> Fields {
    let mut fields = Fields::default();
    match (form(field, above, value), value) {
        (Form::Granular, Value::Object(of)) if !of.is_empty() => {
            for (name, value) in of {
                fields.below.insert(format!("f:{name}"), named(value, name, field));
            }
        }
        (Form::Keyed(by), Value::Array(items)) if !items.is_empty() => {
            for item in items {
                let mut of = named(item, "", field);
                of.here = true;
                fields.below.insert(key(item, by), of);
            }
        }
        (Form::Set, Value::Array(items)) if !items.is_empty() => {
            for item in items {
                fields.below.insert(format!("v:{item}"), Fields::leaf());
            }
        }
        _ => fields.here = true,
    }
    fields
}

/// All of a value that was not there before: unlike an applied one, also the places on the way.
fn whole(value: &Value, field: &str, above: &str) -> Fields {
    let mut fields = Fields::leaf();
    match (form(field, above, value), value) {
        (Form::Granular, Value::Object(of)) => {
            for (name, value) in of {
                fields.below.insert(format!("f:{name}"), whole(value, name, field));
            }
        }
        (Form::Keyed(by), Value::Array(items)) => {
            for item in items {
                fields.below.insert(key(item, by), whole(item, "", field));
            }
        }
        (Form::Set, Value::Array(items)) => {
            for item in items {
                fields.below.insert(format!("v:{item}"), Fields::leaf());
            }
        }
        _ => {}
    }
    fields
}

/// The parts of a value by their keys in a set of fields; nothing where it has none.
fn parts<'a>(value: &'a Value, field: &str, above: &str) -> Option<BTreeMap<String, (&'a Value, &'a str)>> {
    Some(match (form(field, above, value), value) {
        (Form::Granular, Value::Object(of)) => {
            of.iter().map(|(name, value)| (format!("f:{name}"), (value, name.as_str()))).collect()
        }
        (Form::Keyed(by), Value::Array(items)) => {
            items.iter().map(|item| (key(item, by), (item, ""))).collect()
        }
        (Form::Set, Value::Array(items)) => {
            items.iter().map(|item| (format!("v:{item}"), (item, ""))).collect()
        }
        _ => return None,
    })
}

fn diff(
    before: Option<&Value>,
    after: Option<&Value>,
    field: &str,
    above: &str,
    written: &mut Fields,
    gone: &mut Fields,
) {
    let (was, is) = match (before, after) {
        (None, None) => return,
        (None, Some(after)) => {
            *written = whole(after, field, above);
            return;
        }
        (Some(before), None) => {
            *gone = whole(before, field, above);
            return;
        }
        (Some(before), Some(after)) if before == after => return,
        (Some(before), Some(after)) => (before, after),
    };
    let Some(new) = parts(is, field, above) else {
        written.here = true;
        return;
    };
    let old = parts(was, field, above).unwrap_or_default();
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (was, is) = (old.get(key), new.get(key));
        let name = is.or(was).map_or("", |(_, name)| *name);
        let (mut written_below, mut gone_below) = (Fields::default(), Fields::default());
        // A list's own name stands above its items' fields.
        let above = if field.is_empty() { above } else { field };
        diff(was.map(|was| was.0), is.map(|is| is.0), name, above, &mut written_below, &mut gone_below);
        if !written_below.is_empty() {
            written.below.insert(key.clone(), written_below);
        }
        if !gone_below.is_empty() {
            gone.below.insert(key.clone(), gone_below);
        }
    }
}

/// Whether nothing of the value is left.
fn take(fields: &Fields, value: &mut Value, field: &str, above: &str) -> bool {
    let form = form(field, above, value);
    let next = if field.is_empty() { above } else { field };
    match (form, &mut *value) {
        (Form::Granular, Value::Object(of)) => {
            of.retain(|name, value| match fields.below.get(&format!("f:{name}")) {
                Some(fields) => !take(fields, value, name, next),
                None => true,
            });
            of.is_empty() && (fields.here || !field.is_empty())
        }
        (Form::Keyed(by), Value::Array(items)) => {
            items.retain_mut(|item| match fields.below.get(&key(item, by)) {
                // An item that is in the set itself goes with all that is in it.
                Some(fields) => {
                    take(fields, item, "", next);
                    !fields.here
                }
                None => true,
            });
            items.is_empty()
        }
        (Form::Set, Value::Array(items)) => {
            items.retain(|item| !fields.below.contains_key(&format!("v:{item}")));
            items.is_empty()
        }
        _ => fields.here,
    }
}

/// An applied object over what is there.
pub(super) fn merge(into: &mut Value, applied: &Value) {
    merge_at(into, applied, "", "");
}

fn merge_at(into: &mut Value, applied: &Value, field: &str, above: &str) {
    let next = if field.is_empty() { above } else { field };
    match (form(field, above, applied), &mut *into, applied) {
        (Form::Granular, Value::Object(own), Value::Object(applied)) => {
            for (name, value) in applied {
                merge_at(own.entry(name.clone()).or_insert(Value::Null), value, name, next);
            }
        }
        (Form::Keyed(by), Value::Array(own), Value::Array(applied)) => {
            for item in applied {
                match own.iter_mut().find(|own| key(own, by) == key(item, by)) {
                    Some(own) => merge_at(own, item, "", next),
                    None => own.push(item.clone()),
                }
            }
        }
        (Form::Set, Value::Array(own), Value::Array(applied)) => {
            for item in applied.iter().filter(|item| !own.contains(item)).cloned().collect::<Vec<_>>() {
                own.push(item);
            }
        }
        _ => *into = applied.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_object_is_its_makers_down_to_the_last_field() {
        let pod = json!({
            "metadata": { "name": "a", "labels": { "e2e": "yes" } },
            "spec": { "containers": [{ "name": "m", "resources": {}, "ports": [{ "containerPort": 80, "protocol": "TCP" }],
                                       "readinessProbe": { "tcpSocket": { "port": 80 } } }],
                      "securityContext": {}, "restartPolicy": "Always" },
        });
        let pod = stripped(&pod, "");
        let (fields, gone) = Fields::changed(&zero(&pod), &pod);
        let expected = json!({
            "f:metadata": { "f:labels": { ".": {}, "f:e2e": {} } },
            "f:spec": {
                "f:containers": { "k:{\"name\":\"m\"}": { ".": {}, "f:name": {}, "f:resources": {}, "f:ports": {
                    ".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {}, "f:protocol": {} },
                }, "f:readinessProbe": { ".": {}, "f:tcpSocket": { ".": {}, "f:port": {} } } } },
                "f:restartPolicy": {},
                "f:securityContext": {},
            },
        });
        assert_eq!(fields.to_json(), expected);
        assert!(gone.is_empty());
        assert_eq!(Fields::from_json(&expected), fields, "and back");
    }

    #[test]
    fn whoever_changes_a_field_has_it() {
        let before = json!({ "data": { "a": "1", "b": "2" } });
        let after = json!({ "data": { "a": "9" } });
        let (written, gone) = Fields::changed(&before, &after);
        assert_eq!(written.to_json(), json!({ "f:data": { "f:a": {} } }));
        let first = whole(&before["data"], "data", "");
        let mut all = Fields::default();
        all.below.insert("f:data".to_owned(), first);
        assert_eq!(all.without(&written).without(&gone).to_json(), json!({ "f:data": {} }));
    }

    #[test]
    fn what_is_taken_out_leaves_the_rest() {
        let mut object = json!({ "data": { "a": "1", "b": "2" }, "spec": { "containers": [
            { "name": "m", "image": "i", "env": [{ "name": "A", "value": "1" }] }, { "name": "n", "image": "j" },
        ] } });
        let gone = json!({ "f:data": { "f:b": {} }, "f:spec": { "f:containers": {
            "k:{\"name\":\"m\"}": { "f:env": { "k:{\"name\":\"A\"}": { ".": {}, "f:name": {}, "f:value": {} } } },
            "k:{\"name\":\"n\"}": { ".": {}, "f:name": {}, "f:image": {} },
        } } });
        Fields::from_json(&gone).take_from(&mut object);
        let left = json!({ "data": { "a": "1" }, "spec": { "containers": [{ "name": "m", "image": "i" }] } });
        assert_eq!(object, left);
    }
}
