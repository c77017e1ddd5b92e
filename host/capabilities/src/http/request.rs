//! A request as it goes on the wire, made of what a guest gave: no part of it can leave its place.

use std::fmt::Write as _;

use bytes::Bytes;
use egress_runtime::capability::{HttpBody, HttpPart, HttpRequest, Pairs};
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All that a provider may use.
pub(super) const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// What is left as it is: RFC 3986's unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// A segment may hold a colon, and Google's methods are behind one: not every server there decodes before it looks.
const ENCODED_SEGMENT: &AsciiSet = &ENCODED.remove(b':');
/// What is about the connection, about who asks, or about where an answer comes from.
const HOSTS_OWN: [&str; 16] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// The same, with anything behind.
const HOSTS_OWN_FAMILIES: [&str; 4] = ["proxy-", "sec-", "trace", "x-forwarded-"];

/// Whether no guest may set it, and no credential stand in it; in lower case.
pub(super) fn is_hosts_own_header(name: &str) -> bool {
    name != "authorization" && is_refused_header(name)
}

fn is_refused_header(name: &str) -> bool {
    HOSTS_OWN.contains(&name) || HOSTS_OWN_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Or what is wrong with it, for the provider's author: no value is quoted.
pub(super) fn made(base: &Uri, request: &HttpRequest, boundary: &str) -> Result<Request<Bytes>, String> {
    if !METHODS.contains(&request.method.as_str()) {
        return Err(format!("the method {:?} is none of {}", request.method, METHODS.join(", ")));
    }
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|error| error.to_string())?;
    let bears_body = !matches!(method, Method::GET | Method::HEAD);
    if !bears_body && request.body != HttpBody::None {
        return Err(format!("a {method} bears no body"));
    }
    let (kind, body) = content(&request.body, boundary)?;
    let mut made = Request::builder().method(method).uri(target(base, request)?);
    if bears_body {
        made = made.header(header::CONTENT_LENGTH, body.len());
    }
    if let Some(kind) = &kind {
        made = made.header(header::CONTENT_TYPE, kind);
    }
    for (name, value) in &request.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no header"))?;
        if is_refused_header(parsed.as_str()) || (kind.is_some() && parsed == header::CONTENT_TYPE) {
            return Err(format!("the header {parsed} is the host's to set"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            format!("the value of {parsed} has what no header can bear, such as a line break")
        })?;
        made = made.header(parsed, value);
    }
    made.body(body).map_err(|error| error.to_string())
}

fn target(base: &Uri, request: &HttpRequest) -> Result<String, String> {
    let (scheme, authority) = (base.scheme_str().unwrap_or_default(), base.authority());
    let authority = authority.map(|authority| authority.as_str()).unwrap_or_default();
    let mut target = format!("{scheme}://{authority}{}", base.path().trim_end_matches('/'));
    for segment in &request.path {
        if leaves_its_place(segment) {
            return Err(format!("{segment:?} can be no segment of a path"));
        }
        let _ = write!(target, "/{}", utf8_percent_encode(segment, ENCODED_SEGMENT));
    }
    if target.ends_with(authority) {
        target.push('/');
    }
    if !request.query.is_empty() {
        let _ = write!(target, "?{}", form(&request.query));
    }
    Ok(target)
}

/// Empty ones vanish on the way, and servers that decode before they split make steps of what looked like one.
fn leaves_its_place(segment: &str) -> bool {
    segment.is_empty()
        || segment.chars().any(char::is_control)
        || segment.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

fn encoded(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, ENCODED)
}

fn form(pairs: &Pairs) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

/// With its type, where the body has one of its own.
fn content(body: &HttpBody, boundary: &str) -> Result<(Option<String>, Bytes), String> {
    Ok(match body {
        HttpBody::None => (None, Bytes::new()),
        HttpBody::Bytes(bytes) => (None, Bytes::copy_from_slice(bytes)),
        HttpBody::Form(fields) => {
            (Some("application/x-www-form-urlencoded".to_owned()), Bytes::from(form(fields)))
        }
        HttpBody::Multipart(parts) => {
            let body = multipart(parts, boundary)?;
            (Some(format!("multipart/form-data; boundary={boundary}")), Bytes::from(body))
        }
    })
}

fn multipart(parts: &[HttpPart], boundary: &str) -> Result<Vec<u8>, String> {
    let mut body = Vec::with_capacity(parts.iter().map(|part| part.data.len() + 256).sum());
    for part in parts {
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        if let Some(file) = &part.file_name {
            let _ = write!(head, "; filename=\"{}\"", quoted(file));
        }
        if let Some(kind) = &part.content_type {
            let kind =
                HeaderValue::from_str(kind).ok().and_then(|kind| kind.to_str().ok().map(str::to_owned));
            let kind =
                kind.ok_or_else(|| format!("part {:?} has a type that no header can bear", part.name))?;
            let _ = write!(head, "\r\nContent-Type: {kind}");
        }
        head.push_str("\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&part.data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(body)
}

/// As the WHATWG's form-data is escaped.
fn quoted(text: &str) -> String {
    text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base() -> Uri {
        "https://pve:8006/api2/json/".parse().unwrap()
    }

    fn request(path: &[&str]) -> HttpRequest {
        HttpRequest {
            endpoint: "pve".to_owned(),
            method: "GET".to_owned(),
            path: path.iter().map(|&segment| segment.to_owned()).collect(),
            ..HttpRequest::default()
        }
    }

    fn uri(request: &HttpRequest) -> Result<String, String> {
        made(&base(), request, "b").map(|made| made.uri().to_string())
    }

    #[test]
    fn segments_and_queries_are_encoded() {
        let mut asked = request(&["nodes", "local:iso/a b.iso", "ü?#&;="]);
        asked.query = vec![("a b".to_owned(), "1&2=/".to_owned()), ("c".to_owned(), String::new())];
        assert_eq!(
            uri(&asked).unwrap(),
            "https://pve:8006/api2/json/nodes/local:iso%2Fa%20b.iso/%C3%BC%3F%23%26%3B%3D?a%20b=1%262%3D%2F&c="
        );
        assert_eq!(uri(&request(&[])).unwrap(), "https://pve:8006/api2/json");
    }

    #[test]
    fn no_segment_leaves_its_place() {
        for segment in ["", ".", "..", "../..", "a/../b", "a\\..\\b", "/..", "a\r\nHost: b", "a\0"] {
            assert!(uri(&request(&["nodes", segment])).is_err(), "{segment:?}");
        }
        assert_eq!(uri(&request(&["%2e%2e"])).unwrap(), "https://pve:8006/api2/json/%252e%252e");
        assert_eq!(
            uri(&request(&["http://evil/"])).unwrap(),
            "https://pve:8006/api2/json/http:%2F%2Fevil%2F"
        );
    }

    #[test]
    fn headers_of_the_host_and_those_that_break_lines_are_refused() {
        for (name, value) in [
            ("Host", "evil"),
            ("authorization", "x"),
            ("Content-Length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("X-Forwarded-For", "1.2.3.4"),
            ("Proxy-Authorization", "x"),
            ("traceparent", "00"),
            ("Cookie", "a=b"),
            ("bad name", "x"),
            ("a\r\nb", "x"),
            ("x", "a\r\nHost: evil"),
        ] {
            let mut asked = request(&["a"]);
            asked.headers = vec![(name.to_owned(), value.to_owned())];
            let refused = made(&base(), &asked, "b").unwrap_err();
            assert!(!refused.contains("evil"), "{refused}");
        }
        let mut asked = request(&["a"]);
        asked.headers = vec![("Accept".to_owned(), "application/json".to_owned())];
        assert_eq!(made(&base(), &asked, "b").unwrap().headers()["accept"], "application/json");
    }

    #[test]
    fn bodies_go_with_their_length_and_type() {
        let of = |body| {
            let asked = HttpRequest { method: "POST".to_owned(), body, ..request(&["a"]) };
            let made = made(&base(), &asked, "b").unwrap();
            let header = |name| made.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let (length, kind) = (header(header::CONTENT_LENGTH), header(header::CONTENT_TYPE));
            (length.unwrap(), kind, String::from_utf8(made.body().to_vec()).unwrap())
        };
        assert_eq!(of(HttpBody::None), ("0".to_owned(), None, String::new()));
        let fields = vec![("a".to_owned(), "x y".to_owned())];
        let kind = Some("application/x-www-form-urlencoded".to_owned());
        assert_eq!(of(HttpBody::Form(fields)), ("7".to_owned(), kind, "a=x%20y".to_owned()));
        let part = HttpPart {
            name: "file\"\r\nX: y".to_owned(),
            file_name: Some("a.iso".to_owned()),
            content_type: Some("application/octet-stream".to_owned()),
            data: b"data".to_vec(),
        };
        let whole = "--b\r\nContent-Disposition: form-data; name=\"file%22%0D%0AX: y\"; filename=\"a.iso\"\r\n\
                     Content-Type: application/octet-stream\r\n\r\ndata\r\n--b--\r\n";
        let kind = Some("multipart/form-data; boundary=b".to_owned());
        assert_eq!(of(HttpBody::Multipart(vec![part])), (whole.len().to_string(), kind, whole.to_owned()));
    }

    #[test]
    fn what_is_no_method_of_ours_or_bears_what_it_must_not_is_refused() {
        for method in ["get", "CONNECT", "TRACE", "OPTIONS", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", ""] {
            let asked = HttpRequest { method: method.to_owned(), ..request(&["a"]) };
            assert!(made(&base(), &asked, "b").is_err(), "{method:?}");
        }
        let asked = HttpRequest { body: HttpBody::Bytes(vec![1]), ..request(&["a"]) };
        assert!(made(&base(), &asked, "b").is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_segments_are_the_target_is_below_the_base_and_as_deep(
            path in proptest::collection::vec(any::<String>(), 1..5),
            query in proptest::collection::vec((any::<String>(), any::<String>()), 0..3),
        ) {
            let asked = HttpRequest { path: path.clone(), query, ..request(&[]) };
            if let Ok(target) = uri(&asked) {
                let rest = target.strip_prefix("https://pve:8006/api2/json/").expect("below the base");
                let way = rest.split('?').next().unwrap();
                prop_assert_eq!(way.split('/').count(), path.len());
                prop_assert!(way.split('/').all(|part| part != "." && part != ".." && !part.is_empty()));
                prop_assert!(target.parse::<Uri>().is_ok());
            }
        }
    }
}
