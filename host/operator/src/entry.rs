//! One provider entry: from what its source offers to what its calls go to.
//!
//! Each entry has a task of its own, so one that compiles for a minute, or whose source hangs, leaves the
//! others alone. A pass takes what the ConfigMap says at that moment, reads the module, decides between the
//! source's offer and a hold, and takes one candidate through the slot. Whatever fails, what was active goes
//! on; where nothing was (a start), the revision that was active last is taken up again.

mod canary;
mod choice;
mod kept;
mod places;
mod telling;

use std::{sync::Arc, time::Duration};

use egress_contract::Fault;
use egress_runtime::{Candidate, Module, Refusal, Slot, Stage};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use self::{
    canary::{Standby, Tended, Trial},
    choice::{Choice, choose},
    places::Places,
};
use crate::{
    api::{ActiveRevision, Hold},
    cluster::Cluster,
    config::{EntryConfig, InvalidEntry, ModuleRef, Settings, SwapConfig},
    core::{canary::Canary, former::Former, lease::Leadership, store::Notice},
    health::Shown,
    kube_owners::KubeOwners,
    lend::Lender,
    modules::{Fetched, Modules, NotFetched, RETRY, Version},
    revisions::Revisions,
    view::{self, View},
};

/// What goes out of an entry.
pub struct Outlets {
    /// What people see.
    pub view: watch::Sender<View>,
    /// What they should see once.
    pub notices: mpsc::Sender<Notice>,
    /// Told when calls of this entry go elsewhere than before, or at last somewhere.
    pub changes: mpsc::Sender<String>,
    /// Told when a hold is over: the one that it was.
    pub holds_over: mpsc::Sender<Hold>,
    /// What looks after what stands at places that were removed.
    pub former: watch::Sender<Option<Arc<Former>>>,
    /// What is to make the next Proxies.
    pub canary: watch::Sender<Option<Arc<Canary>>>,
}

/// What an entry leaves in the cluster.
pub struct Site {
    /// What was active.
    pub revisions: Revisions,
    /// With the ProviderHealth.
    pub cluster: Cluster,
    /// The Proxies.
    pub owners: KubeOwners,
}

/// What the providers ConfigMap says of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It stands there.
    Entry(Box<Result<EntryConfig, InvalidEntry>>),
    /// There is no ConfigMap, and the last process showed the entry: what ran goes on.
    Unlisted,
    /// It stands there no longer, and is needed to delete what it made.
    Leaving,
    /// Nobody needs it any more. (The end of a process looks otherwise: the channel closes.)
    Removed,
}

/// What comes into an entry.
pub struct Inlets {
    /// What the providers ConfigMap says.
    pub asked: watch::Receiver<Asked>,
    /// A rollback that lasts.
    pub hold: watch::Receiver<Option<Hold>>,
    /// What its ProviderHealth shows.
    pub shown: watch::Receiver<Shown>,
    /// Whether this process is the one to keep revisions. It loads them in any case.
    pub leadership: Leadership,
}

/// How long a load may go on that a change has overtaken: long enough for a component, short enough for one
/// that was built to compile for minutes.
const OVERTAKEN: Duration = Duration::from_secs(5);
/// How long a start waits for a source before it takes up what ran before.
const PATIENCE: Duration = Duration::from_secs(5);
/// A refusal that another minute can change: places that did not answer, or that one revision alone could read
/// for a while, a compiler that found no time.
const RECHECK: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(900));
/// How many kept revisions a start tries, newest first.
const FALLBACKS: usize = 3;

/// The task of one entry.
pub struct EntryLoop {
    slot: Arc<Slot>,
    before: Option<ActiveRevision>,
    modules: Modules,
    lender: Lender,
    site: Site,
    inlets: Inlets,
    outlets: Outlets,
    trial: Option<Trial>,
    places: Places,
    /// The size of an unpacked component.
    most: u64,
    source: Option<Source>,
    /// What the last pass read.
    read_at: Version,
    failures: u32,
    fell_back: bool,
    /// What the source offered to this process. What it offered to the last one may have run there.
    offered: Option<String>,
    /// Became active and is not yet kept.
    unkept: Option<(ActiveRevision, Settings, Module)>,
}

struct Source {
    module: ModuleRef,
    changes: watch::Receiver<Version>,
    _watching: AbortOnDropHandle<()>,
}

/// What the source and the entry make together.
struct Offer {
    candidate: Candidate,
    source: String,
    settings: Settings,
    swap: SwapConfig,
}

/// What there is to do.
enum Changed {
    /// What the entry is to run may be another.
    Entry,
    /// What is known of the revision on trial.
    Canary,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Nothing is to be done until something changes.
    Settled,
    /// Something may be different after a while.
    Again((Duration, Duration)),
    /// Something changed meanwhile.
    Overtaken,
    /// There is no such entry any more.
    Removed,
}

impl EntryLoop {
    /// `before` is what the last process ran.
    pub fn new(
        slot: Arc<Slot>,
        before: Option<ActiveRevision>,
        (modules, most): (Modules, u64),
        lender: Lender,
        site: Site,
        inlets: Inlets,
        outlets: Outlets,
    ) -> Self {
        Self {
            slot,
            before,
            modules,
            lender,
            site,
            inlets,
            outlets,
            trial: None,
            places: Places::default(),
            most,
            source: None,
            read_at: None,
            failures: 0,
            fell_back: false,
            offered: None,
            unkept: None,
        }
    }

    /// Until the entry is removed.
    pub async fn run(mut self) {
        loop {
            let pass = self.pass().await;
            if self.outlets.view.send_if_modified(|view| !std::mem::replace(&mut view.settled, true)) {
                // Whatever the pass found, those who wait are to hear it.
                let _ = self.outlets.changes.send(self.slot.entry().to_string()).await;
            }
            let wait = match pass {
                Pass::Overtaken => continue,
                Pass::Removed => {
                    info!(entry = %self.slot.entry(), "the entry was removed");
                    self.outlets.view.send_modify(|view| view.removed = true);
                    return;
                }
                Pass::Settled => {
                    self.failures = 0;
                    self.keep().await
                }
                Pass::Again(pace) => {
                    self.failures = self.failures.saturating_add(1);
                    let kept = self.keep().await;
                    Some(pause(pace, self.failures)).into_iter().chain(kept).min()
                }
            };
            let deadline = wait.map(|wait| Instant::now() + wait);
            loop {
                let look_again = match self.tend().await {
                    Tended::Over => break,
                    Tended::Goes(look_again) => look_again,
                };
                let places = self.see_to_places().await;
                let look_again = look_again.into_iter().chain(places).min();
                match self.changed(deadline, look_again).await {
                    Some(Changed::Canary) => {}
                    Some(Changed::Entry) => break,
                    None => return,
                }
            }
        }
    }

    /// Waits for something to do. None at the process' end.
    async fn changed(&mut self, deadline: Option<Instant>, look_again: Option<Duration>) -> Option<Changed> {
        let read_at = self.read_at.clone();
        let look_again = look_again.map(|wait| Instant::now() + wait);
        let entry = |changed: Result<(), _>| changed.is_ok().then_some(Changed::Entry);
        tokio::select! {
            changed = self.inlets.asked.changed() => entry(changed),
            changed = self.inlets.hold.changed() => entry(changed),
            changed = self.inlets.leadership.changed() => entry(changed),
            () = newer(self.source.as_mut().map(|source| &mut source.changes), &read_at) => entry(Ok(())),
            () = until(deadline) => entry(Ok(())),
            Ok(()) = self.inlets.shown.changed(), if self.trial.is_some() => Some(Changed::Canary),
            () = canary::moved(self.trial.as_ref()) => Some(Changed::Canary),
            () = until(look_again) => Some(Changed::Canary),
        }
    }

    async fn pass(&mut self) -> Pass {
        let asked = self.inlets.asked.borrow_and_update().clone();
        let hold = self.inlets.hold.borrow_and_update().clone();
        let config = match asked {
            Asked::Removed => return Pass::Removed,
            Asked::Unlisted => return self.fall_back(hold.as_ref()).await,
            Asked::Leaving => return self.leave(hold.as_ref()).await,
            Asked::Entry(read) => match *read {
                Ok(config) => config,
                Err(invalid) => {
                    self.refuse(view::invalid(&invalid), hold.as_ref()).await;
                    return self.fall_back(hold.as_ref()).await;
                }
            },
        };
        self.follow(&config.module);
        match self.fetch(&config.module, hold.as_ref()).await {
            None => Pass::Overtaken,
            Some(Ok(fetched)) => {
                self.read_at = fetched.version.clone();
                self.decide(config, fetched, hold).await
            }
            Some(Err(not)) => {
                self.read_at = not.version;
                self.refuse(view::refusal(&not.refusal, None), hold.as_ref()).await;
                let fallen = self.fall_back(hold.as_ref()).await;
                not.retry.map_or(fallen, Pass::Again)
            }
        }
    }

    /// None when it was given up, because something newer is there: a registry may hang for minutes.
    async fn fetch(
        &mut self,
        module: &ModuleRef,
        hold: Option<&Hold>,
    ) -> Option<Result<Fetched, NotFetched>> {
        let (modules, module) = (self.modules.clone(), module.clone());
        let mut fetching = Box::pin(async move { modules.fetch(&module).await });
        if self.slot.active().is_none() {
            if let Ok(done) = tokio::time::timeout(PATIENCE, &mut fetching).await {
                return Some(done);
            }
            self.fall_back(hold).await;
        }
        self.unless_overtaken(fetching).await
    }

    async fn decide(&mut self, config: EntryConfig, fetched: Fetched, hold: Option<Hold>) -> Pass {
        let EntryConfig { pinned, settings, swap, .. } = config;
        let candidate = match self.candidate(fetched.module, &settings) {
            Ok(candidate) => Candidate { pinned, ..candidate },
            Err(faults) => {
                let message =
                    format!("entry {}: its grants can't be lent; mend each fault", self.slot.entry());
                let invalid = InvalidEntry { reason: "EntryInvalid", message, faults };
                self.refuse(view::invalid(&invalid), hold.as_ref()).await;
                return self.fall_back(hold.as_ref()).await;
            }
        };
        let offered = Slot::revision_id(&candidate).to_string();
        self.offered = Some(offered.clone());
        self.outlets.view.send_modify(|view| view.offered = Some(offered.clone()));
        let offer = Offer { candidate, source: fetched.source, settings, swap };
        match (choose(&offered, hold.as_ref()), hold) {
            (Choice::Held(revision), hold) => self.take_held(&revision, hold.as_ref()).await,
            (Choice::Over, Some(hold)) => {
                self.hold_is_over(hold, &offered).await;
                self.take_offered(offer).await
            }
            (Choice::Over | Choice::Offered, _) => self.take_offered(offer).await,
        }
    }

    async fn take_offered(&mut self, offer: Offer) -> Pass {
        if let Some(rollout) = offer.swap.rollout {
            match self.stand_by(&offer).await {
                Standby::Runs => return self.try_out(offer, rollout).await,
                Standby::Unread => return Pass::Again(RETRY),
                Standby::Nothing => {}
            }
        }
        self.end_trial();
        let Offer { candidate, source, settings, swap } = offer;
        let module = candidate.module.clone();
        let digest = module.digest().to_string();
        let slot = Arc::clone(&self.slot);
        match self.unless_overtaken(slot.load_with(candidate, swap.shadow)).await {
            None => Pass::Overtaken,
            Some(Ok(revision)) => {
                self.activated(revision, source, settings, module).await;
                self.outlets.view.send_if_modified(|view| view.refusal.take().is_some());
                Pass::Settled
            }
            Some(Err(refusal)) => self.refused(refusal, digest).await,
        }
    }

    async fn refused(&mut self, refusal: Refusal, digest: String) -> Pass {
        let stage = refusal.stage;
        self.refuse(view::refusal(&refusal, Some(digest)), None).await;
        match (self.fall_back(None).await, stage) {
            (_, Stage::Compile | Stage::Check | Stage::Shadow) => Pass::Again(RECHECK),
            (fallen, _) => fallen,
        }
    }

    /// Or everything that is wrong with the grants.
    fn candidate(&mut self, module: Module, settings: &Settings) -> Result<Candidate, Vec<Fault>> {
        Ok(Candidate {
            lent: self.lender.lend(settings)?,
            module,
            pinned: None,
            config: settings.config.clone(),
            grants: settings.lent_by(),
            limits: settings.limits.clone(),
            legacy: settings.legacy(),
        })
    }

    /// None when it was given up, because something newer is there.
    async fn unless_overtaken<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        // Clones, so that what they see is not seen by the loop.
        let mut asked = self.inlets.asked.clone();
        let mut hold = self.inlets.hold.clone();
        let mut changes = self.source.as_ref().map(|source| source.changes.clone());
        let read_at = self.read_at.clone();
        let overtaken = async {
            tokio::select! {
                _ = asked.changed() => {}
                _ = hold.changed() => {}
                () = newer(changes.as_mut(), &read_at) => {}
            }
            tokio::time::sleep(OVERTAKEN).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = overtaken => None,
        }
    }

    /// Watches the module that the entry names now.
    fn follow(&mut self, module: &ModuleRef) {
        if self.source.as_ref().is_some_and(|source| source.module == *module) {
            return;
        }
        let (tell, changes) = watch::channel(None);
        let (modules, watched) = (self.modules.clone(), module.clone());
        let watching = tokio::spawn(async move { modules.watch(&watched, tell).await });
        let _watching = AbortOnDropHandle::new(watching);
        self.source = Some(Source { module: module.clone(), changes, _watching });
    }

    fn is_active(&self, revision: &str) -> bool {
        self.slot.active().is_some_and(|active| active.id().to_string() == revision)
    }
}

/// Tells when the source has something else than what was read. Never, where there is no source.
async fn newer(changes: Option<&mut watch::Receiver<Version>>, read_at: &Version) {
    if let Some(changes) = changes {
        while changes.changed().await.is_ok() {
            if *changes.borrow_and_update() != *read_at {
                return;
            }
        }
    }
    std::future::pending().await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn pause((first, most): (Duration, Duration), failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 100].map(|n| pause(RETRY, n).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 30, 30, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_another_version_than_the_one_read_is_newer() {
        let (tell, mut changes) = watch::channel(None);
        let read_at = Some("1".to_owned());
        tell.send(Some("1".to_owned())).unwrap();
        let waited =
            tokio::time::timeout(Duration::from_millis(20), newer(Some(&mut changes), &read_at)).await;
        assert!(waited.is_err(), "the version that was read is not newer");
        tell.send(Some("2".to_owned())).unwrap();
        newer(Some(&mut changes), &read_at).await;
    }
}
