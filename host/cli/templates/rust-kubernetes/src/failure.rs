//! A failed request, classified where it is understood: here, from the API's typed answer.
//!
//! By code and reason, then by causes, and by words only where there is nothing else: the API gives
//! a used-up quota no code of its own. What is not understood is transient.

use provider_sdk::{
    Error, HealthReason,
    kubernetes::{Failure, FailureKind, Resource},
    reason,
};
use serde_json::Value;

use crate::cluster::Location;

/// A request, for messages: `create pods team-a/proxy-web in cluster home`.
#[derive(Clone, Debug)]
pub struct Request {
    asked: String,
}

impl Request {
    pub fn one(verb: &str, resource: Resource, at: &Location) -> Self {
        let Location {
            cluster,
            namespace,
            name,
        } = at;
        let asked = format!(
            "{verb} {} {namespace}/{name} in cluster {cluster}",
            resource.plural
        );
        Self { asked }
    }

    pub fn many(verb: &str, resource: Resource, cluster: &str, namespace: &str) -> Self {
        let asked = format!(
            "{verb} {} in namespace {namespace} of cluster {cluster}",
            resource.plural
        );
        Self { asked }
    }

    pub fn reach(cluster: &str) -> Self {
        Self {
            asked: format!("reach cluster {cluster}"),
        }
    }

    /// What the failure means.
    pub fn error(&self, failed: &Failure) -> Error {
        let told = |way_out: &str| format!("{}: {}; {way_out}", self.asked, failed.message);
        let plain = || format!("{}: {}", self.asked, failed.message);
        match &failed.kind {
            // The host says what the grant lacks.
            FailureKind::Denied => Error::permanent(reason::FORBIDDEN, plain()),
            FailureKind::Status => self.status(failed),
            FailureKind::Name | FailureKind::Connect | FailureKind::Cut => {
                Error::transient(reason::UNREACHABLE, plain())
            }
            FailureKind::Timeout => Error::transient(reason::TIMEOUT, plain()),
            FailureKind::Tls => Error::permanent(
                "certificate-invalid",
                told("give the certificate's authority in the cluster's kubeconfig"),
            ),
            FailureKind::Credentials => Error::transient(
                "credentials-unavailable",
                told("give the credentials that the grant names"),
            ),
            FailureKind::TooLarge => {
                Error::permanent("too-large", told("raise the entry's limit on bodies"))
            }
            FailureKind::Invalid => {
                Error::permanent(reason::BACKEND, told("a fault of the provider: report it"))
            }
            FailureKind::Unknown(kind) => {
                Error::transient(reason::BACKEND, format!("{} ({kind})", plain()))
            }
        }
        .retry_ms(failed.retry_ms)
    }

    /// An answer came, and it is not what was asked for.
    pub fn garbled(&self) -> Error {
        let asked = &self.asked;
        let told =
            "the answer is not what was asked for; does something in between answer instead?";
        Error::transient(reason::BACKEND, format!("{asked}: {told}"))
    }

    fn status(&self, failed: &Failure) -> Error {
        let told = |way_out: &str| format!("{}: {}; {way_out}", self.asked, failed.message);
        match failed.code {
            400 | 422 => Error::permanent(
                reason::CONFIG,
                told("the API server does not take what the config and the Proxy make together"),
            ),
            401 => Error::permanent(
                reason::UNAUTHORIZED,
                told("renew the credentials where the grant takes them from"),
            ),
            403 if has_cause(failed, "NamespaceTerminating") => Error::transient(
                reason::DELETING,
                told("wait until the namespace is gone, and make it again"),
            ),
            403 if failed.message.contains("exceeded quota: ") => {
                Error::quota(told("raise the quota, or remove what uses it up"))
            }
            403 => Error::permanent(
                reason::FORBIDDEN,
                told("allow it by a Role and a RoleBinding, or mend what forbids it"),
            ),
            404 if is_namespace(failed) => {
                Error::permanent("namespace-not-found", told("create the namespace"))
            }
            409 => Error::transient(reason::BUSY, told("somebody else changed it: tried again")),
            410 => Error::transient(
                "expired",
                told("the list began too long ago: it starts anew"),
            ),
            429 => Error::transient(reason::BUSY, told("tried again")),
            code => Error::transient(
                reason::BACKEND,
                told(&format!("status {code}: tried again")),
            ),
        }
    }
}

/// What a failure makes of a place.
pub fn health_reason(failed: &Failure) -> HealthReason {
    match &failed.kind {
        FailureKind::Denied => HealthReason::Forbidden,
        FailureKind::Status => match failed.code {
            401 => HealthReason::Unauthorized,
            403 => HealthReason::Forbidden,
            _ => HealthReason::ApiError,
        },
        FailureKind::Timeout => HealthReason::Timeout,
        FailureKind::Name | FailureKind::Connect | FailureKind::Cut => HealthReason::Unreachable,
        FailureKind::Tls => HealthReason::CertificateInvalid,
        FailureKind::Credentials => HealthReason::CredentialsUnavailable,
        FailureKind::TooLarge | FailureKind::Invalid | FailureKind::Unknown(_) => {
            HealthReason::ApiError
        }
    }
}

/// Whether the API says that the object is not there. A 404 without that reason comes from
/// elsewhere: a proxy in between, an unknown path.
pub fn is_not_found(failed: &Failure) -> bool {
    is_status(failed, 404, "NotFound") && !is_namespace(failed)
}

pub fn is_already_exists(failed: &Failure) -> bool {
    is_status(failed, 409, "AlreadyExists")
}

/// Whether it concerns what was asked for alone, and not the whole cluster.
pub fn is_refusal(failed: &Failure) -> bool {
    failed.kind == FailureKind::Denied || (failed.kind == FailureKind::Status && failed.code == 403)
}

fn is_status(failed: &Failure, code: u16, reason: &str) -> bool {
    failed.kind == FailureKind::Status && failed.code == code && failed.reason == reason
}

fn is_namespace(failed: &Failure) -> bool {
    failed
        .details
        .get("kind")
        .is_some_and(|kind| kind == "namespaces")
}

fn has_cause(failed: &Failure, reason: &str) -> bool {
    let causes = failed.details.get("causes").and_then(Value::as_array);
    let is = |cause: &Value| cause.get("reason").is_some_and(|found| found == reason);
    causes.is_some_and(|causes| causes.iter().any(is))
}
