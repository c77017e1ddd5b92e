//! How a call ends badly, and what the operator is told.
//!
//! A provider's own error passes through. Everything else is the host's judgement on the component, and is
//! `transient` with a reason of its own: what is not understood is tried again, and the next revision of the
//! component may well do better.

use egress_contract::{EntryName, Error};
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::{
    capability::Withheld,
    limits::{Limit, Limits},
    scrub::Scrubber,
};

/// Why the host ends a guest; travels through the guest's stack as an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// It used up what it may.
    #[error("{} is used up", .0.key())]
    Limit(Limit),
    /// It did what the contract forbids.
    #[error("{0}")]
    Violation(String),
    /// It wanted to change something, and this process may not.
    #[error("{call} was withheld: {withheld}")]
    Withheld { call: &'static str, withheld: Withheld },
}

/// How a call ended badly.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The provider says so.
    Provider(Error),
    /// The provider says so, after a host call of its had hit a limit.
    Told { limit: Limit, error: Error },
    /// A limit was hit; what the guest waited for then, if it did.
    Limit { limit: Limit, waiting: Option<String> },
    /// More was copied between guest and host than both limits on it allow together.
    Transfer,
    /// The guest trapped, or left by WASI's exit.
    Trap { words: String, last_words: Option<String> },
    /// The guest broke the contract.
    Violation(String),
    /// An export has not the contract's shape.
    Mismatch(String),
    /// Another call about the same target did not end in time.
    Busy { limit: Limit },
    /// The process runs as many calls as it can.
    Full { places: u32 },
    /// This process may change nothing now.
    Withheld { call: &'static str, withheld: Withheld },
}

impl Failure {
    /// From what wasmtime reports.
    pub(crate) fn from_wasmtime(error: &wasmtime::Error, last_words: Option<String>) -> Self {
        match error.downcast_ref::<Stop>() {
            Some(Stop::Limit(limit)) => return Self::Limit { limit: *limit, waiting: None },
            Some(Stop::Violation(what)) => return Self::Violation(what.clone()),
            Some(Stop::Withheld { call, withheld }) => {
                return Self::Withheld { call, withheld: withheld.clone() };
            }
            None => {}
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return Self::Trap { words: trap.to_string(), last_words };
        }
        if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
            return Self::Trap { words: format!("it exited with status {status}"), last_words };
        }
        // wasmtime keeps this error's type to itself, so its words are all there is to know it by; a test
        // sees to it that they stay what they are.
        let words = error.root_cause().to_string();
        if words.contains("fuel allocated for hostcalls has been exhausted") {
            return Self::Transfer;
        }
        Self::Trap { words, last_words }
    }

    /// Without user-data. What a provider says is clean already; this is for what is said about it.
    pub(crate) fn clean(mut self, scrubber: &Scrubber) -> Self {
        match &mut self {
            Self::Trap { words, last_words } => {
                scrubber.string(words);
                last_words.iter_mut().for_each(|said| scrubber.string(said));
            }
            Self::Violation(what) | Self::Mismatch(what) => scrubber.string(what),
            Self::Limit { waiting, .. } => waiting.iter_mut().for_each(|what| scrubber.string(what)),
            Self::Provider(_)
            | Self::Told { .. }
            | Self::Transfer
            | Self::Busy { .. }
            | Self::Full { .. }
            | Self::Withheld { .. } => {}
        }
        self
    }

    /// Stable, for conditions and metrics.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Provider(error) => &error.reason,
            Self::Limit { limit, .. } | Self::Told { limit, .. } => limit.reason(),
            Self::Transfer => "limit-transfer",
            Self::Trap { .. } => "trap",
            Self::Violation(_) | Self::Mismatch(_) => "contract-violation",
            Self::Busy { .. } | Self::Full { .. } => "busy",
            Self::Withheld { .. } => "write-withheld",
        }
    }

    /// The same for a refusal.
    pub(crate) fn refusal(&self) -> &'static str {
        match self {
            Self::Provider(_) => "CheckFailed",
            Self::Limit { limit, .. } | Self::Told { limit, .. } => limit.refusal(),
            Self::Transfer => "LimitTransfer",
            Self::Trap { .. } => "Trapped",
            Self::Violation(_) => "ContractViolation",
            Self::Mismatch(_) => "InterfaceMismatch",
            Self::Busy { .. } | Self::Full { .. } => "Busy",
            Self::Withheld { .. } => "WriteWithheld",
        }
    }

    /// Whether the component is to blame: not, when it waited for something that did not come.
    pub(crate) fn blames_component(&self) -> bool {
        match self {
            Self::Provider(_)
            | Self::Told { .. }
            | Self::Busy { .. }
            | Self::Full { .. }
            | Self::Withheld { .. }
            | Self::Limit { waiting: Some(_), .. } => false,
            Self::Limit { limit, .. } => *limit != Limit::ConcurrentCalls,
            Self::Transfer | Self::Trap { .. } | Self::Violation(_) | Self::Mismatch(_) => true,
        }
    }

    /// For people.
    pub(crate) fn message(&self, entry: &EntryName, operation: &str, limits: &Limits) -> String {
        const WAY_OUT: &str = "load a component that does not, or roll back";
        match self {
            Self::Provider(error) => error.message.clone(),
            Self::Told { limit, error } if error.message.contains(limit.key()) => error.message.clone(),
            Self::Told { limit, error } => format!(
                "{} (a host call reached {} ({}) of entry {entry})",
                error.message,
                limit.key(),
                limit.value(limits)
            ),
            Self::Limit { limit: limit @ Limit::ConcurrentCalls, .. } => format!(
                "entry {entry}: {operation} waited in vain for its turn among {} calls at once ({}); raise it, \
                 or find out what the others wait for",
                limit.value(limits),
                limit.key(),
            ),
            Self::Limit { limit, waiting } => {
                let waiting =
                    waiting.as_ref().map_or(String::new(), |what| format!(" while it waited for {what}"));
                format!(
                    "entry {entry}: {operation} reached {} ({}){waiting}; raise it in the entry's limits, or \
                     load a component that needs less",
                    limit.key(),
                    limit.value(limits),
                )
            }
            Self::Transfer => format!(
                "entry {entry}: {operation} copied more to the host at once than {} ({}) and {} ({}) allow; raise \
                 them in the entry's limits, or load a component that needs less",
                Limit::RequestBytes.key(),
                limits.request_bytes,
                Limit::AnswerBytes.key(),
                limits.answer_bytes,
            ),
            Self::Trap { words, last_words } => {
                let said =
                    last_words.as_ref().map_or(String::new(), |said| format!("; it had logged: {said}"));
                format!("entry {entry}: the component failed in {operation}: {words}{said}; {WAY_OUT}")
            }
            Self::Violation(what) => {
                format!("entry {entry}: the component broke the contract in {operation}: {what}; {WAY_OUT}")
            }
            Self::Mismatch(what) => format!(
                "entry {entry}: the component does not fit the contract of this host: {what}; build it again \
                 against this host's wit/"
            ),
            Self::Busy { limit } => format!(
                "entry {entry}: another call about this instance did not end within {} ({}); it is tried again",
                limit.key(),
                limit.value(limits),
            ),
            Self::Full { places } => format!(
                "entry {entry}: {operation} found no place among the {places} calls that this process runs at \
                 once; it is tried again; lower limits.concurrentCalls of the entries whose calls take long"
            ),
            Self::Withheld { call, withheld } => {
                format!("entry {entry}: {call} in {operation} was not begun: {withheld}")
            }
        }
    }

    /// What the operator is told.
    pub(crate) fn into_error(self, entry: &EntryName, operation: &str, limits: &Limits) -> Error {
        let message = self.message(entry, operation, limits);
        match self {
            Self::Provider(error) => error,
            Self::Told { limit, error } => Error { reason: limit.reason().to_owned(), message, ..error },
            other => Error::transient(other.reason(), message),
        }
    }
}
