//! What is kept from one step to the next: the operation that runs, and which attempt it is.

use serde::{Deserialize, Serialize};

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Insert,
    Start,
    /// Our mark in the place of the earlier operator's.
    Labels,
    Firewall,
    Delete,
}

/// An operation that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    pub what: What,
    pub operation: String,
}

/// Where create goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// At what the backend shows.
    #[default]
    Look,
    /// There was nothing.
    Insert,
    /// It runs: with the entry's firewall rule.
    Admit,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Each has request ids of its own: the same would answer with what came of the one before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Zones that had no room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
    #[serde(default)]
    pub stage: Stage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Progress {
    /// What was kept; what can't be read is as good as nothing.
    pub fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// To be kept.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same with an operation that runs.
    pub fn running(&self, what: What, operation: &str) -> Self {
        Self { running: Some(Running { what, operation: operation.to_owned() }), ..self.clone() }
    }

    /// From a look on, with request ids of its own.
    pub fn anew(&self) -> Self {
        Self {
            attempt: self.attempt.saturating_add(1),
            tried: self.tried.clone(),
            stage: Stage::Look,
            running: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_and_anything_else_is_nothing() {
        let kept = Progress { attempt: 3, tried: vec!["us-central1-a".to_owned()], ..Progress::default() }
            .running(What::Insert, "operation-1");
        assert_eq!(Progress::read(Some(&kept.write())), kept);
        for strange in [None, Some(""), Some("?"), Some(r#"{"step":"clone"}"#)] {
            assert_eq!(Progress::read(strange), Progress::default());
        }
    }
}
