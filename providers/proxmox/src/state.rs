//! What a machine is doing, by two words of the server.

use serde_json::Value;

use crate::cluster::text;

/// `status` and `qmpstatus` together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    /// It is about to run.
    Begins,
    /// By an administrator, or asleep by itself.
    Paused,
    Off,
    /// Anything else, a word that is not known here included.
    Other(String),
}

impl Power {
    /// Of the answer to a look at the state.
    pub fn read(data: &Value) -> Self {
        let (status, inner) = (text(data, "status").unwrap_or_default(), text(data, "qmpstatus"));
        match (status, inner.unwrap_or(status)) {
            ("running", "running") => Self::Running,
            ("running", "prelaunch" | "inmigrate" | "postmigrate" | "finish-migrate") => Self::Begins,
            ("running", "paused" | "suspended") => Self::Paused,
            ("stopped", _) => Self::Off,
            (_, word) => Self::Other(word.to_owned()),
        }
    }

    /// For people.
    pub fn show(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Begins => "starting",
            Self::Paused => "paused",
            Self::Off => "stopped",
            Self::Other(word) => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_that_is_not_known_is_neither_running_nor_off() {
        let read = |status: &str, inner: &str| Power::read(&json!({ "status": status, "qmpstatus": inner }));
        assert_eq!(read("running", "running"), Power::Running);
        assert_eq!(read("running", "prelaunch"), Power::Begins);
        assert_eq!(read("running", "paused"), Power::Paused);
        assert_eq!(read("stopped", "stopped"), Power::Off);
        for word in ["io-error", "internal-error", "melted"] {
            assert_eq!(read("running", word), Power::Other(word.to_owned()));
        }
        assert_eq!(Power::read(&json!({ "status": "running" })), Power::Running, "without the second word");
        assert_eq!(Power::read(&json!({})), Power::Other(String::new()));
    }
}
