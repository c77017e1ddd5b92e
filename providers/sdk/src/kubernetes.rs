//! The Kubernetes API, as it is lent. `wit/kubernetes.wit` says what each call promises.

use serde_json::Value;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    /// `pods`.
    pub plural: &'static str,
}

/// What kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
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
    /// Request or answer exceeds a limit.
    TooLarge,
    /// The host has no usable credentials.
    Credentials,
    /// No request could be made of what was given, or the answer can't be read.
    Invalid,
    /// A kind that this provider doesn't know.
    Unknown(String),
}

impl FailureKind {
    /// From the contract's word.
    pub fn read(word: &str) -> Self {
        match word {
            "denied" => Self::Denied,
            "status" => Self::Status,
            "name" => Self::Name,
            "connect" => Self::Connect,
            "tls" => Self::Tls,
            "timeout" => Self::Timeout,
            "cut" => Self::Cut,
            "too-large" => Self::TooLarge,
            "credentials" => Self::Credentials,
            "invalid" => Self::Invalid,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// Why there is no answer, or a refusing one.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// HTTP code of the API's Status; else 0.
    pub code: u16,
    /// Reason of the API's Status; else empty.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The Status' details.
    pub details: Value,
    /// What the server asked to wait.
    pub retry_ms: Option<u32>,
    /// Whether the request may have reached the server.
    pub sent: bool,
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
    /// Server-side apply.
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
    pub verb: &'static str,
    /// On what.
    pub resource: Resource,
    /// Where; empty for everywhere.
    pub namespace: String,
}

/// What is known of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `v1.36.3`.
    pub version: String,
    /// Whether it holds the Proxies.
    pub home: bool,
    /// As whom calls are made, or empty.
    pub user: String,
}

/// The Kubernetes API of named clusters, within the entry's grant.
pub trait Kubernetes {
    /// Version and identity.
    fn about(&self, cluster: &str) -> Result<Server, Failure>;
    /// One object.
    fn get(&self, cluster: &str, resource: Resource, namespace: &str, name: &str) -> Result<Value, Failure>;
    /// A page of objects.
    fn list(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure>;
    /// Whether the server would let us.
    fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, Failure>;
    /// The object as made.
    fn create(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        body: &Value,
    ) -> Result<Value, Failure>;
    /// The object as changed.
    fn patch(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure>;
    /// The object as it is then, or a Status.
    fn delete(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure>;
}

impl<T: Kubernetes + ?Sized> Kubernetes for &T {
    fn about(&self, cluster: &str) -> Result<Server, Failure> {
        (**self).about(cluster)
    }
    fn get(&self, cluster: &str, resource: Resource, namespace: &str, name: &str) -> Result<Value, Failure> {
        (**self).get(cluster, resource, namespace, name)
    }
    fn list(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure> {
        (**self).list(cluster, resource, namespace, options)
    }
    fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, Failure> {
        (**self).allowed(cluster, access)
    }
    fn create(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        (**self).create(cluster, resource, namespace, body)
    }
    fn patch(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure> {
        (**self).patch(cluster, resource, namespace, name, kind, body)
    }
    fn delete(
        &self,
        cluster: &str,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        (**self).delete(cluster, resource, namespace, name, options)
    }
}
