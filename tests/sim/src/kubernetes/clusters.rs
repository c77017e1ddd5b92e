//! Several clusters by the names under which a grant lends them.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
    Resource, Server,
};
use serde_json::Value;

use super::status::unsent;

/// What a grant names. A name that it does not have is denied, as the real capability does.
#[derive(Clone, Default)]
pub struct Clusters(BTreeMap<String, Arc<dyn Kubernetes>>);

impl Clusters {
    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, cluster: Arc<dyn Kubernetes>) -> Self {
        self.0.insert(name.to_owned(), cluster);
        self
    }

    fn find(&self, name: &str) -> Result<&Arc<dyn Kubernetes>, KubernetesFailure> {
        self.0.get(name).ok_or_else(|| {
            let granted: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let message = format!("no cluster {name:?} is granted; the grant names {}", granted.join(", "));
            unsent(KubernetesFailureKind::Denied, message)
        })
    }
}

#[async_trait]
impl Kubernetes for Clusters {
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure> {
        self.find(cluster)?.about(cluster).await
    }

    async fn get(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        self.find(cluster)?.get(cluster, resource, namespace, name).await
    }

    async fn list(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        self.find(cluster)?.list(cluster, resource, namespace, options).await
    }

    async fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, KubernetesFailure> {
        self.find(cluster)?.allowed(cluster, access).await
    }

    async fn create(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        self.find(cluster)?.create(cluster, resource, namespace, body).await
    }

    async fn patch(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        self.find(cluster)?.patch(cluster, resource, namespace, name, kind, body).await
    }

    async fn delete(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        self.find(cluster)?.delete(cluster, resource, namespace, name, options).await
    }
}
