//! The Kubernetes API in memory, as fast as it can be: every way of calling the provider's logic meets the
//! same one, so what differs is the way. A Pod runs as soon as it is made.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
    Resource, Server,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A host call, as it also goes over the wire to the plugin process and back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HostCall {
    About,
    Get { plural: String, namespace: String, name: String },
    List { plural: String, namespace: String },
    Allowed,
    Create { plural: String, namespace: String, body: Value },
    Patch { plural: String, namespace: String, name: String },
    Delete { plural: String, namespace: String, name: String },
}

/// Code and reason of a Status that refuses.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

type Key = (String, String, String);

/// What is there, and how often it was asked.
#[derive(Default)]
pub(crate) struct Backend {
    objects: Mutex<HashMap<Key, Value>>,
    calls: AtomicU64,
    /// What calls of `about` wait at, where they are to wait.
    gate: Option<Semaphore>,
}

impl Backend {
    /// One whose `about` waits for a permit of its gate.
    pub(crate) fn gated() -> Self {
        Self { gate: Some(Semaphore::new(0)), ..Self::default() }
    }

    /// The gate, where there is one.
    pub(crate) fn gate(&self) -> Option<&Semaphore> {
        self.gate.as_ref()
    }

    /// How many host calls were answered.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Forgets everything, so that a long run measures calls and no growing map.
    pub(crate) fn clear(&self) {
        self.objects().clear();
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, Value>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one call.
    pub(crate) fn answer(&self, call: HostCall) -> Result<Value, Refused> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut objects = self.objects();
        match call {
            HostCall::About => Ok(json!({})),
            HostCall::Allowed => Ok(json!(true)),
            HostCall::List { plural, namespace } => {
                let of_kind = |(key, _): &(&Key, &Value)| key.0 == plural && key.1 == namespace;
                let items: Vec<Value> =
                    objects.iter().filter(of_kind).map(|(_, object)| object.clone()).collect();
                Ok(json!({"metadata": {}, "items": items}))
            }
            HostCall::Get { plural, namespace, name } | HostCall::Patch { plural, namespace, name } => {
                objects.get(&(plural, namespace, name)).cloned().ok_or_else(not_found)
            }
            HostCall::Create { plural, namespace, mut body } => {
                let name =
                    body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("uid".into(), json!("0a7b"));
                    metadata.insert("resourceVersion".into(), json!("1"));
                    metadata.insert("namespace".into(), json!(namespace));
                    metadata.insert("creationTimestamp".into(), json!("2026-01-01T00:00:00Z"));
                }
                if plural == "pods"
                    && let Some(pod) = body.as_object_mut()
                {
                    let ready = json!([{"type": "Ready", "status": "True"}]);
                    pod.insert(
                        "status".into(),
                        json!({"phase": "Running", "podIP": "10.1.2.3", "conditions": ready}),
                    );
                }
                objects.insert((plural, namespace, name), body.clone());
                Ok(body)
            }
            HostCall::Delete { plural, namespace, name } => {
                objects.remove(&(plural, namespace, name)).ok_or_else(not_found)
            }
        }
    }
}

fn not_found() -> Refused {
    Refused { code: 404, reason: "NotFound".into() }
}

fn failure(refused: Refused) -> KubernetesFailure {
    KubernetesFailure {
        kind: KubernetesFailureKind::Status,
        code: refused.code,
        reason: refused.reason,
        message: "refused".into(),
        details: json!({}),
        retry_after: None,
        sent: true,
    }
}

#[async_trait]
impl Kubernetes for Backend {
    async fn about(&self, _: &str) -> Result<Server, KubernetesFailure> {
        if let Some(gate) = &self.gate {
            // A permit, or closed: either way the wait is over.
            if let Ok(permit) = gate.acquire().await {
                permit.forget();
            }
        }
        self.answer(HostCall::About).map_err(failure)?;
        Ok(Server { version: "v1.36.3".into(), home: false, user: String::new() })
    }

    async fn get(
        &self,
        _: &str,
        kind: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        let (plural, namespace, name) = (kind.plural.clone(), namespace.into(), name.into());
        self.answer(HostCall::Get { plural, namespace, name }).map_err(failure)
    }

    async fn list(
        &self,
        _: &str,
        kind: &Resource,
        namespace: &str,
        _: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        self.answer(HostCall::List { plural: kind.plural.clone(), namespace: namespace.into() })
            .map_err(failure)
    }

    async fn allowed(&self, _: &str, _: &Access) -> Result<bool, KubernetesFailure> {
        self.answer(HostCall::Allowed).map(|_| true).map_err(failure)
    }

    async fn create(
        &self,
        _: &str,
        kind: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        self.answer(HostCall::Create { plural: kind.plural.clone(), namespace: namespace.into(), body })
            .map_err(failure)
    }

    async fn patch(
        &self,
        _: &str,
        kind: &Resource,
        namespace: &str,
        name: &str,
        _: PatchKind,
        _: Value,
    ) -> Result<Value, KubernetesFailure> {
        let (plural, namespace, name) = (kind.plural.clone(), namespace.into(), name.into());
        self.answer(HostCall::Patch { plural, namespace, name }).map_err(failure)
    }

    async fn delete(
        &self,
        _: &str,
        kind: &Resource,
        namespace: &str,
        name: &str,
        _: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        let (plural, namespace, name) = (kind.plural.clone(), namespace.into(), name.into());
        self.answer(HostCall::Delete { plural, namespace, name }).map_err(failure)
    }
}
