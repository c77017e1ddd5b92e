//! HTTP, inside a component.

use serde_json::Value;

use super::Imports;
use crate::{
    bindings::egress::provider as wit,
    http::{Body, Failure, FailureKind, Http, Part, Request, Response},
};

impl Http for Imports {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let request = wit::http::Request {
            endpoint: request.endpoint.clone(),
            method: request.method.word().to_owned(),
            path: request.path.clone(),
            query: request.query.clone(),
            headers: request.headers.clone(),
            body: carried(&request.body),
            timeout_ms: request.timeout_ms,
        };
        let answer = wit::http::send(&request).map_err(failure)?;
        Ok(Response {
            status: answer.status,
            reason: answer.reason,
            headers: answer.headers,
            body: answer.body,
        })
    }

    fn info(&self, endpoint: &str) -> Result<Value, Failure> {
        let info = wit::http::info(endpoint).map_err(failure)?;
        serde_json::from_str(&info).map_err(|error| Failure {
            kind: FailureKind::Invalid,
            message: format!("the host's answer about {endpoint} is no JSON: {error}"),
            sent: false,
        })
    }
}

fn carried(body: &Body) -> wit::http::Body {
    match body {
        Body::None => wit::http::Body::None,
        Body::Bytes(bytes) => wit::http::Body::Bytes(bytes.clone()),
        Body::Form(pairs) => wit::http::Body::Form(pairs.clone()),
        Body::Multipart(parts) => wit::http::Body::Multipart(parts.iter().map(part).collect()),
    }
}

fn part(part: &Part) -> wit::http::Part {
    wit::http::Part {
        name: part.name.clone(),
        file_name: part.file_name.clone(),
        content_type: part.content_type.clone(),
        data: part.data.clone(),
    }
}

fn failure(failure: wit::http::Failure) -> Failure {
    Failure { kind: FailureKind::read(&failure.kind), message: failure.message, sent: failure.sent }
}
