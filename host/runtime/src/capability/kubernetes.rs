//! The Kubernetes API, as it is lent.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

/// A kind of Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `pods`.
    pub plural: String,
}

/// Why a Kubernetes request has no answer, or a refusing one.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesFailure {
    /// What kind.
    pub kind: KubernetesFailureKind,
    /// HTTP code of the API's Status; else 0.
    pub code: u16,
    /// Reason of the API's Status; else empty.
    pub reason: String,
    /// For people; no credential.
    pub message: String,
    /// The Status' details.
    pub details: Value,
    /// What the server asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether the request may have reached the server.
    pub sent: bool,
}

/// See `wit/kubernetes.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KubernetesFailureKind {
    /// The grant does not reach there.
    Denied,
    /// The API server answered so.
    Status,
    /// The server's name does not resolve.
    Name,
    /// No connection.
    Connect,
    /// No trust.
    Tls,
    /// The deadline passed.
    Timeout,
    /// The connection broke.
    Cut,
    /// The answer, or the request, exceeds the limit.
    TooLarge,
    /// The host has no usable credentials.
    Credentials,
    /// No request could be made of what was given.
    Invalid,
}

impl KubernetesFailureKind {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Status => "status",
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::TooLarge => "too-large",
            Self::Credentials => "credentials",
            Self::Invalid => "invalid",
        }
    }
}

/// Which objects to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Empty for all.
    pub label_selector: String,
    /// Empty for all.
    pub field_selector: String,
    /// 0 for the server's choice.
    pub limit: u32,
    /// From the page before.
    pub continue_token: Option<String>,
}

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON merge patch.
    Merge,
    /// JSON patch.
    Json,
    /// Server-side apply; the field manager is the entry.
    Apply,
}

/// Preconditions and grace of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The object's UID must be this.
    pub uid: Option<String>,
    /// The object's version must be this.
    pub resource_version: Option<String>,
    /// Seconds.
    pub grace_seconds: Option<u32>,
}

/// A right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `create`.
    pub verb: String,
    /// On what.
    pub resource: Resource,
    /// Where; empty for everywhere.
    pub namespace: String,
}

/// What is known of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `v1.36.3`.
    pub version: String,
    /// Whether it holds the Proxies.
    pub home: bool,
    /// As whom calls are made, or empty.
    pub user: String,
}

/// The Kubernetes API of named clusters, within one entry's grant.
#[async_trait]
pub trait Kubernetes: Send + Sync {
    /// Version and identity.
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure>;
    /// One object.
    async fn get(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure>;
    /// A page of objects.
    async fn list(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure>;
    /// A SelfSubjectAccessReview.
    async fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, KubernetesFailure>;
    /// The object as made.
    async fn create(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure>;
    /// The object as changed.
    async fn patch(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Value,
    ) -> Result<Value, KubernetesFailure>;
    /// The object as it is then, or a Status.
    async fn delete(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure>;
}
