//! All provider entries: who runs, and who is asked.
//!
//! An entry that is removed stays, delete-only, while Proxies have instances of it ([`leaving`]).
//!
//! A ProviderHealth outlives its process. While there is no providers ConfigMap at all, it is the only word on its entry, which goes on from there.

mod leaving;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use egress_capabilities::{Beside, HomeCluster};
use egress_contract::{EntryName, Installation};
use egress_runtime::{Runtime, Slot};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};

use crate::{
    api::Hold,
    cluster::Cluster,
    collecting::{self, Collecting},
    config::ProviderEntries,
    core::{
        budget::Recoveries,
        canary::Canary,
        clock::SystemClock,
        collect::Collector,
        former::Former,
        lease::Leadership,
        store::{ActiveProvider, Inactive, Providers},
    },
    entry::{self, Asked, EntryLoop},
    events::Events,
    health::{self, Keeper, Seen, Shown, Wishes},
    kube_owners::KubeOwners,
    lend::{HomeSecrets, Lender, Simulations},
    modules::Modules,
    revisions::Revisions,
    view::View,
};

/// What all entries share.
pub struct Shared {
    /// Where they are kept.
    pub cluster: Cluster,
    /// Whose instances these are.
    pub installation: Installation,
    /// What compiles and runs.
    pub runtime: Runtime,
    /// Where components come from.
    pub modules: Modules,
    /// The size of an unpacked component.
    pub module_bytes: u64,
    /// What a grant may lend as the operator's own cluster.
    pub home: Option<HomeCluster>,
    /// What stands in for backends, where entries may ask for that.
    pub simulations: Option<Arc<dyn Simulations>>,
    /// How people are told.
    pub events: Events,
    /// Who owns what was made.
    pub owners: KubeOwners,
    /// The providers ConfigMap, for people: `egress-system/egress-providers`.
    pub config_map: String,
    /// Told when calls of an entry go elsewhere: its name.
    pub changes: mpsc::Sender<String>,
    /// Whether this process is the one to write.
    pub leadership: Leadership,
}

/// All entries that were ever seen by this process.
pub struct Entries {
    shared: Arc<Shared>,
    known: RwLock<BTreeMap<String, Known>>,
    /// Whether the providers ConfigMap was looked for.
    listed: AtomicBool,
    /// Whether there is one, once that is known.
    there: watch::Sender<Option<bool>>,
    /// Told when entries may have been removed.
    removed: watch::Sender<u64>,
}

struct Known {
    slot: Arc<Slot>,
    asked: watch::Sender<Asked>,
    hold: watch::Sender<Option<Hold>>,
    confirmed: watch::Sender<Option<String>>,
    shown: watch::Sender<Shown>,
    canary: watch::Sender<Option<Arc<Canary>>>,
    former: watch::Sender<Option<Arc<Former>>>,
    gone: watch::Sender<u64>,
    view: watch::Sender<View>,
    recoveries: watch::Sender<Arc<Recoveries>>,
    task: Option<AbortOnDropHandle<()>>,
}

/// Before the last process' health object was read, the hold is not known and nothing may be loaded.
const READ_AGAIN: Duration = Duration::from_secs(2);

impl Entries {
    /// None yet.
    pub fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            known: RwLock::default(),
            listed: AtomicBool::new(false),
            there: watch::Sender::new(None),
            removed: watch::Sender::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, an entry that is not known does not exist.
    pub fn listed(&self) {
        self.listed.store(true, Ordering::SeqCst);
    }

    /// Takes up what the providers ConfigMap says now.
    pub fn apply(&self, found: ProviderEntries) {
        for message in found.unnamed {
            error!(
                config_map = self.shared.config_map,
                message, "a key of the providers ConfigMap names no entry"
            );
        }
        let mut known = self.write();
        put(&self.there, Some(true));
        for entry in known.values() {
            entry.show_missing(None);
        }
        let listed: BTreeSet<String> = found.entries.keys().map(ToString::to_string).collect();
        for (entry, read) in found.entries {
            let asked = Asked::Entry(Box::new(read));
            let before = known.remove(entry.as_str());
            let now = match before {
                Some(running) if !running.is_removed() => {
                    running.ask(asked);
                    running.show_left(None);
                    running
                }
                removed => self.start(&entry, asked, removed),
            };
            known.insert(entry.to_string(), now);
        }
        for (_, gone) in known.iter().filter(|(entry, gone)| !listed.contains(*entry) && !gone.is_removed()) {
            // Whether anybody still needs it, the Proxies say.
            gone.ask(Asked::Leaving);
            gone.show_left(Some(format!("ConfigMap {} has this entry no longer", self.shared.config_map)));
        }
        self.removed.send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Whether every entry's first pass has ended, and with it the loading of its component.
    pub fn loaded(&self) -> bool {
        let known = self.read();
        known.values().all(|entry| entry.is_removed() || entry.view.borrow().settled)
    }

    /// There is no providers ConfigMap: that is no word on any entry.
    pub fn missing(&self) {
        let known = self.read();
        put(&self.there, Some(false));
        for entry in known.values() {
            entry.show_missing(Some(&self.shared.config_map));
        }
    }

    /// Whether it stands in the ConfigMap, or is still needed.
    fn knows(&self, entry: &EntryName) -> bool {
        let known = self.read();
        known.get(entry.as_str()).is_some_and(|known| !known.is_removed())
    }

    /// As before a restart: without a ConfigMap, what ran goes on.
    fn go_on(&self, entry: &EntryName) {
        let mut known = self.write();
        if *self.there.borrow() == Some(false) && !known.contains_key(entry.as_str()) {
            let started = self.start(entry, Asked::Unlisted, None);
            started.show_missing(Some(&self.shared.config_map));
            known.insert(entry.to_string(), started);
        }
    }

    /// Takes up what stands in a ProviderHealth.
    pub fn see(&self, seen: Seen) {
        let known = self.read();
        match seen {
            Seen::Asked(entry, wishes) => {
                let Wishes { hold, confirmed, shown } = *wishes;
                if let Some(known) = known.get(&entry) {
                    // First: who waits for a hold then knows what else stood there.
                    put(&known.shown, shown);
                    put(&known.hold, hold);
                    put(&known.confirmed, confirmed);
                }
            }
            Seen::Gone(entry) => {
                if let Some(known) = known.get(&entry) {
                    known.hold.send_if_modified(|hold| hold.take().is_some());
                    known.gone.send_modify(|times| *times = times.wrapping_add(1));
                }
            }
        }
    }

    /// `before` is the entry of the same name that was removed: its slot goes on, its tasks end first.
    fn start(&self, entry: &EntryName, asked: Asked, before: Option<Known>) -> Known {
        let shared = Arc::clone(&self.shared);
        let (slot, ending) = match before {
            Some(Known { slot, task, .. }) => (slot, task),
            None => {
                let slot = Slot::new(shared.runtime.clone(), entry.clone(), shared.installation.clone());
                (Arc::new(slot), None)
            }
        };
        let (asked, hold) = (watch::Sender::new(asked), watch::Sender::new(None));
        let confirmed = watch::Sender::new(None);
        let (shown, canary) = (watch::Sender::default(), watch::Sender::default());
        let former = watch::Sender::default();
        let (gone, view) = (watch::Sender::new(0), watch::Sender::new(View::default()));
        let recoveries = watch::Sender::new(Arc::default());
        let run = Run {
            shared,
            entry: entry.clone(),
            slot: Arc::clone(&slot),
            asked: asked.subscribe(),
            hold: hold.clone(),
            confirmed: confirmed.subscribe(),
            shown: shown.clone(),
            canary: canary.clone(),
            former: former.clone(),
            gone: gone.subscribe(),
            view: view.clone(),
            recoveries: recoveries.clone(),
        };
        let task = tokio::spawn(async move {
            if let Some(ending) = ending {
                let _ = ending.await;
            }
            run.again_and_again().await;
        });
        Known {
            slot,
            asked,
            hold,
            confirmed,
            shown,
            canary,
            former,
            gone,
            view,
            recoveries,
            task: Some(AbortOnDropHandle::new(task)),
        }
    }
}

impl Known {
    fn is_removed(&self) -> bool {
        *self.asked.borrow() == Asked::Removed
    }

    fn is_listed(&self) -> bool {
        matches!(*self.asked.borrow(), Asked::Entry(_) | Asked::Unlisted)
    }

    fn show_missing(&self, config_map: Option<&String>) {
        self.view.send_if_modified(|view| {
            let changed = view.missing.as_ref() != config_map;
            view.missing = config_map.cloned();
            changed
        });
    }
}

/// Tells only what is new.
fn put<T: PartialEq>(told: &watch::Sender<T>, value: T) {
    told.send_if_modified(|before| {
        let changed = *before != value;
        *before = value;
        changed
    });
}

/// What the tasks of one entry are made of.
#[derive(Clone)]
struct Run {
    shared: Arc<Shared>,
    entry: EntryName,
    slot: Arc<Slot>,
    asked: watch::Receiver<Asked>,
    hold: watch::Sender<Option<Hold>>,
    confirmed: watch::Receiver<Option<String>>,
    shown: watch::Sender<Shown>,
    canary: watch::Sender<Option<Arc<Canary>>>,
    former: watch::Sender<Option<Arc<Former>>>,
    gone: watch::Receiver<u64>,
    view: watch::Sender<View>,
    recoveries: watch::Sender<Arc<Recoveries>>,
}

impl Run {
    /// A fault of the operator that ends an entry's tasks is neither to end the others nor to stay.
    async fn again_and_again(self) {
        while let Err(error) = AbortOnDropHandle::new(tokio::spawn(self.clone().run())).await {
            error!(entry = %self.entry, %error, "the tasks of an entry broke down; they are begun again");
            tokio::time::sleep(READ_AGAIN).await;
        }
    }

    async fn run(self) {
        let Self {
            shared,
            entry,
            slot,
            asked,
            hold,
            confirmed,
            shown,
            canary,
            former,
            gone,
            view,
            recoveries,
        } = self;
        // Of tasks that broke down.
        canary.send_replace(None);
        let before = loop {
            match health::read(&shared.cluster, &entry).await {
                Ok(before) => break before,
                Err(error) => warn!(%entry, %error, "an entry waits until its ProviderHealth can be read"),
            }
            tokio::time::sleep(READ_AGAIN).await;
        };
        if let Some(seen) = before.as_ref().and_then(|before| before.spec.hold.clone()) {
            hold.send_if_modified(|hold| hold.is_none() && hold.replace(seen).is_none());
        }
        let status = before.as_ref().and_then(|before| before.status.clone()).unwrap_or_default();
        let ran = status.active.clone();
        let known = Shown::of(Some(&status));
        shown.send_if_modified(|shown| {
            *shown == Shown::default() && std::mem::replace(shown, known.clone()) != known
        });
        view.send_modify(|view| {
            *view = View { missing: view.missing.take(), left: view.left.take(), ..View::from_before(status) }
        });

        let (notices, notices_out) = mpsc::channel(16);
        let (holds_over, holds_over_out) = mpsc::channel(4);
        let keeper = health::Inlets {
            view: view.subscribe(),
            notices: notices_out,
            holds_over: holds_over_out,
            gone,
            recoveries,
            leadership: shared.leadership.clone(),
        };
        let collecting = Collecting::new(
            entry.clone(),
            Collector::new(shared.owners.clone(), shared.installation.clone(), Arc::new(SystemClock)),
            collecting::Inlets { asked: asked.clone(), confirmed, leadership: shared.leadership.clone() },
            view.clone(),
            notices.clone(),
        );
        let keeper = Keeper::new(&shared.cluster, entry.clone(), shared.events.clone(), keeper, before);
        let inlets = entry::Inlets {
            asked,
            hold: hold.subscribe(),
            shown: shown.subscribe(),
            leadership: shared.leadership.clone(),
        };
        let outlets =
            entry::Outlets { view, notices, changes: shared.changes.clone(), holds_over, former, canary };
        let beside = Beside {
            installation: shared.installation.clone(),
            secrets: Some(Arc::new(HomeSecrets(shared.cluster.clone()))),
            writes: Arc::clone(shared.runtime.writes()),
        };
        let lender = Lender::new(entry.clone(), shared.home.clone(), beside);
        let lender = lender.with_simulations(shared.simulations.clone());
        let revisions = Revisions::new(&shared.cluster, entry);
        let site = entry::Site { revisions, cluster: shared.cluster.clone(), owners: shared.owners.clone() };
        let modules = (shared.modules.clone(), shared.module_bytes);
        let entry = EntryLoop::new(slot, ran, modules, lender, site, inlets, outlets);
        // They end together: when the entry is removed, or with the process.
        tokio::join!(entry.run(), keeper.run(), collecting.run());
    }
}

impl Providers for Entries {
    fn active(&self, entry: &str) -> Result<ActiveProvider, Inactive> {
        let known = self.read();
        let missing = || {
            let config_map = &self.shared.config_map;
            Inactive::Missing(format!(
                "there is none; add it to ConfigMap {config_map}, or change spec.provider"
            ))
        };
        let Some(known) = known.get(entry) else {
            return Err(if self.listed.load(Ordering::SeqCst) { missing() } else { Inactive::Starting });
        };
        let listed = known.is_listed();
        match known.slot.active() {
            Some(revision) => {
                let said = match &*known.asked.borrow() {
                    Asked::Entry(read) => read.as_ref().as_ref().ok().map(|e| (e.replace, e.health.clone())),
                    Asked::Unlisted | Asked::Leaving | Asked::Removed => None,
                };
                let (replace, health) = said.unwrap_or_default();
                let id = revision.id().to_string();
                let former = match known.former.borrow().clone() {
                    Some(former) if former.beside == id => former,
                    Some(former) => Arc::new(former.before(id.clone(), revision.places())),
                    None => Arc::new(Former::unknown(id.clone())),
                };
                Ok(ActiveProvider {
                    revision: id,
                    former: Some(former).filter(|former| !former.is_nothing()),
                    provider: revision,
                    listed,
                    replace,
                    health,
                    recoveries: Arc::clone(&known.recoveries.borrow()),
                    canary: known.canary.borrow().clone(),
                })
            }
            None if known.is_removed() => Err(missing()),
            None => Err(known.view.borrow().why_not_active()),
        }
    }
}
