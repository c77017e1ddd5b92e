//! One provider entry: what stays when its revisions change.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use egress_contract::{EntryName, Installation, Mark};
use serde_json::Value;

use crate::{
    capability::{Clock, Kubernetes},
    limits::Limits,
    module::{Digest, Module},
    refusal::Refusal,
    revision::{Revision, RevisionId},
    runtime::Runtime,
};

/// What an entry's grants lend; what is none is refused at the stage `link`.
#[derive(Clone, Default)]
pub struct Lent {
    /// Clusters, within the grant.
    pub kubernetes: Option<Arc<dyn Kubernetes>>,
    /// The machine's own where none.
    pub clock: Option<Arc<dyn Clock>>,
}

/// What an entry asks to become active.
#[derive(Clone)]
pub struct Candidate {
    /// The component.
    pub module: Module,
    /// What the entry pins it to, if it does.
    pub pinned: Option<Digest>,
    /// For `configure`.
    pub config: Value,
    /// What the grants lend.
    pub lent: Lent,
    /// The grants as configured: a change of them is a new revision.
    pub grants: Value,
    /// What calls may use.
    pub limits: Limits,
    /// Marks of an earlier operator that count as `legacy`: each a set of pairs that must all be there.
    pub legacy: Vec<Mark>,
}

/// One provider entry.
pub struct Slot {
    entry: EntryName,
    active: ArcSwapOption<Revision>,
}

impl Slot {
    /// Without a revision yet.
    pub fn new(_runtime: Runtime, entry: EntryName, _installation: Installation) -> Self {
        Self { entry, active: ArcSwapOption::empty() }
    }

    /// The entry's name.
    pub fn entry(&self) -> &EntryName {
        &self.entry
    }

    /// What the candidate's revision would be called: the same for the same candidate, always.
    pub fn revision_id(_candidate: &Candidate) -> Option<RevisionId> {
        None
    }

    /// Takes a candidate through every stage. It becomes active, or is refused and nothing changes.
    /// A candidate that is active already is answered at once.
    pub async fn load(&self, _candidate: Candidate) -> Result<Arc<Revision>, Refusal> {
        Err(Refusal::scaffold())
    }

    /// What new calls go to.
    pub fn active(&self) -> Option<Arc<Revision>> {
        self.active.load_full()
    }
}
