//! Proxies as an API server keeps them.
//!
//! Reads are live and writes guarded by the version that was read: a Proxy of the same name that came later
//! has another one. A status is replaced as a whole, so a field that is left out is gone. Every call has a
//! deadline, and one that failed without a plain refusal may have happened.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
};
use serde_json::json;

use crate::{
    api::{ABANDON_ANNOTATION, ADOPT_ANNOTATION, FINALIZER, KeyRef, Proxy, ProxyStatus, RETRY_ANNOTATION},
    cluster::{CallError, FIELD_MANAGER, call},
    core::{
        names,
        store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
    },
    events::Events,
    kube_owners,
};

/// The store.
#[derive(Clone)]
pub struct KubeStore {
    client: Client,
    events: Events,
}

impl KubeStore {
    /// Over this API server.
    pub fn new(client: Client, events: Events) -> Self {
        Self { client, events }
    }

    fn proxies(&self, key: &ProxyKey) -> Api<Proxy> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    async fn secret(&self, namespace: &str, at: &KeyRef) -> Result<Vec<u8>, UserDataError> {
        let what = format!("Secret {namespace}/{}, key {}", at.name, at.key);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = call(api.get(&at.name)).await.map_err(|error| unread(&what, &error))?;
        let value = found.data.and_then(|mut data| data.remove(&at.key));
        value.map(|value| value.0).ok_or(UserDataError::Missing { what })
    }

    async fn config_map(&self, namespace: &str, at: &KeyRef) -> Result<Vec<u8>, UserDataError> {
        let what = format!("ConfigMap {namespace}/{}, key {}", at.name, at.key);
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = call(api.get(&at.name)).await.map_err(|error| unread(&what, &error))?;
        let text = found.data.and_then(|mut data| data.remove(&at.key)).map(String::into_bytes);
        let binary = || found.binary_data.and_then(|mut data| data.remove(&at.key)).map(|value| value.0);
        text.or_else(binary).ok_or(UserDataError::Missing { what })
    }
}

#[async_trait]
impl Store for KubeStore {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        let found = call(self.proxies(key).get_opt(&key.name)).await;
        Ok(found.map_err(|error| failed(key, &error))?.map(|proxy| record(key, proxy)))
    }

    async fn write_status(
        &self,
        record_read: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        let key = &record_read.key;
        let proxy = Proxy {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(record_read.uid.clone()),
                resource_version: Some(record_read.version.clone()),
                ..ObjectMeta::default()
            },
            spec: record_read.spec.clone(),
            status: Some(status),
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = call(self.proxies(key).replace_status(&key.name, &params, &proxy)).await;
        Ok(record(key, written.map_err(|error| failed(key, &error))?))
    }

    async fn set_finalizer(
        &self,
        record_read: &ProxyRecord,
        on: bool,
    ) -> Result<Option<ProxyRecord>, StoreError> {
        let key = &record_read.key;
        let meta: Api<PartialObjectMeta<Proxy>> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = call(meta.get(&key.name)).await.map_err(|error| failed(key, &error))?;
        if found.metadata.resource_version.as_deref() != Some(record_read.version.as_str()) {
            return Err(StoreError::Conflict(key.clone()));
        }
        let mut finalizers = found.metadata.finalizers.unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if on {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": record_read.version, "finalizers": finalizers }
        }));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = call(self.proxies(key).patch(&key.name, &params, &patch)).await;
        let written = written.map_err(|error| failed(key, &error))?;
        // The server answers with the object also when this write was its end.
        let ended = written.metadata.deletion_timestamp.is_some() && written.finalizers().is_empty();
        Ok((!ended).then(|| record(key, written)))
    }

    async fn user_data(&self, record_read: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        let namespace = &record_read.key.namespace;
        let Some(source) = &record_read.spec.cloud_init else { return Ok(Vec::new()) };
        names::check_user_data(source)?;
        match (&source.inline, &source.secret_ref, &source.config_map_ref) {
            (Some(inline), _, _) => Ok(inline.clone().into_bytes()),
            (None, Some(at), _) => self.secret(namespace, at).await,
            (None, None, Some(at)) => self.config_map(namespace, at).await,
            (None, None, None) => Ok(Vec::new()),
        }
    }

    async fn is_kind_going(&self, record_read: &ProxyRecord) -> Result<bool, StoreError> {
        match kube_owners::kind(&self.client).await {
            Ok(kind) => Ok(kind.going),
            Err(error) => Err(StoreError::Failed {
                key: record_read.key.clone(),
                message: format!(
                    "can't tell whether the CRD of Proxies is being deleted, and nothing is removed before that \
                     is known: {error}; the operator's ClusterRole needs get on it"
                ),
            }),
        }
    }

    async fn notify(&self, record_read: &ProxyRecord, notice: Notice) {
        let about = ObjectReference {
            api_version: Some(Proxy::api_version(&()).into_owned()),
            kind: Some(Proxy::kind(&()).into_owned()),
            namespace: Some(record_read.key.namespace.clone()),
            name: Some(record_read.key.name.clone()),
            uid: Some(record_read.uid.clone()),
            ..ObjectReference::default()
        };
        self.events.publish(&about, "Reconcile", &notice).await;
    }
}

fn record(key: &ProxyKey, proxy: Proxy) -> ProxyRecord {
    ProxyRecord {
        key: key.clone(),
        uid: proxy.uid().unwrap_or_default(),
        generation: proxy.metadata.generation.unwrap_or_default(),
        version: proxy.resource_version().unwrap_or_default(),
        deleting: proxy.metadata.deletion_timestamp.is_some(),
        finalizer: proxy.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
        retry: proxy.annotations().get(RETRY_ANNOTATION).cloned(),
        abandon: proxy.annotations().get(ABANDON_ANNOTATION).is_some_and(|value| value == "true"),
        adopt: proxy.annotations().get(ADOPT_ANNOTATION).filter(|id| !id.is_empty()).cloned(),
        spec: proxy.spec,
        status: proxy.status.unwrap_or_default(),
    }
}

fn failed(key: &ProxyKey, error: &CallError) -> StoreError {
    if error.is_not_found() {
        StoreError::Gone(key.clone())
    } else if error.is_conflict() {
        StoreError::Conflict(key.clone())
    } else {
        StoreError::Failed { key: key.clone(), message: error.to_string() }
    }
}

fn unread(what: &str, error: &CallError) -> UserDataError {
    if error.is_not_found() {
        UserDataError::Missing { what: what.to_owned() }
    } else {
        let way_out = if error.is_forbidden() {
            "; bind the ClusterRole egress-user-data to the operator in that namespace, or a Role for that name alone"
        } else {
            ""
        };
        UserDataError::Unread { what: what.to_owned(), message: format!("{error}{way_out}") }
    }
}
