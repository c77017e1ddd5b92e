//! Reading, creating and deleting, in the order in which the API server looks at a request.

use std::sync::Arc;

use egress_runtime::capability::{DeleteOptions, KubernetesFailureKind, ListOptions, Resource};
use serde_json::{Value, json};

use super::{
    apply::{Managers, Writer},
    defaults, identity,
    json::{at, enter, list, put, take, text},
    kinds::Kind,
    names, paging,
    rights::Ask,
    schema::Schemas,
    state::{State, pod_ref},
    status::{
        Answer, already_exists, bad_request, internal, method_not_allowed, no_such_page, no_such_resource,
        not_found, precondition, status, unsent,
    },
    store::Key,
    time::{parse, stamp},
    validation,
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
    /// What the capability checks before it sends anything, then who may, then what the API serves.
    pub(super) fn subject(
        &self,
        caller: &Caller,
        verb: &str,
        resource: &Resource,
        namespace: &str,
        name: Option<&str>,
    ) -> Answer<Subject> {
        names::check_path(resource, namespace, name)
            .map_err(|fault| unsent(KubernetesFailureKind::Invalid, fault))?;
        self.check_grant(caller, verb, resource, namespace)?;
        self.authorize(&caller.user, &Ask::new(verb, resource, namespace, name))?;
        let (plural, subresource) = resource.plural.split_once('/').unwrap_or((&resource.plural, ""));
        let group = resource.api_version.split_once('/').map_or("", |(group, _)| group);
        if !self.kinds.serves_group(group) {
            return Err(no_such_page());
        }
        let kind = self.kinds.find(&resource.api_version, plural).ok_or_else(no_such_resource)?;
        let known = match subresource {
            "" => true,
            "status" => kind.status,
            "eviction" => kind.kind == "Pod",
            _ => false,
        };
        // Objects in namespaces are listed over all of them, and that is all.
        let scope_fits = kind.namespaced != namespace.is_empty() || (kind.namespaced && name.is_none());
        if !known || !scope_fits {
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
        paging::list(&self.store, &subject.kind, &subject.key.namespace, options, self.tokens_expire)
    }

    pub(super) fn create(&mut self, caller: &Caller, subject: &Subject, body: Value) -> Answer<Value> {
        let kind = &subject.kind;
        if subject.subresource == "eviction" {
            let name = text(&body, &["metadata", "name"]).to_owned();
            return self.evict_by_api(subject, &name, &body);
        }
        if !subject.subresource.is_empty() || subject.key.namespace.is_empty() == kind.namespaced {
            return Err(method_not_allowed());
        }
        check_kind(kind, &body)?;
        let mut object = Schemas::built_in().decode(kind, body).map_err(|why| {
            let version = &kind.api_version;
            let version = version.rsplit('/').next().unwrap_or_default();
            let kind = &kind.kind;
            bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
        })?;
        check_namespace(&subject.key.namespace, &object)?;
        defaults::fill(kind, &mut object);
        let mut managers = Managers::default();
        managers.written(self.writer(caller, "Update", kind, ""), &Value::Null, &object);
        managers.put_into(&mut object);
        self.insert(kind, &subject.key.namespace, object)
    }

    /// Who writes, for the managers of an object.
    pub(super) fn writer<'a>(
        &self,
        caller: &'a Caller,
        operation: &'static str,
        kind: &'a Kind,
        subresource: &'a str,
    ) -> Writer<'a> {
        let (manager, api_version) = (caller.manager.as_str(), kind.api_version.as_ref());
        Writer { manager, operation, api_version, subresource, now_ms: self.now_ms }
    }

    /// A new object, by a create or an apply.
    pub(super) fn insert(&mut self, kind: &Kind, namespace: &str, mut object: Value) -> Answer<Value> {
        if kind.namespaced {
            put(&mut object, &["metadata", "namespace"], namespace);
        }
        self.admit(kind, &mut object)?;
        self.prepare(kind, &mut object);
        let name = text(&object, &["metadata", "name"]).to_owned();
        validation::create(kind, &object).refuse(kind, &name)?;
        self.validate(kind, &object)?;
        self.charge_quota(kind, &object)?;
        if !text(&object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(internal("resourceVersion should not be set on objects to be created"));
        }
        let key = Key::new(&kind.qualified(), if kind.namespaced { namespace } else { "" }, &name);
        if let Some(found) = self.store.get(&key) {
            return Err(match at(found, &["metadata", "deletionTimestamp"]) {
                Some(_) => {
                    let mut exists = already_exists(kind, &name);
                    exists.message = format!("object is being deleted: {}", exists.message);
                    exists
                }
                None => already_exists(kind, &name),
            });
        }
        Ok(Value::clone(&self.add(&key, object)))
    }

    /// What the API server alone decides about a new object.
    fn prepare(&mut self, kind: &Kind, object: &mut Value) {
        merge_equal_owners(object);
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            take(object, &["metadata", field]);
        }
        let prefix = text(object, &["metadata", "generateName"]).to_owned();
        if text(object, &["metadata", "name"]).is_empty() && !prefix.is_empty() {
            put(object, &["metadata", "name"], prefix + &identity::suffix(&mut self.random));
        }
        if defaults::has_generation(kind) {
            put(object, &["metadata", "generation"], 1);
        }
        if kind.status {
            take(object, &["status"]);
            defaults::first_status(kind, object);
        }
        if kind.kind == "Service" {
            let next = self.next_service_ip();
            defaults::addresses(object, || next);
        }
    }

    pub(super) fn delete(&mut self, subject: &Subject, options: &DeleteOptions) -> Answer<Value> {
        let Subject { kind, key, subresource } = subject;
        if !subresource.is_empty() {
            return Err(method_not_allowed());
        }
        if kind.kind == "Namespace" && matches!(key.name.as_str(), "default" | "kube-system" | "kube-public")
        {
            let message =
                format!("namespaces \"{}\" is forbidden: this namespace may not be deleted", key.name);
            return Err(status(403, "Forbidden", message, kind.details(&key.name)));
        }
        let object = self.get(subject)?;
        check_preconditions(kind, &object, options)?;
        if kind.has_grace() {
            return Ok(self.delete_with_grace(key, object, options.grace_seconds));
        }
        let deleting = at(&object, &["metadata", "deletionTimestamp"]).is_some();
        if kind.kind == "Namespace" {
            return Ok(if deleting { object } else { self.end_namespace(key, &object) });
        }
        if !list(&object, &["metadata", "finalizers"]).is_empty() {
            if deleting {
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
        let default = at(&object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
        let runs = !text(&object, &["spec", "nodeName"]).is_empty()
            && !matches!(text(&object, &["status", "phase"]), "Succeeded" | "Failed");
        // Below zero stands for one.
        let default = default.map_or(30, |seconds| u64::try_from(seconds).unwrap_or(1));
        let wanted = asked.map_or(default, u64::from);
        let pending = at(&object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_u64);
        let grace = match pending {
            Some(pending) => {
                // It can only be made shorter.
                if asked.is_none() || wanted >= pending {
                    return object;
                }
                let since = parse(text(&object, &["metadata", "deletionTimestamp"])).unwrap_or(self.now_ms);
                let until = since.saturating_sub(pending * 1000) + wanted * 1000;
                put(&mut object, &["metadata", "deletionTimestamp"], stamp(until));
                put(&mut object, &["metadata", "deletionGracePeriodSeconds"], wanted);
                wanted
            }
            None => {
                let grace = if runs { wanted } else { 0 };
                mark_deleted(&mut object, self.now_ms, grace);
                grace
            }
        };
        let held = !list(&object, &["metadata", "finalizers"]).is_empty();
        let object = self.write(key, object);
        if grace == 0 && !held {
            return self.erase(key).unwrap_or_else(|| Value::clone(&object));
        }
        let pod = pod_ref(&object);
        self.begin_stop(&object, &pod);
        Value::clone(&object)
    }
}

/// Who is named twice as an owner is one owner.
fn merge_equal_owners(object: &mut Value) {
    let mut once: Vec<Value> = Vec::new();
    for owner in list(object, &["metadata", "ownerReferences"]) {
        if !once.contains(owner) {
            once.push(owner.clone());
        }
    }
    if once.len() < list(object, &["metadata", "ownerReferences"]).len() {
        put(object, &["metadata", "ownerReferences"], once);
    }
}

fn mark_deleted(object: &mut Value, now_ms: u64, grace: u64) {
    put(object, &["metadata", "deletionTimestamp"], stamp(now_ms + grace * 1000));
    put(object, &["metadata", "deletionGracePeriodSeconds"], grace);
    if let Some(generation) = at(object, &["metadata", "generation"]).and_then(Value::as_u64) {
        put(object, &["metadata", "generation"], generation + 1);
    }
}

/// A body may leave its kind open, but not be of another.
fn check_kind(kind: &Kind, body: &Value) -> Answer<()> {
    if !body.is_object() {
        let hex: String = body.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        return Err(bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({hex})",
            kind.kind,
            super::patch::type_name(body)
        )));
    }
    let (own, version) = (text(body, &["kind"]), text(body, &["apiVersion"]));
    let is_own = own.is_empty() || own == kind.kind;
    if is_own && (version.is_empty() || version == kind.api_version) {
        return Ok(());
    }
    let wanted = &kind.kind;
    let own = if own.is_empty() { wanted.as_ref() } else { own };
    let version = if version.is_empty() { kind.api_version.as_ref() } else { version };
    let why = match is_own {
        true => {
            format!(
                "no kind \"{own}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )
        }
        false => unconvertible(own, version, kind),
    };
    Err(bad_request(format!("{own} in version \"{version}\" cannot be handled as a {wanted}: {why}")))
}

/// Why one kind is not another.
pub(super) fn unconvertible(own: &str, version: &str, kind: &Kind) -> String {
    let version = version.rsplit('/').next().unwrap_or_default();
    format!("converting ({version}.{own}) to (core.{}): unknown conversion", kind.kind)
}

pub(super) fn check_namespace(namespace: &str, object: &Value) -> Answer<()> {
    let own = text(object, &["metadata", "namespace"]);
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

pub(super) fn check_preconditions(kind: &Kind, object: &Value, options: &DeleteOptions) -> Answer<()> {
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
