//! What an answer says, and of whom.
//!
//! A request through a proxy may be answered by the proxy or by the URL's own server. Squid marks what it says itself with
//! `X-Squid-Error`, and 407 is a proxy's word in any case; a server's own 5xx came through, so the proxy works and the
//! server is at fault.

use std::net::SocketAddr;

use http::{HeaderMap, StatusCode, Uri};

use crate::core::probe::{Fault, Outcome};

const OWN_ERROR: &str = "x-squid-error";
const LONGEST_WORD: usize = 64;

/// Who asks whom for what.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub at: SocketAddr,
    pub url: &'a Uri,
}

impl Asked<'_> {
    /// Scheme and host; what follows may be nobody else's business.
    pub fn what(&self) -> String {
        host(self.url)
    }

    /// To a request for the URL in absolute form, or inside a tunnel, where nobody but the server speaks.
    pub fn judge(&self, status: StatusCode, headers: &HeaderMap, tunnelled: bool) -> Option<Outcome> {
        let own = headers.get(OWN_ERROR).and_then(|value| value.to_str().ok()).map(word);
        if !tunnelled && (own.is_some() || status == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return Some(Outcome::Doubtful(self.by_itself(status, own.as_deref())));
        }
        status.is_server_error().then(|| {
            let message = format!("{} answers {} through {}", self.what(), status.as_u16(), self.at);
            Outcome::UrlAtFault(Fault::new(format!("url-answered-{}", status.as_u16()), message))
        })
    }

    /// To a request for a tunnel, which only the proxy answers.
    pub fn no_tunnel(&self, status: StatusCode, headers: &HeaderMap) -> Outcome {
        let own = headers.get(OWN_ERROR).and_then(|value| value.to_str().ok()).map(word);
        Outcome::Doubtful(self.by_itself(status, own.as_deref()))
    }

    fn by_itself(&self, status: StatusCode, own: Option<&str>) -> Fault {
        let own = own.map(|own| format!(" ({own})")).unwrap_or_default();
        let message =
            format!("{} answers {}{own} to a request for {}", self.at, status.as_u16(), self.what());
        Fault::new(format!("proxy-answered-{}", status.as_u16()), message)
    }
}

/// Scheme and host.
pub fn host(url: &Uri) -> String {
    let authority = url.authority().map(ToString::to_string).unwrap_or_default();
    format!("{}://{authority}", url.scheme_str().unwrap_or("http"))
}

/// The first word: the error's name. Squid appends a number that differs from time to time.
fn word(text: &str) -> String {
    let inside = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.chars().take_while(inside).take(LONGEST_WORD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, error: Option<&str>, tunnelled: bool) -> Option<Outcome> {
        let at = SocketAddr::from(([10, 0, 0, 1], 3128));
        let url = Uri::from_static("http://probe.test/secret?token=1");
        let mut headers = HeaderMap::new();
        if let Some(error) = error {
            headers.insert(OWN_ERROR, error.parse().unwrap());
        }
        Asked { at, url: &url }.judge(StatusCode::from_u16(status).unwrap(), &headers, tunnelled)
    }

    #[test]
    fn squids_own_503_is_in_doubt_and_a_servers_is_the_servers() {
        let Some(Outcome::Doubtful(fault)) = judged(503, Some("ERR_CONNECT_FAIL 111"), false) else {
            panic!()
        };
        assert_eq!(fault.reason, "proxy-answered-503");
        assert_eq!(
            fault.message,
            "10.0.0.1:3128 answers 503 (ERR_CONNECT_FAIL) to a request for http://probe.test"
        );
        let Some(Outcome::UrlAtFault(fault)) = judged(503, None, false) else { panic!() };
        assert_eq!(fault.reason, "url-answered-503");
        assert!(matches!(judged(503, Some("ERR_CONNECT_FAIL"), true), Some(Outcome::UrlAtFault(_))));
    }

    #[test]
    fn a_proxy_that_wants_a_password_or_denies_access_does_not_pass() {
        assert!(matches!(judged(407, None, false), Some(Outcome::Doubtful(_))));
        assert!(matches!(judged(403, Some("ERR_ACCESS_DENIED 0"), false), Some(Outcome::Doubtful(_))));
    }

    #[test]
    fn whatever_else_the_server_answers_came_through() {
        for status in [200, 204, 301, 403, 404, 429] {
            assert_eq!(judged(status, None, false), None, "{status}");
        }
    }
}
