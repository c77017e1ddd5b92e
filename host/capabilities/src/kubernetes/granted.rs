//! A grant around any implementation: what a simulated cluster lends is bounded as what a real one does.

use std::collections::BTreeMap;

use async_trait::async_trait;
use egress_contract::EntryName;
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, ListOptions, PatchKind, Resource, Server,
};
use serde_json::Value;

use super::{
    KubernetesGrant,
    grant::ClusterGrant,
    no_cluster,
    permit::{Permit, Scope, Verb},
};

/// Only what the grant reaches comes to what stands behind it.
pub struct Granted<K> {
    entry: EntryName,
    clusters: BTreeMap<String, ClusterGrant>,
    behind: K,
}

impl<K: Kubernetes> Granted<K> {
    /// The rules of this grant; where it would reach its clusters does not matter.
    pub fn new(entry: EntryName, grant: KubernetesGrant, behind: K) -> Self {
        Self { entry, clusters: grant.clusters, behind }
    }

    fn scope(&self, cluster: &str) -> Result<Scope<'_>, KubernetesFailure> {
        let found = self.clusters.get_key_value(cluster);
        let (cluster, grant) = found.ok_or_else(|| no_cluster(&self.entry, cluster, self.clusters.keys()))?;
        Ok(Scope { entry: self.entry.as_str(), cluster, rules: &grant.rules })
    }
}

#[async_trait]
impl<K: Kubernetes> Kubernetes for Granted<K> {
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure> {
        self.scope(cluster)?;
        self.behind.about(cluster).await
    }

    async fn get(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        Permit::new(self.scope(cluster)?, &[Verb::Get], resource, namespace, Some(name))?;
        self.behind.get(cluster, resource, namespace, name).await
    }

    async fn list(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        Permit::new(self.scope(cluster)?, &[Verb::List], resource, namespace, None)?;
        self.behind.list(cluster, resource, namespace, options).await
    }

    async fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, KubernetesFailure> {
        Permit::asked(self.scope(cluster)?, &access.verb, &access.resource, &access.namespace)?;
        self.behind.allowed(cluster, access).await
    }

    async fn create(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        Permit::create(self.scope(cluster)?, resource, namespace, &body)?;
        self.behind.create(cluster, resource, namespace, body).await
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
        Permit::patch(self.scope(cluster)?, resource, namespace, name, kind)?;
        self.behind.patch(cluster, resource, namespace, name, kind, body).await
    }

    async fn delete(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        Permit::new(self.scope(cluster)?, &[Verb::Delete], resource, namespace, Some(name))?;
        self.behind.delete(cluster, resource, namespace, name, options).await
    }
}
