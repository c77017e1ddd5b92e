//! Which step comes next: a table over what is wanted and what was begun.
//!
//! Pure. Everything that it looks at stands in the record, so a new process goes on where the last one was.

use crate::{
    api::InstanceStatus,
    core::{hash, store::ProxyRecord},
};

/// One step. At most one of them in a pass calls a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is ours to do.
    Nothing,
    /// Put the finalizer on, before anything is made.
    Hold,
    /// Nothing is left: take the finalizer off.
    Release,
    /// Wait for a provider entry.
    Await {
        /// The missing one.
        entry: String,
    },
    /// Fix the name of a new instance and begin to make it.
    Begin,
    /// Go on making it.
    Create,
    /// Look at it.
    Get,
    /// Note that it is to go: from there on it is never made or adopted again.
    MarkDeleting(Cause),
    /// Go on removing it.
    Delete,
}

impl Step {
    /// For spans and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Await { .. } => "await-entry",
            Self::Begin => "begin",
            Self::Create => "create",
            Self::Get => "get",
            Self::MarkDeleting(_) => "mark-deleting",
            Self::Delete => "delete",
        }
    }
}

/// Why an instance is to go that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its Proxy is being deleted.
    Unwanted,
    /// The spec asks for another.
    SpecChanged,
    /// The spec names another provider.
    ProviderChanged,
}

/// Which entries can be called now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The one that the spec names.
    pub wanted: bool,
    /// The one that holds the instance; the spec's where there is no instance.
    pub holding: bool,
}

enum Begun {
    Nothing,
    /// As the spec wants it, and not yet there.
    Making,
    /// As the spec wants it.
    Made,
    /// Not as the spec wants it.
    Outdated(Cause),
    /// On its way out.
    Ending,
}

/// The table.
pub fn decide(record: &ProxyRecord, entries: Entries) -> Step {
    let begun = begun(record);
    if record.deleting {
        return match begun {
            Begun::Nothing if record.finalizer => Step::Release,
            Begun::Nothing => Step::Nothing,
            Begun::Making | Begun::Made | Begun::Outdated(_) => Step::MarkDeleting(Cause::Unwanted),
            Begun::Ending => with_holder(record, entries, Step::Delete),
        };
    }
    if !record.finalizer {
        return Step::Hold;
    }
    match begun {
        Begun::Nothing => with_wanted(record, entries, Step::Begin),
        Begun::Making => with_holder(record, entries, Step::Create),
        Begun::Made => with_holder(record, entries, Step::Get),
        // Not before its successor can be made: an outdated proxy serves better than none.
        Begun::Outdated(cause) => with_wanted(record, entries, Step::MarkDeleting(cause)),
        Begun::Ending => with_holder(record, entries, Step::Delete),
    }
}

fn begun(record: &ProxyRecord) -> Begun {
    match &record.status.instance {
        None => Begun::Nothing,
        Some(InstanceStatus { deleting: true, .. }) => Begun::Ending,
        Some(i) if i.provider != record.spec.provider => Begun::Outdated(Cause::ProviderChanged),
        Some(i) if !hash::made_from(&i.spec_hash, &record.spec) => Begun::Outdated(Cause::SpecChanged),
        Some(InstanceStatus { created: true, .. }) => Begun::Made,
        Some(_) => Begun::Making,
    }
}

fn with_wanted(record: &ProxyRecord, entries: Entries, step: Step) -> Step {
    if entries.wanted { step } else { Step::Await { entry: record.spec.provider.clone() } }
}

fn with_holder(record: &ProxyRecord, entries: Entries, step: Step) -> Step {
    if entries.holding { step } else { Step::Await { entry: holder(record).to_owned() } }
}

/// The entry that holds the instance; the spec's where there is no instance.
pub fn holder(record: &ProxyRecord) -> &str {
    record.status.instance.as_ref().map_or(&record.spec.provider, |i| &i.provider)
}
