//! HTTP to named endpoints, as it is lent.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

/// Names and values, in order; a name may stand there twice.
pub type Pairs = Vec<(String, String)>;

/// One part of a multipart/form-data body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPart {
    /// The field's.
    pub name: String,
    /// What a file would be called.
    pub file_name: Option<String>,
    /// `application/octet-stream`.
    pub content_type: Option<String>,
    /// As it is.
    pub data: Vec<u8>,
}

/// What a request bears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HttpBody {
    /// Nothing.
    #[default]
    None,
    /// As it is.
    Bytes(Vec<u8>),
    /// application/x-www-form-urlencoded.
    Form(Pairs),
    /// multipart/form-data.
    Multipart(Vec<HttpPart>),
}

/// What is sent. See `wit/http.wit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// A name from the grant.
    pub endpoint: String,
    /// In capitals.
    pub method: String,
    /// Segments below the base URL, not encoded.
    pub path: Vec<String>,
    /// Not encoded.
    pub query: Pairs,
    /// What the caller may choose of them.
    pub headers: Pairs,
    /// With its length.
    pub body: HttpBody,
    /// Less than the endpoint's own, or none for that.
    pub timeout: Option<Duration>,
}

/// What came back, whatever its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// `200`.
    pub status: u16,
    /// As it was sent; empty where HTTP/2 has none.
    pub reason: String,
    /// Names in lower case.
    pub headers: Pairs,
    /// All of it.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpFailure {
    /// What kind.
    pub kind: HttpFailureKind,
    /// For people; no credential.
    pub message: String,
    /// Whether the request may have reached the backend.
    pub sent: bool,
}

/// See `wit/http.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpFailureKind {
    /// The grant does not reach there.
    Denied,
    /// The endpoint's name does not resolve.
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

impl HttpFailureKind {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
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

/// HTTP to named endpoints, within one entry's grant.
#[async_trait]
pub trait Http: Send + Sync {
    /// Whether the grant takes this request for one that changes nothing.
    fn is_read(&self, request: &HttpRequest) -> bool;
    /// Sends one request, and waits for all of its response.
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure>;
    /// As whom requests are sent, never with which secret.
    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure>;
}
