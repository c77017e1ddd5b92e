//! From a permit to an HTTP request.

use egress_runtime::capability::{DeleteOptions, KubernetesFailure, ListOptions, PatchKind};
use http::{Method, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{failure, permit::Permit};

/// What needs no encoding in a path or a query: RFC 3986's unreserved characters.
pub(super) const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request that is ready to go, and what its answer must not repeat.
pub(super) struct Outgoing {
    pub(super) request: Request<Vec<u8>>,
    /// The body's own content, where it has one.
    pub(super) content: Option<Value>,
}

pub(super) fn get(permit: &Permit) -> Result<Outgoing, KubernetesFailure> {
    plain(permit.path())
}

/// A GET of a path of our own.
pub(super) fn plain(path: String) -> Result<Outgoing, KubernetesFailure> {
    build(Method::GET, path, "", None)
}

/// A POST to a path of our own.
pub(super) fn review(path: &str, body: Value) -> Result<Outgoing, KubernetesFailure> {
    build(Method::POST, path.to_owned(), JSON, Some(body))
}

pub(super) fn list(permit: &Permit, options: &ListOptions) -> Result<Outgoing, KubernetesFailure> {
    let limit = if options.limit == 0 { String::new() } else { options.limit.to_string() };
    let query = query(&[
        ("labelSelector", &options.label_selector),
        ("fieldSelector", &options.field_selector),
        ("limit", &limit),
        ("continue", options.continue_token.as_deref().unwrap_or_default()),
    ]);
    build(Method::GET, permit.path() + &query, "", None)
}

pub(super) fn create(permit: &Permit, manager: &str, body: Value) -> Result<Outgoing, KubernetesFailure> {
    build(Method::POST, permit.path() + &query(&[("fieldManager", manager)]), JSON, Some(body))
}

pub(super) fn patch(
    permit: &Permit,
    kind: PatchKind,
    manager: &str,
    body: Value,
) -> Result<Outgoing, KubernetesFailure> {
    let (content_type, force) = match kind {
        PatchKind::Merge => ("application/merge-patch+json", ""),
        PatchKind::Json => ("application/json-patch+json", ""),
        // JSON is YAML. Forced, since all revisions of an entry share one manager: who else wrote to a
        // provider's object does not own it.
        PatchKind::Apply => ("application/apply-patch+yaml", "true"),
    };
    let query = query(&[("fieldManager", manager), ("force", force)]);
    build(Method::PATCH, permit.path() + &query, content_type, Some(body))
}

pub(super) fn delete(permit: &Permit, options: &DeleteOptions) -> Result<Outgoing, KubernetesFailure> {
    let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
    if let Value::Object(fields) = &mut body {
        let mut preconditions = serde_json::Map::new();
        preconditions.extend(options.uid.as_ref().map(|uid| ("uid".to_owned(), json!(uid))));
        preconditions.extend(
            options.resource_version.as_ref().map(|version| ("resourceVersion".to_owned(), json!(version))),
        );
        if !preconditions.is_empty() {
            fields.insert("preconditions".to_owned(), Value::Object(preconditions));
        }
        fields.extend(options.grace_seconds.map(|grace| ("gracePeriodSeconds".to_owned(), json!(grace))));
    }
    build(Method::DELETE, permit.path(), JSON, Some(body))
}

const JSON: &str = "application/json";

fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(key);
        query.push('=');
        query.extend(utf8_percent_encode(value, UNRESERVED));
    }
    query
}

fn build(
    method: Method,
    path: String,
    content_type: &str,
    content: Option<Value>,
) -> Result<Outgoing, KubernetesFailure> {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, JSON);
    let mut bytes = Vec::new();
    if let Some(content) = &content {
        request = request.header(header::CONTENT_TYPE, content_type);
        bytes = serde_json::to_vec(content)
            .map_err(|e| failure::invalid(format!("the body can't be written as JSON: {e}")))?;
    }
    let request =
        request.body(bytes).map_err(|e| failure::invalid(format!("no request can be made of it: {e}")))?;
    Ok(Outgoing { request, content })
}
