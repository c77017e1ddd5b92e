//! The Kubernetes API of granted clusters.

mod failure;
mod grant;
mod granted;
mod names;
mod permit;
mod request;
mod source;
mod transport;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use egress_contract::{EntryName, Fault};
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind as Kind, ListOptions,
    PatchKind, Resource, Server, Writes,
};
use http::HeaderValue;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use crate::timeouts::Timeouts;
pub use grant::{ClusterGrant, KubeconfigGrant, KubernetesGrant, Rule, ServiceAccount};
pub use granted::Granted;
pub(crate) use names::is_object;
use permit::{Permit, Scope, Verb};
use request::Outgoing;
use source::{Live, Source};
pub use transport::connect;

const MIB: usize = 1024 * 1024;

/// The cluster that holds the Proxies.
#[derive(Clone)]
pub struct HomeCluster {
    /// How the operator reaches it.
    pub config: kube::Config,
    /// The UID of its namespace kube-system, which tells clusters apart.
    pub uid: String,
}

/// What one entry's grant lends of the Kubernetes API.
pub struct KubernetesCapability {
    entry: EntryName,
    /// The field manager of what the entry's provider writes.
    manager: String,
    clusters: BTreeMap<String, Cluster>,
    home: Option<HomeCluster>,
    request_bytes: usize,
    response_bytes: usize,
}

struct Cluster {
    grant: ClusterGrant,
    source: Source,
    budget: Duration,
}

impl KubernetesCapability {
    /// Or everything that is wrong with the grant; paths begin at the grant. `home` is what a cluster with
    /// `operator: true` stands for.
    pub fn new(
        entry: &EntryName,
        grant: KubernetesGrant,
        home: Option<HomeCluster>,
    ) -> Result<Self, Vec<Fault>> {
        let mut faults = grant.faults();
        let agent = HeaderValue::from_str(&format!("egress-proxies-operator ({entry})"))
            .unwrap_or_else(|_| HeaderValue::from_static("egress-proxies-operator"));
        let mut clusters = BTreeMap::new();
        for (name, grant) in grant.clusters {
            if grant.operator && home.is_none() {
                faults.push(Fault {
                    path: format!("clusters.{name}.operator"),
                    message: "the operator runs without a cluster; use kubeconfig or inCluster".to_owned(),
                });
            }
            let budget = Duration::from_millis(grant.timeouts.request_ms);
            if let Some(source) = Source::new(&grant, home.as_ref(), agent.clone()) {
                clusters.insert(name, Cluster { grant, source, budget });
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            entry: entry.clone(),
            manager: format!("egress-proxies-operator.{entry}"),
            clusters,
            home,
            request_bytes: 8 * MIB,
            response_bytes: 8 * MIB,
        })
    }

    /// Other limits of what one request may send and be answered than 8 MiB each.
    #[must_use]
    pub fn with_limits(self, request_bytes: usize, response_bytes: usize) -> Self {
        Self { request_bytes, response_bytes, ..self }
    }

    /// Nothing leaves for a cluster that would change it, unless it may. Before the first call.
    #[must_use]
    pub fn guarded(mut self, writes: &Arc<dyn Writes>) -> Self {
        self.clusters.values_mut().for_each(|cluster| cluster.source.guard(Arc::clone(writes)));
        self
    }

    fn cluster(&self, name: &str) -> Result<(Scope<'_>, &Cluster), KubernetesFailure> {
        let (cluster, found) = self
            .clusters
            .get_key_value(name)
            .ok_or_else(|| no_cluster(&self.entry, name, self.clusters.keys()))?;
        Ok((Scope { entry: self.entry.as_str(), cluster, rules: &found.grant.rules }, found))
    }

    /// One request, within the cluster's time for it.
    async fn call(&self, cluster: &Cluster, outgoing: Outgoing) -> Result<Value, KubernetesFailure> {
        let deadline = Instant::now() + cluster.budget;
        let live = self.live(cluster, deadline).await?;
        self.exchange(cluster, &live, deadline, outgoing).await
    }

    async fn live(&self, cluster: &Cluster, deadline: Instant) -> Result<Arc<Live>, KubernetesFailure> {
        match tokio::time::timeout_at(deadline, cluster.source.live()).await {
            Ok(live) => live,
            Err(_) => {
                let budget = cluster.budget.as_millis();
                Err(failure::credentials(format!("the credentials were not there within {budget} ms")))
            }
        }
    }

    async fn exchange(
        &self,
        cluster: &Cluster,
        live: &Arc<Live>,
        deadline: Instant,
        outgoing: Outgoing,
    ) -> Result<Value, KubernetesFailure> {
        let size = outgoing.request.body().len();
        if size > self.request_bytes {
            let (most, entry) = (self.request_bytes, &self.entry);
            let message =
                format!("{size} bytes to send reached limits.requestBytes ({most}) of entry {entry}");
            return Err(failure::plain(Kind::TooLarge, message, false));
        }
        let Outgoing { request, content } = outgoing;
        let answer = tokio::time::timeout_at(deadline, self.send(live, request)).await;
        let (head, body) = answer.map_err(|_| failure::deadline(&live.server, cluster.budget))??;
        if !head.status.is_success() {
            if head.status == http::StatusCode::UNAUTHORIZED {
                cluster.source.forget(live).await;
            }
            return Err(failure::of_status(head.status, &head.headers, &body, content.as_ref()));
        }
        serde_json::from_slice(&body).map_err(|e| {
            let message =
                format!("{}: the answer is no JSON (line {}, column {})", live.server, e.line(), e.column());
            failure::plain(Kind::Cut, message, true)
        })
    }

    async fn send(
        &self,
        live: &Live,
        request: http::Request<Vec<u8>>,
    ) -> Result<(http::response::Parts, Vec<u8>), KubernetesFailure> {
        let response = live.client.send(request.map(kube::client::Body::from)).await;
        let (head, body) = response.map_err(|e| failure::of_exchange(&live.server, &e))?.into_parts();
        match Limited::new(body, self.response_bytes).collect().await {
            Ok(whole) => Ok((head, whole.to_bytes().to_vec())),
            Err(error) if error.is::<LengthLimitError>() => {
                let (server, most, entry) = (&live.server, self.response_bytes, &self.entry);
                let message = format!(
                    "{server}: the answer reached limits.responseBytes ({most}) of entry {entry}; ask for fewer \
                     objects at once"
                );
                Err(failure::plain(Kind::TooLarge, message, true))
            }
            Err(error) => Err(failure::of_exchange(&live.server, &*error)),
        }
    }

    /// Whether the cluster holds the Proxies. What may not be read counts as no, unless address and trust
    /// are the operator's own.
    async fn is_home(
        &self,
        cluster: &Cluster,
        live: &Arc<Live>,
        deadline: Instant,
    ) -> Result<bool, KubernetesFailure> {
        let Some(home) = &self.home else { return Ok(false) };
        if cluster.source.is_operators() || live.is_server_of(&home.config) {
            return Ok(true);
        }
        let namespace = request::plain("/api/v1/namespaces/kube-system".to_owned())?;
        match self.exchange(cluster, live, deadline, namespace).await {
            Ok(namespace) => Ok(namespace.pointer("/metadata/uid") == Some(&json!(home.uid))),
            Err(failure) if failure.code == 403 => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// As whom calls are made; empty where the server does not tell.
    async fn user(
        &self,
        cluster: &Cluster,
        live: &Arc<Live>,
        deadline: Instant,
    ) -> Result<String, KubernetesFailure> {
        let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
        let review = request::review("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)?;
        match self.exchange(cluster, live, deadline, review).await {
            Ok(review) => {
                let user = review.pointer("/status/userInfo/username").and_then(Value::as_str);
                Ok(user.unwrap_or_default().to_owned())
            }
            Err(failure) if matches!(failure.code, 403 | 404) => Ok(String::new()),
            Err(failure) => Err(failure),
        }
    }
}

fn no_cluster<'a>(
    entry: &EntryName,
    name: &str,
    granted: impl Iterator<Item = &'a String>,
) -> KubernetesFailure {
    let granted: Vec<&str> = granted.map(String::as_str).collect();
    failure::denied(format!("entry {entry} has no cluster {name:?}; its grant names {}", granted.join(", ")))
}

#[async_trait]
impl Kubernetes for KubernetesCapability {
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure> {
        let (_, cluster) = self.cluster(cluster)?;
        let deadline = Instant::now() + cluster.budget;
        let live = self.live(cluster, deadline).await?;
        let version = self.exchange(cluster, &live, deadline, request::plain("/version".to_owned())?).await?;
        let home = live.home.get_or_try_init(|| self.is_home(cluster, &live, deadline)).await?;
        let user = live.user.get_or_try_init(|| self.user(cluster, &live, deadline)).await?;
        let version = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Server { version, home: *home, user: user.clone() })
    }

    async fn get(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::new(scope, &[Verb::Get], resource, namespace, Some(name))?;
        self.call(cluster, request::get(&permit)?).await
    }

    async fn list(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::new(scope, &[Verb::List], resource, namespace, None)?;
        self.call(cluster, request::list(&permit, options)?).await
    }

    /// What the grant does not list is not asked: it is denied, whatever the server would say.
    async fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, KubernetesFailure> {
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::asked(scope, &access.verb, &access.resource, &access.namespace)?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": permit.attributes(&access.verb) },
        });
        let review = request::review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)?;
        let answer = self.call(cluster, review).await?;
        Ok(answer.pointer("/status/allowed") == Some(&json!(true)))
    }

    async fn create(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::create(scope, resource, namespace, &body)?;
        self.call(cluster, request::create(&permit, &self.manager, body)?).await
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
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::patch(scope, resource, namespace, name, kind)?;
        self.call(cluster, request::patch(&permit, kind, &self.manager, body)?).await
    }

    async fn delete(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        let (scope, cluster) = self.cluster(cluster)?;
        let permit = Permit::new(scope, &[Verb::Delete], resource, namespace, Some(name))?;
        self.call(cluster, request::delete(&permit, options)?).await
    }
}
