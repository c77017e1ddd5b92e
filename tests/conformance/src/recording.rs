//! The file in which calls of a provider stand with all that they asked of the host: made by
//! `epo provider call --record`, answered again by [`replay`](crate::replay).
//!
//! It holds what makes the calls come out the same: config, limits, the installation's hash, targets, readings of
//! the clock. It holds no grant, no address of a capability, no credential and no user-data.

use std::{fs, io, path::Path};

use egress_contract::{EntryName, Installation, Mark};
use egress_runtime::Limits;
use egress_sim::recording::Exchange;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::WrittenCall;

/// What this host writes and reads.
pub const FORMAT: &str = "egress-provider-recording/1";

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    /// [`FORMAT`].
    pub format: String,
    /// Milliseconds since 1970 when it began.
    pub began_ms: u64,
    /// Which component was called.
    pub provider: Who,
    /// What answered: `kubernetes, simulated`, `real`.
    pub backend: String,
    /// The entry's name.
    pub entry: String,
    /// The hash that stands in names and marks.
    pub installation: String,
    /// The entry's config.
    pub config: Value,
    /// The entry's limits.
    pub limits: Limits,
    /// The entry's marks of an earlier operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legacy_marks: Vec<Mark>,
    /// In order.
    pub calls: Vec<Recorded>,
}

/// A component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Who {
    /// Its own name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Of its bytes.
    pub digest: String,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recorded {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// What was called.
    pub call: WrittenCall,
    /// What it asked, and what it heard.
    pub host_calls: Vec<Exchange>,
    /// What it answered: `answer` or `failure`.
    pub outcome: Value,
}

/// A recording that can't be read, or written.
#[derive(Debug, thiserror::Error)]
pub enum BadRecording {
    /// The file.
    #[error("{0}")]
    File(#[from] io::Error),
    /// No recording.
    #[error("it is no recording ({0}); make one with epo provider call --record")]
    Malformed(String),
    /// Of another epo.
    #[error(
        "it is written as {0:?}, and this epo reads {FORMAT:?}; record it again, or use the epo that wrote it"
    )]
    Format(String),
}

impl Recording {
    /// From its file.
    pub fn read(path: &Path) -> Result<Self, BadRecording> {
        let text = String::from_utf8(fs::read(path)?);
        Self::parse(&text.map_err(|error| BadRecording::Malformed(error.to_string()))?)
    }

    /// From its text.
    pub fn parse(text: &str) -> Result<Self, BadRecording> {
        let malformed = |error: &dyn std::fmt::Display| BadRecording::Malformed(error.to_string());
        let value: Value = serde_json::from_str(text).map_err(|error| malformed(&error))?;
        // Said first: what another format has otherwise is no fault of the file.
        match value.get("format").and_then(Value::as_str) {
            Some(FORMAT) => serde_json::from_value(value).map_err(|error| malformed(&error)),
            Some(other) => Err(BadRecording::Format(other.to_owned())),
            None => Err(malformed(&"it has no field format")),
        }
    }

    /// Its text, for a file that people read and compare.
    pub fn text(&self) -> Result<String, BadRecording> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| BadRecording::Malformed(error.to_string()))
    }

    /// What made the names and marks.
    pub fn installation(&self) -> Result<Installation, BadRecording> {
        Installation::known_by(&self.installation).map_err(|error| BadRecording::Malformed(error.to_string()))
    }

    /// Whose entry it was.
    pub fn entry(&self) -> Result<EntryName, BadRecording> {
        self.entry
            .parse()
            .map_err(|error: egress_contract::InvalidName| BadRecording::Malformed(error.to_string()))
    }

    /// How many host calls stand in it.
    pub fn host_calls(&self) -> usize {
        self.calls.iter().flat_map(|call| &call.host_calls).filter(|exchange| !exchange.is_reading()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Recording::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_recording_is_told_apart_from_another_epos() {
        assert!(told("not json").contains("--record"));
        assert!(told("{}").contains("no field format"));
        assert!(told("{\"format\":\"egress-provider-recording/2\",\"new\":1}").contains("recording/1"));
        assert!(told(&format!("{{\"format\":\"{FORMAT}\"}}")).contains("beganMs"));
    }
}
