//! The Kubernetes API, watched.

use std::time::Duration;

use async_trait::async_trait;
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind as Kind, ListOptions,
    PatchKind, Resource, Server,
};
use serde_json::{Value, json};

use super::{Call, Failing, Said, Watched};
use crate::{
    fault::{Fault, When},
    journal::Effect,
};

const KINDS: [Kind; 10] = [
    Kind::Denied,
    Kind::Status,
    Kind::Name,
    Kind::Connect,
    Kind::Tls,
    Kind::Timeout,
    Kind::Cut,
    Kind::TooLarge,
    Kind::Credentials,
    Kind::Invalid,
];

impl Said for Value {
    fn outcome(&self) -> String {
        match self.get("items").and_then(Self::as_array) {
            Some(items) => {
                let more = self
                    .pointer("/metadata/continue")
                    .and_then(Self::as_str)
                    .is_some_and(|it| !it.is_empty());
                format!("{} items{}", items.len(), if more { " and more" } else { "" })
            }
            None => "ok".to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        self.clone()
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(value.clone())
    }

    fn garbage() -> Option<Self> {
        Some(json!({ "maintenance": true, "items": "none", "metadata": [] }))
    }
}

impl Said for bool {
    fn outcome(&self) -> String {
        self.to_string()
    }

    fn to_json(&self) -> Value {
        (*self).into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Said for Server {
    fn outcome(&self) -> String {
        self.version.clone()
    }

    fn to_json(&self) -> Value {
        json!({ "version": self.version, "home": self.home, "user": self.user })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            version: value.get("version")?.as_str()?.to_owned(),
            home: value.get("home")?.as_bool()?,
            user: value.get("user")?.as_str()?.to_owned(),
        })
    }
}

impl Said for KubernetesFailure {
    fn outcome(&self) -> String {
        match (self.kind, self.reason.as_str()) {
            (Kind::Status, "") => format!("status {}", self.code),
            (Kind::Status, reason) => format!("status {} {reason}", self.code),
            (kind, _) => kind.as_str().to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind.as_str(),
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
            "details": self.details,
            "retryMs": self.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            "sent": self.sent,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let kind = value.get("kind")?.as_str()?;
        Some(Self {
            kind: KINDS.into_iter().find(|known| known.as_str() == kind)?,
            code: u16::try_from(value.get("code")?.as_u64()?).ok()?,
            reason: value.get("reason")?.as_str()?.to_owned(),
            message: value.get("message")?.as_str()?.to_owned(),
            details: value.get("details")?.clone(),
            retry_after: value.get("retryMs").and_then(Value::as_u64).map(Duration::from_millis),
            sent: value.get("sent")?.as_bool()?,
        })
    }
}

impl Failing for KubernetesFailure {
    fn of(fault: &Fault, when: When, place: &str) -> Option<Self> {
        let failed = |kind, sent, message: &str| Self {
            kind,
            code: 0,
            reason: String::new(),
            message: format!("cluster {place}: {message}"),
            details: json!({}),
            retry_after: None,
            sent,
        };
        let status = |code, reason: &str, message: &str| Self {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..failed(Kind::Status, true, "")
        };
        Some(match (fault, when) {
            (Fault::Refused, When::Before) => {
                failed(Kind::Connect, false, "no connection: Connection refused (os error 111)")
            }
            (Fault::Refused, When::After) => {
                status(503, "ServiceUnavailable", "the server is currently unable to handle the request")
            }
            (Fault::Lost, _) => failed(
                Kind::Cut,
                true,
                "the connection broke before the answer was whole: Connection reset by peer (os error 104)",
            ),
            (Fault::Timeout(time), _) => failed(
                Kind::Timeout,
                true,
                &format!(
                    "no answer within {} ms; whether the request took effect is unknown",
                    time.as_millis()
                ),
            ),
            (Fault::CutShort | Fault::Garbage, _) => {
                failed(Kind::Cut, true, "the answer is no JSON (line 1, column 700)")
            }
            (Fault::RateLimited(wait), _) => Self {
                retry_after: Some(*wait),
                ..status(429, "TooManyRequests", "too many requests, please try again later")
            },
            (Fault::WrongContentType, _) => status(
                404,
                "",
                "HTTP 404 Not Found, without a Status: <html><body>no such page</body></html>",
            ),
            (Fault::NoCredentials, When::Before) => {
                failed(Kind::Credentials, false, "the Secret with the credentials is gone")
            }
            (Fault::NoCredentials, When::After) => status(401, "Unauthorized", "Unauthorized"),
            (Fault::Slow(_) | Fault::Death, _) => return None,
        })
    }

    fn denied(place: &str, why: &str) -> Self {
        Self {
            kind: Kind::Denied,
            code: 0,
            reason: String::new(),
            message: format!("cluster {place}: {why}"),
            details: json!({}),
            retry_after: None,
            sent: false,
        }
    }
}

fn call<'a>(function: &'static str, place: &'a str, effect: Effect, about: String) -> Call<'a> {
    Call { capability: "kubernetes", function, place, about, effect }
}

/// `v1/pods team-a/web`.
fn object(resource: &Resource, namespace: &str, name: &str) -> String {
    let kind = format!("{}/{}", resource.api_version, resource.plural);
    match (namespace, name) {
        ("", "") => kind,
        (namespace, "") => format!("{kind} {namespace}"),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

fn named(resource: &Resource) -> Value {
    json!({ "apiVersion": resource.api_version, "plural": resource.plural })
}

#[async_trait]
impl Kubernetes for Watched<dyn Kubernetes> {
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure> {
        let request = || json!({ "cluster": cluster });
        self.watch
            .call(call("about", cluster, Effect::Read, String::new()), request, self.inner.about(cluster))
            .await
    }

    async fn get(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        let about = object(resource, namespace, name);
        let request = || json!({ "cluster": cluster, "resource": named(resource), "namespace": namespace, "name": name });
        let asked = self.inner.get(cluster, resource, namespace, name);
        self.watch.call(call("get", cluster, Effect::Read, about), request, asked).await
    }

    async fn list(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        let mut about = object(resource, namespace, "");
        for (name, selector) in [("", &options.label_selector), ("fields ", &options.field_selector)] {
            if !selector.is_empty() {
                about = format!("{about} [{name}{selector}]");
            }
        }
        if options.continue_token.is_some() {
            about += " (next page)";
        }
        let request = || {
            json!({
                "cluster": cluster,
                "resource": named(resource),
                "namespace": namespace,
                "options": {
                    "labelSelector": options.label_selector,
                    "fieldSelector": options.field_selector,
                    "limit": options.limit,
                    "continue": options.continue_token,
                },
            })
        };
        let options = ListOptions { limit: self.watch.page(options.limit), ..options.clone() };
        let asked = self.inner.list(cluster, resource, namespace, &options);
        self.watch.call(call("list", cluster, Effect::Read, about), request, asked).await
    }

    async fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, KubernetesFailure> {
        let Access { verb, resource, namespace } = access;
        let about = format!("{verb} {}", object(resource, namespace, ""));
        let request = || {
            json!({
                "cluster": cluster,
                "access": { "verb": verb, "resource": named(resource), "namespace": namespace },
            })
        };
        let asked = self.inner.allowed(cluster, access);
        self.watch.call(call("allowed", cluster, Effect::Read, about), request, asked).await
    }

    async fn create(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let about = object(resource, namespace, name);
        let written = body.clone();
        let request = || json!({ "cluster": cluster, "resource": named(resource), "namespace": namespace, "body": written });
        let asked = self.inner.create(cluster, resource, namespace, body);
        self.watch.call(call("create", cluster, Effect::Write, about), request, asked).await
    }

    async fn patch(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        let about = object(resource, namespace, name);
        let kind_name = match kind {
            PatchKind::Merge => "merge",
            PatchKind::Json => "json-patch",
            PatchKind::Apply => "apply",
        };
        let written = body.clone();
        let request = || {
            json!({
                "cluster": cluster,
                "resource": named(resource),
                "namespace": namespace,
                "name": name,
                "kind": kind_name,
                "body": written,
            })
        };
        let asked = self.inner.patch(cluster, resource, namespace, name, kind, body);
        self.watch.call(call("patch", cluster, Effect::Write, about), request, asked).await
    }

    async fn delete(
        &self,
        cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        let about = object(resource, namespace, name);
        let request = || {
            json!({
                "cluster": cluster,
                "resource": named(resource),
                "namespace": namespace,
                "name": name,
                "options": {
                    "uid": options.uid,
                    "resourceVersion": options.resource_version,
                    "graceSeconds": options.grace_seconds,
                },
            })
        };
        let asked = self.inner.delete(cluster, resource, namespace, name, options);
        self.watch.call(call("delete", cluster, Effect::Write, about), request, asked).await
    }
}
