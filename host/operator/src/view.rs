//! What people see of an entry, and how the runtime's words become theirs.

use std::sync::Arc;

use egress_contract::Fault;
use egress_runtime::{Comparison, Refusal, Revision};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    api::{ActiveRevision, CanaryStatus, CollectorStatus, ProviderHealthStatus, RefusalStatus, ShadowStatus},
    config::InvalidEntry,
    core::store::Inactive,
};

/// What a component says is bounded before it is stored: a status lies in every list of its kind.
const LONGEST_MESSAGE: usize = 2048;
const LONGEST_FAULT: usize = 512;
const MOST_FAULTS: usize = 50;
const LONGEST_NAME: usize = 128;

/// What people see of an entry.
#[derive(Clone, Default)]
pub struct View {
    /// What calls go to.
    pub active: Option<(ActiveRevision, Arc<Revision>)>,
    /// Earlier ones that are kept, newest first.
    pub history: Vec<ActiveRevision>,
    /// What the source offers.
    pub offered: Option<String>,
    /// What is on trial.
    pub canary: Option<CanaryStatus>,
    /// How what is active looked beside what was active before it.
    pub shadow: Option<ShadowStatus>,
    /// Why that is not active.
    pub refusal: Option<RefusalStatus>,
    /// What the collector found.
    pub collector: CollectorStatus,
    /// Whether the first pass has ended: before that the last process knew more.
    pub settled: bool,
    /// The entry is no longer in the ConfigMap.
    pub removed: bool,
    /// What is told of an entry that was removed and is still needed.
    pub left: Option<String>,
    /// The providers ConfigMap, while there is none.
    pub missing: Option<String>,
}

impl View {
    /// As the last process left it, but for what it ran: that is not active here yet.
    pub fn from_before(seen: ProviderHealthStatus) -> Self {
        let ProviderHealthStatus { history, offered, canary, shadow, refusal, collector, .. } = seen;
        Self { history, offered, canary, shadow, refusal, collector, ..Self::default() }
    }

    /// For the status of a Proxy that waits for this entry.
    pub fn why_not_active(&self) -> Inactive {
        match &self.refusal {
            _ if !self.settled => Inactive::Starting,
            Some(refusal) => Inactive::Missing(format!(
                "it has no revision, {} ({}): {}",
                refusal.stage, refusal.reason, refusal.message
            )),
            None => Inactive::Starting,
        }
    }
}

/// A revision that becomes active now.
pub fn about(revision: &Revision, source: String) -> ActiveRevision {
    let description = revision.description();
    ActiveRevision {
        revision: revision.id().to_string(),
        name: cut(&description.name, LONGEST_NAME),
        version: cut(&description.version, LONGEST_NAME),
        digest: revision.digest().to_string(),
        contract: cut(&description.contract, LONGEST_NAME),
        imports: revision.imports().iter().take(MOST_FAULTS).map(|import| cut(import, 256)).collect(),
        places: revision.places().to_vec(),
        source,
        since: Some(Time(Timestamp::now())),
    }
}

/// What a comparison found, unless all was the same.
pub fn shadow(revision: &Revision) -> Option<ShadowStatus> {
    let Comparison { against, differences, notes } = revision.compared();
    let said = !differences.is_empty() || !notes.is_empty();
    let against = against.as_ref().filter(|_| said)?.to_string();
    Some(ShadowStatus {
        revision: revision.id().to_string(),
        against,
        differences: bounded(differences),
        notes: bounded(notes),
    })
}

/// A refusal by the runtime.
pub fn refusal(refusal: &Refusal, digest: Option<String>) -> RefusalStatus {
    status(&refusal.stage.to_string(), refusal.reason, &refusal.message, &refusal.faults, digest)
}

/// An entry that can't be read.
pub fn invalid(invalid: &InvalidEntry) -> RefusalStatus {
    status("entry", invalid.reason, &invalid.message, &invalid.faults, None)
}

/// Whether they say the same, whenever.
pub fn same(one: &RefusalStatus, other: &RefusalStatus) -> bool {
    RefusalStatus { at: None, ..one.clone() } == RefusalStatus { at: None, ..other.clone() }
}

fn status(
    stage: &str,
    reason: &str,
    message: &str,
    faults: &[Fault],
    digest: Option<String>,
) -> RefusalStatus {
    RefusalStatus {
        stage: stage.to_owned(),
        reason: reason.to_owned(),
        message: cut(message, LONGEST_MESSAGE),
        faults: bounded(faults),
        digest,
        at: Some(Time(Timestamp::now())),
    }
}

fn bounded(all: &[impl ToString]) -> Vec<String> {
    let mut told: Vec<_> =
        all.iter().take(MOST_FAULTS).map(|one| cut(&one.to_string(), LONGEST_FAULT)).collect();
    if all.len() > MOST_FAULTS {
        told.push(format!("and {} more", all.len() - MOST_FAULTS));
    }
    told
}

/// To at most so many bytes; what was cut shows.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_component_says_is_bounded() {
        let fault = Fault { path: "a".repeat(1000), message: "ä".repeat(1000) };
        let long =
            InvalidEntry { reason: "EntryInvalid", message: "ä".repeat(100_000), faults: vec![fault; 1000] };
        let told = invalid(&long);
        assert!(told.message.len() <= LONGEST_MESSAGE && told.message.ends_with('…'));
        assert_eq!(told.faults.len(), MOST_FAULTS + 1);
        assert!(told.faults.iter().all(|fault| fault.len() <= LONGEST_FAULT));
        assert_eq!(told.faults.last().unwrap(), "and 950 more");
    }

    #[test]
    fn a_refusal_by_the_last_process_is_no_word_on_the_entry_now() {
        let entry =
            InvalidEntry { reason: "EntryInvalid", message: "mend it".to_owned(), faults: Vec::new() };
        let status =
            ProviderHealthStatus { refusal: Some(invalid(&entry)), ..ProviderHealthStatus::default() };
        let view = View::from_before(status);
        assert_eq!(view.why_not_active(), Inactive::Starting);
        let Inactive::Missing(why) = (View { settled: true, ..view }).why_not_active() else { panic!() };
        assert!(why.contains("EntryInvalid") && why.contains("mend it"), "{why}");
    }

    #[test]
    fn the_same_refusal_later_is_the_same() {
        let entry = InvalidEntry { reason: "EntryInvalid", message: "m".to_owned(), faults: Vec::new() };
        let first = invalid(&entry);
        let later = RefusalStatus { at: None, ..first.clone() };
        assert!(same(&first, &later));
        assert!(!same(&first, &RefusalStatus { message: "other".to_owned(), ..first.clone() }));
    }
}
