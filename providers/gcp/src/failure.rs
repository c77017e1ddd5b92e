//! A failed request, classified where it is understood: by status and reason, never by words alone.
//!
//! Compute Engine says 403 for a missing permission, for a rate and for a quota; the reason tells them apart. What is
//! no JSON of its own (a proxy's page, a 411, a 502) is never taken for its word.

use provider_sdk::{
    Error, HealthReason,
    http::{Failure, FailureKind, Response},
    reason,
};
use serde_json::Value;

const LONGEST_MESSAGE: usize = 1024;
/// After a rate was exceeded: limits count by the minute.
const RATE_REST_MS: u32 = 60_000;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no answer.
    Failed(Failure),
    /// Compute Engine, or something before it, refuses.
    Refused(Refused),
    /// An answer that has not what it should have.
    Garbled(String),
}

/// A status that refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    /// `errors[0].reason`; empty where the answer is none of Google's.
    pub reason: String,
    /// `details[].reason`, as newer answers have it.
    pub detail: String,
    pub message: String,
    pub retry_ms: Option<u32>,
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    NotFound,
    AlreadyExists,
    /// Something else is at work on it.
    Busy,
    /// Too much at once.
    Rate,
    Quota,
    Forbidden,
    ApiOff,
    Unauthorized,
    /// Of what was asked.
    Invalid,
    /// Somebody changed it since it was read.
    Changed,
    Other,
}

impl Refused {
    /// From an answer.
    pub fn read(response: &Response) -> Self {
        let retry_ms = response.header("retry-after").and_then(|after| after.trim().parse::<u32>().ok());
        let retry_ms = retry_ms.map(|seconds| seconds.saturating_mul(1000));
        let body: Option<Value> = serde_json::from_slice(&response.body).ok();
        let error = body.as_ref().and_then(|body| body.get("error")).filter(|error| error.is_object());
        let Some(error) = error else {
            let said = format!("HTTP {} {}", response.status, response.reason);
            return Self { status: response.status, message: said, retry_ms, ..Self::default() };
        };
        let text =
            |pointer: &str| error.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let detail = details.iter().find_map(|detail| detail.get("reason")?.as_str()).unwrap_or_default();
        let message = match text("/message") {
            message if message.is_empty() => format!("HTTP {} {}", response.status, response.reason),
            message => message,
        };
        // Newer answers have a status in words instead of `errors`.
        let reason = match text("/errors/0/reason") {
            reason if reason.is_empty() => text("/status"),
            reason => reason,
        };
        Self { status: response.status, reason, detail: detail.to_owned(), message, retry_ms }
    }

    /// What it means.
    pub fn meaning(&self) -> Meaning {
        if self.detail == "RATE_LIMIT_EXCEEDED" {
            return Meaning::Rate;
        }
        match (self.status, self.reason.as_str()) {
            (404, "notFound" | "NOT_FOUND") => Meaning::NotFound,
            (409, "alreadyExists" | "ALREADY_EXISTS") => Meaning::AlreadyExists,
            (_, "resourceNotReady" | "resourceInUseByAnotherResource") | (409, _) => Meaning::Busy,
            (429, _) | (_, "rateLimitExceeded" | "userRateLimitExceeded") => Meaning::Rate,
            (_, "quotaExceeded") => Meaning::Quota,
            (_, "accessNotConfigured") => Meaning::ApiOff,
            (_, _) if self.detail == "SERVICE_DISABLED" => Meaning::ApiOff,
            (401, _) => Meaning::Unauthorized,
            // A page of something on the way has no reason.
            (403, "") => Meaning::Other,
            (403, _) => Meaning::Forbidden,
            (412, _) => Meaning::Changed,
            (400, "") => Meaning::Other,
            (400, _) => Meaning::Invalid,
            _ => Meaning::Other,
        }
    }

    /// Whether it objects to this parameter of the query.
    pub fn objects_to(&self, parameter: &str) -> bool {
        self.status == 400 && self.message.contains(parameter)
    }
}

impl Trouble {
    /// Whether Compute Engine itself says that what was asked for is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.meaning() == Meaning::NotFound)
    }

    /// Whether something of that name is there.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.meaning() == Meaning::AlreadyExists)
    }

    /// Whether something else is at work on it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.meaning() == Meaning::Busy)
    }

    /// Why a place is not ready.
    pub fn health(&self) -> HealthReason {
        match self {
            Self::Failed(failure) => match failure.kind {
                FailureKind::Denied => HealthReason::Forbidden,
                FailureKind::Timeout => HealthReason::Timeout,
                FailureKind::Name | FailureKind::Connect | FailureKind::Cut => HealthReason::Unreachable,
                FailureKind::Tls => HealthReason::CertificateInvalid,
                FailureKind::Credentials => HealthReason::CredentialsUnavailable,
                FailureKind::TooLarge | FailureKind::Invalid | FailureKind::Unknown(_) => {
                    HealthReason::ApiError
                }
            },
            Self::Refused(refused) => match refused.meaning() {
                Meaning::Unauthorized => HealthReason::Unauthorized,
                Meaning::Forbidden | Meaning::ApiOff => HealthReason::Forbidden,
                Meaning::NotFound
                | Meaning::AlreadyExists
                | Meaning::Busy
                | Meaning::Rate
                | Meaning::Quota
                | Meaning::Invalid
                | Meaning::Changed
                | Meaning::Other => HealthReason::ApiError,
            },
            Self::Garbled(_) => HealthReason::ApiError,
        }
    }
}

/// A request, for messages: `insert the instance proxy-web-..`.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub project: &'a str,
    pub what: String,
}

impl Asked<'_> {
    /// What the trouble means.
    pub fn error(&self, trouble: &Trouble) -> Error {
        match trouble {
            Trouble::Failed(failure) => self.failed(failure),
            Trouble::Refused(refused) => self.refused(refused),
            Trouble::Garbled(what) => Error::transient(
                reason::BACKEND,
                self.told(what, "does something other than Compute Engine answer at this endpoint?"),
            ),
        }
    }

    fn failed(&self, failure: &Failure) -> Error {
        let told = |way_out: &str| self.told(&failure.message, way_out);
        match &failure.kind {
            // The host says what is missing: it knows the grant, and other reasons to let nothing through.
            FailureKind::Denied => Error::permanent(reason::FORBIDDEN, told("")),
            FailureKind::Name | FailureKind::Connect | FailureKind::Cut => {
                Error::transient(reason::UNREACHABLE, told(""))
            }
            FailureKind::Tls => Error::transient(reason::UNREACHABLE, told("see what the endpoint trusts")),
            FailureKind::Timeout => Error::transient(reason::TIMEOUT, told("")),
            FailureKind::Credentials => Error::transient(
                "credentials-unavailable",
                told("give the credentials that the endpoint's grant names"),
            ),
            FailureKind::TooLarge => {
                Error::permanent("too-large", told("raise the endpoint's limit on bodies"))
            }
            FailureKind::Invalid => Error::permanent(
                reason::BACKEND,
                told("this is a fault of the provider: report it, and roll back to its last revision"),
            ),
            FailureKind::Unknown(kind) => Error::transient(reason::BACKEND, told(&format!("({kind})"))),
        }
    }

    fn refused(&self, refused: &Refused) -> Error {
        let told = |way_out: &str| self.told(&refused.message, way_out);
        let error = match refused.meaning() {
            Meaning::Rate => {
                let wait = refused.retry_ms.unwrap_or(RATE_REST_MS);
                return Error::transient(reason::BUSY, told("the API's rate is exceeded"))
                    .retry_ms(Some(wait));
            }
            Meaning::Quota => Error::quota(told("ask for a higher quota, or free some")),
            Meaning::Forbidden => Error::permanent(
                reason::FORBIDDEN,
                told("give the credentials' account a role that has the permission"),
            ),
            Meaning::ApiOff => {
                Error::permanent("api-disabled", told("enable the Compute Engine API in the project"))
            }
            // The host reads credentials at every request: a new key needs nobody to ask for a retry.
            Meaning::Unauthorized => {
                Error::transient(reason::UNAUTHORIZED, told("see that the credentials' key is still valid"))
            }
            Meaning::NotFound => {
                let (reason, way_out) = blamed(&refused.message);
                Error::permanent(reason, told(way_out))
            }
            Meaning::Invalid => {
                let (reason, way_out) = blamed(&refused.message);
                Error::permanent(reason, told(way_out))
            }
            Meaning::Busy | Meaning::Changed => {
                Error::transient(reason::BUSY, told("something else is at work on it"))
            }
            Meaning::AlreadyExists => Error::transient(reason::BUSY, told("it is looked at again")),
            Meaning::Other => Error::transient(reason::BACKEND, told("")),
        };
        error.retry_ms(refused.retry_ms)
    }

    /// `project P: WHAT: MESSAGE; WAY OUT`.
    pub fn told(&self, message: &str, way_out: &str) -> String {
        let message: String = message.trim().chars().take(LONGEST_MESSAGE).collect();
        let ends = if way_out.is_empty() { String::new() } else { format!("; {way_out}") };
        format!("project {}: {}: {}{ends}", self.project, self.what, message.trim_end_matches('.'))
    }
}

/// Whose fault a refused value is: the Proxy's placement, or the entry's config.
pub fn blamed(message: &str) -> (&'static str, &'static str) {
    let placement = ["machineType", "/images/", "sourceImage", "'zone'"];
    if placement.iter().any(|word| message.contains(word)) {
        (reason::PLACEMENT, "choose another by spec.placement, or correct the entry's catalogue")
    } else {
        (reason::CONFIG, "correct the entry's config")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, reason: &str, message: &str) -> Refused {
        let body = format!(
            r#"{{"error":{{"code":{status},"message":"{message}","errors":[{{"message":"{message}","domain":"global","reason":"{reason}"}}]}}}}"#
        );
        Refused::read(&Response { status, body: body.into_bytes(), ..Response::default() })
    }

    #[test]
    fn a_403_is_told_by_its_reason() {
        for (reason, meaning) in [
            ("forbidden", Meaning::Forbidden),
            ("rateLimitExceeded", Meaning::Rate),
            ("userRateLimitExceeded", Meaning::Rate),
            ("quotaExceeded", Meaning::Quota),
            ("accessNotConfigured", Meaning::ApiOff),
        ] {
            assert_eq!(refused(403, reason, "m").meaning(), meaning, "{reason}");
        }
    }

    #[test]
    fn a_page_that_is_not_googles_is_never_taken_for_its_word() {
        for status in [400, 403, 404, 411, 413, 502, 503] {
            let page = Response { status, body: b"<html>no</html>".to_vec(), ..Response::default() };
            let meaning = Refused::read(&page).meaning();
            assert_eq!(meaning, Meaning::Other, "{status}");
        }
        assert!(Trouble::Refused(refused(404, "notFound", "gone")).is_not_found());
    }

    #[test]
    fn newer_answers_are_read_too() {
        let body = br#"{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED","details":[{"reason":"RATE_LIMIT_EXCEEDED"}]}}"#;
        let headers = vec![("Retry-After".to_owned(), "7".to_owned())];
        let read =
            Refused::read(&Response { status: 403, headers, body: body.to_vec(), ..Response::default() });
        assert_eq!((read.meaning(), read.retry_ms), (Meaning::Rate, Some(7000)));
    }

    #[test]
    fn the_field_that_is_refused_says_whose_fault_it_is() {
        let machine = "Invalid value for field 'resource.machineType': 'zones/Z/machineTypes/T'.";
        assert_eq!(blamed(machine).0, reason::PLACEMENT);
        assert_eq!(
            blamed("The resource 'projects/p/global/images/family/x' was not found").0,
            reason::PLACEMENT
        );
        assert_eq!(blamed("The resource 'projects/p/global/networks/x' was not found").0, reason::CONFIG);
    }
}
