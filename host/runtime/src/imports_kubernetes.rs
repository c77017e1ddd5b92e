//! The Kubernetes API as a guest sees it: the capability's types in the contract's, and back.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use wasmtime::component::{HasSelf, Linker};

use crate::{
    bindings::egress::provider::kubernetes::{self, Failure},
    capability::{
        Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
        Resource,
    },
    failure::Stop,
    limits::Limit,
    state::{HostFailure, State},
};

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    kubernetes::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl HostFailure for KubernetesFailure {
    fn timeout(message: String) -> Self {
        Self { sent: true, ..host_failure(KubernetesFailureKind::Timeout, message) }
    }

    fn withheld(message: String) -> Self {
        host_failure(KubernetesFailureKind::Denied, message)
    }

    fn too_large(message: String, sent: bool) -> Self {
        Self { sent, ..host_failure(KubernetesFailureKind::TooLarge, message) }
    }

    fn too_large_for(&self) -> Option<Limit> {
        match (self.kind, self.sent) {
            (KubernetesFailureKind::TooLarge, true) => Some(Limit::ResponseBytes),
            (KubernetesFailureKind::TooLarge, false) => Some(Limit::RequestBytes),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        self.kind.as_str()
    }
}

fn host_failure(kind: KubernetesFailureKind, message: String) -> KubernetesFailure {
    KubernetesFailure {
        kind,
        code: 0,
        reason: String::new(),
        message,
        details: Value::Object(serde_json::Map::new()),
        retry_after: None,
        sent: false,
    }
}

impl From<KubernetesFailure> for Failure {
    fn from(failure: KubernetesFailure) -> Self {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self {
            kind: failure.kind.as_str().to_owned(),
            code: failure.code,
            reason: failure.reason,
            message: failure.message,
            details: failure.details.to_string(),
            retry_ms: failure.retry_after.map(ms),
            sent: failure.sent,
        }
    }
}

impl From<kubernetes::Resource> for Resource {
    fn from(resource: kubernetes::Resource) -> Self {
        Self { api_version: resource.api_version, plural: resource.plural }
    }
}

/// What a request's words take; its body comes on top.
fn size(words: &[&str]) -> usize {
    words.iter().map(|word| word.len()).sum()
}

impl State {
    fn kubernetes(&self) -> wasmtime::Result<Arc<dyn Kubernetes>> {
        // It is linked only when it is lent.
        let lent = self.setup.lent.kubernetes.clone();
        lent.ok_or_else(|| Stop::Violation("the Kubernetes API is not lent".to_owned()).into())
    }

    async fn object(
        &mut self,
        call: &'static str,
        cluster: &str,
        request_bytes: usize,
        host: impl Future<Output = Result<Value, KubernetesFailure>>,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let outcome = self.host_call(call, cluster, request_bytes, host).await?;
        Ok(self.answer(call, outcome))
    }

    /// The same for what the contract marks as a write.
    async fn changed_object(
        &mut self,
        call: &'static str,
        cluster: &str,
        request_bytes: usize,
        host: impl Future<Output = Result<Value, KubernetesFailure>>,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let outcome = self.write_call(call, cluster, request_bytes, host).await?;
        Ok(self.answer(call, outcome))
    }

    fn answer(&mut self, call: &str, outcome: Result<Value, KubernetesFailure>) -> Result<String, Failure> {
        let fitting = outcome.and_then(|object| self.fits::<KubernetesFailure>(call, object.to_string()));
        fitting.map_err(Failure::from)
    }
}

/// Read only once its size is known to fit: a parsed document takes many times its text.
fn body(json: &str) -> Result<Value, KubernetesFailure> {
    serde_json::from_str(json).map_err(|error| {
        let message = format!("the request's body is no JSON: {error}");
        host_failure(KubernetesFailureKind::Invalid, message)
    })
}

impl kubernetes::Host for State {
    async fn about(&mut self, cluster: String) -> wasmtime::Result<Result<kubernetes::Server, Failure>> {
        let api = self.kubernetes()?;
        let call = self.host_call("kubernetes.about", &cluster, cluster.len(), api.about(&cluster));
        Ok(call.await?.map_err(Failure::from).map(|server| kubernetes::Server {
            version: server.version,
            home: server.home,
            user: server.user,
        }))
    }

    async fn get(
        &mut self,
        cluster: String,
        resource: kubernetes::Resource,
        namespace: String,
        name: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let (api, resource) = (self.kubernetes()?, resource.into());
        let bytes = size(&[&namespace, &name]);
        let host = api.get(&cluster, &resource, &namespace, &name);
        self.object("kubernetes.get", &cluster, bytes, host).await
    }

    async fn list(
        &mut self,
        cluster: String,
        resource: kubernetes::Resource,
        namespace: String,
        options: kubernetes::ListOptions,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let (api, resource) = (self.kubernetes()?, resource.into());
        let options = ListOptions {
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            limit: options.limit,
            continue_token: options.continue_,
        };
        let token = options.continue_token.as_deref().unwrap_or_default();
        let bytes = size(&[&namespace, &options.label_selector, &options.field_selector, token]);
        let host = api.list(&cluster, &resource, &namespace, &options);
        self.object("kubernetes.list", &cluster, bytes, host).await
    }

    async fn allowed(
        &mut self,
        cluster: String,
        access: kubernetes::Access,
    ) -> wasmtime::Result<Result<bool, Failure>> {
        let api = self.kubernetes()?;
        let access =
            Access { verb: access.verb, resource: access.resource.into(), namespace: access.namespace };
        let bytes = size(&[&access.verb, &access.namespace]);
        let host = api.allowed(&cluster, &access);
        Ok(self.host_call("kubernetes.allowed", &cluster, bytes, host).await?.map_err(Failure::from))
    }

    async fn create(
        &mut self,
        cluster: String,
        resource: kubernetes::Resource,
        namespace: String,
        json: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let (api, resource) = (self.kubernetes()?, resource.into());
        let bytes = size(&[&namespace, &json]);
        let host = async { api.create(&cluster, &resource, &namespace, body(&json)?).await };
        self.changed_object("kubernetes.create", &cluster, bytes, host).await
    }

    async fn patch(
        &mut self,
        cluster: String,
        resource: kubernetes::Resource,
        namespace: String,
        name: String,
        kind: kubernetes::PatchKind,
        json: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let (api, resource) = (self.kubernetes()?, resource.into());
        let kind = match kind {
            kubernetes::PatchKind::Merge => PatchKind::Merge,
            kubernetes::PatchKind::JsonPatch => PatchKind::Json,
            kubernetes::PatchKind::Apply => PatchKind::Apply,
        };
        let bytes = size(&[&namespace, &name, &json]);
        let host = async { api.patch(&cluster, &resource, &namespace, &name, kind, body(&json)?).await };
        self.changed_object("kubernetes.patch", &cluster, bytes, host).await
    }

    async fn delete(
        &mut self,
        cluster: String,
        resource: kubernetes::Resource,
        namespace: String,
        name: String,
        options: kubernetes::DeleteOptions,
    ) -> wasmtime::Result<Result<String, Failure>> {
        let (api, resource) = (self.kubernetes()?, resource.into());
        let options = DeleteOptions {
            uid: options.uid,
            resource_version: options.resource_version,
            grace_seconds: options.grace_seconds,
        };
        let bytes = size(&[&namespace, &name]);
        let host = api.delete(&cluster, &resource, &namespace, &name, &options);
        self.changed_object("kubernetes.delete", &cluster, bytes, host).await
    }
}
