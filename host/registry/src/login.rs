//! As whom a registry is asked: what `docker login`, and tools like it, write down.
//!
//! The same form stands in a Secret of the type `kubernetes.io/dockerconfigjson` and in `~/.docker/config.json`.

use std::{collections::BTreeMap, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::reference::Reference;

/// A user and a password, or a token that stands for both. Prints neither.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// Shown as it is, or to whom hands out tokens.
    Password {
        /// May be told.
        user: String,
        /// May not.
        password: String,
    },
    /// What a login got instead of keeping the password; good only to get tokens.
    Identity(String),
    /// Shown as it is.
    Token(String),
}

impl Login {
    /// For messages.
    pub(crate) fn who(&self) -> String {
        match self {
            Self::Password { user, .. } => format!("as {user:?}"),
            Self::Identity(_) | Self::Token(_) => "with the token given".to_owned(),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// What is wrong with such a file. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Not JSON of that form.
    #[error("it is no docker config: {0}")]
    Unreadable(String),
    /// An entry of it.
    #[error("its entry for {0:?} holds no login: auth is to be base64 of user:password")]
    Invalid(String),
}

/// The login is kept by a program beside the file: `docker-credential-NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedsHelper(pub String);

/// A docker config, as far as it says how to log in.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DockerConfig {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl DockerConfig {
    /// Reads one.
    pub fn read(text: &[u8]) -> Result<Self, LoginError> {
        serde_json::from_slice(text).map_err(|error| {
            // Its own words may quote what stands there.
            LoginError::Unreadable(format!("line {}, column {}", error.line(), error.column()))
        })
    }

    /// What is said of the image's registry: the entry that says most of its name counts.
    pub fn login(&self, image: &Reference) -> Result<Option<Result<Login, NeedsHelper>>, LoginError> {
        if let Some((_, helper)) = best(&self.cred_helpers, image) {
            return Ok(Some(Err(NeedsHelper(helper.clone()))));
        }
        let found = match best(&self.auths, image) {
            Some((name, auth)) => auth.login().map_err(|()| LoginError::Invalid(name.clone()))?,
            None => None,
        };
        Ok(match (found, &self.creds_store) {
            (Some(login), _) => Some(Ok(login)),
            (None, Some(helper)) => Some(Err(NeedsHelper(helper.clone()))),
            (None, None) => None,
        })
    }

    /// Whose logins are there, for a message.
    pub fn registries(&self) -> Vec<&str> {
        self.auths.keys().map(String::as_str).collect()
    }
}

impl Auth {
    /// None for an entry that is there and empty, as it is where a helper keeps the rest.
    fn login(&self) -> Result<Option<Login>, ()> {
        let full = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = full(&self.registrytoken) {
            return Ok(Some(Login::Token(token)));
        }
        if let Some(token) = full(&self.identitytoken) {
            return Ok(Some(Login::Identity(token)));
        }
        if let (Some(user), Some(password)) = (full(&self.username), full(&self.password)) {
            return Ok(Some(Login::Password { user, password }));
        }
        let Some(auth) = full(&self.auth) else { return Ok(None) };
        let text = STANDARD.decode(auth.trim()).map_err(|_| ())?;
        let text = String::from_utf8(text).map_err(|_| ())?;
        let (user, password) = text.split_once(':').ok_or(())?;
        // Some tools wrote a byte of zero behind it.
        let password = password.trim_end_matches('\0').to_owned();
        Ok(Some(Login::Password { user: user.to_owned(), password }))
    }
}

/// The entry whose name says most of the image's: `registry.example/team` before `registry.example`.
fn best<'a, T>(entries: &'a BTreeMap<String, T>, image: &Reference) -> Option<(&'a String, &'a T)> {
    let registry = image.registry();
    let whole = format!("{registry}/{}", image.repository());
    let says = |name: &str| -> Option<usize> {
        let name = name.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
        let name = name.trim_end_matches("/v1").trim_end_matches("/v2");
        let name = if name == "index.docker.io" { "docker.io" } else { name };
        let begins = whole.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        (begins && !name.is_empty()).then_some(name.len())
    };
    entries
        .iter()
        .filter_map(|entry| Some((says(entry.0)?, entry)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, e)| e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(config: &str, image: &str) -> Option<Result<Login, NeedsHelper>> {
        DockerConfig::read(config.as_bytes()).unwrap().login(&image.parse().unwrap()).unwrap()
    }

    fn password(user: &str, password: &str) -> Option<Result<Login, NeedsHelper>> {
        Some(Ok(Login::Password { user: user.to_owned(), password: password.to_owned() }))
    }

    #[test]
    fn the_entry_that_says_most_of_the_name_counts() {
        let config = r#"{ "auths": {
            "https://index.docker.io/v1/": { "auth": "aDpo" },
            "registry.example": { "auth": "YTpiOmM=" },
            "https://registry.example/team/": { "username": "t", "password": "p" },
            "registry.example:5000": { "identitytoken": "i" },
            "registry.exam": { "auth": "eDp4" }, "": { "auth": "eDp4" } } }"#;
        assert_eq!(login(config, "registry.example/other:1"), password("a", "b:c"));
        assert_eq!(login(config, "registry.example/team/p:1"), password("t", "p"));
        assert_eq!(login(config, "registry.example/teams/p:1"), password("a", "b:c"));
        assert_eq!(login(config, "registry.example:5000/p:1"), Some(Ok(Login::Identity("i".to_owned()))));
        assert_eq!(login(config, "docker.io/library/p:1"), password("h", "h"));
        assert_eq!(login(config, "other.example/p:1"), None);
    }

    #[test]
    fn a_helper_is_named_where_it_keeps_the_login() {
        let helper = |name: &str| Some(Err(NeedsHelper(name.to_owned())));
        let config = r#"{ "auths": { "a.example": {}, "b.example": { "auth": "YTpi" } },
                          "credsStore": "desktop", "credHelpers": { "c.example": "gcloud" } }"#;
        assert_eq!(login(config, "a.example/p:1"), helper("desktop"));
        assert_eq!(login(config, "b.example/p:1"), password("a", "b"));
        assert_eq!(login(config, "c.example/p:1"), helper("gcloud"));
    }

    #[test]
    fn nothing_of_a_login_is_quoted() {
        for text in
            ["hunter2", r#"{ "auths": "hunter2" }"#, r#"{ "auths": { "a": { "auth": 1, "x": "hunter2" } } }"#]
        {
            let Err(error) = DockerConfig::read(text.as_bytes()) else { panic!("{text}") };
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let config = DockerConfig::read(br#"{ "auths": { "a.example": { "auth": "hunter2" } } }"#).unwrap();
        let error = config.login(&"a.example/p:1".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("a.example") && !error.to_string().contains("hunter2"), "{error}");
        let login = Login::Password { user: "u".to_owned(), password: "hunter2".to_owned() };
        assert!(!format!("{login:?} {}", login.who()).contains("hunter2"));
    }
}
