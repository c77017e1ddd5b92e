//! HTTP as a guest sees it: the capability's types in the contract's, and back.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tracing::Span;
use wasmtime::component::{HasSelf, Linker};

use crate::{
    bindings::egress::provider::http::{self, Failure},
    capability::{Http, HttpBody, HttpFailure, HttpFailureKind, HttpPart, HttpRequest, HttpResponse},
    failure::Stop,
    guest_log::cut,
    limits::Limit,
    scrub::Scrubber,
    state::{HostFailure, State},
};

/// What is shown of a path.
const LONGEST_PATH: usize = 256;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    http::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl HostFailure for HttpFailure {
    fn timeout(message: String) -> Self {
        Self { kind: HttpFailureKind::Timeout, message, sent: true }
    }

    fn withheld(message: String) -> Self {
        Self { kind: HttpFailureKind::Denied, message, sent: false }
    }

    fn too_large(message: String, sent: bool) -> Self {
        Self { kind: HttpFailureKind::TooLarge, message, sent }
    }

    fn too_large_for(&self) -> Option<Limit> {
        match (self.kind, self.sent) {
            (HttpFailureKind::TooLarge, true) => Some(Limit::ResponseBytes),
            (HttpFailureKind::TooLarge, false) => Some(Limit::RequestBytes),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        self.kind.as_str()
    }
}

impl From<HttpFailure> for Failure {
    fn from(failure: HttpFailure) -> Self {
        Self { kind: failure.kind.as_str().to_owned(), message: failure.message, sent: failure.sent }
    }
}

impl From<http::Body> for HttpBody {
    fn from(body: http::Body) -> Self {
        match body {
            http::Body::None => Self::None,
            http::Body::Bytes(bytes) => Self::Bytes(bytes),
            http::Body::Form(fields) => Self::Form(fields),
            http::Body::Multipart(parts) => Self::Multipart(parts.into_iter().map(HttpPart::from).collect()),
        }
    }
}

impl From<http::Part> for HttpPart {
    fn from(part: http::Part) -> Self {
        Self { name: part.name, file_name: part.file_name, content_type: part.content_type, data: part.data }
    }
}

impl From<http::Request> for HttpRequest {
    fn from(request: http::Request) -> Self {
        Self {
            endpoint: request.endpoint,
            method: request.method,
            path: request.path,
            query: request.query,
            headers: request.headers,
            body: request.body.into(),
            timeout: request.timeout_ms.map(|ms| Duration::from_millis(ms.into())),
        }
    }
}

impl From<HttpResponse> for http::Response {
    fn from(response: HttpResponse) -> Self {
        Self {
            status: response.status,
            reason: response.reason,
            headers: response.headers,
            body: response.body,
        }
    }
}

fn pairs_size(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// What a request's own words and its body take.
fn size(request: &HttpRequest) -> usize {
    let words = request.method.len() + request.path.iter().map(String::len).sum::<usize>();
    let body = match &request.body {
        HttpBody::None => 0,
        HttpBody::Bytes(bytes) => bytes.len(),
        HttpBody::Form(fields) => pairs_size(fields),
        HttpBody::Multipart(parts) => parts.iter().map(|part| part.data.len() + part.name.len()).sum(),
    };
    words + pairs_size(&request.query) + pairs_size(&request.headers) + body
}

impl State {
    fn http(&self) -> wasmtime::Result<Arc<dyn Http>> {
        // It is linked only when it is lent.
        let lent = self.setup.lent.http.clone();
        lent.ok_or_else(|| Stop::Violation("HTTP is not lent".to_owned()).into())
    }
}

/// Sends it, and leaves in the host call's span what it was. A path names things; a query may hold anything.
async fn traced(
    lent: &dyn Http,
    request: &HttpRequest,
    scrubber: Option<&Scrubber>,
) -> Result<HttpResponse, HttpFailure> {
    let span = Span::current();
    if !span.is_disabled() {
        let path = format!("/{}", request.path.join("/"));
        let path = scrubber.map_or(Cow::Borrowed(path.as_str()), |scrubber| scrubber.text(&path));
        span.record("http.request.method", method(&request.method));
        span.record("url.path", cut(&path, LONGEST_PATH));
    }
    let outcome = lent.send(request).await;
    if let Ok(response) = &outcome {
        span.record("http.response.status_code", response.status);
    }
    outcome
}

/// No other words, whatever a guest gives.
fn method(asked: &str) -> &'static str {
    const KNOWN: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    KNOWN.into_iter().find(|known| *known == asked).unwrap_or("_OTHER")
}

impl http::Host for State {
    async fn send(&mut self, request: http::Request) -> wasmtime::Result<Result<http::Response, Failure>> {
        let (lent, request) = (self.http()?, HttpRequest::from(request));
        let scrubber = self.scrubber.clone();
        let (bytes, asked) = (size(&request), traced(&*lent, &request, scrubber.as_deref()));
        let outcome = if lent.is_read(&request) {
            self.host_call("http.send", &request.endpoint, bytes, asked).await?
        } else {
            self.write_call("http.send", &request.endpoint, bytes, asked).await?
        };
        let outcome = outcome.and_then(|response| {
            let bytes = response.body.len() + response.reason.len() + pairs_size(&response.headers);
            self.fit("http.send", bytes).map(|()| response)
        });
        Ok(outcome.map(http::Response::from).map_err(Failure::from))
    }

    async fn info(&mut self, endpoint: String) -> wasmtime::Result<Result<String, Failure>> {
        let lent = self.http()?;
        let info = self.host_call("http.info", &endpoint, endpoint.len(), lent.info(&endpoint)).await?;
        Ok(info.map(|info| info.to_string()).map_err(Failure::from))
    }
}
