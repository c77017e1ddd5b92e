//! The requests, in the order in which the API server looks at them.

use std::sync::Arc;

use egress_runtime::capability::{DeleteOptions, KubernetesFailureKind, ListOptions, PatchKind, Resource};
use serde_json::{Value, json};

use super::{
    due::PodRef,
    identity,
    json::{at, enter, list, put, take, text},
    kinds::Kind,
    names, paging, patch,
    state::{State, pod_ref},
    status::{
        Answer, already_exists, bad_request, internal, method_not_allowed, modified, no_such_page,
        no_such_resource, not_found, precondition, unsent,
    },
    store::Key,
    time::stamp,
};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) user: String,
    /// Who owns the fields that are written.
    pub(super) manager: String,
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: Arc<Kind>,
    /// `status`; empty for the object itself.
    pub(super) subresource: String,
    pub(super) key: Key,
}

impl State {
    /// The same checks that the capability makes before it sends anything, then what the API serves.
    pub(super) fn subject(
        &self,
        resource: &Resource,
        namespace: &str,
        name: Option<&str>,
    ) -> Answer<Subject> {
        names::check_path(resource, namespace, name)
            .map_err(|fault| unsent(KubernetesFailureKind::Invalid, fault))?;
        let (plural, subresource) = resource.plural.split_once('/').unwrap_or((&resource.plural, ""));
        if !self.kinds.serves_group(&resource.api_version) {
            return Err(no_such_page());
        }
        let kind = self.kinds.find(&resource.api_version, plural).ok_or_else(no_such_resource)?;
        if !(subresource.is_empty() || kind.status && subresource == "status") {
            return Err(no_such_resource());
        }
        if namespace.is_empty() == kind.namespaced && (name.is_some() || !kind.namespaced) {
            return Err(no_such_resource());
        }
        let key = Key::new(&kind.qualified(), namespace, name.unwrap_or_default());
        Ok(Subject { kind, subresource: subresource.to_owned(), key })
    }

    pub(super) fn get(&self, subject: &Subject) -> Answer<Value> {
        let found = self.store.get(&subject.key);
        found.map(|object| Value::clone(object)).ok_or_else(|| not_found(&subject.kind, &subject.key.name))
    }

    pub(super) fn list(&self, subject: &Subject, options: &ListOptions) -> Answer<Value> {
        paging::list(&self.store, &subject.kind, &subject.key.namespace, options)
    }

    pub(super) fn create(&mut self, _caller: &Caller, subject: &Subject, body: Value) -> Answer<Value> {
        let kind = &subject.kind;
        if !subject.subresource.is_empty() || subject.key.namespace.is_empty() == kind.namespaced {
            return Err(method_not_allowed());
        }
        let mut object = body;
        check_kind(kind, &object)?;
        check_namespace(&subject.key.namespace, &object)?;
        if !text(&object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(internal("resourceVersion should not be set on objects to be created"));
        }
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"] {
            take(&mut object, &["metadata", field]);
        }
        if kind.namespaced {
            put(&mut object, &["metadata", "namespace"], subject.key.namespace.clone());
        }
        if text(&object, &["metadata", "name"]).is_empty() {
            let prefix = text(&object, &["metadata", "generateName"]).to_owned();
            if !prefix.is_empty() {
                put(&mut object, &["metadata", "name"], prefix + &identity::suffix(&mut self.random));
            }
        }
        super::defaults::fill(kind, &mut object);
        if kind.status {
            take(&mut object, &["status"]);
            super::defaults::first_status(kind, &mut object);
        }
        let key = Key { name: text(&object, &["metadata", "name"]).to_owned(), ..subject.key.clone() };
        if self.store.get(&key).is_some() {
            return Err(already_exists(kind, &key.name));
        }
        Ok(Value::clone(&self.add(&key, object)))
    }

    pub(super) fn patch(
        &mut self,
        _caller: &Caller,
        subject: &Subject,
        how: PatchKind,
        body: &Value,
    ) -> Answer<Value> {
        let Subject { kind, key, subresource } = subject;
        let before = self.get(subject)?;
        let mut object = before.clone();
        match how {
            PatchKind::Merge | PatchKind::Apply => patch::merge_object(&mut object, body)?,
            PatchKind::Json => patch::json_patch(&mut object, body)?,
        }
        let object = patch::without_nulls(object);
        self.update(kind, key, subresource, &before, object)
    }

    /// An object takes the place of another.
    fn update(
        &mut self,
        kind: &Kind,
        key: &Key,
        subresource: &str,
        before: &Value,
        mut object: Value,
    ) -> Answer<Value> {
        match text(&object, &["metadata", "name"]) {
            "" => {
                return Err(bad_request(format!(
                    "the name of the object ({} based on URL) was undeterminable: name must be provided",
                    key.name
                )));
            }
            name if name != key.name => {
                return Err(bad_request(format!(
                    "the name of the object ({name}) does not match the name on the URL ({})",
                    key.name
                )));
            }
            _ => {}
        }
        check_namespace(&key.namespace, &object)?;
        let wanted = text(&object, &["metadata", "resourceVersion"]);
        if !wanted.is_empty() {
            wanted
                .parse::<u64>()
                .map_err(|_| internal(format!("strconv.ParseUint: parsing \"{wanted}\": invalid syntax")))?;
            if wanted != text(before, &["metadata", "resourceVersion"]) {
                return Err(modified(kind, &key.name));
            }
        }
        for field in ["creationTimestamp", "uid", "resourceVersion", "generation"] {
            match at(before, &["metadata", field]) {
                Some(value) => put(&mut object, &["metadata", field], value.clone()),
                None => {
                    take(&mut object, &["metadata", field]);
                }
            }
        }
        if kind.status {
            // One of the two is the subresource's to write.
            let kept = if subresource.is_empty() { "status" } else { "spec" };
            match before.get(kept) {
                Some(value) => put(&mut object, &[kept], value.clone()),
                None => {
                    take(&mut object, &[kept]);
                }
            }
        }
        if object == *before {
            return Ok(object);
        }
        let deleting = at(&object, &["metadata", "deletionTimestamp"]).is_some();
        let grace = at(&object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_u64);
        let held = !list(&object, &["metadata", "finalizers"]).is_empty();
        let object = self.write(key, object);
        if deleting && !held && grace.unwrap_or_default() == 0 {
            self.erase(key);
        }
        Ok(Value::clone(&object))
    }

    pub(super) fn delete(
        &mut self,
        _caller: &Caller,
        subject: &Subject,
        options: &DeleteOptions,
    ) -> Answer<Value> {
        let Subject { kind, key, subresource } = subject;
        if !subresource.is_empty() {
            return Err(method_not_allowed());
        }
        let object = self.get(subject)?;
        check_preconditions(kind, &object, options)?;
        if kind.has_grace() {
            return Ok(self.delete_with_grace(key, object, options.grace_seconds));
        }
        let held = !list(&object, &["metadata", "finalizers"]).is_empty();
        if held {
            if at(&object, &["metadata", "deletionTimestamp"]).is_some() {
                return Ok(object);
            }
            let mut object = object;
            mark_deleted(&mut object, self.now_ms, 0);
            return Ok(Value::clone(&self.write(key, object)));
        }
        let gone = self.erase(key).unwrap_or(object);
        if matches!(kind.plural.as_ref(), "services" | "serviceaccounts" | "resourcequotas") {
            return Ok(gone);
        }
        let mut details = kind.details(&key.name);
        enter(&mut details).insert("uid".to_owned(), text(&gone, &["metadata", "uid"]).into());
        Ok(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        }))
    }

    /// Who runs the object ends it; only then is it gone.
    fn delete_with_grace(&mut self, key: &Key, mut object: Value, asked: Option<u32>) -> Value {
        let default = at(&object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_u64);
        let runs = !text(&object, &["spec", "nodeName"]).is_empty()
            && !matches!(text(&object, &["status", "phase"]), "Succeeded" | "Failed");
        let wanted = match asked {
            Some(asked) => u64::from(asked),
            None => default.unwrap_or(30),
        };
        let pending = at(&object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_u64);
        let grace = match (pending, asked) {
            // It can only be made shorter.
            (Some(pending), Some(_)) if wanted < pending => wanted,
            (Some(_), _) => return object,
            (None, _) if runs => wanted,
            (None, _) => 0,
        };
        mark_deleted(&mut object, self.now_ms, grace);
        let held = !list(&object, &["metadata", "finalizers"]).is_empty();
        let object = self.write(key, object);
        if grace == 0 && !held {
            return self.erase(key).unwrap_or_else(|| Value::clone(&object));
        }
        let pod: PodRef = pod_ref(&object);
        self.begin_stop(&object, &pod);
        Value::clone(&object)
    }
}

fn mark_deleted(object: &mut Value, now_ms: u64, grace: u64) {
    put(object, &["metadata", "deletionTimestamp"], stamp(now_ms + grace * 1000));
    put(object, &["metadata", "deletionGracePeriodSeconds"], grace);
    if let Some(generation) = at(object, &["metadata", "generation"]).and_then(Value::as_u64) {
        put(object, &["metadata", "generation"], generation + 1);
    }
}

fn check_kind(kind: &Kind, object: &Value) -> Answer<()> {
    if !object.is_object() {
        return Err(bad_request(format!(
            "the object provided is unrecognized (must be of type {}): it is no JSON object",
            kind.kind
        )));
    }
    Ok(())
}

fn check_namespace(namespace: &str, object: &Value) -> Answer<()> {
    let own = text(object, &["metadata", "namespace"]);
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

fn check_preconditions(kind: &Kind, object: &Value, options: &DeleteOptions) -> Answer<()> {
    let (name, uid) = (text(object, &["metadata", "name"]), text(object, &["metadata", "uid"]));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(precondition(kind, name, &why));
    }
    let version = text(object, &["metadata", "resourceVersion"]);
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(precondition(kind, name, &why));
    }
    Ok(())
}
