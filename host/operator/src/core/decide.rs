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
    /// Take the finalizer off although an instance is left: somebody asked for that.
    Abandon,
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
            Self::Abandon => "abandon",
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
            Begun::Making | Begun::Made | Begun::Outdated(_) | Begun::Ending
                if record.abandon && record.finalizer =>
            {
                Step::Abandon
            }
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

/// Whether what was begun is what the spec wants now.
pub fn is_current(record: &ProxyRecord) -> bool {
    matches!(begun(record), Begun::Making | Begun::Made)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{ProxySpec, ProxyStatus},
        core::store::ProxyKey,
    };

    fn record(deleting: bool, finalizer: bool, instance: Option<InstanceStatus>) -> ProxyRecord {
        ProxyRecord {
            key: ProxyKey { namespace: "a".into(), name: "web".into() },
            uid: "uid".into(),
            generation: 1,
            version: "1".into(),
            deleting,
            finalizer,
            retry: None,
            abandon: false,
            adopt: None,
            spec: spec(),
            status: ProxyStatus { instance, ..ProxyStatus::default() },
        }
    }

    fn spec() -> ProxySpec {
        ProxySpec { provider: "one".into(), port: 3128, ..ProxySpec::default() }
    }

    fn instances() -> Vec<Option<InstanceStatus>> {
        let mut instances = vec![None];
        for provider in ["one", "two"] {
            for spec_hash in [hash::spec_hash(&spec()), "1:0".into()] {
                for (created, deleting) in [(false, false), (true, false), (false, true), (true, true)] {
                    instances.push(Some(InstanceStatus {
                        provider: provider.into(),
                        spec_hash: spec_hash.clone(),
                        created,
                        deleting,
                        ..InstanceStatus::default()
                    }));
                }
            }
        }
        instances
    }

    #[test]
    fn an_instance_is_abandoned_only_with_its_proxy() {
        let entries = Entries { wanted: false, holding: false };
        for instance in instances() {
            let asked = |deleting, finalizer| ProxyRecord {
                abandon: true,
                ..record(deleting, finalizer, instance.clone())
            };
            let is_left = instance.is_some();
            assert_eq!(decide(&asked(true, true), entries) == Step::Abandon, is_left);
            for (deleting, finalizer) in [(false, true), (false, false), (true, false)] {
                assert_ne!(decide(&asked(deleting, finalizer), entries), Step::Abandon);
            }
        }
    }

    /// Every row of the table.
    #[test]
    fn nothing_is_made_that_is_unwanted_and_nothing_is_let_go_that_is_left() {
        let switches = [false, true];
        for instance in instances() {
            for (deleting, finalizer) in switches.into_iter().flat_map(|d| switches.map(|f| (d, f))) {
                for (wanted, holding) in switches.into_iter().flat_map(|w| switches.map(|h| (w, h))) {
                    let record = record(deleting, finalizer, instance.clone());
                    let step = decide(&record, Entries { wanted, holding });
                    let case = format!("{step:?} for {record:?}, wanted {wanted}, holding {holding}");
                    let ending = instance.as_ref().is_some_and(|i| i.deleting);
                    let outdated =
                        instance.as_ref().is_some_and(|i| i.provider == "two" || i.spec_hash == "1:0");
                    match step {
                        Step::Begin => {
                            assert!(instance.is_none() && !deleting && finalizer && wanted, "{case}")
                        }
                        Step::Create | Step::Get => {
                            let as_wanted = instance.is_some() && !ending && !outdated;
                            assert!(as_wanted && !deleting && finalizer && holding, "{case}");
                        }
                        Step::Delete => assert!(ending && holding, "{case}"),
                        Step::MarkDeleting(Cause::Unwanted) => assert!(deleting && !ending, "{case}"),
                        Step::MarkDeleting(Cause::SpecChanged | Cause::ProviderChanged) => {
                            assert!(outdated && !deleting && !ending && wanted, "{case}");
                        }
                        Step::Hold => assert!(!deleting && !finalizer, "{case}"),
                        Step::Release => assert!(deleting && finalizer && instance.is_none(), "{case}"),
                        Step::Nothing => assert!(deleting && !finalizer && instance.is_none(), "{case}"),
                        Step::Abandon => panic!("no instance is abandoned that nobody gave up: {case}"),
                        Step::Await { entry } => assert!(
                            (entry == "one" && !wanted) || (entry == holder(&record) && !holding),
                            "{case}"
                        ),
                    }
                }
            }
        }
    }
}
