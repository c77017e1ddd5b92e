//! A Kubernetes API in memory, with the answers of the real one, as far as the provider asks it.
//!
//! `epo provider test` tries the component against a simulated cluster that knows far more; this one
//! is for looking at single calls, natively and within milliseconds.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use provider_sdk::{
    Clock, Context, Kubernetes, Mark, Verdict,
    kubernetes::{
        Access, DeleteOptions, Failure, FailureKind, ListOptions, PatchKind, Resource, Server,
    },
};
use serde_json::{Value, json};

pub const NAME: &str = "proxy-web-inst01-abcdefgh";
pub const UID: &str = "0f0e0d0c-1111-2222-3333-444455556666";

#[derive(Default)]
pub struct Fake {
    pub config: RefCell<Value>,
    objects: RefCell<BTreeMap<(&'static str, String), Value>>,
    made: Cell<u32>,
    calls: RefCell<Vec<String>>,
    /// Answered to the first call that begins with this.
    pub refusal: RefCell<Option<(&'static str, Failure)>>,
    /// `create pods` and the like that RBAC does not allow.
    pub missing_right: Cell<Option<&'static str>>,
}

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

pub fn unanswered(kind: FailureKind) -> Failure {
    Failure {
        kind,
        ..status(0, "", "no answer", json!({}))
    }
}

impl Fake {
    pub fn new() -> Self {
        let config = json!({ "cluster": "home", "namespace": "team-a", "image": "squid:1" });
        Self {
            config: config.into(),
            ..Self::default()
        }
    }

    /// What was asked since the last time.
    pub fn calls(&self) -> Vec<String> {
        self.calls.take()
    }

    /// `pods/proxy-web-..`, in order.
    pub fn names(&self) -> Vec<String> {
        self.objects
            .borrow()
            .keys()
            .map(|(plural, name)| format!("{plural}/{name}"))
            .collect()
    }

    pub fn put(&self, plural: &'static str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.borrow_mut().insert((plural, name), object);
    }

    /// What a kubelet, or an administrator, does to an object.
    pub fn edit(&self, plural: &'static str, edit: impl FnOnce(&mut Value)) {
        edit(
            self.objects
                .borrow_mut()
                .get_mut(&(plural, NAME.to_owned()))
                .expect("it stands"),
        );
    }

    pub fn remove(&self, plural: &'static str) {
        self.objects.borrow_mut().remove(&(plural, NAME.to_owned()));
    }

    pub fn run_pod(&self) {
        self.edit("pods", |pod| {
            pod["status"] = json!({
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
                "podIPs": [{ "ip": "10.1.2.3" }],
            });
        });
    }

    fn call(&self, what: String) -> Result<(), Failure> {
        let refused = self
            .refusal
            .borrow()
            .as_ref()
            .is_some_and(|(call, _)| what.starts_with(call));
        self.calls.borrow_mut().push(what);
        match if refused { self.refusal.take() } else { None } {
            Some((_, failure)) => Err(failure),
            None => Ok(()),
        }
    }

    fn missing(resource: Resource) -> Failure {
        status(
            404,
            "NotFound",
            "not found",
            json!({ "kind": resource.plural }),
        )
    }
}

impl Context for Fake {
    fn config(&self) -> Value {
        self.config.borrow().clone()
    }
    fn entry(&self) -> String {
        crate::NAME.to_owned()
    }
    fn installation(&self) -> String {
        "inst01".to_owned()
    }
    fn mark(&self) -> Mark {
        let mut mark = self.installation_mark();
        mark.extend([
            ("uid".to_owned(), UID.to_owned()),
            ("incarnation".to_owned(), "1".to_owned()),
        ]);
        mark
    }
    fn installation_mark(&self) -> Mark {
        let pairs = [("managed", "true"), ("installation", "inst01")];
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec()
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        if *mark == self.mark() {
            Verdict::ThisTarget
        } else {
            Verdict::Foreign
        }
    }
    fn remaining_ms(&self) -> u32 {
        60_000
    }
}

impl Clock for Fake {
    fn now_ms(&self) -> u64 {
        1_767_225_600_000
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep_ms(&self, _: u32) {}
}

impl Kubernetes for Fake {
    fn about(&self, _: &str) -> Result<Server, Failure> {
        self.call("about".to_owned())?;
        Ok(Server {
            version: "v1.36.3".to_owned(),
            ..Server::default()
        })
    }

    fn get(&self, _: &str, of: Resource, _: &str, name: &str) -> Result<Value, Failure> {
        self.call(format!("get {}", of.plural))?;
        let objects = self.objects.borrow();
        objects
            .get(&(of.plural, name.to_owned()))
            .cloned()
            .ok_or_else(|| Self::missing(of))
    }

    fn list(
        &self,
        _: &str,
        of: Resource,
        _: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure> {
        self.call(format!("list {}", of.plural))?;
        // One to a page, so that every list has to go on.
        let from: usize = options
            .continue_token
            .as_deref()
            .map_or(0, |token| token.parse().unwrap());
        let objects = self.objects.borrow();
        let all: Vec<&Value> = objects
            .iter()
            .filter(|((plural, _), _)| *plural == of.plural)
            .map(|(_, it)| it)
            .collect();
        let more = if from + 1 < all.len() {
            (from + 1).to_string()
        } else {
            String::new()
        };
        let page = all.get(from).into_iter().collect::<Vec<_>>();
        Ok(json!({ "metadata": { "continue": more }, "items": page }))
    }

    fn allowed(&self, _: &str, access: &Access) -> Result<bool, Failure> {
        let right = format!("{} {}", access.verb, access.resource.plural);
        Ok(self.missing_right.get() != Some(right.as_str()))
    }

    fn create(&self, _: &str, of: Resource, _: &str, body: &Value) -> Result<Value, Failure> {
        self.call(format!("create {}", of.plural))?;
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self
            .objects
            .borrow()
            .contains_key(&(of.plural, name.clone()))
        {
            return Err(status(409, "AlreadyExists", "already exists", json!({})));
        }
        self.made.set(self.made.get() + 1);
        let mut object = body.clone();
        object["metadata"]["uid"] = json!(format!("uid-{}", self.made.get()));
        object["metadata"]["resourceVersion"] = json!("1");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["status"] = json!({ "phase": "Pending" });
        self.objects
            .borrow_mut()
            .insert((of.plural, name), object.clone());
        Ok(object)
    }

    fn patch(
        &self,
        _: &str,
        of: Resource,
        _: &str,
        name: &str,
        _: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure> {
        self.call(format!("patch {}", of.plural))?;
        let mut objects = self.objects.borrow_mut();
        let object = objects
            .get_mut(&(of.plural, name.to_owned()))
            .ok_or_else(|| Self::missing(of))?;
        object["data"] = body["data"].clone();
        Ok(object.clone())
    }

    /// Marks it: who wants it gone calls `remove`, as a kubelet would.
    fn delete(
        &self,
        _: &str,
        of: Resource,
        _: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        self.call(format!("delete {}", of.plural))?;
        let mut objects = self.objects.borrow_mut();
        let object = objects
            .get_mut(&(of.plural, name.to_owned()))
            .ok_or_else(|| Self::missing(of))?;
        if object["metadata"]["uid"].as_str() != options.uid.as_deref() {
            return Err(status(409, "Conflict", "the UID differs", json!({})));
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
        Ok(object.clone())
    }
}
