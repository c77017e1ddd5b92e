//! Refusals, word for word as the API server has them.

use std::time::Duration;

use egress_runtime::capability::{KubernetesFailure, KubernetesFailureKind};
use serde_json::{Value, json};

use super::kinds::Kind;

/// What every request may end as.
pub(super) type Answer<T> = Result<T, KubernetesFailure>;

/// A Status of the API server.
pub(super) fn status(
    code: u16,
    reason: &str,
    message: impl Into<String>,
    details: Value,
) -> KubernetesFailure {
    let retry_after = details.get("retryAfterSeconds").and_then(Value::as_u64).map(Duration::from_secs);
    KubernetesFailure {
        kind: KubernetesFailureKind::Status,
        code,
        reason: reason.to_owned(),
        message: message.into(),
        details,
        retry_after,
        sent: true,
    }
}

/// What the capability refuses before it sends anything.
pub(super) fn unsent(kind: KubernetesFailureKind, message: String) -> KubernetesFailure {
    KubernetesFailure {
        kind,
        code: 0,
        reason: String::new(),
        message,
        details: json!({}),
        retry_after: None,
        sent: false,
    }
}

/// A path that no API serves: the answer is text.
pub(super) fn no_such_page() -> KubernetesFailure {
    status(404, "", "HTTP 404 Not Found, without a Status: 404 page not found", json!({}))
}

/// A path below a known API that it does not serve.
pub(super) fn no_such_resource() -> KubernetesFailure {
    status(404, "NotFound", "the server could not find the requested resource", json!({}))
}

pub(super) fn method_not_allowed() -> KubernetesFailure {
    let message = "the server does not allow this method on the requested resource";
    status(405, "MethodNotAllowed", message, json!({}))
}

pub(super) fn not_found(kind: &Kind, name: &str) -> KubernetesFailure {
    let message = format!("{} \"{name}\" not found", kind.qualified());
    status(404, "NotFound", message, kind.details(name))
}

pub(super) fn already_exists(kind: &Kind, name: &str) -> KubernetesFailure {
    let message = format!("{} \"{name}\" already exists", kind.qualified());
    status(409, "AlreadyExists", message, kind.details(name))
}

/// Somebody else was faster.
pub(super) fn modified(kind: &Kind, name: &str) -> KubernetesFailure {
    let message = format!(
        "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes \
         to the latest version and try again",
        kind.qualified()
    );
    status(409, "Conflict", message, kind.details(name))
}

/// A delete's precondition does not hold. Named by the kind, not by the plural.
pub(super) fn precondition(kind: &Kind, name: &str, why: &str) -> KubernetesFailure {
    let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified_kind());
    status(409, "Conflict", message, kind.details_by_kind(name))
}

pub(super) fn bad_request(message: impl Into<String>) -> KubernetesFailure {
    status(400, "BadRequest", message, json!({}))
}

/// The API server failed in its own way: no reason.
pub(super) fn internal(message: impl Into<String>) -> KubernetesFailure {
    status(500, "", message, json!({}))
}
