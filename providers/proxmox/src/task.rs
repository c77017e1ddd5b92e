//! How a task ended.

use serde_json::Value;

/// What a task's status tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not at its end yet.
    Running,
    /// Done. A number of warnings is no failure: they stand in its log.
    Done,
    /// Ended, and nobody knows how: what it was to do is to be looked at.
    Unknown(String),
    /// Failed, in the backend's words.
    Failed(String),
}

/// What `exitstatus` is when the worker was killed or its log is cut. It has no code.
const UNTOLD: [&str; 2] = ["unexpected status", "unable to get last line from task log"];

/// Reads the `data` of a task's status.
pub fn outcome(data: &Value) -> Outcome {
    let field = |name: &str| data.get(name).and_then(Value::as_str);
    match (field("status"), field("exitstatus")) {
        (Some("running"), _) => Outcome::Running,
        (_, Some("OK")) => Outcome::Done,
        (_, Some(text)) if text.starts_with("WARNINGS: ") => Outcome::Done,
        (_, Some(text)) if UNTOLD.iter().any(|untold| text.starts_with(untold)) => {
            Outcome::Unknown(text.to_owned())
        }
        (_, Some(text)) => Outcome::Failed(text.to_owned()),
        (_, None) => Outcome::Unknown("the task stopped without an exit status".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stopped(text: &str) -> Outcome {
        outcome(&json!({ "status": "stopped", "exitstatus": text }))
    }

    #[test]
    fn warnings_are_no_failure() {
        assert_eq!(stopped("OK"), Outcome::Done);
        assert_eq!(stopped("WARNINGS: 2"), Outcome::Done);
    }

    #[test]
    fn an_end_that_nobody_saw_is_neither_success_nor_failure() {
        for text in ["unexpected status", "unable to get last line from task log - gone"] {
            assert_eq!(stopped(text), Outcome::Unknown(text.to_owned()));
        }
        assert!(matches!(outcome(&json!({ "status": "stopped" })), Outcome::Unknown(_)));
    }

    #[test]
    fn anything_else_failed_for_the_reason_it_names() {
        let text = "clone failed: interrupted by signal";
        assert_eq!(stopped(text), Outcome::Failed(text.to_owned()));
        assert_eq!(outcome(&json!({ "status": "running" })), Outcome::Running);
    }
}
