//! What a simulated cluster promises.

mod laws;
mod lists;
mod others;
mod pods;

use std::{sync::Arc, time::Duration};

use egress_runtime::capability::{
    Access, Clock, DeleteOptions, Kubernetes, KubernetesFailure, ListOptions, PatchKind, Resource,
};
use serde_json::{Value, json};

use super::Cluster;
use crate::clock::VirtualClock;

/// A cluster, and its clock.
struct World {
    cluster: Cluster,
    clock: VirtualClock,
}

impl World {
    fn new() -> Self {
        let clock = VirtualClock::default();
        Self { cluster: Cluster::new(Arc::new(clock.clone())), clock }
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    async fn create(&self, plural: &str, body: Value) -> Result<Value, KubernetesFailure> {
        self.cluster.create("", &core(plural), "default", body).await
    }

    async fn get(&self, plural: &str, name: &str) -> Result<Value, KubernetesFailure> {
        self.cluster.get("", &core(plural), "default", name).await
    }

    async fn merge(&self, plural: &str, name: &str, body: Value) -> Result<Value, KubernetesFailure> {
        self.cluster.patch("", &core(plural), "default", name, PatchKind::Merge, body).await
    }

    async fn delete(&self, plural: &str, name: &str) -> Result<Value, KubernetesFailure> {
        self.cluster.delete("", &core(plural), "default", name, &DeleteOptions::default()).await
    }

    async fn page(
        &self,
        plural: &str,
        limit: u32,
        token: Option<String>,
    ) -> Result<(Vec<String>, Option<String>), KubernetesFailure> {
        let options = ListOptions { limit, continue_token: token, ..ListOptions::default() };
        let list = self.cluster.list("", &core(plural), "default", &options).await?;
        let names = list["items"].as_array().unwrap().iter();
        let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        Ok((names, list["metadata"]["continue"].as_str().map(str::to_owned)))
    }
}

fn core(plural: &str) -> Resource {
    Resource { api_version: "v1".to_owned(), plural: plural.to_owned() }
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "squid:6",
                                   "startupProbe": { "tcpSocket": { "port": 3128 } },
                                   "readinessProbe": { "tcpSocket": { "port": 3128 } } }] },
    })
}

/// Phase, what the container does and why, and whether the Pod is ready.
fn seen(pod: &Value) -> String {
    let container = &pod["status"]["containerStatuses"][0];
    let (what, state) = container["state"].as_object().and_then(|state| state.iter().next()).unzip();
    let reason = state.and_then(|state| state["reason"].as_str()).unwrap_or_default();
    let ready = container["ready"] == true;
    let what = what.map_or("", String::as_str);
    format!("{} {what} {reason} ready={ready}", pod["status"]["phase"].as_str().unwrap())
}
