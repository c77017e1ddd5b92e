//! Why a candidate did not become active.

use std::fmt;

use egress_contract::Fault;
use serde::{Deserialize, Serialize};

/// What a candidate goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The bytes are read from their source and unpacked.
    Fetch,
    /// They are what the entry pins.
    Digest,
    /// They are a valid component of a contract's line that this host serves.
    Parse,
    /// They become machine code, within bounds.
    Compile,
    /// Every import is lent by the entry's grants, every export is there.
    Link,
    /// The component accepts the entry's config.
    Configure,
    /// The component answers `check` for its places without a trap, a limit or a write.
    Check,
    /// It sees no less of its places than the active revision.
    Shadow,
}

impl Stage {
    /// As it stands in statuses, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Digest => "digest",
            Self::Parse => "parse",
            Self::Compile => "compile",
            Self::Link => "link",
            Self::Configure => "configure",
            Self::Check => "check",
            Self::Shadow => "shadow",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A candidate refused at a stage; what was active before goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{stage}: {message}")]
pub struct Refusal {
    /// Where.
    pub stage: Stage,
    /// Stable, CamelCase: `NotAComponent`, `ImportNotGranted`, `ConfigRefused`.
    pub reason: &'static str,
    /// The thing, the cause, the way out.
    pub message: String,
    /// What `configure` found, or what `shadow` saw worse.
    pub faults: Vec<Fault>,
}

impl Refusal {
    pub(crate) fn new(stage: Stage, reason: &'static str, message: impl Into<String>) -> Self {
        Self { stage, reason, message: message.into(), faults: Vec::new() }
    }
}
