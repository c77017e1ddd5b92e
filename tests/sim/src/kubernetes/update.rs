//! Patches: what takes the place of what.

use egress_runtime::capability::{KubernetesFailure, PatchKind, Resource};
use serde_json::{Value, json};

use super::{
    admission::tolerate_trouble,
    apply::Managers,
    defaults,
    json::{at, list, put, take, text},
    kinds::Kind,
    patch,
    requests::{Caller, Subject, check_namespace},
    rights::Ask,
    schema::Schemas,
    state::State,
    status::{Answer, bad_request, internal, method_not_allowed, modified, status},
    validation,
};

impl State {
    pub(super) fn patch(
        &mut self,
        caller: &Caller,
        subject: &Subject,
        how: PatchKind,
        body: &Value,
    ) -> Answer<Value> {
        if subject.subresource == "eviction" {
            return Err(method_not_allowed());
        }
        if how == PatchKind::Apply {
            return self.apply(caller, subject, body);
        }
        let before = self.get(subject)?;
        let mut object = before.clone();
        match how {
            PatchKind::Json => patch::json_patch(&mut object, body)?,
            PatchKind::Merge | PatchKind::Apply => patch::merge_object(&mut object, body)?,
        }
        let object = decode(&subject.kind, object)?;
        self.update(caller, subject, &before, object, "Update", Managers::of(&before))
    }

    fn apply(&mut self, caller: &Caller, subject: &Subject, body: &Value) -> Answer<Value> {
        let Subject { kind, key, subresource } = subject;
        if !body.is_object() {
            return Err(bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go \
                 value of type map[string]interface {{}}",
                patch::type_name(body)
            )));
        }
        check_applied(kind, body)?;
        let writer = self.writer(caller, "Apply", kind, subresource);
        let Some(before) = self.store.get(key).map(|object| Value::clone(object)) else {
            if !subresource.is_empty() {
                return self.get(subject);
            }
            // The right to make it is another than the right to change it.
            let plural = kind.plural.to_string();
            let resource = Resource { api_version: kind.api_version.to_string(), plural };
            self.authorize(&caller.user, &Ask::new("create", &resource, &key.namespace, Some(&key.name)))?;
            let mut managers = Managers::default();
            let mut object = managers.apply(writer, &json!({}), body);
            check_name(key.name.as_str(), &object)?;
            check_namespace(&key.namespace, &object)?;
            object = decode(kind, object)?;
            defaults::fill(kind, &mut object);
            managers.put_into(&mut object);
            return self.insert(kind, &key.namespace, object);
        };
        let mut managers = Managers::of(&before);
        let mut applied = body.clone();
        // An apply may leave the name open where there is one.
        if text(&applied, &["metadata", "name"]).is_empty() {
            put(&mut applied, &["metadata", "name"], key.name.clone());
        }
        let merged = managers.apply(writer, &before, &applied);
        let object = decode(kind, merged)?;
        self.update(caller, subject, &before, object, "Apply", managers)
    }

    /// An object takes the place of another.
    fn update(
        &mut self,
        caller: &Caller,
        subject: &Subject,
        before: &Value,
        mut object: Value,
        operation: &'static str,
        mut managers: Managers,
    ) -> Answer<Value> {
        let Subject { kind, key, subresource } = subject;
        check_name(&key.name, &object)?;
        check_namespace(&key.namespace, &object)?;
        let cleared = operation == "Update" && clears_managers(&object);
        defaults::fill(kind, &mut object);
        check_version(kind, key.name.as_str(), before, &object)?;
        keep_what_is_the_servers(before, &mut object);
        keep_the_other_half(kind, subresource, before, &mut object);
        if kind.kind == "Pod" && subresource.is_empty() {
            tolerate_trouble(&mut object);
        }
        validation::update(kind, before, &object).refuse(kind, &key.name)?;
        let writer = self.writer(caller, operation, kind, subresource);
        match operation {
            "Apply" => managers.applied(writer, before, &object),
            _ if cleared => managers = Managers::default(),
            _ => managers.written(writer, before, &object),
        }
        managers.put_into(&mut object);
        if object == *before {
            return Ok(object);
        }
        if defaults::has_generation(kind) && object.get("spec") != before.get("spec") {
            let generation = at(before, &["metadata", "generation"]).and_then(Value::as_u64);
            put(&mut object, &["metadata", "generation"], generation.unwrap_or_default() + 1);
        }
        let deleting = at(&object, &["metadata", "deletionTimestamp"]).is_some();
        let grace = at(&object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_u64);
        let held = !list(&object, &["metadata", "finalizers"]).is_empty();
        if deleting && !held && grace.unwrap_or_default() == 0 && kind.kind != "Namespace" {
            // The last finalizer went: this write is the object's end, and has no version of its own.
            self.erase(key);
            return Ok(object);
        }
        Ok(Value::clone(&self.write(key, object)))
    }
}

/// Read again as an object of its kind. The refusal quotes all of it.
fn decode(kind: &Kind, object: Value) -> Answer<Value> {
    let quoted = object.to_string();
    let (own, version) = (text(&object, &["kind"]), text(&object, &["apiVersion"]));
    if own != kind.kind || version != kind.api_version {
        let why = match own == kind.kind {
            true => format!(
                "no kind \"{own}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
            false => super::requests::unconvertible(own, version, kind),
        };
        return Err(undecodable(&quoted, &why));
    }
    Schemas::built_in().decode(kind, object).map_err(|why| undecodable(&quoted, &why))
}

fn undecodable(quoted: &str, why: &str) -> KubernetesFailure {
    let quoted = Value::from(quoted);
    let cause = format!("Invalid value: {quoted}: {why}");
    status(
        422,
        "Invalid",
        format!(" \"\" is invalid: patch: {cause}"),
        json!({ "causes": [{ "reason": "FieldValueInvalid", "message": cause, "field": "patch" }] }),
    )
}

/// What an apply says of itself must be whole and right: nothing is dropped.
fn check_applied(kind: &Kind, body: &Value) -> Answer<()> {
    if at(body, &["metadata", "managedFields"]).is_some() {
        return Err(bad_request("metadata.managedFields must be nil"));
    }
    let (own, version) = (text(body, &["kind"]), text(body, &["apiVersion"]));
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    let gvk = format!("{group}/{short}, Kind={own}");
    if own != kind.kind || version != kind.api_version {
        return Err(bad_request(format!("invalid object type: {gvk}")));
    }
    match Schemas::built_in().apply_fault(kind, body) {
        Some(fault) => {
            let (namespace, name) =
                (text(body, &["metadata", "namespace"]), text(body, &["metadata", "name"]));
            let message = format!("failed to create typed patch object ({namespace}/{name}; {gvk}): {fault}");
            Err(internal(message))
        }
        None => Ok(()),
    }
}

fn check_name(name: &str, object: &Value) -> Answer<()> {
    match text(object, &["metadata", "name"]) {
        "" => Err(bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        own if own != name => Err(bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// An empty list takes the managers away, and so does one of which nothing can be read.
fn clears_managers(object: &Value) -> bool {
    let entries = list(object, &["metadata", "managedFields"]);
    !entries.iter().any(|entry| !text(entry, &["manager"]).is_empty())
}

fn check_version(kind: &Kind, name: &str, before: &Value, object: &Value) -> Answer<()> {
    let wanted = text(object, &["metadata", "resourceVersion"]);
    if wanted.is_empty() {
        return Ok(());
    }
    if wanted.parse::<u64>().is_err() {
        return Err(internal(format!("strconv.ParseUint: parsing \"{wanted}\": invalid syntax")));
    }
    match wanted == text(before, &["metadata", "resourceVersion"]) {
        true => Ok(()),
        false => Err(modified(kind, name)),
    }
}

fn keep_what_is_the_servers(before: &Value, object: &mut Value) {
    for field in ["creationTimestamp", "resourceVersion", "generation", "selfLink"] {
        match at(before, &["metadata", field]) {
            Some(value) => put(object, &["metadata", field], value.clone()),
            None => {
                take(object, &["metadata", field]);
            }
        }
    }
    // These can be left out, but not changed.
    for field in ["uid", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if at(object, &["metadata", field]).is_none()
            && let Some(value) = at(before, &["metadata", field])
        {
            put(object, &["metadata", field], value.clone());
        }
    }
}

/// A status is written through its subresource alone, and nothing else is written through that.
fn keep_the_other_half(kind: &Kind, subresource: &str, before: &Value, object: &mut Value) {
    let mut keep = |path: &[&str]| match at(before, path) {
        Some(value) => put(object, path, value.clone()),
        None => {
            take(object, path);
        }
    };
    match subresource {
        "status" => {
            keep(&["spec"]);
            if kind.kind != "Pod" {
                keep(&["metadata", "labels"]);
                keep(&["metadata", "annotations"]);
                keep(&["metadata", "finalizers"]);
                keep(&["metadata", "ownerReferences"]);
            }
        }
        _ if kind.status => keep(&["status"]),
        _ => {}
    }
}
