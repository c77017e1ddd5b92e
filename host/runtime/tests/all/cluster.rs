//! A cluster in memory: objects by kind, namespace and name, as plain as can be.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
    Resource, Server,
};
use serde_json::{Value, json};

type Key = (String, String, String);

/// See the module.
#[derive(Default)]
pub struct Cluster {
    objects: Mutex<BTreeMap<Key, Value>>,
    calls: AtomicU64,
    /// What does not come back until it is released.
    stalling: Mutex<Option<&'static str>>,
    stalled: AtomicU64,
    released: Gate,
    /// How long a call takes that is about one object.
    latency: Duration,
}

/// Shut until it is opened, then open for ever.
struct Gate(tokio::sync::Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(tokio::sync::Semaphore::new(0))
    }
}

impl Gate {
    async fn pass(&self) {
        // An error says that it was opened.
        let _ = self.0.acquire().await;
    }
}

#[allow(dead_code, reason = "the example uses half of it")]
impl Cluster {
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many objects of this kind there are.
    pub fn count(&self, plural: &str) -> usize {
        self.objects().keys().filter(|(kind, ..)| kind == plural).count()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Key, Value>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One object.
    pub fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.objects().get(&(plural.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Puts an object there, as somebody else would.
    pub fn put(&self, plural: &str, namespace: &str, object: Value) {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.objects().insert((plural.to_owned(), namespace.to_owned(), name), object);
    }

    /// Removes one, as somebody else would.
    pub fn remove(&self, plural: &str, namespace: &str, name: &str) {
        self.objects().remove(&(plural.to_owned(), namespace.to_owned(), name.to_owned()));
    }

    /// From now on, calls of this name do not come back.
    pub fn stall(&self, call: &'static str) {
        *self.stalling.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    /// One whose calls about objects take so long.
    pub fn slow(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// How many calls hang now.
    pub fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::SeqCst)
    }

    /// Lets all of them go on, and all that come.
    pub fn release(&self) {
        self.released.0.close();
    }

    async fn call(&self, call: &str) {
        /// Also a call that is given up on does not hang any more.
        struct Hanging<'a>(&'a AtomicU64);
        impl Drop for Hanging<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let stalling = *self.stalling.lock().unwrap_or_else(PoisonError::into_inner);
        if stalling == Some(call) {
            self.stalled.fetch_add(1, Ordering::SeqCst);
            let _hanging = Hanging(&self.stalled);
            self.released.pass().await;
        }
        if self.latency.is_zero() || matches!(call, "about" | "list") {
            // As at a real one: the answer comes later.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(self.latency).await;
        }
    }
}

fn status(code: u16, reason: &str, message: String) -> KubernetesFailure {
    KubernetesFailure {
        kind: KubernetesFailureKind::Status,
        code,
        reason: reason.to_owned(),
        message,
        details: json!({}),
        retry_after: None,
        sent: true,
    }
}

fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    (resource.plural.clone(), namespace.to_owned(), name.to_owned())
}

fn not_found(name: &str) -> KubernetesFailure {
    status(404, "NotFound", format!("{name:?} not found"))
}

#[async_trait::async_trait]
impl Kubernetes for Cluster {
    async fn about(&self, _cluster: &str) -> Result<Server, KubernetesFailure> {
        self.call("about").await;
        Ok(Server { version: "v1.36.3".to_owned(), home: true, user: "test".to_owned() })
    }

    async fn get(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        self.call("get").await;
        let objects = self.objects();
        objects.get(&key(resource, namespace, name)).cloned().ok_or_else(|| not_found(name))
    }

    async fn list(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        _options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        self.call("list").await;
        let objects = self.objects();
        let items: Vec<&Value> = objects
            .iter()
            .filter(|((kind, ns, _), _)| {
                *kind == resource.plural && (namespace.is_empty() || ns == namespace)
            })
            .map(|(_, object)| object)
            .collect();
        Ok(json!({ "kind": "List", "metadata": {}, "items": items }))
    }

    async fn allowed(&self, _cluster: &str, _access: &Access) -> Result<bool, KubernetesFailure> {
        self.call("allowed").await;
        Ok(true)
    }

    async fn create(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        mut body: Value,
    ) -> Result<Value, KubernetesFailure> {
        self.call("create").await;
        let metadata = body.pointer_mut("/metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else { return Err(status(422, "Invalid", "no metadata".to_owned())) };
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        metadata.insert("uid".to_owned(), json!(format!("uid-of-{name}")));
        let mut objects = self.objects();
        if objects.contains_key(&key(resource, namespace, &name)) {
            return Err(status(409, "AlreadyExists", format!("{name:?} already exists")));
        }
        objects.insert(key(resource, namespace, &name), body.clone());
        Ok(body)
    }

    async fn patch(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        _kind: PatchKind,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        self.call("patch").await;
        self.objects().insert(key(resource, namespace, name), body.clone());
        Ok(body)
    }

    async fn delete(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        _options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        self.call("delete").await;
        let mut objects = self.objects();
        objects.remove(&key(resource, namespace, name)).ok_or_else(|| not_found(name))
    }
}
