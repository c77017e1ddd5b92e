//! What a test starts from, and how it goes on.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::Installation;
use jiff::Timestamp;

use crate::{
    api::{Phase, ProxySpec, ProxyStatus},
    core::{
        backoff::{Dice, Pace},
        clock::Clock,
        memory::MemoryStore,
        probe::Fleet,
        reconcile::{Next, Reconciler, Setup},
        store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
        tests::provider::{Backend, Entries},
    },
};

/// Pends once: a point where the process may end, or another host go on.
pub async fn point() {
    let mut passed = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut passed, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls a future up to its `cut`th point and drops it there; what it answered, if it came so far.
pub fn drive<T>(future: impl Future<Output = T>, cut: Option<usize>) -> (Option<T>, usize) {
    let mut future = Box::pin(future);
    let mut points = 0;
    loop {
        match poll(future.as_mut()) {
            Poll::Ready(answer) => return (Some(answer), points),
            Poll::Pending if Some(points) == cut => return (None, points),
            Poll::Pending => points += 1,
        }
    }
}

pub fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Time that stands still until a test moves it.
pub struct StillClock(AtomicI64);

impl StillClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanosecond(self.0.load(Ordering::SeqCst).into()).unwrap()
    }
}

/// The store in memory, with points.
#[derive(Clone)]
pub struct PointedStore {
    store: Arc<MemoryStore>,
    /// How many reads of user-data failed; below zero while none does.
    unread: Arc<AtomicI64>,
}

#[async_trait]
impl Store for PointedStore {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        point().await;
        self.store.get(key).await
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        point().await;
        let answer = self.store.write_status(record, status).await;
        point().await;
        answer
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        point().await;
        let answer = self.store.set_finalizer(record, on).await;
        point().await;
        answer
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        point().await;
        if self.unread.load(Ordering::SeqCst) >= 0 {
            let failed = self.unread.fetch_add(1, Ordering::SeqCst);
            let (what, message) = ("Secret".to_owned(), format!("no answer to request {failed}"));
            return Err(UserDataError::Unread { what, message });
        }
        self.store.user_data(record).await
    }

    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError> {
        point().await;
        self.store.is_kind_going(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        point().await;
        self.store.notify(record, notice).await;
    }
}

pub type Host = Reconciler<PointedStore, Entries>;

/// One Proxy, its store, its backend and the time.
pub struct World {
    pub key: ProxyKey,
    pub store: Arc<MemoryStore>,
    pub entries: Entries,
    pub backend: Arc<Backend>,
    pub clock: Arc<StillClock>,
    unread: Arc<AtomicI64>,
}

pub const INSTALLATION: &str = "an-installation";

impl World {
    /// A Proxy of entry `one`, revision `r1`, not reconciled yet.
    pub fn new() -> Self {
        let key = ProxyKey { namespace: "team-a".into(), name: "web".into() };
        let store = Arc::new(MemoryStore::default());
        let backend = Arc::new(Backend::new(store.clone()));
        let entries = Entries::default();
        entries.set("one", Some((backend.clone(), "r1")));
        store.apply(&key, spec());
        let clock = Arc::new(StillClock(AtomicI64::new(1_800_000_000_000_000_000)));
        Self { key, store, entries, backend, clock, unread: Arc::new(AtomicI64::new(-1)) }
    }

    /// One whose instance runs.
    pub fn running() -> (Self, Host) {
        let world = Self::new();
        let host = world.host();
        world.until(&host, |record| record.status.phase == Some(Phase::Running));
        world.backend.clear_log();
        (world, host)
    }

    /// A host with no memory of its own.
    pub fn host(&self) -> Host {
        self.host_with(Pace::default())
    }

    pub fn host_with(&self, pace: Pace) -> Host {
        let setup = Setup {
            installation: Installation::new(INSTALLATION),
            pace,
            clock: self.clock.clone(),
            dice: Dice::seeded(1),
            fleet: Arc::new(Fleet::new(Dice::seeded(2))),
        };
        let store = PointedStore { store: self.store.clone(), unread: self.unread.clone() };
        Reconciler::new(store, self.entries.clone(), setup)
    }

    /// Whether reads of user-data fail, each in other words.
    pub fn unread(&self, fail: bool) {
        self.unread.store(if fail { 0 } else { -1 }, Ordering::SeqCst);
    }

    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A place of entry `one` is ready again.
    pub fn recover(&self, place: &str) {
        let now = self.clock.now();
        self.entries.change("one", |active| active.recoveries = Arc::new([(place.to_owned(), now)].into()));
    }

    /// One pass, and the time moves on to when the next is due.
    pub fn pass(&self, host: &Host) -> Next {
        let next = drive(host.reconcile(&self.key), None).0.unwrap();
        if let Next::Requeue(after) = next {
            self.clock.advance(after);
        }
        next
    }

    /// Passes until the Proxy is as wanted, or is gone; at most 200.
    pub fn until(&self, host: &Host, wanted: impl Fn(&ProxyRecord) -> bool) {
        for _ in 0..200 {
            match self.store.peek(&self.key) {
                Some(record) if wanted(&record) => return,
                Some(_) => self.pass(host),
                None => return,
            };
        }
        panic!("not reached; the Proxy is {:#?}", self.store.peek(&self.key));
    }

    /// Passes for so long.
    pub fn pass_for(&self, host: &Host, time: Duration) {
        let end = self.clock.now().checked_add(time).unwrap();
        while self.clock.now() < end {
            if self.pass(host) == Next::Wait {
                return;
            }
        }
    }

    pub fn until_running(&self, host: &Host) {
        self.until(host, |record| {
            record.status.phase == Some(Phase::Running)
                && record.status.observed_generation == Some(record.generation)
        });
    }

    pub fn until_gone(&self, host: &Host) {
        self.until(host, |_| false);
    }

    pub fn record(&self) -> ProxyRecord {
        self.store.peek(&self.key).unwrap()
    }

    pub fn status(&self) -> ProxyStatus {
        self.record().status
    }

    pub fn apply(&self, change: impl FnOnce(&mut ProxySpec)) {
        let mut spec = self.record().spec;
        change(&mut spec);
        self.store.apply(&self.key, spec);
    }

    /// The name of the instance in the status.
    pub fn name(&self) -> String {
        self.status().instance.unwrap().name
    }

    /// Reasons of all notices so far.
    pub fn told(&self) -> Vec<String> {
        self.store.notices().into_iter().map(|(_, notice)| notice.reason).collect()
    }

    /// `True`, `False`, `Unknown`, and the reason.
    pub fn condition(&self, kind: &str) -> (String, String) {
        let status = self.status();
        let condition = status.conditions.iter().find(|c| c.type_ == kind).unwrap();
        assert_eq!(condition.observed_generation, Some(self.record().generation), "{kind} is of this spec");
        (condition.status.clone(), condition.reason.clone())
    }
}

pub fn spec() -> ProxySpec {
    ProxySpec { provider: "one".into(), port: 3128, ..ProxySpec::default() }
}
