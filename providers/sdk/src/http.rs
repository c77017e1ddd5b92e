//! HTTP to named endpoints, as it is lent. `wit/http.wit` says what each call promises.

use serde_json::Value;

/// Ordered name and value pairs, as in query, headers and forms.
pub type Pairs = Vec<(String, String)>;

/// What kind of failure. A status that refuses is none: it comes as a [`Response`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The grant does not reach there.
    Denied,
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
    /// No request could be made of what was given.
    Invalid,
    /// A kind that this provider doesn't know.
    Unknown(String),
}

impl FailureKind {
    /// From the contract's word.
    pub fn read(word: &str) -> Self {
        match word {
            "denied" => Self::Denied,
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

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
    /// Whether the request may have reached the backend: its outcome is then unknown.
    pub sent: bool,
}

/// A request's method, of those that backends are asked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Begins or makes something.
    Post,
    /// Replaces or changes something.
    Put,
    /// Changes a part.
    Patch,
    /// Removes something.
    Delete,
}

impl Method {
    /// As it stands on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// One part of a multipart body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The field.
    pub name: String,
    /// For a file.
    pub file_name: Option<String>,
    /// None for the server's default.
    pub content_type: Option<String>,
    /// Byte for byte.
    pub data: Vec<u8>,
}

/// What a request carries. Always sent with its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// As it is; its type stands in the headers.
    Bytes(Vec<u8>),
    /// `application/x-www-form-urlencoded`; the host encodes.
    Form(Pairs),
    /// `multipart/form-data`, in this order.
    Multipart(Vec<Part>),
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A name from the grant.
    pub endpoint: String,
    /// How.
    pub method: Method,
    /// Segments below the base URL, not encoded.
    pub path: Vec<String>,
    /// Not encoded.
    pub query: Pairs,
    /// Beside the ones that the host sets.
    pub headers: Pairs,
    /// What it carries.
    pub body: Body,
    /// None for the endpoint's own limit.
    pub timeout_ms: Option<u32>,
}

impl Request {
    /// A request that carries nothing yet.
    pub fn new(endpoint: &str, method: Method, path: &[&str]) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            method,
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: Pairs::new(),
            headers: Pairs::new(),
            body: Body::None,
            timeout_ms: None,
        }
    }
}

/// What came back, whatever its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The reason phrase as sent: some backends put their message there.
    pub reason: String,
    /// As sent.
    pub headers: Pairs,
    /// All of it, decompressed.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// HTTP to named endpoints, within the entry's grant.
pub trait Http {
    /// Sends one request and waits for all of its response.
    fn send(&self, request: &Request) -> Result<Response, Failure>;
    /// Whom the endpoint's credentials stand for, without the secret.
    fn info(&self, endpoint: &str) -> Result<Value, Failure>;
}

impl<T: Http + ?Sized> Http for &T {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        (**self).send(request)
    }
    fn info(&self, endpoint: &str) -> Result<Value, Failure> {
        (**self).info(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_however_the_server_writes_its_name() {
        let headers = vec![
            ("server".to_owned(), "one".to_owned()),
            ("Retry-After".to_owned(), "7".to_owned()),
            ("retry-after".to_owned(), "8".to_owned()),
        ];
        let response = Response { headers, ..Response::default() };
        assert_eq!(response.header("RETRY-AFTER"), Some("7"), "the first one counts");
        assert_eq!(response.header("retry"), None);
    }

    #[test]
    fn a_word_that_a_later_host_adds_is_kept_for_the_message() {
        assert_eq!(FailureKind::read("too-large"), FailureKind::TooLarge);
        assert_eq!(FailureKind::read("melted"), FailureKind::Unknown("melted".to_owned()));
    }
}
