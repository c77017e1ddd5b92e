//! What a registry is shown: the login itself, or a token that it sends for.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{Client, MOST_ERROR, Rights};
use crate::{
    failure::{Kind, RegistryError, failed},
    login::Login,
    web::Asked,
};

/// What a scope and a service are made of may stay readable.
const VALUE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b':').remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b',');

/// How a registry wants to know who asks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl Client {
    /// What to show where the registry answered 401. None where there is nothing to show.
    pub(super) async fn authorize(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, RegistryError> {
        let challenges = challenges(headers);
        let of = |scheme: &str| challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        let login = self.web.access().login.as_ref();
        if let Some(Login::Token(token)) = login {
            return sendable(&format!("Bearer {token}")).map(Some);
        }
        if let Some(bearer) = of("bearer") {
            let token = self.token(bearer, login).await?;
            return Ok(Some(token));
        }
        match (of("basic"), login) {
            (Some(_), Some(Login::Password { user, password })) => basic(user, password).map(Some),
            _ => Ok(None),
        }
    }

    /// Sends for a token, with the login if there is one.
    async fn token(
        &self,
        challenge: &Challenge,
        login: Option<&Login>,
    ) -> Result<HeaderValue, RegistryError> {
        let home = self.web.url("/v2/")?;
        let mut url = self.web.read(&home, &challenge.realm)?;
        let rights = if self.rights == Rights::Push { "pull,push" } else { "pull" };
        let ours = || format!("repository:{}:{rights}", self.reference.repository());
        // Its own words may name less than is to be done.
        let scope = match (self.rights, &challenge.scope) {
            (Rights::Pull, Some(scope)) => scope.clone(),
            _ => ours(),
        };
        let mut query = form(&[("scope", &scope)]);
        if let Some(service) = &challenge.service {
            query = format!("{}&{query}", form(&[("service", service)]));
        }
        let (mut headers, mut method, mut body) = (Vec::new(), Method::GET, Bytes::new());
        match login {
            Some(Login::Password { user, password }) => {
                headers.push((header::AUTHORIZATION, basic(user, password)?));
            }
            Some(Login::Identity(token)) => {
                let more =
                    form(&[("grant_type", "refresh_token"), ("client_id", "epo"), ("refresh_token", token)]);
                body = format!("{query}&{more}").into();
                method = Method::POST;
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                headers.push((header::CONTENT_TYPE, kind));
            }
            Some(Login::Token(_)) | None => {}
        }
        if method == Method::GET {
            let separator = if url.query().is_some() { '&' } else { '?' };
            url = self.web.read(&home, &format!("{url}{separator}{query}"))?;
        }
        self.fetch_token(Asked { method, url, headers, body }, login).await
    }

    async fn fetch_token(&self, asked: Asked, login: Option<&Login>) -> Result<HeaderValue, RegistryError> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let image = &self.reference;
        // Not followed: a login is shown to whom the registry named, and to nobody behind.
        let answer = self.web.ask(&asked).await?;
        let at = answer.at.clone();
        match answer.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                let code = answer.status.as_u16();
                let who = login.map_or("without a login".to_owned(), Login::who);
                let message = format!("{image}: {at} gives no token ({who}; {code})");
                return Err(failed(Kind::Unauthorized, message));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let wait = super::wait(&answer.headers);
                let message = format!("{image}: {at} has had too many requests for tokens (429)");
                return Err(RegistryError { wait, ..failed(Kind::TooManyRequests, message) });
            }
            status => {
                let message = format!("{image}: {at} answered {} instead of a token", status.as_u16());
                return Err(failed(Kind::RegistryFailed, message));
            }
        }
        let body = answer.body("the token", MOST_ERROR, self.web.access().timeouts.stall).await?;
        let read: Option<Token> = serde_json::from_slice(&body).ok();
        let token = read.and_then(|read| read.token.or(read.access_token)).filter(|token| !token.is_empty());
        let Some(token) = token else {
            return Err(failed(Kind::RegistryFailed, format!("{image}: what {at} answered holds no token")));
        };
        sendable(&format!("Bearer {token}"))
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, RegistryError> {
    sendable(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

fn sendable(text: &str) -> Result<HeaderValue, RegistryError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        failed(Kind::Unauthorized, "the login can't be sent; does it have a line break inside?")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, VALUE));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// All of them, in their order; what can't be read ends a header.
fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let texts = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(read_challenges).collect()
}

fn read_challenges(text: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',']);
    while !rest.is_empty() {
        let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        match behind.strip_prefix('=') {
            Some(behind) => {
                let (value, behind) = read_value(behind);
                if let Some(challenge) = found.last_mut() {
                    challenge.set(word, value);
                }
                rest = behind;
            }
            None => {
                found.push(Challenge { scheme: word.to_owned(), ..Challenge::default() });
                rest = behind;
            }
        }
        rest = rest.trim_start_matches([' ', ',']);
    }
    found
}

/// In quotes or not, and what is behind.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            _ => value.push(c),
        }
    }
    (value, "")
}

impl Challenge {
    fn set(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "realm" => self.realm = value,
            "service" => self.service = Some(value),
            "scope" => self.scope = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |scope: Option<&str>| Challenge {
            scheme: "Bearer".to_owned(),
            realm: "https://auth.example/token".to_owned(),
            service: Some("registry.example".to_owned()),
            scope: scope.map(str::to_owned),
        };
        let text = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#;
        assert_eq!(read_challenges(text), [bearer(Some("repository:a/b:pull,push"))]);
        let text = r#"bearer realm=https://auth.example/token , service=registry.example"#;
        assert_eq!(read_challenges(text), [Challenge { scheme: "bearer".to_owned(), ..bearer(None) }]);
        let text = r#"Basic realm="a \"b\", c", Bearer realm="https://auth.example/token",service="registry.example""#;
        let both = read_challenges(text);
        assert_eq!((both[0].scheme.as_str(), both[0].realm.as_str()), ("Basic", r#"a "b", c"#));
        assert_eq!(both[1], bearer(None));
    }

    #[test]
    fn a_challenge_that_can_not_be_read_ends() {
        for text in ["", "=", "a=", "==,=", "Bearer realm=\"", "Bearer \"", ", ,", "a=\"\\", "=a =b ="] {
            let _ = read_challenges(text);
        }
        assert!(read_challenges("Negotiate").iter().all(|challenge| challenge.realm.is_empty()));
    }

    #[test]
    fn what_is_asked_for_is_encoded() {
        assert_eq!(
            form(&[("scope", "repository:a/b:pull,push"), ("x", "a b&c")]),
            "scope=repository:a/b:pull,push&x=a%20b%26c"
        );
    }
}
