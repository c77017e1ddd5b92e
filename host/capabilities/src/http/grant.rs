//! What an entry may ask of HTTP servers: named endpoints, each with its address, trust and credentials.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use egress_contract::Fault;
use http::{HeaderName, Uri};
use serde::{Deserialize, Serialize};

use super::{google::GoogleCredentials, request};
use crate::{credentials::CredentialRef, faults::Faults, timeouts::Timeouts};

/// What a call of a provider takes at most, with a little to spare for what it does with the answer.
const LONGEST_MS: u64 = 95_000;
const MOST_CONNECTIONS: usize = 256;
/// Stand in the format of a header's value for what is put there.
pub(super) const SECRET: &str = "{secret}";
pub(super) const PRINCIPAL: &str = "{principal}";

/// `grants.http` of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HttpGrant {
    /// By the name that the provider's config uses.
    pub endpoints: BTreeMap<String, Endpoint>,
}

/// One server, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// What every path is below: `https://pve1.example:8006/api2/json`.
    pub url: String,
    /// Whether `url` may be http, which everybody on the way can read and change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain_http: bool,
    /// Who signs for the server, in PEM, and nobody else then; the system's authorities where none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<CredentialRef>,
    /// As whom TLS is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
    /// What forwards to the server, where there is no direct way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ForwardProxy>,
    /// None where the server asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// What changes nothing although its method could: the shadow of a candidate may ask it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<ReadOnly>,
    /// Whether the server is told in which trace a request stands: the header `traceparent`, where traces are kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trace_context: bool,
    /// How long is waited.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Requests that run at once, and connections that are open; the others wait their turn.
    #[serde(default = "connections")]
    pub connections: usize,
}

fn connections() -> usize {
    8
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClientCertificate {
    /// With the chain behind it.
    pub certificate: CredentialRef,
    /// Of the first certificate.
    pub key: CredentialRef,
}

/// A proxy that is asked by CONNECT for a way to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ForwardProxy {
    /// `http://proxy.example:3128`. TLS, where the endpoint has it, is spoken with the server, through it.
    pub url: String,
    /// Who asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicCredentials>,
}

/// How the host says who it is. Nothing of it reaches a provider but the principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Credentials {
    /// A header.
    Header(HeaderCredentials),
    /// HTTP's Basic.
    Basic(BasicCredentials),
    /// A token of Google's.
    Google(GoogleCredentials),
}

/// A header that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderCredentials {
    /// Its name.
    #[serde(default = "authorization")]
    pub name: String,
    /// Its value: `PVEAPIToken={principal}={secret}`.
    #[serde(default = "bearer")]
    pub format: String,
    /// What `{principal}` stands for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// What `{secret}` stands for: the text there, without blanks around it.
    pub secret: CredentialRef,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

fn bearer() -> String {
    format!("Bearer {SECRET}")
}

/// A user's name and password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BasicCredentials {
    /// Without a colon.
    pub username: String,
    /// The text there, without blanks around it.
    pub password: CredentialRef,
}

/// Requests that change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReadOnly {
    /// `POST`.
    pub method: String,
    /// Each segment below the URL; in one a `*` stands for whatever is there.
    pub path: Vec<String>,
}

impl HttpGrant {
    /// Everything that is wrong; paths begin at the grant.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if self.endpoints.is_empty() {
            faults.add("endpoints", "names no endpoint; add one, or leave the grant out");
        }
        for (name, endpoint) in &self.endpoints {
            let path = format!("endpoints.{name}");
            if !is_name(name) {
                faults.add(&path, "an endpoint's name matches [A-Za-z0-9._-]{1,63}");
            }
            endpoint.check(&path, &mut faults);
        }
        faults.0
    }
}

fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

impl Endpoint {
    fn check(&self, path: &str, faults: &mut Faults) {
        if let Err(what) = self.base() {
            faults.add(&format!("{path}.url"), &what);
        }
        let certificate = self.client_certificate.as_ref();
        let places = [
            ("ca", self.ca.as_ref()),
            ("clientCertificate.certificate", certificate.map(|both| &both.certificate)),
            ("clientCertificate.key", certificate.map(|both| &both.key)),
        ];
        for (field, place) in places {
            if let Some(place) = place {
                place.check(&format!("{path}.{field}"), faults);
            }
        }
        if let Some(proxy) = &self.proxy {
            proxy.check(&format!("{path}.proxy"), faults);
        }
        if let Some(credentials) = &self.credentials {
            credentials.check(&format!("{path}.credentials"), faults);
        }
        for (index, read) in self.read_only.iter().enumerate() {
            read.check(&format!("{path}.readOnly[{index}]"), faults);
        }
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            faults.add(&format!("{path}.connections"), &format!("must be 1 to {MOST_CONNECTIONS}"));
        }
        self.timeouts.check(&format!("{path}.timeouts"), LONGEST_MS, faults);
    }

    /// The URL, or what is wrong with it.
    pub(super) fn base(&self) -> Result<Uri, String> {
        let uri = server(&self.url)?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if self.plain_http => {}
            Some("http") => {
                return Err(
                    "is http, so that credentials and answers travel in the clear; use https, or say plainHttp: \
                     true"
                        .to_owned(),
                );
            }
            _ => return Err("must begin with https://".to_owned()),
        }
        Ok(uri)
    }
}

impl ForwardProxy {
    fn check(&self, path: &str, faults: &mut Faults) {
        if let Err(what) = self.uri() {
            faults.add(&format!("{path}.url"), &what);
        }
        if let Some(basic) = &self.basic {
            basic.check(&format!("{path}.basic"), faults);
        }
    }

    /// The URL, or what is wrong with it.
    pub(super) fn uri(&self) -> Result<Uri, String> {
        let uri = server(&self.url)?;
        match (uri.scheme_str(), uri.path()) {
            (Some("http"), "/" | "") => Ok(uri),
            _ => Err("must be http://NAME:PORT and nothing behind".to_owned()),
        }
    }
}

/// The URL of a server, or what is wrong with it. It is not quoted: somebody may have put a password into it.
fn server(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|_| "is no URL".to_owned())?;
    let authority = uri.authority().ok_or("names no server")?;
    if authority.as_str().contains('@') {
        return Err("holds a user; that belongs under credentials".to_owned());
    }
    if uri.query().is_some() || url.contains('#') {
        return Err("must end with a path: no query and no fragment".to_owned());
    }
    Ok(uri)
}

impl Credentials {
    fn check(&self, path: &str, faults: &mut Faults) {
        match self {
            Self::Header(header) => {
                let at = |field: &str| format!("{path}.header.{field}");
                let name = HeaderName::from_bytes(header.name.as_bytes());
                if name.is_err() || request::is_hosts_own_header(&header.name.to_ascii_lowercase()) {
                    faults
                        .add(&at("name"), &format!("{:?} is no header that can hold a secret", header.name));
                }
                if header.format.matches(SECRET).count() != 1 {
                    faults.add(&at("format"), &format!("must hold {SECRET} once"));
                }
                if header.format.contains(PRINCIPAL) == header.principal.is_empty() {
                    faults.add(
                        &at("principal"),
                        &format!("goes where the format says {PRINCIPAL}: give both or neither"),
                    );
                }
                header.secret.check(&at("secret"), faults);
            }
            Self::Basic(basic) => basic.check(&format!("{path}.basic"), faults),
            Self::Google(google) => google.check(&format!("{path}.google"), faults),
        }
    }
}

impl BasicCredentials {
    fn check(&self, path: &str, faults: &mut Faults) {
        if self.username.is_empty() || self.username.contains(':') {
            faults.add(&format!("{path}.username"), "must be there, without a colon");
        }
        self.password.check(&format!("{path}.password"), faults);
    }

    /// What a header says with that password.
    pub(super) fn value(&self, password: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{password}", self.username)))
    }
}

impl ReadOnly {
    fn check(&self, path: &str, faults: &mut Faults) {
        if !request::METHODS.contains(&self.method.as_str()) {
            faults.add(&format!("{path}.method"), &format!("must be one of {}", request::METHODS.join(", ")));
        }
        if self.path.is_empty() || self.path.iter().any(|segment| segment.matches('*').count() > 1) {
            faults.add(&format!("{path}.path"), "must name segments, with at most one * in each");
        }
    }

    pub(super) fn covers(&self, method: &str, segments: &[String]) -> bool {
        self.method == method
            && self.path.len() == segments.len()
            && self.path.iter().zip(segments).all(|(pattern, segment)| fits(pattern, segment))
    }
}

fn fits(pattern: &str, segment: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == segment,
        Some((before, after)) => {
            segment.len() >= before.len() + after.len()
                && segment.starts_with(before)
                && segment.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths(grant: Value) -> Vec<String> {
        let grant: HttpGrant = serde_json::from_value(grant).unwrap();
        grant.faults().into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn a_grant_as_the_documentation_shows_it_is_accepted() {
        let grant = json!({ "endpoints": {
            "pve": {
                "url": "https://pve1.example:8006/api2/json",
                "ca": { "file": "/etc/epo/pve/ca.pem" },
                "credentials": { "header": {
                    "format": "PVEAPIToken={principal}={secret}",
                    "principal": "epo@pve!operator",
                    "secret": { "file": "/etc/epo/pve/token" },
                } },
                "timeouts": { "connectMs": 3000, "requestMs": 60000 },
            },
            "intern": {
                "url": "https://10.1.1.1", "connections": 4,
                "proxy": { "url": "http://proxy.example:3128", "basic": { "username": "epo", "password": { "file": "/p" } } },
                "clientCertificate": { "certificate": { "file": "/a" }, "key": { "secretRef": { "name": "intern", "key": "tls.key" } } },
                "credentials": { "basic": { "username": "epo", "password": { "file": "/c" } } },
                "readOnly": [{ "method": "POST", "path": ["projects", "*:testIamPermissions"] }],
            },
            "compute": {
                "url": "https://compute.googleapis.com/compute/v1",
                "credentials": { "google": { "json": { "secretRef": { "name": "gcp", "key": "key.json" } } } },
            },
        } });
        assert_eq!(paths(grant), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let grant = json!({ "endpoints": { "a/b": {
            "url": "http://x", "ca": { "file": "relative" }, "connections": 0,
            "proxy": { "url": "https://p/x", "basic": { "username": "", "password": { "file": "b" } } },
            "clientCertificate": { "certificate": { "file": "a" }, "key": { "file": "b" } },
            "credentials": { "header": {
                "name": "Host", "format": "no", "principal": "p", "secret": { "file": "c" },
            } },
            "readOnly": [{ "method": "post", "path": [] }],
            "timeouts": { "connectMs": 0, "requestMs": 100_000_000 },
        }, "c": { "url": "https://a:b@c", "credentials": { "basic": { "username": "a:b", "password": {} } } },
        "d": { "url": "https://a", "credentials": { "google": { "json": { "file": "d" }, "scopes": [] } } } } });
        let e = "endpoints.a/b";
        let told = [
            "",
            ".url",
            ".ca.file",
            ".clientCertificate.certificate.file",
            ".clientCertificate.key.file",
            ".proxy.url",
            ".proxy.basic.username",
            ".proxy.basic.password.file",
            ".credentials.header.name",
            ".credentials.header.format",
            ".credentials.header.principal",
            ".credentials.header.secret.file",
            ".readOnly[0].method",
            ".readOnly[0].path",
            ".connections",
            ".timeouts.connectMs",
            ".timeouts.requestMs",
        ];
        let mut told: Vec<String> = told.iter().map(|path| format!("{e}{path}")).collect();
        let others = [
            "c.url",
            "c.credentials.basic.username",
            "c.credentials.basic.password",
            "d.credentials.google.json.file",
            "d.credentials.google.scopes",
        ];
        told.extend(others.map(|path| format!("endpoints.{path}")));
        assert_eq!(paths(grant), told);
        assert_eq!(paths(json!({ "endpoints": {} })), ["endpoints"]);
    }

    #[test]
    fn a_url_that_is_none_of_a_server_is_refused_without_being_quoted() {
        for url in [
            "",
            "pve",
            "ftp://a",
            "https://",
            "https://u:hunter2@a",
            "https://a/?k=hunter2",
            "https://a/#hunter2",
        ] {
            let grant = json!({ "endpoints": { "a": { "url": url } } });
            let grant: HttpGrant = serde_json::from_value(grant).unwrap();
            let faults = grant.faults();
            assert_eq!(faults.len(), 1, "{url}: {faults:?}");
            assert!(!format!("{faults:?}").contains("hunter2"), "{faults:?}");
        }
    }

    #[test]
    fn what_only_reads_is_told_by_method_and_every_segment() {
        let read = ReadOnly {
            method: "POST".to_owned(),
            path: ["v1", "*:testIamPermissions"].map(str::to_owned).to_vec(),
        };
        let of = |method, path: &[&str]| {
            read.covers(method, &path.iter().map(|&segment| segment.to_owned()).collect::<Vec<_>>())
        };
        assert!(of("POST", &["v1", "p:testIamPermissions"]));
        assert!(!of("PUT", &["v1", "p:testIamPermissions"]));
        assert!(!of("POST", &["v1", "testIamPermissions"]));
        assert!(!of("POST", &["v1", "p:testIamPermissions", "more"]));
        assert!(!of("POST", &["v1", "p:testIamPermissions:no"]));
    }
}
