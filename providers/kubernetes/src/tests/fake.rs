//! A Kubernetes API in memory, with the answers that were measured on the real one.
//!
//! A cut stands for a process that dies: at the chosen call, before its effect or after it, and every
//! call behind it fails until `restart`.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use provider_sdk::{
    Clock, Kubernetes,
    kubernetes::{Access, DeleteOptions, Failure, FailureKind, ListOptions, PatchKind, Resource, Server},
};
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z.
pub const EPOCH_MS: u64 = 1_767_225_600_000;
pub const USER: &str = "system:serviceaccount:egress-system:provider";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Before(usize),
    After(usize),
}

type Key = (&'static str, String, String);

#[derive(Default)]
pub struct Fake {
    objects: RefCell<BTreeMap<Key, Value>>,
    versions: Cell<u64>,
    now_ms: Cell<u64>,
    calls: RefCell<Vec<String>>,
    cut: Cell<Option<Cut>>,
    dead: Cell<bool>,
    /// `create pods` and the like that RBAC does not allow.
    pub missing_rights: RefCell<BTreeSet<String>>,
    /// The same, that the grant does not reach.
    pub denied: RefCell<BTreeSet<String>>,
    /// Answered once, to the first call that begins with this.
    pub answer_once: RefCell<Option<(String, Failure)>>,
    /// Answered once with something that is not what was asked for, to the first call that begins with this.
    pub garble_once: RefCell<Option<String>>,
    pub missing_namespaces: RefCell<BTreeSet<String>>,
    pub terminating_namespaces: RefCell<BTreeSet<String>>,
    pub most_pods: Cell<Option<usize>>,
    pub elsewhere: Cell<bool>,
    /// Objects to a page, when less than asked.
    pub page: Cell<Option<usize>>,
    /// The same, of Pods alone.
    pub page_of_pods: Cell<Option<usize>>,
}

/// An API Status.
pub fn status(code: u16, reason: &str, message: &str, details: Value) -> Failure {
    Failure {
        kind: FailureKind::Status,
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        details,
        retry_ms: None,
        sent: true,
    }
}

/// A failure without an answer.
pub fn broken(kind: FailureKind, sent: bool) -> Failure {
    Failure {
        kind,
        code: 0,
        reason: String::new(),
        message: "no answer".to_owned(),
        details: json!({}),
        retry_ms: None,
        sent,
    }
}

impl Fake {
    pub fn cut(&self, cut: Cut) {
        self.calls.borrow_mut().clear();
        self.cut.set(Some(cut));
    }

    pub fn restart(&self) {
        self.cut.set(None);
        self.dead.set(false);
        self.calls.borrow_mut().clear();
    }

    pub fn is_dead(&self) -> bool {
        self.dead.get()
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }

    pub fn writes(&self) -> Vec<String> {
        let write = |call: &String| ["create", "patch", "delete"].iter().any(|verb| call.starts_with(verb));
        self.calls().into_iter().filter(write).collect()
    }

    pub fn advance(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }

    pub fn object(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        self.objects.borrow().get(&(plural, namespace.to_owned(), name.to_owned())).cloned()
    }

    /// `pods/team-a/proxy-..`, in order.
    pub fn names(&self) -> Vec<String> {
        self.objects
            .borrow()
            .keys()
            .map(|(plural, namespace, name)| format!("{plural}/{namespace}/{name}"))
            .collect()
    }

    /// Changes every object of a kind, as an administrator or a controller would.
    pub fn edit(&self, plural: &str, change: impl Fn(&mut Value)) {
        for ((kind, ..), object) in self.objects.borrow_mut().iter_mut() {
            if *kind == plural {
                change(object);
                object["metadata"]["resourceVersion"] = self.version().into();
            }
        }
    }

    pub fn put(&self, plural: &'static str, object: Value) {
        let key = (plural, text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        self.objects.borrow_mut().insert(key, object);
    }

    pub fn remove(&self, plural: &'static str, namespace: &str, name: &str) {
        self.objects.borrow_mut().remove(&(plural, namespace.to_owned(), name.to_owned()));
    }

    /// Scheduler, kubelet and garbage: what was asked for happens.
    pub fn settle(&self) {
        self.objects.borrow_mut().retain(|_, object| object.pointer("/metadata/deletionTimestamp").is_none());
        self.edit("pods", |pod| {
            pod["spec"]["nodeName"] = "node1".into();
            pod["status"] = json!({
                "phase": "Running",
                "podIP": "10.244.0.7",
                "podIPs": [{ "ip": "10.244.0.7" }, { "ip": "fd00::7" }],
                "conditions": [{ "type": "Ready", "status": "True" }],
            });
        });
    }

    fn version(&self) -> String {
        self.versions.set(self.versions.get() + 1);
        self.versions.get().to_string()
    }

    fn stamp(&self) -> String {
        let seconds = self.now_ms.get() / 1000;
        format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// One call: counted, cut, refused or done.
    fn call<T>(
        &self,
        verb: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.dead.get() {
            return Err(broken(FailureKind::Connect, false));
        }
        let call = format!("{verb} {} {namespace}/{name}", resource.plural);
        let number = self.calls.borrow().len();
        self.calls.borrow_mut().push(call.clone());
        if self.cut.get() == Some(Cut::Before(number)) {
            self.dead.set(true);
            return Err(broken(FailureKind::Cut, false));
        }
        let answer = self.refused(&call, verb, resource, namespace).map_or_else(act, Err);
        if self.cut.get() == Some(Cut::After(number)) {
            self.dead.set(true);
            return Err(broken(FailureKind::Cut, true));
        }
        answer
    }

    fn refused(&self, call: &str, verb: &str, resource: Resource, namespace: &str) -> Option<Failure> {
        let right = format!("{verb} {}", resource.plural);
        let here = format!("{right} {namespace}");
        if self.denied.borrow().contains(&right) {
            return Some(Self::not_granted(verb, resource.plural, namespace));
        }
        if [right, here].iter().any(|right| self.missing_rights.borrow().contains(right)) {
            let message = format!(
                "{} is forbidden: User \"{USER}\" cannot {verb} resource \"{}\" in API group \"\" in the \
                 namespace \"{namespace}\"",
                resource.plural, resource.plural
            );
            return Some(status(403, "Forbidden", &message, json!({ "kind": resource.plural })));
        }
        let mut once = self.answer_once.borrow_mut();
        match once.take() {
            Some((to, failure)) if call.starts_with(&to) => Some(failure),
            other => {
                *once = other;
                None
            }
        }
    }

    /// In the words of the real capability.
    fn not_granted(verb: &str, plural: &str, namespace: &str) -> Failure {
        let message = format!(
            "entry kubernetes may not {verb} {plural} in namespace {namespace} on cluster home: no rule of its grant \
             lists that; add one under grants.kubernetes.clusters.home.rules"
        );
        Failure { message, ..broken(FailureKind::Denied, false) }
    }

    fn is_garbled(&self, call: &str) -> bool {
        let mut once = self.garble_once.borrow_mut();
        let now = once.as_deref() == Some(call);
        if now {
            *once = None;
        }
        now
    }

    fn not_found(resource: Resource, name: &str) -> Failure {
        let message = format!("{} \"{name}\" not found", resource.plural);
        status(404, "NotFound", &message, json!({ "name": name, "kind": resource.plural }))
    }

    fn do_create(&self, resource: Resource, namespace: &str, body: &Value) -> Result<Value, Failure> {
        let name = text(body, "/metadata/name");
        if self.missing_namespaces.borrow().contains(namespace) {
            let message = format!("namespaces \"{namespace}\" not found");
            return Err(status(
                404,
                "NotFound",
                &message,
                json!({ "name": namespace, "kind": "namespaces" }),
            ));
        }
        if self.terminating_namespaces.borrow().contains(namespace) {
            let message = format!(
                "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it \
                 is being terminated",
                resource.plural
            );
            let causes =
                json!([{ "reason": "NamespaceTerminating", "message": "..", "field": "metadata.namespace" }]);
            return Err(status(403, "Forbidden", &message, json!({ "causes": causes })));
        }
        let key = (resource.plural, namespace.to_owned(), name.clone());
        if self.objects.borrow().contains_key(&key) {
            let message = format!("{} \"{name}\" already exists", resource.plural);
            return Err(status(
                409,
                "AlreadyExists",
                &message,
                json!({ "name": name, "kind": resource.plural }),
            ));
        }
        let pods = self.objects.borrow().keys().filter(|(plural, ..)| *plural == "pods").count();
        if resource.plural == "pods" && self.most_pods.get().is_some_and(|most| pods >= most) {
            let message = format!(
                "pods \"{name}\" is forbidden: exceeded quota: q, requested: pods=1, used: pods={pods}, limited: \
                 pods={pods}"
            );
            return Err(status(403, "Forbidden", &message, json!({ "name": name, "kind": "pods" })));
        }
        let mut object = body.clone();
        object["metadata"]["uid"] = format!("object-{}", self.version()).into();
        object["metadata"]["resourceVersion"] = self.version().into();
        object["metadata"]["creationTimestamp"] = self.stamp().into();
        if resource.plural == "pods" {
            object["status"] = json!({ "phase": "Pending" });
        }
        self.objects.borrow_mut().insert(key, object.clone());
        Ok(object)
    }

    fn do_patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        let key = (resource.plural, namespace.to_owned(), name.to_owned());
        let mut objects = self.objects.borrow_mut();
        let object = objects.get_mut(&key).ok_or_else(|| Self::not_found(resource, name))?;
        let wanted = text(body, "/metadata/resourceVersion");
        if !wanted.is_empty() && wanted != text(object, "/metadata/resourceVersion") {
            let message = format!(
                "Operation cannot be fulfilled on {} \"{name}\": the object has been modified",
                resource.plural
            );
            return Err(status(409, "Conflict", &message, json!({})));
        }
        object["data"] = body["data"].clone();
        object["metadata"]["resourceVersion"] = self.version().into();
        Ok(object.clone())
    }

    fn do_delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        let key = (resource.plural, namespace.to_owned(), name.to_owned());
        let mut objects = self.objects.borrow_mut();
        let object = objects.get_mut(&key).ok_or_else(|| Self::not_found(resource, name))?;
        let uid = text(object, "/metadata/uid");
        if options.uid.as_ref().is_some_and(|wanted| *wanted != uid) {
            return Err(status(409, "Conflict", "Precondition failed: UID in precondition", json!({})));
        }
        // A Pod that a node has is ended there first; another goes at once, unless a finalizer holds it.
        let held = object.pointer("/metadata/finalizers").is_some();
        if held || object.pointer("/spec/nodeName").is_some() {
            object["metadata"]["deletionTimestamp"] = self.stamp().into();
            return Ok(object.clone());
        }
        objects.remove(&key).ok_or_else(|| Self::not_found(resource, name))
    }

    fn do_list(&self, resource: Resource, namespace: &str, options: &ListOptions) -> Result<Value, Failure> {
        let objects = self.objects.borrow();
        let matching: Vec<&Value> = objects
            .iter()
            .filter(|((plural, of, _), _)| {
                *plural == resource.plural && (namespace.is_empty() || namespace == of)
            })
            .map(|(_, object)| object)
            .filter(|object| selected(object, &options.label_selector))
            .collect();
        let limit = match options.limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap(),
        };
        let of_pods = self.page_of_pods.get().filter(|_| resource.plural == "pods");
        let limit = limit.min(self.page.get().unwrap_or(limit)).min(of_pods.unwrap_or(limit));
        let from: usize = options.continue_token.as_ref().map_or(0, |token| token.parse().unwrap());
        let items: Vec<&Value> = matching.iter().skip(from).take(limit).copied().collect();
        let to = from + items.len();
        let token = if to < matching.len() { to.to_string() } else { String::new() };
        Ok(json!({ "metadata": { "continue": token }, "items": items }))
    }
}

/// JSON, and not an object of the API.
fn garbage() -> Value {
    json!({ "maintenance": true, "items": "none", "metadata": [] })
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// `a=b,c in (d,e)`.
fn selected(object: &Value, selector: &str) -> bool {
    let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
    let mut rest = selector;
    while !rest.is_empty() {
        let term = if let Some((key, behind)) = rest.split_once(" in (").filter(|(key, _)| !key.contains(','))
        {
            let (values, behind) = behind.split_once(')').unwrap();
            rest = behind.trim_start_matches(',');
            values.split(',').any(|value| label(key) == Some(value))
        } else {
            let (term, behind) = rest.split_once(',').unwrap_or((rest, ""));
            rest = behind;
            let (key, value) = term.split_once('=').unwrap();
            label(key) == Some(value)
        };
        if !term {
            return false;
        }
    }
    true
}

const SERVER: Resource = Resource { api_version: "v1", plural: "version" };

impl Kubernetes for Fake {
    fn about(&self, _cluster: &str) -> Result<Server, Failure> {
        self.call("about", SERVER, "", "", || {
            let home = !self.elsewhere.get();
            Ok(Server { version: "v1.36.3".to_owned(), home, user: USER.to_owned() })
        })
    }

    fn get(&self, _: &str, resource: Resource, namespace: &str, name: &str) -> Result<Value, Failure> {
        self.call("get", resource, namespace, name, || {
            if self.is_garbled(&format!("get {}", resource.plural)) {
                return Ok(garbage());
            }
            self.object(resource.plural, namespace, name).ok_or_else(|| Self::not_found(resource, name))
        })
    }

    fn list(
        &self,
        _: &str,
        resource: Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure> {
        self.call("list", resource, namespace, "", || {
            if self.is_garbled(&format!("list {}", resource.plural)) {
                return Ok(garbage());
            }
            self.do_list(resource, namespace, options)
        })
    }

    fn allowed(&self, _: &str, access: &Access) -> Result<bool, Failure> {
        let right = format!("{} {}", access.verb, access.resource.plural);
        let here = format!("{right} {}", access.namespace);
        self.call("allowed", SERVER, &access.namespace, &right, || {
            if self.denied.borrow().contains(&right) {
                return Err(Self::not_granted(access.verb, access.resource.plural, &access.namespace));
            }
            Ok(![&right, &here].iter().any(|right| self.missing_rights.borrow().contains(*right)))
        })
    }

    fn create(&self, _: &str, resource: Resource, namespace: &str, body: &Value) -> Result<Value, Failure> {
        let name = text(body, "/metadata/name");
        self.call("create", resource, namespace, &name, || self.do_create(resource, namespace, body))
    }

    fn patch(
        &self,
        _: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        _: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure> {
        self.call("patch", resource, namespace, name, || self.do_patch(resource, namespace, name, body))
    }

    fn delete(
        &self,
        _: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        self.call("delete", resource, namespace, name, || self.do_delete(resource, namespace, name, options))
    }
}

impl Clock for Fake {
    fn now_ms(&self) -> u64 {
        EPOCH_MS + self.now_ms.get()
    }
    fn monotonic_ms(&self) -> u64 {
        // Each look at it is a little later, so a latency is never zero.
        self.now_ms.set(self.now_ms.get() + 3);
        self.now_ms.get()
    }
    fn sleep_ms(&self, ms: u32) {
        self.advance(ms.into());
    }
}
