//! Conditions as `kubectl wait` and people read them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::ProxyStatus;

/// Whether the instance runs and has an address.
pub const READY: &str = "Ready";
/// Whether the operator is at work on it by itself.
pub const PROGRESSING: &str = "Progressing";

/// Whether it does what it is for, as probes found.
pub const HEALTHY: &str = "Healthy";
/// Whether no other Proxy has its address outside.
pub const UNIQUE: &str = "EgressAddressUnique";

/// Characters of a message that go into a status or a notice.
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_REASON: usize = 64;

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It can't be told.
    Unknown,
}

impl Truth {
    /// As the API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Whether people can use it now.
pub fn is_ready(status: &ProxyStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == READY && condition.status == Truth::True.as_str())
}

/// Sets one condition. Its transition time changes only with what it says.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    truth: Truth,
    reason: &str,
    message: &str,
    (generation, now): (i64, Timestamp),
) {
    let status = truth.as_str().to_owned();
    let (reason, message) = (camel(reason), bounded(message));
    match conditions.iter_mut().find(|c| c.type_ == kind) {
        Some(condition) => {
            if condition.status != status {
                condition.status = status;
                condition.last_transition_time = Time(now);
            }
            condition.reason = reason;
            condition.message = message;
            condition.observed_generation = Some(generation);
        }
        None => conditions.push(Condition {
            type_: kind.to_owned(),
            status,
            reason,
            message,
            observed_generation: Some(generation),
            last_transition_time: Time(now),
        }),
    }
}

/// A reason as the API server takes it: `limit-memory` becomes `LimitMemory`.
pub fn camel(reason: &str) -> String {
    let mut camel = String::new();
    for word in reason.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.extend(letters);
    }
    if !camel.starts_with(|c: char| c.is_ascii_alphabetic()) {
        camel.insert_str(0, "Reason");
    }
    camel.truncate(LONGEST_REASON);
    camel
}

/// Cut to what a status may carry. A provider writes these texts, and nothing else bounds their sum.
pub fn bounded(message: &str) -> String {
    if message.chars().count() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let mut cut: String = message.chars().take(LONGEST_MESSAGE - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_always_fits_the_api_server() {
        for (given, wanted) in [
            ("limit-memory", "LimitMemory"),
            ("finished", "Finished"),
            ("ImagePullBackOff", "ImagePullBackOff"),
            ("", "Reason"),
            ("404 gone", "Reason404Gone"),
            ("größe", "GrE"),
        ] {
            assert_eq!(camel(given), wanted);
        }
        assert_eq!(camel(&"x".repeat(2000)).len(), LONGEST_REASON);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded(&"ä".repeat(5000));
        assert_eq!(cut.chars().count(), LONGEST_MESSAGE);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn a_transition_time_changes_only_with_the_status() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let mut conditions = Vec::new();
        set(&mut conditions, READY, Truth::False, "creating", "a", (1, at(1)));
        set(&mut conditions, READY, Truth::False, "provisioning", "b", (2, at(2)));
        let [ready] = conditions.as_slice() else { panic!("one condition") };
        assert_eq!(
            (ready.last_transition_time.0, ready.reason.as_str(), ready.observed_generation),
            (at(1), "Provisioning", Some(2))
        );
        set(&mut conditions, READY, Truth::True, "running", "c", (2, at(3)));
        assert_eq!(conditions.first().unwrap().last_transition_time.0, at(3));
    }
}
