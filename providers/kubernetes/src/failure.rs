//! A failed request, classified where it is understood.
//!
//! The API answers four different refusals with 403 Forbidden, and tells two of them apart by words
//! alone: there is no code for a used-up quota or a missing right. The words below were measured on
//! Kubernetes 1.36; whatever is not among them stays a plain refusal.

use provider_sdk::{
    Error,
    kubernetes::{Failure, FailureKind, Resource},
    reason,
};
use serde_json::Value;

const LONGEST_MESSAGE: usize = 1024;
const SEE_THAT_IT_RUNS: &str =
    "see that the API server runs, and that the operator reaches it at the address that the grant takes";

/// A request, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub verb: &'static str,
    pub resource: Resource,
    pub cluster: &'a str,
    pub scope: Scope<'a>,
}

/// How far a request reaches.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    Cluster,
    AllNamespaces,
    Namespace(&'a str),
    Object { namespace: &'a str, name: &'a str },
}

impl<'a> Scope<'a> {
    /// Of a namespace; an empty name stands for all.
    pub fn of(namespace: &'a str) -> Self {
        match namespace {
            "" => Self::AllNamespaces,
            namespace => Self::Namespace(namespace),
        }
    }

    /// ` in namespace team-a`.
    pub fn within(self) -> String {
        match self {
            Self::Cluster => String::new(),
            Self::AllNamespaces => " in all namespaces".to_owned(),
            Self::Namespace(namespace) | Self::Object { namespace, .. } => {
                format!(" in namespace {namespace}")
            }
        }
    }
}

impl<'a> Request<'a> {
    /// The first contact.
    pub fn reach(cluster: &'a str) -> Self {
        let server = Resource { api_version: "v1", plural: "the API server" };
        Self { verb: "reach", resource: server, cluster, scope: Scope::Cluster }
    }

    /// `create pods team-a/proxy-web in cluster home`.
    pub fn show(&self) -> String {
        let Self { verb, resource, cluster, scope } = self;
        match scope {
            Scope::Object { namespace, name } => {
                format!("{verb} {} {namespace}/{name} in cluster {cluster}", resource.plural)
            }
            wide => format!("{verb} {}{} of cluster {cluster}", resource.plural, wide.within()),
        }
    }

    /// What the failure means.
    pub fn error(&self, failure: &Failure) -> Error {
        let asked = self.show();
        let message = cut(&failure.message);
        let told = |way_out: &str| format!("{asked}: {message}; {way_out}");
        match &failure.kind {
            // The host says what is missing: it knows the grant, and other reasons to let nothing through.
            FailureKind::Denied => Error::permanent(reason::FORBIDDEN, format!("{asked}: {message}")),
            FailureKind::Status => self.status(failure),
            FailureKind::Name | FailureKind::Connect | FailureKind::Cut => {
                Error::transient(reason::UNREACHABLE, told(SEE_THAT_IT_RUNS))
            }
            FailureKind::Timeout => Error::transient(reason::TIMEOUT, told(SEE_THAT_IT_RUNS)),
            FailureKind::Tls => Error::permanent(
                "certificate-invalid",
                told("give the certificate's authority in the cluster's kubeconfig"),
            ),
            FailureKind::Credentials => {
                Error::transient("credentials-unavailable", told("give the credentials that the grant names"))
            }
            FailureKind::TooLarge => Error::permanent(
                "too-large",
                told("raise the entry's limit on bodies, or look at why the object is so large"),
            ),
            FailureKind::Invalid => Error::permanent(
                reason::BACKEND,
                told("this is a fault of the provider: report it, and roll back to its last revision"),
            ),
            FailureKind::Unknown(kind) => {
                Error::transient(reason::BACKEND, format!("{asked}: {message} ({kind})"))
            }
        }
        .retry_ms(failure.retry_ms)
    }

    /// An answer came, and it is not the object that was asked for.
    pub fn garbled(&self) -> Error {
        let asked = self.show();
        Error::transient(
            reason::BACKEND,
            format!(
                "{asked}: the answer is not what was asked for; does something between here and the API server answer \
                 in its place?"
            ),
        )
    }

    fn status(&self, failure: &Failure) -> Error {
        let asked = self.show();
        let message = cut(&failure.message);
        let told = |way_out: &str| format!("{asked}: {message}; {way_out}");
        match Answer::read(failure) {
            Answer::Quota => Error::quota(told("raise the quota, or remove what uses it up")),
            Answer::QuotaNeedsResources => {
                Error::permanent(reason::CONFIG, told("set it under resources in the entry's config"))
            }
            Answer::PodSecurity => Error::permanent(
                reason::FORBIDDEN,
                told("lower the namespace's Pod Security level, or use another namespace"),
            ),
            Answer::Terminating => Error::transient(
                reason::DELETING,
                told("the namespace is being deleted: wait until it is gone and made again"),
            ),
            Answer::RightMissing => Error::permanent(
                reason::FORBIDDEN,
                told(&format!(
                    "the right to {} {}{} is missing: give it by a Role and a RoleBinding",
                    self.verb,
                    self.resource.plural,
                    self.scope.within()
                )),
            ),
            Answer::Forbidden => Error::permanent(reason::FORBIDDEN, told("an admission rule forbids it")),
            Answer::NamespaceMissing => Error::permanent(
                "namespace-not-found",
                format!("{asked}: there is no such namespace; create it, or change the entry's namespace"),
            ),
            Answer::Unauthorized => Error::permanent(
                reason::UNAUTHORIZED,
                told("the cluster does not know the credentials: renew them where the grant takes them from"),
            ),
            Answer::Invalid => Error::permanent(
                reason::CONFIG,
                told("the API server does not take what the entry's config and the Proxy make together"),
            ),
            Answer::Conflict => {
                Error::transient(reason::BUSY, format!("{asked}: somebody else changed it: {message}"))
            }
            Answer::Expired => {
                Error::transient("expired", told("the list began too long ago: it starts anew"))
            }
            Answer::TooMany => Error::transient(reason::BUSY, format!("{asked}: {message}")),
            Answer::Other(code) => {
                Error::transient(reason::BACKEND, format!("{asked}: {message} (status {code})"))
            }
        }
    }
}

/// What the API's Status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Quota,
    QuotaNeedsResources,
    PodSecurity,
    Terminating,
    RightMissing,
    Forbidden,
    NamespaceMissing,
    Unauthorized,
    Invalid,
    Conflict,
    Expired,
    TooMany,
    Other(u16),
}

impl Answer {
    /// By code and reason, then by causes, and only then by words.
    pub fn read(failure: &Failure) -> Self {
        match failure.code {
            400 | 422 => Self::Invalid,
            401 => Self::Unauthorized,
            403 => Self::forbidden(failure),
            404 if detail(failure, "kind") == "namespaces" => Self::NamespaceMissing,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 => Self::TooMany,
            code => Self::Other(code),
        }
    }

    fn forbidden(failure: &Failure) -> Self {
        let causes = failure.details.get("causes").and_then(Value::as_array);
        let terminating = |cause: &Value| cause.get("reason").is_some_and(|it| it == "NamespaceTerminating");
        if causes.is_some_and(|causes| causes.iter().any(terminating)) {
            return Self::Terminating;
        }
        let says = |words: &str| failure.message.contains(words);
        if says("exceeded quota: ") {
            Self::Quota
        } else if says("failed quota: ") {
            Self::QuotaNeedsResources
        } else if says("violates PodSecurity ") {
            Self::PodSecurity
        } else if says(" cannot ") && says(" resource ") {
            Self::RightMissing
        } else {
            Self::Forbidden
        }
    }
}

/// Whether the API says that the object is not there. A 404 without that reason comes from elsewhere: a
/// proxy in between, an unknown path.
pub fn is_not_found(failure: &Failure) -> bool {
    failure.kind == FailureKind::Status
        && failure.code == 404
        && failure.reason == "NotFound"
        && detail(failure, "kind") != "namespaces"
}

/// Whether an object of that name is there already.
pub fn is_already_exists(failure: &Failure) -> bool {
    failure.kind == FailureKind::Status && failure.code == 409 && failure.reason == "AlreadyExists"
}

fn detail<'a>(failure: &'a Failure, key: &str) -> &'a str {
    failure.details.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn cut(message: &str) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}...", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}
