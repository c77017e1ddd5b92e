//! Google's credentials: what a JSON of them says, or else the machine's metadata server. Tokens are the well-kept
//! crate's business; what stands in a file or a Secret is read at every request, so that another key takes effect
//! with the next one.

use std::error::Error;

use egress_runtime::capability::{HttpFailure, HttpFailureKind as Kind};
use google_cloud_auth::{
    build_errors,
    credentials::{
        CacheableResource, Credentials, external_account, external_account_authorized_user, impersonated,
        mds, service_account, user_account,
    },
    errors::CredentialsError,
};
use http::{Extensions, HeaderMap};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    credentials::{CredentialRef, Secrets},
    faults::Faults,
};

/// Where a credential file is looked for when the grant names none, as Google's own clients do.
const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const FILE_AT_HOME: &str = ".config/gcloud/application_default_credentials.json";
/// Longer is no code of OAuth's.
const LONGEST_CODE: usize = 40;

/// Google's application-default credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GoogleCredentials {
    /// A service account's key, an authorised user, an external account (workload identity), as JSON. Where none
    /// is given: the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or gcloud's, or the metadata server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<CredentialRef>,
    /// What a token is asked for.
    pub scopes: Vec<String>,
}

impl Default for GoogleCredentials {
    fn default() -> Self {
        Self { json: None, scopes: vec!["https://www.googleapis.com/auth/cloud-platform".to_owned()] }
    }
}

impl GoogleCredentials {
    pub(super) fn check(&self, path: &str, faults: &mut Faults) {
        if let Some(json) = &self.json {
            json.check(&format!("{path}.json"), faults);
        }
        if self.scopes.is_empty() {
            faults.add(&format!("{path}.scopes"), "names none; leave it out for cloud-platform");
        }
    }

    /// Where the JSON stands; none if the metadata server is asked.
    fn place(&self) -> Option<CredentialRef> {
        let file = |file| CredentialRef { file: Some(file), ..CredentialRef::default() };
        let at_home = || {
            let found = std::path::PathBuf::from(std::env::var_os("HOME")?).join(FILE_AT_HOME);
            found.exists().then_some(found)
        };
        let named = || std::env::var_os(FILE_VARIABLE).map(Into::into).or_else(at_home).map(file);
        self.json.clone().or_else(named)
    }
}

/// The credentials that were made last, and the text that they were made of.
#[derive(Default)]
pub(super) struct Google(Mutex<Option<(Option<String>, Credentials)>>);

impl Google {
    /// What a request must carry: the token, and whose quota is used.
    pub(super) async fn headers(
        &self,
        granted: &GoogleCredentials,
        secrets: Option<&dyn Secrets>,
    ) -> Result<HeaderMap, HttpFailure> {
        let (place, text) = read(granted, secrets).await?;
        let credentials = {
            let mut kept = self.0.lock().await;
            match kept.as_ref() {
                Some((of, credentials)) if *of == text => credentials.clone(),
                _ => {
                    let made =
                        made(text.as_deref(), &granted.scopes).map_err(|why| unusable(&place, &why))?;
                    *kept = Some((text, made.clone()));
                    made
                }
            }
        };
        match credentials.headers(Extensions::new()).await {
            Ok(CacheableResource::New { data, .. }) => Ok(data),
            // Answered only to those who say what they have.
            Ok(CacheableResource::NotModified) => Ok(HeaderMap::new()),
            Err(error) => Err(no_token(&place, &error)),
        }
    }

    /// For people: whose credentials these are.
    pub(super) async fn principal(
        granted: &GoogleCredentials,
        secrets: Option<&dyn Secrets>,
    ) -> Result<String, HttpFailure> {
        let (place, text) = read(granted, secrets).await?;
        let Some(text) = text else { return Ok("the machine's service account".to_owned()) };
        let json = parsed(&text).map_err(|why| unusable(&place, &why))?;
        let text = |key: &str| json.get(key).and_then(Value::as_str);
        let impersonated = text("service_account_impersonation_url").and_then(|url| url.rsplit('/').next());
        let account = impersonated.map(|last| last.trim_end_matches(":generateAccessToken"));
        let name = text("client_email").or(account).or_else(|| text("audience"));
        Ok(name.or_else(|| text("type")).unwrap_or_default().to_owned())
    }
}

/// The place, for people, and what stands there.
async fn read(
    granted: &GoogleCredentials,
    secrets: Option<&dyn Secrets>,
) -> Result<(String, Option<String>), HttpFailure> {
    match granted.place() {
        None => Ok(("the metadata server".to_owned(), None)),
        Some(place) => match place.read(secrets).await {
            Ok(text) => Ok((place.place(), Some(text))),
            Err(no) => Err(HttpFailure { kind: Kind::Credentials, message: no.message, sent: false }),
        },
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    // serde's own words would quote what it read.
    serde_json::from_str(text).map_err(|error| {
        format!("is no JSON (line {}, column {}); this can't be the right one", error.line(), error.column())
    })
}

fn made(text: Option<&str>, scopes: &[String]) -> Result<Credentials, String> {
    let Some(text) = text else {
        let made = mds::Builder::default().with_scopes(scopes).build();
        return made.map_err(|error| fault(&error).to_owned());
    };
    let json = parsed(text)?;
    let kind = json.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let scopes = scopes.iter().cloned();
    let made = match kind.as_str() {
        "service_account" => {
            let access = service_account::AccessSpecifier::from_scopes(scopes);
            service_account::Builder::new(json).with_access_specifier(access).build()
        }
        "authorized_user" => user_account::Builder::new(json).with_scopes(scopes).build(),
        "external_account" => external_account::Builder::new(json).with_scopes(scopes).build(),
        "external_account_authorized_user" => external_account_authorized_user::Builder::new(json).build(),
        "impersonated_service_account" => impersonated::Builder::new(json).with_scopes(scopes).build(),
        _ => {
            return Err("names no type of credentials that is known: service_account, authorized_user, \
                        external_account, external_account_authorized_user, impersonated_service_account"
                .to_owned());
        }
    };
    made.map_err(|error| format!("is no whole {kind}: {}", fault(&error)))
}

/// Without the library's text, which could quote what was read.
fn fault(error: &build_errors::Error) -> &'static str {
    if error.is_parsing() || error.is_missing_field() {
        "a field is missing or of a wrong type; create the key anew"
    } else {
        "it can't be used here"
    }
}

fn unusable(place: &str, why: &str) -> HttpFailure {
    HttpFailure { kind: Kind::Credentials, message: format!("{place}: {why}"), sent: false }
}

/// A token's server may come back; what it refuses stays refused. Its answer is not shown but for OAuth's code: it
/// could repeat what it was sent.
fn no_token(place: &str, error: &CredentialsError) -> HttpFailure {
    let mut causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    let code = causes.find_map(|error| code(&error.to_string()));
    let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
    let (kind, why) = if error.is_transient() {
        (Kind::Connect, "Google's server of tokens gave none for now; is it reached from here?")
    } else {
        (Kind::Credentials, "Google gives no token for it; was the key deleted, or the account?")
    };
    HttpFailure { kind, message: format!("{place}: {why}{code}"), sent: false }
}

/// `invalid_grant`, out of `{"error":"invalid_grant",...}` in the library's text.
fn code(text: &str) -> Option<String> {
    let (_, behind) = text.split_once("\"error\"")?;
    let (_, behind) = behind.split_once('"')?;
    let (code, _) = behind.split_once('"')?;
    let plain = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (plain && !code.is_empty() && code.len() <= LONGEST_CODE).then(|| code.to_owned())
}
