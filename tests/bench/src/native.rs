//! The provider's logic without Wasm: the same crate, its traits answered by a closure. In this process the
//! closure asks the backend; in the plugin process it asks the host over gRPC.

use gcp_provider::GcpProvider;
use kubernetes_provider::KubernetesProvider;
use provider_sdk::{
    Clock, Context, Created, Error, Http, Kubernetes, Level, Lock, Locks, Log, Mark, Provider, Spec, Target,
    Verdict, http,
    kubernetes::{Access, DeleteOptions, Failure, FailureKind, ListOptions, PatchKind, Resource, Server},
};
use serde_json::{Value, json};

use crate::backend::{HostCall, Refused};

/// What the logic is lent: one way out, and what the host would know.
pub(crate) struct Lent<F> {
    pub(crate) call: F,
    pub(crate) config: Value,
    pub(crate) mark: Vec<(String, String)>,
}

/// One step of create.
pub(crate) fn create<F>(lent: Lent<F>, target: &Target, spec: &Spec) -> Result<Created, Error>
where
    F: Fn(HostCall) -> Result<Value, Refused>,
{
    KubernetesProvider::from(lent).create(target, spec, &[])
}

/// A call that ends without asking the backend: an id that is none.
pub(crate) fn empty<F>(lent: Lent<F>, target: &Target) -> bool
where
    F: Fn(HostCall) -> Result<Value, Refused>,
{
    KubernetesProvider::from(lent).get(target).is_err()
}

/// A check of a project of Compute Engine: a request for its region, and one for each image. Whether all is well.
pub(crate) fn check_over_http<F>(lent: Lent<F>, place: &str) -> bool
where
    F: Fn(&http::Request) -> Result<http::Response, http::Failure>,
{
    GcpProvider::from(lent).check(place).ready
}

impl<F: Fn(&http::Request) -> Result<http::Response, http::Failure>> Http for Lent<F> {
    fn send(&self, request: &http::Request) -> Result<http::Response, http::Failure> {
        (self.call)(request)
    }
    fn info(&self, _: &str) -> Result<Value, http::Failure> {
        Ok(Value::Null)
    }
}

impl<F> Context for Lent<F> {
    fn config(&self) -> Value {
        self.config.clone()
    }
    fn entry(&self) -> String {
        "bench".into()
    }
    fn installation(&self) -> String {
        "aaaaaa".into()
    }
    fn mark(&self) -> Mark {
        self.mark.clone()
    }
    fn installation_mark(&self) -> Mark {
        self.mark.iter().take(2).cloned().collect()
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        let ours = self.mark.iter().all(|pair| mark.iter().any(|found| found == pair));
        if ours { Verdict::ThisTarget } else { Verdict::Foreign }
    }
    fn remaining_ms(&self) -> u32 {
        60_000
    }
}

impl<F> Clock for Lent<F> {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep_ms(&self, _: u32) {}
}

impl<F> Log for Lent<F> {
    fn write(&self, _: Level, _: &str, _: &[(&str, &str)]) {}
}

struct Held;
impl Lock for Held {}

impl<F> Locks for Lent<F> {
    fn acquire(&self, _: &str, _: u32) -> Option<Box<dyn Lock + '_>> {
        Some(Box::new(Held))
    }
}

fn failure(refused: Refused) -> Failure {
    Failure {
        kind: FailureKind::Status,
        code: refused.code,
        reason: refused.reason,
        message: "refused".into(),
        details: json!({}),
        retry_ms: None,
        sent: true,
    }
}

impl<F: Fn(HostCall) -> Result<Value, Refused>> Kubernetes for Lent<F> {
    fn about(&self, _: &str) -> Result<Server, Failure> {
        (self.call)(HostCall::About).map_err(failure)?;
        Ok(Server { version: "v1.36.3".into(), home: false, user: String::new() })
    }
    fn get(&self, _: &str, kind: Resource, namespace: &str, name: &str) -> Result<Value, Failure> {
        let (plural, namespace, name) = (kind.plural.into(), namespace.into(), name.into());
        (self.call)(HostCall::Get { plural, namespace, name }).map_err(failure)
    }
    fn list(&self, _: &str, kind: Resource, namespace: &str, _: &ListOptions) -> Result<Value, Failure> {
        (self.call)(HostCall::List { plural: kind.plural.into(), namespace: namespace.into() })
            .map_err(failure)
    }
    fn allowed(&self, _: &str, _: &Access) -> Result<bool, Failure> {
        (self.call)(HostCall::Allowed).map(|_| true).map_err(failure)
    }
    fn create(&self, _: &str, kind: Resource, namespace: &str, body: &Value) -> Result<Value, Failure> {
        let (plural, namespace) = (kind.plural.into(), namespace.into());
        (self.call)(HostCall::Create { plural, namespace, body: body.clone() }).map_err(failure)
    }
    fn patch(
        &self,
        _: &str,
        kind: Resource,
        namespace: &str,
        name: &str,
        _: PatchKind,
        _: &Value,
    ) -> Result<Value, Failure> {
        let (plural, namespace, name) = (kind.plural.into(), namespace.into(), name.into());
        (self.call)(HostCall::Patch { plural, namespace, name }).map_err(failure)
    }
    fn delete(
        &self,
        _: &str,
        kind: Resource,
        namespace: &str,
        name: &str,
        _: &DeleteOptions,
    ) -> Result<Value, Failure> {
        let (plural, namespace, name) = (kind.plural.into(), namespace.into(), name.into());
        (self.call)(HostCall::Delete { plural, namespace, name }).map_err(failure)
    }
}
