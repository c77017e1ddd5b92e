//! What went wrong, in the contract's terms.
//!
//! Decided by types, not by words: the transport gives its errors types of its own for that. A message
//! holds an address and a cause; never a credential, and never what a request's body said, although API
//! servers like to quote it.

use std::{error::Error as StdError, time::Duration};

use egress_runtime::capability::{KubernetesFailure, KubernetesFailureKind as Kind};
use http::{HeaderMap, StatusCode, header};
use kube::client::AuthError;
use serde_json::{Value, json};

use crate::connecting::{Broken, find};

/// A shorter piece of a body is no secret by itself: `true`, a port.
const SHORTEST_QUOTE: usize = 8;
pub(super) const UNUSABLE_TOKEN: &str = "the token can't be sent; does it hold a line break?";
const LONGEST_MESSAGE: usize = 4096;

pub(super) fn invalid(message: String) -> KubernetesFailure {
    plain(Kind::Invalid, message, false)
}

pub(super) fn denied(message: String) -> KubernetesFailure {
    plain(Kind::Denied, message, false)
}

pub(super) fn credentials(message: String) -> KubernetesFailure {
    plain(Kind::Credentials, message, false)
}

pub(super) fn plain(kind: Kind, message: String, sent: bool) -> KubernetesFailure {
    KubernetesFailure {
        kind,
        code: 0,
        reason: String::new(),
        message,
        details: json!({}),
        retry_after: None,
        sent,
    }
}

/// A request without an answer. `server` is for people.
pub(super) fn of_exchange(server: &str, error: &(dyn StdError + 'static)) -> KubernetesFailure {
    if let Some(auth) = find::<AuthError>(error) {
        // Its own text may hold what a credential helper printed.
        let cause = match auth {
            AuthError::InvalidBearerToken(_) => UNUSABLE_TOKEN,
            _ => "the credentials could not be renewed; see the kubeconfig's user",
        };
        return credentials(format!("{server}: {cause}"));
    }
    let (kind, cause, sent) = match Broken::of(error) {
        Broken::Name(cause) => (Kind::Name, cause, false),
        Broken::Tls(cause, sent) => (Kind::Tls, cause, sent),
        Broken::Late(cause) => (Kind::Connect, format!("{cause} (connectMs of the grant's timeouts)"), false),
        Broken::Connect(cause) => (Kind::Connect, cause, false),
        Broken::Cut(cause) => (Kind::Cut, cause, true),
    };
    plain(kind, format!("{server}: {cause}"), sent)
}

pub(super) fn deadline(server: &str, budget: Duration) -> KubernetesFailure {
    let message = format!(
        "{server}: no answer within {} ms (requestMs of the grant's timeouts); whether the request took effect is \
         unknown",
        budget.as_millis()
    );
    plain(Kind::Timeout, message, true)
}

/// An answer that is a refusal.
pub(super) fn of_status(
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    content: Option<&Value>,
) -> KubernetesFailure {
    let mut failure = plain(Kind::Status, String::new(), true);
    failure.code = code.as_u16();
    let status = serde_json::from_slice::<Value>(body)
        .ok()
        .filter(|status| status.get("kind") == Some(&json!("Status")));
    match status {
        Some(mut status) => {
            let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            failure.reason = text("reason");
            failure.message = text("message");
            failure.details = match status.get_mut("details").map(Value::take) {
                Some(details @ Value::Object(_)) => details,
                _ => json!({}),
            };
        }
        // Also what a missing kind is answered with: "404 page not found". It is no NotFound.
        None => {
            let text = String::from_utf8_lossy(body);
            failure.message = format!("HTTP {code}, without a Status: {}", text.trim());
        }
    }
    if let Some(content) = content {
        withhold_quotes(&mut failure, content);
    }
    cut(&mut failure.message);
    failure.retry_after = retry_after(headers, &failure.details);
    failure
}

fn retry_after(headers: &HeaderMap, details: &Value) -> Option<Duration> {
    let told = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    told.or_else(|| details.get("retryAfterSeconds")?.as_u64())
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// An API server may answer an object that it can't take by quoting it: data of a Secret or a ConfigMap
/// must not come back that way into messages.
fn withhold_quotes(failure: &mut KubernetesFailure, content: &Value) {
    let mut secrets = Vec::new();
    if content.is_array() {
        collect(content, &mut secrets); // a JSON patch
    }
    for field in ["data", "stringData", "binaryData"] {
        content.get(field).into_iter().for_each(|data| collect(data, &mut secrets));
    }
    // In quotes of quotes only what needs no escape is sure to stand as it was.
    let pieces =
        secrets.iter().flat_map(|text| text.split(|c: char| c.is_control() || matches!(c, '"' | '\\')));
    let pieces: Vec<&str> = pieces.map(str::trim).filter(|piece| piece.len() >= SHORTEST_QUOTE).collect();
    let quotes = |text: &str| pieces.iter().any(|piece| text.contains(piece));
    if quotes(&failure.message) {
        failure.message = "the API server's message quotes the object's data and is withheld".to_owned();
    }
    if quotes(&failure.details.to_string()) {
        failure.details = json!({});
    }
}

fn collect<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut(message: &mut String) {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push_str(" (cut)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &Value, content: Option<&Value>) -> KubernetesFailure {
        of_status(StatusCode::FORBIDDEN, &HeaderMap::new(), body.to_string().as_bytes(), content)
    }

    #[test]
    fn a_status_comes_through_whole() {
        let status = json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "exceeded quota: q",
                             "details": { "name": "b", "kind": "pods", "retryAfterSeconds": 7 } });
        let failure = refused(&status, None);
        assert_eq!((failure.kind, failure.code, failure.reason.as_str()), (Kind::Status, 403, "Forbidden"));
        assert_eq!((failure.message.as_str(), &failure.details), ("exceeded quota: q", &status["details"]));
        assert_eq!((failure.retry_after, failure.sent), (Some(Duration::from_secs(7)), true));
    }

    #[test]
    fn what_is_no_status_has_no_reason() {
        let failure = of_status(StatusCode::NOT_FOUND, &HeaderMap::new(), b"404 page not found\n", None);
        assert_eq!((failure.kind, failure.code, failure.reason.as_str()), (Kind::Status, 404, ""));
        assert_eq!(failure.message, "HTTP 404 Not Found, without a Status: 404 page not found");
    }

    #[test]
    fn a_message_that_quotes_the_data_of_the_object_is_withheld() {
        let content = json!({ "kind": "Secret", "stringData": { "user-data": "#cloud-config\npassword: \"hunter2hunter2\"\n" } });
        let quoted = format!("unable to decode {:?}", content.to_string());
        let status = json!({ "kind": "Status", "reason": "Invalid", "message": quoted,
                             "details": { "causes": [{ "message": quoted }] } });
        let failure = refused(&status, Some(&content));
        assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        assert_eq!(failure.reason, "Invalid");
        let harmless = json!({ "kind": "Status", "message": "metadata.name: Required value" });
        assert_eq!(refused(&harmless, Some(&content)).message, "metadata.name: Required value");
    }

    #[test]
    fn a_long_message_is_cut() {
        let status = json!({ "kind": "Status", "message": "ä".repeat(5000) });
        assert!(refused(&status, None).message.len() < LONGEST_MESSAGE + 10);
    }
}
