//! What both sides say to each other, as `wit/types.wit` documents it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::{InstanceName, Mark};

/// How the operator treats a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// The backend says that the instance is gone.
    NotFound,
    /// May succeed later.
    Transient,
    /// Won't succeed until somebody changes something.
    Permanent,
    /// The backend has no room.
    QuotaExceeded,
}

impl ErrorClass {
    /// As it stands in logs, metrics and the Proxy's status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::QuotaExceeded => "quota-exceeded",
        }
    }
}

/// A failed operation, classified where it was understood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What to do about it.
    pub class: ErrorClass,
    /// Stable: `foreign`, `finished`, `limit-memory`; see `wit/types.wit`.
    pub reason: String,
    /// The thing, the cause, the way out.
    pub message: String,
    /// When to try again, where the backend said so.
    pub retry_after: Option<Duration>,
    /// An object with whatever helps.
    pub details: Value,
    /// In create and delete: the progress from now on; empty to forget it, none to keep it.
    pub progress: Option<Box<str>>,
}

impl Error {
    /// A failure without hints.
    pub fn new(class: ErrorClass, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            reason: reason.into(),
            message: message.into(),
            retry_after: None,
            details: Value::Object(serde_json::Map::new()),
            progress: None,
        }
    }

    /// May succeed later.
    pub fn transient(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Transient, reason, message)
    }

    /// Won't succeed until somebody changes something.
    pub fn permanent(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Permanent, reason, message)
    }
}

/// Whom a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Derived from installation, UID and incarnation.
    pub name: InstanceName,
    /// The Proxy's UID; empty only for an item without a mark that the collector hands back.
    pub uid: String,
    /// From 1, or 0 without a UID; raised before each create that follows a delete.
    pub incarnation: u32,
    /// The Proxy's namespace.
    pub namespace: String,
    /// The Proxy's name.
    pub proxy: String,
    /// The newest that create answered, pending or done.
    pub id: Option<String>,
    /// What the last answer about this target left behind, be it create's or delete's.
    pub progress: Option<String>,
}

/// Where an instance is to stand and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// A backend's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// A zone, host or node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// A key of the provider's catalogue, or a backend's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// A key of the provider's catalogue, or an image's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// What a Proxy asks of its provider, user-data apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The TCP port that the proxy listens at.
    pub port: u16,
    /// Where and on what.
    #[serde(default)]
    pub placement: Placement,
}

/// The backend is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The instance's id, once known.
    pub id: Option<String>,
    /// Opaque; given back with the next call.
    pub progress: String,
    /// When to call again.
    pub poll: Duration,
    /// For people.
    pub message: String,
}

/// How far a create is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The instance runs; its id.
    Done(String),
    /// To be called again.
    Pending(Pending),
}

/// How far a delete is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Nothing is left.
    Done,
    /// To be called again.
    Pending(Pending),
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not usable yet.
    Provisioning,
    /// Usable, with an address.
    Running,
    /// Stands still.
    Stopped,
    /// Being removed.
    Deleting,
}

/// Where an instance answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// `internal` or `external`.
    pub kind: String,
    /// An IPv4 or IPv6 literal.
    pub ip: String,
}

/// What the backend shows of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// What it is doing.
    pub state: State,
    /// Best first.
    pub addresses: Vec<Address>,
    /// As read back.
    pub mark: Mark,
    /// Milliseconds since 1970 UTC.
    pub created_ms: Option<u64>,
    /// Why, in the backend's terms; or empty.
    pub reason: String,
    /// The same for people; or empty.
    pub message: String,
    /// An object with whatever helps.
    pub details: Value,
}

/// Something that this installation owns at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// The target's name that it belongs to.
    pub name: String,
    /// What it is when it stands without its instance.
    pub leftover: Option<String>,
    /// As read back.
    pub mark: Mark,
    /// Milliseconds since 1970 UTC.
    pub created_ms: Option<u64>,
}

/// A part of what `list` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What was found.
    pub items: Vec<Item>,
    /// What could not be read, with the cause.
    pub unread: Vec<String>,
    /// Where to go on.
    pub next: Option<String>,
}

/// Whether a place could serve a create.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Whether it could.
    pub ready: bool,
    /// From the contract's list.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Short values.
    pub details: Value,
}

/// What is wrong with one value of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where; empty for the whole.
    pub path: String,
    /// What, and what would be right.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Who a provider says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Its own name.
    pub name: String,
    /// SemVer.
    pub version: String,
    /// The contract's line that it was built against.
    pub contract: String,
    /// One value for each axis that a provider decides.
    pub profile: Value,
    /// JSON Schema of its config.
    pub config_schema: Value,
}
