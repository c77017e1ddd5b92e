//! What of an entry makes a revision.

use std::collections::BTreeMap;

use egress_contract::Mark;
use egress_runtime::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Grants;

/// What makes a revision, together with the component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The provider's own.
    #[serde(default = "empty_object")]
    pub config: Value,
    /// What it may use.
    #[serde(default)]
    pub grants: Grants,
    /// How much of it.
    #[serde(default)]
    pub limits: Limits,
    /// Whether a simulation stands in for the backend: without a cluster, for whoever tries the operator.
    #[serde(default, skip_serializing_if = "is_false")]
    pub simulated: bool,
    /// Marks of an earlier operator; an instance that bears all pairs of one of them is `legacy`.
    #[serde(default)]
    pub legacy_marks: Vec<BTreeMap<String, String>>,
}

impl Settings {
    /// What decides what is lent: a change of it is a new revision.
    pub fn lent_by(&self) -> Value {
        let mut grants = serde_json::to_value(&self.grants).unwrap_or_default();
        if let (true, Value::Object(grants)) = (self.simulated, &mut grants) {
            grants.insert("simulated".to_owned(), Value::Bool(true));
        }
        grants
    }

    /// As the contract has them.
    pub fn legacy(&self) -> Vec<Mark> {
        self.legacy_marks.iter().map(|mark| mark.clone().into_iter().collect()).collect()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn empty_object() -> Value {
    Value::Object(Map::new())
}
