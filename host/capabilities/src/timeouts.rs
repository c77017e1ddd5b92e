//! How long a request over HTTP may take, as a grant says it.

use serde::{Deserialize, Serialize};

use crate::faults::Faults;

/// When to give up, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Timeouts {
    /// Until a connection stands, TLS included.
    pub connect_ms: u64,
    /// From a request's start to its end.
    pub request_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 5_000, request_ms: 30_000 }
    }
}

impl Timeouts {
    pub(crate) fn check(&self, path: &str, longest_ms: u64, faults: &mut Faults) {
        if self.connect_ms == 0 {
            faults.add(&format!("{path}.connectMs"), "must be at least 1");
        }
        if self.request_ms > longest_ms {
            faults.add(&format!("{path}.requestMs"), &format!("must be at most {longest_ms}"));
        }
        // Only so is a deadline that passes proof that the request may have been sent.
        if self.connect_ms >= self.request_ms {
            faults
                .add(&format!("{path}.connectMs"), &format!("must be below requestMs, {}", self.request_ms));
        }
    }
}
