//! How an entry takes up something new.

use egress_runtime::Shadow;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Faults;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapConfig {
    /// What becomes of a candidate that sees less than what is active.
    pub shadow: Shadow,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OnDifference {
    #[default]
    Refuse,
    Warn,
}

/// Takes its keys out of an entry.
pub(super) fn read(fields: &mut Map<String, Value>, faults: &mut Faults) -> Option<SwapConfig> {
    let shadow = match faults.read("shadow", fields.remove("shadow"))? {
        OnDifference::Refuse => Shadow::Refuse,
        OnDifference::Warn => Shadow::Warn,
    };
    Some(SwapConfig { shadow })
}
