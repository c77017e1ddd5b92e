//! Spans, logs and metrics of every operation and every host call.
//!
//! They come from here, so no provider can forget them, and none can put a body, a credential or a word of
//! its own choosing into a label.

use std::time::Instant;

use egress_contract::EntryName;
use metrics::{counter, histogram};
use tracing::{Span, debug, field::Empty, info, info_span, warn};

use crate::{
    failure::Failure,
    guest_log::GuestLog,
    meter::Meter,
    module::Digest,
    refusal::{Refusal, Stage},
    revision::RevisionId,
};

/// The contract's exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OperationName {
    Describe,
    Configure,
    Create,
    Get,
    Delete,
    List,
    Check,
}

impl OperationName {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Configure => "configure",
            Self::Create => "create",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Check => "check",
        }
    }
}

/// What a provider's reason may be in a label; others are many and its own.
const KNOWN_REASONS: [&str; 15] = [
    "foreign",
    "finished",
    "paused",
    "deleting",
    "not-found",
    "unsupported",
    "placement",
    "config",
    "unreachable",
    "unauthorized",
    "forbidden",
    "quota",
    "busy",
    "timeout",
    "backend",
];

/// Who is called.
pub(crate) struct Callee<'a> {
    pub(crate) entry: &'a EntryName,
    pub(crate) digest: Digest,
    pub(crate) revision: &'a RevisionId,
    pub(crate) target: &'a str,
    pub(crate) place: &'a str,
}

/// The span of one operation.
pub(crate) fn operation_span(name: OperationName, callee: &Callee<'_>) -> Span {
    // A span's name is fixed where it is written.
    macro_rules! span {
        ($name:literal) => {
            info_span!(
                $name,
                entry = %callee.entry,
                digest = %callee.digest,
                revision = %callee.revision,
                instance = callee.target,
                place = callee.place,
                outcome = Empty,
                reason = Empty,
                ms = Empty,
            )
        };
    }
    match name {
        OperationName::Describe => span!("provider.describe"),
        OperationName::Configure => span!("provider.configure"),
        OperationName::Create => span!("provider.create"),
        OperationName::Get => span!("provider.get"),
        OperationName::Delete => span!("provider.delete"),
        OperationName::List => span!("provider.list"),
        OperationName::Check => span!("provider.check"),
    }
}

/// The span of one stage of a load.
pub(crate) fn stage_span(entry: &EntryName, stage: Stage, digest: Digest) -> Span {
    info_span!("provider.load", %entry, %stage, %digest)
}

/// Ends with an operation, however that ends: also dropped, when its caller gave it up.
pub(crate) struct OperationRecord<'a> {
    name: OperationName,
    callee: Callee<'a>,
    span: Span,
    start: Instant,
    ended: bool,
}

impl<'a> OperationRecord<'a> {
    pub(crate) fn start(name: OperationName, callee: Callee<'a>, span: Span) -> Self {
        Self { name, callee, span, start: Instant::now(), ended: false }
    }

    /// What the guest used; not known of a call that never began.
    pub(crate) fn used(&self, meter: &Meter, log: &GuestLog) {
        let entry = self.callee.entry.to_string();
        let operation = self.name.as_str();
        histogram!("egress_provider_memory_bytes", "entry" => entry.clone(), "operation" => operation)
            .record(meter.memory_peak() as f64);
        histogram!("egress_provider_compute_seconds", "entry" => entry.clone(), "operation" => operation)
            .record(meter.computed().as_secs_f64());
        let dropped = log.dropped();
        if dropped > 0 {
            counter!("egress_provider_log_lines_dropped_total", "entry" => entry).increment(dropped.into());
            self.span.in_scope(|| {
                warn!(
                    entry = %self.callee.entry,
                    dropped,
                    "the component logged more lines than limits.logLines; the rest was dropped"
                );
            });
        }
    }

    pub(crate) fn end(mut self, outcome: Result<(), &Failure>) {
        let (class, reason) = match outcome {
            Ok(()) => ("ok", ""),
            Err(Failure::Provider(error)) => (error.class.as_str(), error.reason.as_str()),
            Err(failure) => ("transient", failure.reason()),
        };
        if let Err(Failure::Trap { .. }) = outcome {
            let entry = self.callee.entry.to_string();
            counter!("egress_provider_traps_total", "entry" => entry, "operation" => self.name.as_str())
                .increment(1);
        }
        let own = matches!(outcome, Err(Failure::Provider(_)));
        let label = KNOWN_REASONS.iter().find(|known| **known == reason).copied();
        let label = if own { label.unwrap_or("other").to_owned() } else { reason.to_owned() };
        self.finish(class, reason, label);
    }

    fn finish(&mut self, outcome: &'static str, reason: &str, label: String) {
        self.ended = true;
        let took = self.start.elapsed();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.span.record("outcome", outcome).record("reason", reason).record("ms", ms);
        let (entry, operation) = (self.callee.entry.to_string(), self.name.as_str());
        counter!(
            "egress_provider_operations_total",
            "entry" => entry.clone(), "operation" => operation, "class" => outcome, "reason" => label
        )
        .increment(1);
        histogram!("egress_provider_operation_seconds", "entry" => entry, "operation" => operation)
            .record(took.as_secs_f64());
        self.span.in_scope(|| {
            info!(
                entry = %self.callee.entry,
                operation,
                instance = self.callee.target,
                place = self.callee.place,
                revision = %self.callee.revision,
                outcome,
                reason,
                ms,
                "operation ended"
            );
        });
    }
}

impl Drop for OperationRecord<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.finish("abandoned", "", String::new());
        }
    }
}

/// One host call; dropped before its end, it was abandoned.
pub(crate) struct HostCall {
    entry: String,
    call: &'static str,
    place: String,
    span: Span,
    start: Instant,
    outcome: &'static str,
}

impl HostCall {
    pub(crate) fn start(entry: &EntryName, call: &'static str, place: &str) -> Self {
        let span = info_span!(
            "host.call",
            %entry,
            call,
            place,
            http.request.method = Empty,
            url.path = Empty,
            http.response.status_code = Empty,
            outcome = Empty,
            ms = Empty,
        );
        Self {
            entry: entry.to_string(),
            call,
            place: place.to_owned(),
            span,
            start: Instant::now(),
            outcome: "abandoned",
        }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn end(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (call, outcome) = (self.call, self.outcome);
        self.span.record("outcome", outcome).record("ms", ms);
        let entry = self.entry.clone();
        counter!("egress_host_calls_total", "entry" => entry.clone(), "call" => call, "outcome" => outcome)
            .increment(1);
        histogram!("egress_host_call_seconds", "entry" => entry, "call" => call).record(took.as_secs_f64());
        self.span.in_scope(|| {
            debug!(entry = self.entry, call, place = self.place, outcome, ms, "host call ended");
        });
    }
}

/// A candidate became active.
pub(crate) fn swapped(entry: &EntryName, revision: &RevisionId, digest: Digest, before: Option<&RevisionId>) {
    counter!("egress_provider_swaps_total", "entry" => entry.to_string()).increment(1);
    let before = before.map(ToString::to_string).unwrap_or_default();
    info!(%entry, %revision, %digest, before, "revision active");
}

/// A candidate was refused.
pub(crate) fn refused(entry: &EntryName, digest: Digest, refusal: &Refusal) {
    let (stage, reason) = (refusal.stage.as_str(), refusal.reason);
    counter!(
        "egress_provider_refusals_total",
        "entry" => entry.to_string(), "stage" => stage, "reason" => reason
    )
    .increment(1);
    warn!(%entry, %digest, stage, reason, cause = refusal.message, "candidate refused");
}
