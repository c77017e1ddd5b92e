//! An entry as a JSON Schema, out of the types that read it: what the reference for people is made of.

use std::collections::BTreeMap;

use egress_runtime::Limits;
use schemars::JsonSchema;
use serde_json::Value;

use super::{Grants, module::RawModule, swap::OnDifference};
use crate::{
    collecting::CollectConfig,
    core::{budget::ReplaceConfig, canary::Rollout, probe::HealthConfig},
};

/// A key of the providers ConfigMap: what makes the Proxies that name it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "read by nobody but the schema, which a test compares with what is read")]
struct Entry {
    module: RawModule,
    /// The provider's own: its page, and `epo provider inspect`, say what it takes.
    #[serde(default)]
    config: BTreeMap<String, Value>,
    #[serde(default)]
    grants: Grants,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    collect: CollectConfig,
    #[serde(default)]
    replace: ReplaceConfig,
    /// Left out, Proxies are not probed; empty, all defaults hold.
    #[serde(default)]
    health: Option<HealthConfig>,
    /// What becomes of a candidate that sees less than what is active.
    #[serde(default)]
    shadow: OnDifference,
    /// Left out, a candidate gets all calls at once; empty, all defaults hold.
    #[serde(default)]
    rollout: Option<Rollout>,
    /// Without a cluster only: a simulation stands in for the backend.
    #[serde(default)]
    simulated: bool,
    /// Marks of an earlier operator; an instance that bears all pairs of one of them may be adopted.
    #[serde(default)]
    legacy_marks: Vec<BTreeMap<String, String>>,
}

/// The schema of an entry.
pub fn schema() -> Value {
    schemars::schema_for!(Entry).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_entry;

    #[test]
    fn the_schema_has_the_keys_that_are_read_and_no_other() {
        let schema = schema();
        let mut keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        keys.sort();
        let unknown = "module: { file: a.wasm }\nnonsense: 1\n";
        let faults = read_entry(&"a".parse().unwrap(), unknown).unwrap_err().faults;
        let told = faults[0].message.split("an entry has ").nth(1).unwrap().replace(" and ", ", ");
        let mut known: Vec<&str> = told.split(", ").collect();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
