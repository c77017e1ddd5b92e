//! What processes share that lead one after the other, and what the world does to each of them.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::{Created, Deleted, Error, Health, Instance, Page, Provider, Spec, Target};
use egress_runtime::capability::while_allowed;
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{MS, SECOND};
use crate::{
    api::ProxyStatus,
    core::{
        budget::ReplaceConfig,
        clock::Clock,
        lease::{Claim, Elector, LeaseError, LeaseRecord, Leases, Monotonic, Proof, Terms},
        memory::MemoryStore,
        store::{
            ActiveProvider, Inactive, Notice, Providers, ProxyKey, ProxyRecord, Store, StoreError,
            UserDataError,
        },
        tests::provider::Backend,
    },
};

/// A lease that was written: when, and who has it since.
#[derive(Clone, Debug)]
pub struct Landed {
    pub at: Duration,
    pub holder: String,
}

/// What all processes share: time, the lease, and a journal of writes as they begin.
pub struct Site {
    pub start: Instant,
    pub lease: Mutex<Option<LeaseRecord>>,
    pub history: Mutex<Vec<Landed>>,
    pub journal: Mutex<Vec<(Duration, String, &'static str)>>,
    pub withheld: AtomicUsize,
    pub chance: Mutex<StdRng>,
}

impl Site {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            lease: Mutex::default(),
            history: Mutex::default(),
            journal: Mutex::default(),
            withheld: AtomicUsize::new(0),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
        })
    }

    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn chance(&self) -> MutexGuard<'_, StdRng> {
        self.chance.lock().unwrap()
    }

    /// The way to somewhere, or back.
    pub async fn travel(&self) {
        let ms = self.chance().random_range(1..40);
        sleep(MS * ms).await;
    }

    pub fn begin(&self, who: &str, what: &'static str) {
        self.journal.lock().unwrap().push((self.now(), who.to_owned(), what));
    }

    /// Writes that began while somebody else had the lease, or nobody.
    pub fn unproven(&self) -> Vec<String> {
        let history = self.history.lock().unwrap();
        let journal = self.journal.lock().unwrap();
        let had = |at| history.iter().take_while(|landed| landed.at <= at).last();
        let wrong = journal.iter().filter(|(at, who, _)| had(*at).is_none_or(|landed| landed.holder != *who));
        wrong.map(|(at, who, what)| format!("{at:?} {who} {what}, had {:?}", had(*at))).collect()
    }

    pub fn changes_of_hands(&self) -> usize {
        let history = self.history.lock().unwrap();
        history.windows(2).filter(|pair| pair[0].holder != pair[1].holder).count()
    }
}

/// One process, as the world treats it.
pub struct Host {
    pub site: Arc<Site>,
    pub name: String,
    /// It reaches the lease, or not.
    pub cut: AtomicBool,
    pub thaws: Mutex<Instant>,
    /// Its clock's, in thousandths.
    pub drift: i32,
}

impl Host {
    pub fn new(site: &Arc<Site>, name: &str, drift: i32) -> Arc<Self> {
        Arc::new(Self {
            site: site.clone(),
            name: name.to_owned(),
            cut: AtomicBool::new(false),
            thaws: Mutex::new(site.start),
            drift,
        })
    }

    pub fn freeze(&self, time: Duration) {
        *self.thaws.lock().unwrap() = Instant::now() + time;
    }

    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    pub fn terms(&self) -> Terms {
        Terms { identity: self.name.clone(), ..Terms::default() }
    }

    pub fn elector(self: &Arc<Self>) -> Elector<Reached> {
        let clock = Arc::new(HostClock(self.clone()));
        Elector::new(Reached(self.clone()), self.terms(), clock)
    }

    /// What it does stands still while it is frozen.
    pub fn run<F: Future>(self: &Arc<Self>, work: F) -> Freezable<F> {
        Freezable { host: self.clone(), work: Box::pin(work), sleep: None }
    }
}

pub struct HostClock(pub Arc<Host>);

impl Monotonic for HostClock {
    fn elapsed(&self) -> Duration {
        let micros = i128::try_from(self.0.site.now().as_micros()).unwrap();
        let shown = micros + micros * i128::from(self.0.drift) / 1000;
        Duration::from_micros(u64::try_from(shown).unwrap()) + SECOND
    }
}

pub struct Freezable<F> {
    pub host: Arc<Host>,
    pub work: Pin<Box<F>>,
    pub sleep: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let thaws = *self.host.thaws.lock().unwrap();
        if Instant::now() < thaws {
            let mut sleep = Box::pin(sleep_until(thaws));
            assert!(sleep.as_mut().poll(context).is_pending());
            self.sleep = Some(sleep);
            return Poll::Pending;
        }
        self.sleep = None;
        self.work.as_mut().poll(context)
    }
}

/// The lease as one host reaches it.
pub struct Reached(pub Arc<Host>);

impl Reached {
    /// On its way there or back the host may be cut off: then it never hears, or that something broke.
    async fn way(&self) -> Result<(), LeaseError> {
        let site = &self.0.site;
        site.travel().await;
        if !self.0.cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        if site.chance().random_bool(0.5) {
            std::future::pending::<()>().await;
        }
        Err(LeaseError::Failed("the connection broke".to_owned()))
    }
}

#[async_trait]
impl Leases for Reached {
    async fn read(&self) -> Result<Option<LeaseRecord>, LeaseError> {
        self.way().await?;
        let found = self.0.site.lease.lock().unwrap().clone();
        self.way().await?;
        Ok(found)
    }

    async fn write(&self, before: Option<&LeaseRecord>, claim: Claim) -> Result<LeaseRecord, LeaseError> {
        self.way().await?;
        let site = &self.0.site;
        let written = {
            let mut lease = site.lease.lock().unwrap();
            if lease.as_ref().map(|record| &record.version) != before.map(|record| &record.version) {
                Err(LeaseError::Overtaken)
            } else {
                let Claim { holder, duration, transitions, .. } = claim;
                let mut history = site.history.lock().unwrap();
                history.push(Landed { at: site.now(), holder: holder.clone() });
                let version = history.len().to_string();
                *lease = Some(LeaseRecord { holder, duration: Some(duration), transitions, version });
                Ok(lease.clone().unwrap())
            }
        };
        self.way().await?;
        written
    }
}

/// A store whose writes take their time, and are noted as they begin.
pub struct Noted {
    pub host: Arc<Host>,
    pub store: Arc<MemoryStore>,
}

#[async_trait]
impl Store for Noted {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        self.host.site.travel().await;
        let found = self.store.get(key).await;
        self.host.site.travel().await;
        found
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        self.host.site.begin(&self.host.name, "status");
        self.host.site.travel().await;
        let written = self.store.write_status(record, status).await;
        self.host.site.travel().await;
        written
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        self.host.site.begin(&self.host.name, "finalizer");
        self.host.site.travel().await;
        let written = self.store.set_finalizer(record, on).await;
        self.host.site.travel().await;
        written
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        self.store.user_data(record).await
    }

    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError> {
        self.store.is_kind_going(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        self.host.site.begin(&self.host.name, "event");
        self.store.notify(record, notice).await;
    }
}

/// The backend, whose writes the host lets begin only while it may.
pub struct Hosted {
    pub host: Arc<Host>,
    pub proof: Proof,
    pub backend: Arc<Backend>,
}

impl Hosted {
    async fn write<T>(
        &self,
        what: &'static str,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        // A guest computes and reads before it writes.
        self.host.site.travel().await;
        let noted = async {
            self.host.site.begin(&self.host.name, what);
            self.host.site.travel().await;
            write.await
        };
        while_allowed(&self.proof, noted).await.unwrap_or_else(|withheld| {
            self.host.site.withheld.fetch_add(1, Ordering::SeqCst);
            Err(Error::transient("write-withheld", withheld.to_string()))
        })
    }
}

#[async_trait]
impl Provider for Hosted {
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        self.write("create", self.backend.create(target, spec, user_data)).await
    }

    async fn get(&self, target: &Target) -> Result<Instance, Error> {
        self.host.site.travel().await;
        self.backend.get(target).await
    }

    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        self.write("delete", self.backend.delete(target)).await
    }

    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        self.backend.list(place, cursor).await
    }

    async fn check(&self, place: &str) -> Result<Health, Error> {
        self.backend.check(place).await
    }
}

pub struct One(pub Arc<Hosted>);

impl Providers for One {
    fn active(&self, _: &str) -> Result<ActiveProvider, Inactive> {
        Ok(ActiveProvider {
            provider: self.0.clone(),
            revision: "r1".to_owned(),
            listed: true,
            replace: ReplaceConfig::default(),
            health: None,
            recoveries: Arc::default(),
            former: None,
            canary: None,
        })
    }
}

pub struct SiteClock(pub Arc<Site>);

impl Clock for SiteClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + self.0.now()
    }
}
