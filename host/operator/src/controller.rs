//! Which Proxy is looked at when.
//!
//! Proxies are watched by their metadata alone: the loop reads each one live, and one that can't be read
//! blinds nobody but itself. Only a change of generation, annotations or finalizers is a reason to look; the
//! loop's own writes of a status are none. A Proxy that waits for an entry, or rests on a failure, is looked
//! at again when that entry's revision changes.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream};
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        Config, Predicate, PredicateConfig, WatchStreamExt, applier,
        controller::{Action, Error as ControllerError},
        predicates,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{debug, error, warn};

use crate::{
    api::{Phase, Proxy, ProxyStatus},
    core::{
        reconcile::{Next, Reconciler},
        store::{Notice, Providers, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
    },
};

type Seen = PartialObjectMeta<Proxy>;

/// After a pass that broke down.
const AFTER_PANIC: Duration = Duration::from_secs(60);
/// Triggers that wait to be taken up.
const TRIGGERS: usize = 1024;

/// Which Proxies wait for which entries.
#[derive(Default)]
pub struct Waiting {
    proxies: Mutex<HashMap<ProxyKey, BTreeSet<String>>>,
    /// Counts what was told: a pass that began before may have noted its wait too late to be woken.
    told: AtomicU64,
}

impl Waiting {
    fn note(&self, record: &ProxyRecord) {
        let status = &record.status;
        let settled = matches!(status.phase, Some(Phase::Running | Phase::Provisioning | Phase::Stopped))
            && status.failure.is_none()
            && status.observed_generation == Some(record.generation)
            && !record.deleting;
        if settled {
            self.forget(&record.key);
            return;
        }
        let holder = status.instance.iter().map(|instance| instance.provider.clone());
        let entries = holder.chain([record.spec.provider.clone()]).collect();
        self.proxies().insert(record.key.clone(), entries);
    }

    fn forget(&self, key: &ProxyKey) {
        self.proxies().remove(key);
    }

    fn contains(&self, key: &ProxyKey) -> bool {
        self.proxies().contains_key(key)
    }

    fn for_entry(&self, entry: &str) -> Vec<ProxyKey> {
        let proxies = self.proxies();
        let waits = proxies.iter().filter(|(_, entries)| entries.contains(entry));
        waits.map(|(key, _)| key.clone()).collect()
    }

    fn proxies(&self) -> MutexGuard<'_, HashMap<ProxyKey, BTreeSet<String>>> {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store that notes who waits.
pub struct Noting<S> {
    store: S,
    waiting: Arc<Waiting>,
}

impl<S> Noting<S> {
    /// Over another store.
    pub fn new(store: S, waiting: Arc<Waiting>) -> Self {
        Self { store, waiting }
    }
}

#[async_trait]
impl<S: Store> Store for Noting<S> {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        let found = self.store.get(key).await?;
        match &found {
            Some(record) => self.waiting.note(record),
            None => self.waiting.forget(key),
        }
        Ok(found)
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        let written = self.store.write_status(record, status).await?;
        self.waiting.note(&written);
        Ok(written)
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        self.store.set_finalizer(record, on).await
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        self.store.user_data(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        self.store.notify(record, notice).await;
    }
}

/// The loop over all Proxies.
pub struct Controller<S, P> {
    /// What a pass is.
    pub reconciler: Arc<Reconciler<S, P>>,
    /// Shared with the reconciler's store.
    pub waiting: Arc<Waiting>,
    /// Passes at once, in each namespace that is watched.
    pub concurrency: u16,
}

impl<S: Store + 'static, P: Providers + 'static> Controller<S, P> {
    /// Runs until the token is cancelled, and then until the passes in flight have ended. `namespace` is
    /// none for all; `listed` is told when all Proxies are known.
    pub async fn run(
        &self,
        client: Client,
        namespace: Option<&str>,
        woken: mpsc::Receiver<ProxyKey>,
        stop: CancellationToken,
        listed: impl FnOnce() + Send,
    ) {
        let api: Api<Seen> = match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let (reader, writer) = reflector::store();
        let changes = changes(api, writer).map(|seen| ObjectRef::from(&seen));
        let wakes = stream::unfold(woken, |mut woken| async { woken.recv().await.map(|key| (key, woken)) })
            .map(|key| ObjectRef::new(&key.name).within(&key.namespace));
        let queue =
            stream::select(changes, wakes).map(Ok::<_, Infallible>).take_until(stop.cancelled_owned());
        let pass = {
            let (reconciler, waiting) = (Arc::clone(&self.reconciler), Arc::clone(&self.waiting));
            move |seen: Arc<Seen>, _: Arc<()>| pass(Arc::clone(&reconciler), Arc::clone(&waiting), &seen)
        };
        let never = |_: Arc<Seen>, error: &Infallible, _: Arc<()>| match *error {};
        let config = Config::default().concurrency(self.concurrency);
        let ready = reader.clone();
        let passes = applier(pass, never, Arc::new(()), reader, queue.boxed(), config);
        let passes = passes.for_each(|result| {
            if let Err(ControllerError::ObjectNotFound(gone)) = result {
                let key = ProxyKey {
                    namespace: gone.namespace.clone().unwrap_or_default(),
                    name: gone.name.clone(),
                };
                self.waiting.forget(&key);
                self.reconciler.wake(&key);
            }
            std::future::ready(())
        });
        let told = async {
            if ready.wait_until_ready().await.is_ok() {
                listed();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = passes => {}
            () = told => {}
        }
    }
}

/// Wakes those that wait for an entry whose revision changed, until nobody tells or listens.
pub async fn wake_waiting(
    waiting: Arc<Waiting>,
    mut changes: mpsc::Receiver<String>,
    wakes: Vec<(Option<String>, mpsc::Sender<ProxyKey>)>,
) {
    while let Some(entry) = changes.recv().await {
        waiting.told.fetch_add(1, Ordering::SeqCst);
        for key in waiting.for_entry(&entry) {
            let of = |(namespace, _): &&(Option<String>, _)| {
                namespace.as_ref().is_none_or(|n| *n == key.namespace)
            };
            if let Some((_, wake)) = wakes.iter().find(of)
                && wake.send(key).await.is_err()
            {
                return;
            }
        }
    }
}

/// A way to wake Proxies, and what it leads to.
pub fn wakes() -> (mpsc::Sender<ProxyKey>, mpsc::Receiver<ProxyKey>) {
    mpsc::channel(TRIGGERS)
}

/// In a task of its own: a guest that computes holds no other pass, and one that panics ends alone.
fn pass<S: Store + 'static, P: Providers + 'static>(
    reconciler: Arc<Reconciler<S, P>>,
    waiting: Arc<Waiting>,
    seen: &Seen,
) -> BoxFuture<'static, Result<Action, Infallible>> {
    let key = ProxyKey { namespace: seen.namespace().unwrap_or_default(), name: seen.name_any() };
    let began = waiting.told.load(Ordering::SeqCst);
    let of = key.clone();
    let task = tokio::spawn(async move { reconciler.reconcile(&of).await });
    async move {
        let next = match AbortOnDropHandle::new(task).await {
            Ok(next) => next,
            Err(error) => {
                error!(proxy = %key, %error, "a pass broke down; this is a fault of the operator");
                Next::Requeue(AFTER_PANIC)
            }
        };
        let overtaken = waiting.told.load(Ordering::SeqCst) != began && waiting.contains(&key);
        Ok(match next {
            _ if overtaken => Action::requeue(Duration::ZERO),
            Next::Requeue(after) => Action::requeue(after),
            Next::Wait => Action::await_change(),
        })
    }
    .boxed()
}

fn changes(api: Api<Seen>, writer: reflector::store::Writer<Seen>) -> impl Stream<Item = Seen> {
    let worth_a_look =
        predicates::generation.combine(predicates::annotations).combine(predicates::finalizers);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .modify(|seen| {
            // Most of an object's metadata, and nothing that is looked at.
            seen.metadata.managed_fields = None;
        })
        .reflect(writer)
        .applied_objects()
        .predicate_filter(worth_a_look, PredicateConfig::default())
        .filter_map(|seen| {
            let seen = seen.inspect_err(told).ok();
            std::future::ready(seen)
        })
}

fn told(error: &watcher::Error) {
    match error {
        // The watch goes on from where it was.
        watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_) => {
            debug!(%error, "the watch of Proxies was interrupted");
        }
        other => warn!(error = %other, "Proxies can't be listed; it is tried again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Failure, InstanceStatus, ProxySpec};

    fn record(status: ProxyStatus) -> ProxyRecord {
        ProxyRecord {
            key: ProxyKey { namespace: "a".to_owned(), name: "web".to_owned() },
            uid: "uid".to_owned(),
            generation: 1,
            version: "1".to_owned(),
            deleting: false,
            finalizer: true,
            retry: None,
            spec: ProxySpec { provider: "wanted".to_owned(), ..ProxySpec::default() },
            status,
        }
    }

    #[test]
    fn a_proxy_that_waits_or_failed_is_woken_by_both_its_entries() {
        let waiting = Waiting::default();
        let instance = InstanceStatus { provider: "holding".to_owned(), ..InstanceStatus::default() };
        let failed = ProxyStatus {
            phase: Some(Phase::Replacing),
            failure: Some(Failure::default()),
            instance: Some(instance),
            ..ProxyStatus::default()
        };
        waiting.note(&record(failed));
        assert_eq!(waiting.for_entry("wanted").len(), 1);
        assert_eq!(waiting.for_entry("holding").len(), 1);
        assert_eq!(waiting.for_entry("other").len(), 0);
        let running = ProxyStatus {
            phase: Some(Phase::Running),
            observed_generation: Some(1),
            ..ProxyStatus::default()
        };
        waiting.note(&record(running));
        assert_eq!(waiting.for_entry("wanted").len(), 0, "a swap is no reason to ask after what runs well");
    }

    #[test]
    fn a_proxy_that_nobody_looked_at_yet_waits() {
        let waiting = Waiting::default();
        waiting.note(&record(ProxyStatus::default()));
        assert_eq!(waiting.for_entry("wanted").len(), 1);
    }
}
