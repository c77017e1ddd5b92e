//! The grant as people write it, and whether it makes sense.

use egress_contract::Fault;
use serde::{Deserialize, Serialize};

use super::address::Range;
use crate::faults::Faults;

/// From where volumes may be filled, and with how much. Only hosts of the libvirt grant are filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TransferGrant {
    /// Addresses that are refused otherwise since they lead inside, such as `10.1.0.0/16`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<String>,
    /// A larger image is not taken.
    pub max_bytes: u64,
    /// When to give up.
    pub timeouts: Timeouts,
}

impl Default for TransferGrant {
    fn default() -> Self {
        Self { inside: Vec::new(), max_bytes: 64 << 30, timeouts: Timeouts::default() }
    }
}

/// When to give up, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Timeouts {
    /// Until a server's connection stands, TLS included.
    pub connect_ms: u64,
    /// Without a byte of it.
    pub stall_ms: u64,
    /// All of a transfer.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, stall_ms: 60_000, total_ms: 20 * 60 * 1_000 }
    }
}

impl TransferGrant {
    /// Everything that is wrong; paths begin at the grant.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        for (index, range) in self.inside.iter().enumerate() {
            if range.parse::<Range>().is_err() {
                let message = format!("{range:?} is no range of addresses, such as 10.1.0.0/16");
                faults.add(&format!("inside[{index}]"), &message);
            }
        }
        let Timeouts { connect_ms, stall_ms, total_ms } = self.timeouts;
        let fields = [
            ("maxBytes", self.max_bytes),
            ("timeouts.connectMs", connect_ms),
            ("timeouts.stallMs", stall_ms),
            ("timeouts.totalMs", total_ms),
        ];
        for (field, _) in fields.iter().filter(|(_, value)| *value == 0) {
            faults.add(field, "must be at least 1");
        }
        faults.0
    }

    pub(super) fn ranges(&self) -> Vec<Range> {
        self.inside.iter().filter_map(|range| range.parse().ok()).collect()
    }
}
