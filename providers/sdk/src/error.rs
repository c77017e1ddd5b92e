//! Failures, classified where they are understood.

use serde_json::{Map, Value};

/// Reasons that the operator knows; others are shown as they are.
pub mod reason {
    /// The name is taken by what is not ours.
    pub const FOREIGN: &str = "foreign";
    /// Can't be started again: the operator replaces it.
    pub const FINISHED: &str = "finished";
    /// An administrator paused it.
    pub const PAUSED: &str = "paused";
    /// Being deleted.
    pub const DELETING: &str = "deleting";
    /// It is gone.
    pub const NOT_FOUND: &str = "not-found";
    /// Asked for what the provider can't do.
    pub const UNSUPPORTED: &str = "unsupported";
    /// Asked for a place, type or image that the provider can't give.
    pub const PLACEMENT: &str = "placement";
    /// The entry's config is at fault.
    pub const CONFIG: &str = "config";
    /// No connection.
    pub const UNREACHABLE: &str = "unreachable";
    /// The backend doesn't know us.
    pub const UNAUTHORIZED: &str = "unauthorized";
    /// The backend, or the grant, doesn't let us.
    pub const FORBIDDEN: &str = "forbidden";
    /// No room.
    pub const QUOTA: &str = "quota";
    /// Locked, or asked too much at once.
    pub const BUSY: &str = "busy";
    /// No answer in time: the outcome is unknown.
    pub const TIMEOUT: &str = "timeout";
    /// The backend failed in its own way.
    pub const BACKEND: &str = "backend";
}

/// How the operator treats a failure. What is not understood is transient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The backend says that the instance is gone. Only `get` answers it.
    NotFound,
    /// May succeed later.
    Transient,
    /// Won't succeed until somebody changes something.
    Permanent,
    /// The backend has no room.
    QuotaExceeded,
}

/// A failure: the thing, the cause, the way out.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What to do about it.
    pub class: ErrorClass,
    /// Stable, lower-case, words joined by `-`.
    pub reason: String,
    /// Never user-data, never a credential.
    pub message: String,
    /// When to try again, where the backend said so.
    pub retry_ms: Option<u32>,
    /// Whatever helps.
    pub details: Map<String, Value>,
    /// In create and delete: what `target.progress` is from now on; empty to forget it. None keeps what
    /// there was.
    pub progress: Option<String>,
}

impl Error {
    fn new(class: ErrorClass, reason: &str, message: impl Into<String>) -> Self {
        Self {
            class,
            reason: reason.to_owned(),
            message: message.into(),
            retry_ms: None,
            details: Map::new(),
            progress: None,
        }
    }

    /// The instance is gone.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::NotFound, reason::NOT_FOUND, message)
    }

    /// May succeed later.
    pub fn transient(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Transient, reason, message)
    }

    /// Won't succeed until somebody changes something.
    pub fn permanent(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Permanent, reason, message)
    }

    /// The backend has no room.
    pub fn quota(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::QuotaExceeded, reason::QUOTA, message)
    }

    /// With the wait that the backend asked for.
    #[must_use]
    pub fn retry_ms(mut self, wait: Option<u32>) -> Self {
        self.retry_ms = wait;
        self
    }

    /// And forgets the progress: a backend's task that failed must not be asked about again.
    #[must_use]
    pub fn forget_progress(mut self) -> Self {
        self.progress = Some(String::new());
        self
    }

    /// With one more detail.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Error {}
