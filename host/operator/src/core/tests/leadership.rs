//! Processes that share a lease, in virtual time: cut off, frozen, overtaken, killed. Every write is checked
//! against the lease's history.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::{
    Created, Deleted, Error, Health, Installation, Instance, Page, Provider, Spec, Target,
};
use egress_runtime::capability::while_allowed;
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{Phase, ProxyStatus},
    core::{
        backoff::{Dice, Pace},
        budget::ReplaceConfig,
        clock::Clock,
        lease::{Claim, Elector, LeaseError, LeaseRecord, Leases, Led, Monotonic, Proof, Terms},
        memory::MemoryStore,
        reconcile::{Next, Reconciler, Setup},
        store::{
            ActiveProvider, Inactive, Notice, Providers, ProxyKey, ProxyRecord, Store, StoreError,
            UserDataError,
        },
        tests::{
            provider::Backend,
            world::{INSTALLATION, spec},
        },
    },
};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A lease that was written: when, and who has it since.
#[derive(Clone, Debug)]
struct Landed {
    at: Duration,
    holder: String,
}

/// What all processes share: time, the lease, and a journal of writes as they begin.
struct Site {
    start: Instant,
    lease: Mutex<Option<LeaseRecord>>,
    history: Mutex<Vec<Landed>>,
    journal: Mutex<Vec<(Duration, String, &'static str)>>,
    withheld: AtomicUsize,
    chance: Mutex<StdRng>,
}

impl Site {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            lease: Mutex::default(),
            history: Mutex::default(),
            journal: Mutex::default(),
            withheld: AtomicUsize::new(0),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn chance(&self) -> MutexGuard<'_, StdRng> {
        self.chance.lock().unwrap()
    }

    /// The way to somewhere, or back.
    async fn travel(&self) {
        let ms = self.chance().random_range(1..40);
        sleep(MS * ms).await;
    }

    fn begin(&self, who: &str, what: &'static str) {
        self.journal.lock().unwrap().push((self.now(), who.to_owned(), what));
    }

    /// Writes that began while somebody else had the lease, or nobody.
    fn unproven(&self) -> Vec<String> {
        let history = self.history.lock().unwrap();
        let journal = self.journal.lock().unwrap();
        let had = |at| history.iter().take_while(|landed| landed.at <= at).last();
        let wrong = journal.iter().filter(|(at, who, _)| had(*at).is_none_or(|landed| landed.holder != *who));
        wrong.map(|(at, who, what)| format!("{at:?} {who} {what}, had {:?}", had(*at))).collect()
    }

    fn changes_of_hands(&self) -> usize {
        let history = self.history.lock().unwrap();
        history.windows(2).filter(|pair| pair[0].holder != pair[1].holder).count()
    }
}

/// One process, as the world treats it.
struct Host {
    site: Arc<Site>,
    name: String,
    /// It reaches the lease, or not.
    cut: AtomicBool,
    thaws: Mutex<Instant>,
    /// Its clock's, in thousandths.
    drift: i32,
}

impl Host {
    fn new(site: &Arc<Site>, name: &str, drift: i32) -> Arc<Self> {
        Arc::new(Self {
            site: site.clone(),
            name: name.to_owned(),
            cut: AtomicBool::new(false),
            thaws: Mutex::new(site.start),
            drift,
        })
    }

    fn freeze(&self, time: Duration) {
        *self.thaws.lock().unwrap() = Instant::now() + time;
    }

    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    fn terms(&self) -> Terms {
        Terms { identity: self.name.clone(), ..Terms::default() }
    }

    fn elector(self: &Arc<Self>) -> Elector<Reached> {
        let clock = Arc::new(HostClock(self.clone()));
        Elector::new(Reached(self.clone()), self.terms(), clock)
    }

    /// What it does stands still while it is frozen.
    fn run<F: Future>(self: &Arc<Self>, work: F) -> Freezable<F> {
        Freezable { host: self.clone(), work: Box::pin(work), sleep: None }
    }
}

struct HostClock(Arc<Host>);

impl Monotonic for HostClock {
    fn elapsed(&self) -> Duration {
        let micros = i128::try_from(self.0.site.now().as_micros()).unwrap();
        let shown = micros + micros * i128::from(self.0.drift) / 1000;
        Duration::from_micros(u64::try_from(shown).unwrap()) + SECOND
    }
}

struct Freezable<F> {
    host: Arc<Host>,
    work: Pin<Box<F>>,
    sleep: Option<Pin<Box<Sleep>>>,
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
struct Reached(Arc<Host>);

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
struct Noted {
    host: Arc<Host>,
    store: Arc<MemoryStore>,
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
struct Hosted {
    host: Arc<Host>,
    proof: Proof,
    backend: Arc<Backend>,
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

struct One(Arc<Hosted>);

impl Providers for One {
    fn active(&self, _: &str) -> Result<ActiveProvider, Inactive> {
        Ok(ActiveProvider {
            provider: self.0.clone(),
            revision: "r1".to_owned(),
            listed: true,
            replace: ReplaceConfig::default(),
            recoveries: Arc::default(),
        })
    }
}

struct SiteClock(Arc<Site>);

impl Clock for SiteClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + self.0.now()
    }
}

/// A whole process: its elector, and loops that don't care for what it says.
async fn process(
    host: Arc<Host>,
    store: Arc<MemoryStore>,
    backend: Arc<Backend>,
    proof: Option<Proof>,
    stop: CancellationToken,
) {
    let mut elector = host.elector();
    let proof = proof.unwrap_or_else(|| elector.proof());
    let hosted = Hosted { host: host.clone(), proof: proof.clone(), backend };
    let setup = Setup {
        installation: Installation::new(INSTALLATION),
        pace: Pace { running: SECOND, recheck: SECOND, transient_most: SECOND, ..Pace::default() },
        clock: Arc::new(SiteClock(host.site.clone())),
        dice: Dice::seeded(1),
    };
    let noted = Noted { host: host.clone(), store };
    let reconciler = Reconciler::new(Led::new(noted, proof), One(Arc::new(hosted)), setup);
    let loops = async {
        loop {
            match reconciler.reconcile(&key()).await {
                Next::Requeue(after) => sleep(after.min(SECOND)).await,
                Next::Wait => sleep(SECOND).await,
            }
        }
    };
    tokio::select! {
        () = elector.run(&stop) => {}
        () = loops => {}
    }
    elector.release().await;
}

fn key() -> ProxyKey {
    ProxyKey { namespace: "team-a".into(), name: "web".into() }
}

/// Two processes for ten minutes, in which the world does what it can to them, and people change their minds.
async fn ten_minutes(seed: u64, unguarded: bool) -> (Arc<Site>, Arc<MemoryStore>, Arc<Backend>) {
    let site = Site::new(seed);
    let store = Arc::new(MemoryStore::default());
    let backend = Arc::new(Backend::new(store.clone()));
    store.apply(&key(), spec());
    let hosts = [Host::new(&site, "a", 5), Host::new(&site, "b", -5)];
    let start = |host: &Arc<Host>| {
        let proof = unguarded.then(Proof::always);
        let process = process(host.clone(), store.clone(), backend.clone(), proof, CancellationToken::new());
        tokio::spawn(host.run(process))
    };
    let mut running = [start(&hosts[0]), start(&hosts[1])];
    let mut names = 0;
    let end = Instant::now() + SECOND * 600;
    while Instant::now() < end {
        let (which, what, ms) = {
            let mut chance = site.chance();
            (chance.random_range(0..2), chance.random_range(0..8), chance.random_range(50..20_000))
        };
        let host = &hosts[which];
        match what {
            0 | 1 => host.freeze(MS * ms * 2),
            2 => host.cut(true),
            3 => hosts.iter().for_each(|host| host.cut(false)),
            4 => {
                // Killed; its successor is somebody else.
                running[which].abort();
                names += 1;
                host.cut(true);
                let successor = Host::new(&site, &format!("{}{names}", host.name), host.drift);
                running[which] = start(&successor);
            }
            _ => {
                let mut spec = spec();
                spec.port = u16::try_from(1024 + ms).unwrap();
                store.apply(&key(), spec);
            }
        }
        sleep(MS * (ms / 4)).await;
    }
    hosts.iter().for_each(|host| host.cut(false));
    sleep(SECOND * 120).await;
    running.iter().for_each(|process| process.abort());
    (site, store, backend)
}

#[tokio::test(start_paused = true)]
async fn no_write_begins_that_the_lease_does_not_prove_whatever_the_loops_believe() {
    let (mut writes, mut withheld, mut changes) = (0, 0, 0);
    for seed in 0..8 {
        let (site, store, backend) = ten_minutes(seed, false).await;
        assert_eq!(site.unproven(), Vec::<String>::new(), "seed {seed}");
        let record = store.peek(&key()).unwrap();
        assert_eq!(record.status.phase, Some(Phase::Running), "seed {seed}: {:#?}", record.status);
        assert_eq!(record.status.observed_generation, Some(record.generation), "seed {seed}");
        backend.assert_only(&record.status.instance.unwrap().name);
        writes += site.journal.lock().unwrap().len();
        withheld += site.withheld.load(Ordering::SeqCst);
        changes += site.changes_of_hands();
    }
    println!("{writes} writes, {withheld} of the provider's withheld, {changes} changes of hands");
    assert!(writes > 1_000 && withheld > 20 && changes > 40, "{writes} {withheld} {changes}");
}

/// So that the test above can fail.
#[tokio::test(start_paused = true)]
async fn without_the_proof_writes_begin_that_the_lease_does_not_prove() {
    let (site, ..) = ten_minutes(1, true).await;
    assert!(site.unproven().len() > 100, "{}", site.unproven().len());
}

/// Until this elector leads; how long that took.
async fn leads(elector: &mut Elector<Reached>) -> Duration {
    let (mut leadership, stop, start) = (elector.leadership(), CancellationToken::new(), Instant::now());
    tokio::select! {
        () = elector.run(&stop) => {}
        led = leadership.wait_for(Option::is_some) => drop(led.unwrap()),
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_is_taken_up_within_a_second() {
    for seed in 0..50 {
        let site = Site::new(seed);
        let (mut one, mut other) = (Host::new(&site, "a", 0).elector(), Host::new(&site, "b", 0).elector());
        leads(&mut one).await;
        let waiting = tokio::spawn(async move { leads(&mut other).await });
        sleep(SECOND * 30 + MS * u32::try_from(seed).unwrap() * 13).await;
        assert!(one.proof().left().is_none() || !waiting.is_finished());
        let given_back = Instant::now();
        one.run(&stopped()).await;
        one.release().await;
        waiting.await.unwrap();
        assert!(given_back.elapsed() < SECOND, "{:?}", given_back.elapsed());
        assert!(!one.proof().holds());
    }
}

fn stopped() -> CancellationToken {
    let stop = CancellationToken::new();
    stop.cancel();
    stop
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_died_is_followed_when_its_lease_is_over_and_not_before() {
    let site = Site::new(7);
    let (a, b) = (Host::new(&site, "a", 0), Host::new(&site, "b", 0));
    let mut one = a.elector();
    leads(&mut one).await;
    let mut other = b.elector();
    let waiting = tokio::spawn(async move { leads(&mut other).await });
    let stop = CancellationToken::new();
    let _ = tokio::time::timeout(SECOND * 60, one.run(&stop)).await;
    let last = site.history.lock().unwrap().last().unwrap().at;
    assert!(!waiting.is_finished(), "it is renewed");
    waiting.await.unwrap();
    let after = site.now().saturating_sub(last);
    assert!((SECOND * 15..SECOND * 16).contains(&after), "{after:?} after the last renewal");
}

#[tokio::test(start_paused = true)]
async fn of_many_that_start_at_once_one_leads() {
    for seed in 0..20 {
        let site = Site::new(seed);
        let mut led = Vec::new();
        for name in 0..8 {
            let mut elector = Host::new(&site, &name.to_string(), 0).elector();
            led.push((elector.proof(), elector.leadership()));
            tokio::spawn(async move { elector.run(&CancellationToken::new()).await });
        }
        for _ in 0..60 {
            sleep(SECOND / 2).await;
            assert!(led.iter().filter(|(proof, _)| proof.holds()).count() <= 1, "seed {seed}");
        }
        assert_eq!(led.iter().filter(|(proof, told)| proof.holds() && told.borrow().is_some()).count(), 1);
        assert_eq!(site.changes_of_hands(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_gives_up_before_another_takes_over_and_goes_on_if_nobody_did() {
    for outage in [12, 40] {
        let site = Site::new(outage);
        let (a, b) = (Host::new(&site, "a", 0), Host::new(&site, "b", 0));
        let (mut one, mut other) = (a.elector(), b.elector());
        leads(&mut one).await;
        let (proof, told, others) = (one.proof(), one.leadership(), other.proof());
        tokio::spawn(async move { one.run(&CancellationToken::new()).await });
        if outage > 15 {
            tokio::spawn(async move { other.run(&CancellationToken::new()).await });
        }
        sleep(SECOND * 20).await;
        a.cut(true);
        sleep(SECOND * 8).await;
        assert!(proof.holds(), "a short outage costs nothing");
        sleep(SECOND * 2 + MS * 200).await;
        assert!(!proof.holds() && told.borrow().is_none() && !others.holds());
        sleep(SECOND * u32::try_from(outage).unwrap() - SECOND * 10 - MS * 200).await;
        assert_eq!(others.holds(), outage > 15);
        a.cut(false);
        sleep(SECOND * 6).await;
        assert_eq!(proof.holds(), outage < 15, "one of both leads");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_lease_knows_at_once() {
    let site = Site::new(3);
    let host = Host::new(&site, "a", 0);
    let mut elector = host.elector();
    leads(&mut elector).await;
    let proof = elector.proof();
    // Nothing of it runs: no timer, no renewal, no word to the loops.
    host.freeze(SECOND * 12);
    let first = host.run(async move { proof.holds() });
    assert!(!first.await);
}

/// The answer to a renewal is lost, not the renewal.
#[tokio::test(start_paused = true)]
async fn a_renewal_by_ones_own_hand_that_was_given_up_on_is_no_loss() {
    let site = Site::new(5);
    let host = Host::new(&site, "a", 0);
    let mut elector = host.elector();
    leads(&mut elector).await;
    {
        let mut lease = site.lease.lock().unwrap();
        lease.as_mut().unwrap().version = "landed late".to_owned();
    }
    let (proof, mut told) = (elector.proof(), elector.leadership());
    told.mark_unchanged();
    let stop = CancellationToken::new();
    let mut run = pin!(elector.run(&stop));
    for _ in 0..300 {
        assert!(tokio::time::timeout(MS * 100, run.as_mut()).await.is_err());
        assert!(proof.holds());
    }
    assert!(!told.has_changed().unwrap(), "nobody was told of a loss");
}
