//! One provider entry: what stays when its revisions change.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use egress_contract::{Description, EntryName, Installation, Mark};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    capability::{Clock, Http, Kubernetes, Libvirt, Transfer},
    compile::Compiled,
    limits::Limits,
    load::Load,
    locks::Locks,
    module::{Digest, Module},
    refusal::Refusal,
    revision::{Revision, RevisionId},
    runtime::Runtime,
    shadow::{self, Comparison, Shadow},
    telemetry,
};

/// What an entry's grants lend; what is none is refused at the stage `link`.
#[derive(Clone, Default)]
pub struct Lent {
    /// Endpoints, within the grant.
    pub http: Option<Arc<dyn Http>>,
    /// Clusters, within the grant.
    pub kubernetes: Option<Arc<dyn Kubernetes>>,
    /// Hypervisors, within the grant.
    pub libvirt: Option<Arc<dyn Libvirt>>,
    /// Volumes of these filled from URLs, within the grant.
    pub transfer: Option<Arc<dyn Transfer>>,
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
    /// The grants as configured: a change of them is a new revision. What they name and may change behind
    /// the name (a Secret's version) belongs in here too, or the change is not seen.
    pub grants: Value,
    /// What calls may use.
    pub limits: Limits,
    /// Marks of an earlier operator that count as `legacy`: each a set of pairs that must all be there.
    pub legacy: Vec<Mark>,
}

/// Who a component says it is. As long as this lives, the same bytes need not be compiled again.
pub struct Described {
    /// Its words.
    pub description: Description,
    pub(crate) _compiled: Arc<Compiled>,
}

/// One provider entry.
pub struct Slot {
    pub(crate) runtime: Runtime,
    pub(crate) entry: EntryName,
    pub(crate) installation: Installation,
    /// What guests lock by name.
    pub(crate) locks: Locks,
    /// Who is being created or deleted.
    pub(crate) targets: Locks,
    active: ArcSwapOption<Revision>,
    /// One candidate at a time, in the order they came.
    loading: Mutex<()>,
}

impl Slot {
    /// Without a revision yet.
    pub fn new(runtime: Runtime, entry: EntryName, installation: Installation) -> Self {
        Self {
            runtime,
            entry,
            installation,
            locks: Locks::default(),
            targets: Locks::default(),
            active: ArcSwapOption::empty(),
            loading: Mutex::new(()),
        }
    }

    /// The entry's name.
    pub fn entry(&self) -> &EntryName {
        &self.entry
    }

    /// What the candidate's revision would be called: the same for the same candidate, always.
    pub fn revision_id(candidate: &Candidate) -> RevisionId {
        RevisionId::of(candidate)
    }

    /// Takes a candidate through every stage. It becomes active, or is refused and nothing changes.
    /// A candidate that is active already is answered at once.
    ///
    /// Dropping the future gives the candidate up.
    pub async fn load(&self, candidate: Candidate) -> Result<Arc<Revision>, Refusal> {
        self.load_with(candidate, Shadow::Refuse).await
    }

    /// The same, where the entry says what becomes of one that sees less than the active revision.
    pub async fn load_with(&self, candidate: Candidate, shadow: Shadow) -> Result<Arc<Revision>, Refusal> {
        let _alone = self.loading.lock().await;
        let revision = self.pass_stages(candidate, shadow).await?;
        self.activate(&revision);
        Ok(revision)
    }

    /// The same, up to where it would become active: for who gives it some calls first.
    pub async fn prepare(&self, candidate: Candidate, shadow: Shadow) -> Result<Arc<Revision>, Refusal> {
        let _alone = self.loading.lock().await;
        self.pass_stages(candidate, shadow).await
    }

    /// One that was prepared becomes active.
    pub async fn adopt(&self, revision: &Arc<Revision>) {
        let _alone = self.loading.lock().await;
        self.activate(revision);
    }

    fn activate(&self, revision: &Arc<Revision>) {
        let before = self.active.swap(Some(Arc::clone(revision)));
        let before = before.as_ref().map(|before| before.id());
        if before != Some(revision.id()) {
            telemetry::swapped(&self.entry, revision.id(), revision.digest(), before);
        }
    }

    async fn pass_stages(&self, candidate: Candidate, shadow: Shadow) -> Result<Arc<Revision>, Refusal> {
        let id = RevisionId::of(&candidate);
        let before = self.active();
        if let Some(active) = before.as_ref().filter(|active| *active.id() == id) {
            return Ok(Arc::clone(active));
        }
        let digest = candidate.module.digest();
        match (Load { slot: self, candidate, id }).run(before.as_deref(), shadow).await {
            Ok(revision) => Ok(Arc::new(revision)),
            Err(refusal) => {
                telemetry::refused(&self.entry, digest, &refusal);
                Err(refusal)
            }
        }
    }

    /// Asks a candidate who it is, as tools do: its config need not please it, and it becomes nothing.
    pub async fn describe(&self, candidate: Candidate) -> Result<Description, Refusal> {
        self.described(candidate).await.map(|described| described.description)
    }

    /// The same, for who goes on with the component.
    pub async fn described(&self, candidate: Candidate) -> Result<Described, Refusal> {
        let id = RevisionId::of(&candidate);
        (Load { slot: self, candidate, id }).describe().await
    }

    /// Takes a candidate through the stages before `check`, as tools do that call it by hand: no capability is asked
    /// for anything, and it becomes active nowhere.
    pub async fn configured(&self, candidate: Candidate) -> Result<Revision, Refusal> {
        let id = RevisionId::of(&candidate);
        (Load { slot: self, candidate, id }).configured().await
    }

    /// The same, and it stays a candidate: it may only look.
    pub async fn look_at(&self, candidate: Candidate) -> Result<Revision, Refusal> {
        let id = RevisionId::of(&candidate);
        (Load { slot: self, candidate, id }).up_to_configure().await
    }

    /// What the stages `check` and `shadow` would find; the candidate becomes active nowhere. For tools.
    pub async fn shadow(
        &self,
        active: &Revision,
        candidate: Candidate,
    ) -> Result<(Revision, Comparison), Refusal> {
        let id = RevisionId::of(&candidate);
        let load = Load { slot: self, candidate, id };
        let revision = load.up_to_check().await?;
        let compared = shadow::compare(active, &revision).await;
        Ok((revision, compared))
    }

    /// What new calls go to.
    pub fn active(&self) -> Option<Arc<Revision>> {
        self.active.load_full()
    }
}
