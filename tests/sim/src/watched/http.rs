//! HTTP, watched.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use egress_runtime::capability::{
    Http, HttpBody, HttpFailure, HttpFailureKind as Kind, HttpRequest, HttpResponse, Pairs,
};
use serde_json::{Value, json};

use super::{Call, Failing, Said, Watch, Watched};
use crate::{
    fault::{Fault, When},
    journal::Effect,
};

const KINDS: [Kind; 9] = [
    Kind::Denied,
    Kind::Name,
    Kind::Connect,
    Kind::Tls,
    Kind::Timeout,
    Kind::Cut,
    Kind::TooLarge,
    Kind::Credentials,
    Kind::Invalid,
];

/// As JSON where it is that, so that what must not be recorded is found in it; else as text, or else in base64.
fn shown(bytes: &[u8]) -> Value {
    if let Ok(json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_slice(bytes) {
        return json!({ "json": json });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn bytes(shown: &Value) -> Option<Vec<u8>> {
    if let Some(json) = shown.get("json") {
        return Some(json.to_string().into_bytes());
    }
    match shown.get("text").and_then(Value::as_str) {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => STANDARD.decode(shown.get("base64")?.as_str()?).ok(),
    }
}

fn body(body: &HttpBody) -> Value {
    match body {
        HttpBody::None => Value::Null,
        HttpBody::Bytes(bytes) => shown(bytes),
        HttpBody::Form(fields) => json!({ "form": fields }),
        HttpBody::Multipart(parts) => {
            let parts = parts.iter().map(|part| {
                json!({ "name": part.name, "fileName": part.file_name, "contentType": part.content_type,
                        "data": shown(&part.data) })
            });
            json!({ "multipart": parts.collect::<Vec<_>>() })
        }
    }
}

impl Said for HttpResponse {
    fn outcome(&self) -> String {
        format!("{} {}", self.status, self.reason)
    }

    fn to_json(&self) -> Value {
        json!({ "status": self.status, "reason": self.reason, "headers": self.headers, "body": shown(&self.body) })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            status: u16::try_from(value.get("status")?.as_u64()?).ok()?,
            reason: value.get("reason")?.as_str()?.to_owned(),
            headers: serde_json::from_value::<Pairs>(value.get("headers")?.clone()).ok()?,
            body: bytes(value.get("body")?)?,
        })
    }
}

impl Said for HttpFailure {
    fn outcome(&self) -> String {
        self.kind.as_str().to_owned()
    }

    fn to_json(&self) -> Value {
        json!({ "kind": self.kind.as_str(), "message": self.message, "sent": self.sent })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let kind = value.get("kind")?.as_str()?;
        Some(Self {
            kind: KINDS.into_iter().find(|known| known.as_str() == kind)?,
            message: value.get("message")?.as_str()?.to_owned(),
            sent: value.get("sent")?.as_bool()?,
        })
    }
}

impl Failing for HttpFailure {
    fn of(fault: &Fault, when: When, place: &str) -> Option<Self> {
        let failed =
            |kind, sent, message: &str| Self { kind, sent, message: format!("endpoint {place}: {message}") };
        Some(match (fault, when) {
            (Fault::Refused, When::Before) => {
                failed(Kind::Connect, false, "no connection: Connection refused (os error 111)")
            }
            (Fault::Timeout(time), _) => {
                failed(Kind::Timeout, true, &format!("no whole answer within {} ms", time.as_millis()))
            }
            (Fault::NoCredentials, _) => failed(Kind::Credentials, false, "the file with the secret is gone"),
            // An answer of the server's own is no failure here, and what it would say is a backend's to know.
            (Fault::Refused, When::After)
            | (Fault::Lost | Fault::CutShort | Fault::Garbage | Fault::WrongContentType, _) => {
                failed(Kind::Cut, true, "the connection broke before the answer was whole")
            }
            (Fault::RateLimited(_) | Fault::Slow(_) | Fault::Death, _) => return None,
        })
    }

    fn denied(_: &str, why: &str) -> Self {
        Self { kind: Kind::Denied, message: why.to_owned(), sent: false }
    }
}

fn asked(request: &HttpRequest) -> Value {
    json!({
        "endpoint": request.endpoint, "method": request.method, "path": request.path,
        "query": request.query, "headers": request.headers, "body": body(&request.body),
        "timeoutMs": request.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    })
}

async fn sent(
    watch: &Watch,
    inner: &dyn Http,
    place: &str,
    request: &HttpRequest,
    answers: impl Fn(&Fault, When) -> Option<HttpResponse>,
) -> Result<HttpResponse, HttpFailure> {
    let effect = if inner.is_read(request) { Effect::Read } else { Effect::Write };
    let about = format!("{} /{}", request.method, request.path.join("/"));
    let call = Call { capability: "http", function: "send", place, about, effect };
    watch.call_answered(call, || asked(request), inner.send(request), answers).await
}

async fn informed(watch: &Watch, inner: &dyn Http, endpoint: &str) -> Result<Value, HttpFailure> {
    let call = Call {
        capability: "http",
        function: "info",
        place: endpoint,
        about: String::new(),
        effect: Effect::Read,
    };
    watch.call(call, || json!({ "endpoint": endpoint }), inner.info(endpoint)).await
}

#[async_trait]
impl Http for Watched<dyn Http> {
    fn is_read(&self, request: &HttpRequest) -> bool {
        self.inner.is_read(request)
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        sent(&self.watch, &*self.inner, &request.endpoint, request, |_, _| None).await
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        informed(&self.watch, &*self.inner, endpoint).await
    }
}

/// HTTP to a backend of which more is known: what its places are called, and what it answers on a bad day.
pub struct WatchedHttp {
    watch: Watch,
    inner: Arc<dyn Http>,
    place: Box<dyn Fn(&HttpRequest) -> String + Send + Sync>,
    answers: fn(&Fault, When) -> Option<HttpResponse>,
}

impl WatchedHttp {
    /// Around it. `place` is the place that a request goes to; `answers` are the backend's own words where a fault is
    /// no failure of the way there.
    pub fn new(
        watch: Watch,
        inner: Arc<dyn Http>,
        place: impl Fn(&HttpRequest) -> String + Send + Sync + 'static,
        answers: fn(&Fault, When) -> Option<HttpResponse>,
    ) -> Self {
        Self { watch, inner, place: Box::new(place), answers }
    }
}

#[async_trait]
impl Http for WatchedHttp {
    fn is_read(&self, request: &HttpRequest) -> bool {
        self.inner.is_read(request)
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        sent(&self.watch, &*self.inner, &(self.place)(request), request, self.answers).await
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        informed(&self.watch, &*self.inner, endpoint).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_out_of_its_recording() {
        for body in [&b"{\"data\":null}"[..], b"<html>", b"\xff\x00", b"", b"17"] {
            let response = HttpResponse {
                status: 596,
                reason: "Connection refused".to_owned(),
                headers: vec![("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())],
                body: body.to_vec(),
            };
            assert_eq!(HttpResponse::from_json(&response.to_json()), Some(response));
        }
        for kind in KINDS {
            let failure = HttpFailure { kind, message: "m".to_owned(), sent: true };
            assert_eq!(HttpFailure::from_json(&failure.to_json()), Some(failure));
        }
    }
}
