//! Answers as they come over the wire: envelopes, headers, times.

use egress_runtime::capability::HttpResponse;
use serde_json::{Value, json};

/// Answered instead of what was asked for.
pub type Answer = Result<Value, Refusal>;

/// An error of the classic form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub reason: &'static str,
    pub message: String,
    pub location: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), location: None }
    }

    pub fn not_found(path: &str) -> Self {
        Self::new(404, "notFound", format!("The resource '{path}' was not found"))
    }

    pub fn exists(path: &str) -> Self {
        Self::new(409, "alreadyExists", format!("The resource '{path}' already exists"))
    }

    pub fn invalid(field: &str, value: &str, more: &str) -> Self {
        Self::new(400, "invalid", format!("Invalid value for field '{field}': '{value}'. {more}"))
    }

    pub fn not_ready(path: &str) -> Self {
        Self::new(400, "resourceNotReady", format!("The resource '{path}' is not ready"))
    }

    pub fn forbidden(permission: &str, path: &str) -> Self {
        Self::new(403, "forbidden", format!("Required '{permission}' permission for '{path}'"))
    }

    /// A fingerprint of before somebody's change.
    pub fn changed() -> Self {
        let message = "Labels fingerprint either invalid or resource labels have changed";
        Self { location: Some("If-Match"), ..Self::new(412, "conditionNotMet", message) }
    }

    pub fn rate() -> Self {
        Self::new(
            403,
            "rateLimitExceeded",
            "Quota exceeded for quota group 'ReadGroup' and limit 'Read requests per user per 100 seconds' of service \
             'compute.googleapis.com' for consumer 'project_number:4711'.",
        )
    }

    pub fn response(&self) -> HttpResponse {
        let mut one = json!({ "message": self.message, "domain": "global", "reason": self.reason });
        if let (Some(location), Some(one)) = (self.location, one.as_object_mut()) {
            one.insert("location".to_owned(), location.into());
            one.insert("locationType".to_owned(), "header".into());
        }
        let error = json!({ "code": self.status, "message": self.message, "errors": [one] });
        json_response(self.status, &json!({ "error": error }))
    }
}

/// With the headers that were seen.
pub fn json_response(status: u16, body: &Value) -> HttpResponse {
    let headers = [
        ("content-type", "application/json; charset=UTF-8"),
        ("server", "ESF"),
        ("cache-control", "private"),
        ("x-content-type-options", "nosniff"),
    ];
    HttpResponse {
        status,
        reason: phrase(status).to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body: body.to_string().into_bytes(),
    }
}

/// A page of something on the way.
pub fn page(status: u16) -> HttpResponse {
    let body = format!("<html><title>{status}</title><body>That's an error.</body></html>");
    HttpResponse {
        status,
        reason: phrase(status).to_owned(),
        headers: vec![("content-type".to_owned(), "text/html; charset=UTF-8".to_owned())],
        body: body.into_bytes(),
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        429 => "Too Many Requests",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "",
    }
}

/// As Compute Engine writes times: with milliseconds, in Pacific time.
pub fn time(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap_or_default()).unwrap_or_default();
    let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-7));
    at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

/// Links name another host than the one that is asked.
pub fn link(path: &str) -> String {
    format!("https://www.googleapis.com/compute/v1/{path}")
}
