//! Transfers, watched.

use async_trait::async_trait;
use egress_runtime::capability::{
    Fill, Offer, Progress, Transfer, TransferFailure, TransferFailureKind as Kind,
};
use serde_json::{Value, json};

use super::{Call, Failing, Said, Watched};
use crate::{
    fault::{Fault, When},
    journal::Effect,
};

const KINDS: [Kind; 14] = [
    Kind::Denied,
    Kind::Name,
    Kind::Connect,
    Kind::Tls,
    Kind::Timeout,
    Kind::Cut,
    Kind::Status,
    Kind::TooLarge,
    Kind::DigestMismatch,
    Kind::Redirects,
    Kind::Credentials,
    Kind::Exists,
    Kind::NoSpace,
    Kind::Libvirt,
];

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

impl Said for Offer {
    fn outcome(&self) -> String {
        self.size.map_or_else(|| "of unknown size".to_owned(), |size| format!("{size} bytes"))
    }

    fn to_json(&self) -> Value {
        json!({ "size": self.size, "etag": self.etag, "lastModified": self.last_modified })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            size: value.get("size")?.as_u64(),
            etag: text(value, "etag"),
            last_modified: text(value, "lastModified"),
        })
    }
}

impl Said for Progress {
    fn outcome(&self) -> String {
        match (&self.sha256, self.total) {
            (Some(_), _) => "whole".to_owned(),
            (None, Some(total)) => format!("{} of {total} bytes", self.bytes),
            (None, None) => format!("{} bytes", self.bytes),
        }
    }

    fn to_json(&self) -> Value {
        json!({ "bytes": self.bytes, "total": self.total, "sha256": self.sha256 })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            bytes: value.get("bytes")?.as_u64()?,
            total: value.get("total")?.as_u64(),
            sha256: text(value, "sha256"),
        })
    }
}

impl Said for Option<Progress> {
    fn outcome(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Said::outcome)
    }

    fn to_json(&self) -> Value {
        self.as_ref().map(Said::to_json).unwrap_or_default()
    }

    fn from_json(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { Progress::from_json(value).map(Some) }
    }
}

impl Said for TransferFailure {
    fn outcome(&self) -> String {
        match (self.status, self.code) {
            (Some(status), _) => format!("status {status}"),
            (None, Some(code)) => format!("code {code}"),
            (None, None) => self.kind.as_str().to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind.as_str(), "status": self.status, "code": self.code, "message": self.message,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let kind = value.get("kind")?.as_str()?;
        Some(Self {
            kind: KINDS.into_iter().find(|known| known.as_str() == kind)?,
            status: value.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok()),
            code: value.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()),
            message: text(value, "message")?,
        })
    }
}

fn failed(kind: Kind, message: impl Into<String>) -> TransferFailure {
    TransferFailure { kind, status: None, code: None, message: message.into() }
}

impl Failing for TransferFailure {
    fn of(fault: &Fault, when: When, _: &str) -> Option<Self> {
        let status = |status| TransferFailure {
            status: Some(status),
            ..failed(Kind::Status, format!("the server answers with status {status}"))
        };
        Some(match (fault, when) {
            (Fault::Refused, When::Before) => {
                failed(Kind::Connect, "no connection: Connection refused (os error 111)")
            }
            (Fault::Refused, When::After) => status(503),
            (Fault::Timeout(time), _) => {
                failed(Kind::Timeout, format!("no answer within {} ms", time.as_millis()))
            }
            (Fault::Lost | Fault::CutShort | Fault::Garbage, _) => {
                failed(Kind::Cut, "the connection broke: Connection reset by peer (os error 104)")
            }
            (Fault::WrongContentType, _) => status(502),
            (Fault::NoCredentials, _) => failed(Kind::Credentials, "the Secret with the key is gone"),
            (Fault::RateLimited(_) | Fault::Slow(_) | Fault::Death, _) => return None,
        })
    }

    fn denied(_: &str, why: &str) -> Self {
        failed(Kind::Denied, why)
    }
}

fn call<'a>(function: &'static str, place: &'a str, effect: Effect, about: String) -> Call<'a> {
    Call { capability: "transfer", function, place, about, effect }
}

#[async_trait]
impl Transfer for Watched<dyn Transfer> {
    async fn probe(&self, url: &str) -> Result<Offer, TransferFailure> {
        let request = || json!({ "url": url });
        let asked = self.inner.probe(url);
        self.watch.call(call("probe", "", Effect::Read, url.to_owned()), request, asked).await
    }

    async fn ensure(&self, fill: &Fill) -> Result<Progress, TransferFailure> {
        let request = || {
            json!({
                "host": fill.host, "pool": fill.pool, "volume": fill.volume, "url": fill.url, "format": fill.format,
                "sha256": fill.sha256,
            })
        };
        let about = format!("{}/{}", fill.pool, fill.volume);
        self.watch
            .call(call("ensure", &fill.host, Effect::Write, about), request, self.inner.ensure(fill))
            .await
    }

    async fn status(
        &self,
        host: &str,
        pool: &str,
        volume: &str,
    ) -> Result<Option<Progress>, TransferFailure> {
        let request = || json!({ "host": host, "pool": pool, "volume": volume });
        let asked = self.inner.status(host, pool, volume);
        self.watch.call(call("status", host, Effect::Read, format!("{pool}/{volume}")), request, asked).await
    }
}
