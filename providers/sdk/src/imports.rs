//! The host's side of the traits, inside a component.

mod http;
mod hypervisors;

use serde_json::{Map, Value};

use crate::{
    bindings::egress::provider as wit,
    host::{Clock, Context, Level, Lock, Locks, Log, Verdict},
    kubernetes::{
        Access, DeleteOptions, Failure, FailureKind, Kubernetes, ListOptions, PatchKind, Resource, Server,
    },
    mark::Mark,
};

/// What the component was linked with. Outside Wasm nothing stands behind it, and its calls end the
/// program: tests implement the traits themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imports;

impl Context for Imports {
    fn config(&self) -> Value {
        // The host gives what it parsed itself; a null config then has every fault of an empty one.
        serde_json::from_str(&wit::context::config()).unwrap_or_default()
    }
    fn entry(&self) -> String {
        wit::context::entry()
    }
    fn installation(&self) -> String {
        wit::context::installation()
    }
    fn mark(&self) -> Mark {
        wit::context::mark()
    }
    fn installation_mark(&self) -> Mark {
        wit::context::installation_mark()
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        match wit::context::verify(mark) {
            wit::context::Verdict::ThisTarget => Verdict::ThisTarget,
            wit::context::Verdict::ThisInstallation => Verdict::ThisInstallation,
            wit::context::Verdict::Legacy => Verdict::Legacy,
            wit::context::Verdict::Foreign => Verdict::Foreign,
        }
    }
    fn remaining_ms(&self) -> u32 {
        wit::context::remaining_ms()
    }
}

impl Clock for Imports {
    fn now_ms(&self) -> u64 {
        wit::clock::now_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        wit::clock::monotonic_ms()
    }
    fn sleep_ms(&self, ms: u32) {
        wit::clock::sleep_ms(ms);
    }
}

impl Log for Imports {
    fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let level = match level {
            Level::Error => wit::log::Level::Error,
            Level::Warn => wit::log::Level::Warn,
            Level::Info => wit::log::Level::Info,
            Level::Debug => wit::log::Level::Debug,
            Level::Trace => wit::log::Level::Trace,
        };
        let fields: Vec<_> =
            fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        wit::log::write(level, message, &fields);
    }
}

impl Lock for wit::locks::Lock {}

impl Locks for Imports {
    fn acquire(&self, name: &str, wait_ms: u32) -> Option<Box<dyn Lock + '_>> {
        let lock = wit::locks::Lock::acquire(name, wait_ms)?;
        Some(Box::new(lock))
    }
}

impl Kubernetes for Imports {
    fn about(&self, cluster: &str) -> Result<Server, Failure> {
        let server = wit::kubernetes::about(cluster).map_err(failure)?;
        Ok(Server { version: server.version, home: server.home, user: server.user })
    }

    fn get(&self, cluster: &str, of: Resource, namespace: &str, name: &str) -> Result<Value, Failure> {
        answer(wit::kubernetes::get(cluster, &resource(of), namespace, name))
    }

    fn list(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure> {
        let options = wit::kubernetes::ListOptions {
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            limit: options.limit,
            continue_: options.continue_token.clone(),
        };
        answer(wit::kubernetes::list(cluster, &resource(of), namespace, &options))
    }

    fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, Failure> {
        let access = wit::kubernetes::Access {
            verb: access.verb.to_owned(),
            resource: resource(access.resource),
            namespace: access.namespace.clone(),
        };
        wit::kubernetes::allowed(cluster, &access).map_err(failure)
    }

    fn create(&self, cluster: &str, of: Resource, namespace: &str, body: &Value) -> Result<Value, Failure> {
        answer(wit::kubernetes::create(cluster, &resource(of), namespace, &body.to_string()))
    }

    fn patch(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure> {
        let kind = match kind {
            PatchKind::Merge => wit::kubernetes::PatchKind::Merge,
            PatchKind::Json => wit::kubernetes::PatchKind::JsonPatch,
            PatchKind::Apply => wit::kubernetes::PatchKind::Apply,
        };
        answer(wit::kubernetes::patch(cluster, &resource(of), namespace, name, kind, &body.to_string()))
    }

    fn delete(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        let options = wit::kubernetes::DeleteOptions {
            uid: options.uid.clone(),
            resource_version: options.resource_version.clone(),
            grace_seconds: options.grace_seconds,
        };
        answer(wit::kubernetes::delete(cluster, &resource(of), namespace, name, &options))
    }
}

fn resource(of: Resource) -> wit::kubernetes::Resource {
    wit::kubernetes::Resource { api_version: of.api_version.to_owned(), plural: of.plural.to_owned() }
}

fn answer(result: Result<String, wit::kubernetes::Failure>) -> Result<Value, Failure> {
    let body = result.map_err(failure)?;
    serde_json::from_str(&body).map_err(|error| Failure {
        kind: FailureKind::Invalid,
        code: 0,
        reason: String::new(),
        message: format!("the host's answer is no JSON: {error}"),
        details: Value::Object(Map::new()),
        retry_ms: None,
        sent: true,
    })
}

fn failure(failure: wit::kubernetes::Failure) -> Failure {
    Failure {
        kind: FailureKind::read(&failure.kind),
        code: failure.code,
        reason: failure.reason,
        message: failure.message,
        details: serde_json::from_str(&failure.details).unwrap_or_default(),
        retry_ms: failure.retry_ms,
        sent: failure.sent,
    }
}
