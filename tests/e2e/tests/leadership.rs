//! Several real processes of the operator over one Lease: killed, frozen, cut off, asked to end, under load.
//! Every write that reached the API server is checked against the Lease's history.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt};
use rustix::process::Signal;

use crate::harness::{
    Budget, Epo, Lab, Record, Recorder, Site, Wanted, Witness, eventually, kubernetes_provider,
};

const KILLS: Budget = Budget { usual: 3, soak: 10 };
const ROUNDS: Budget = Budget { usual: 1, soak: 5 };
/// Proxies that are worked on at once.
const AT_ONCE: usize = 3;
const LEASE: Duration = Duration::from_secs(6);
/// What a process says whose lease was not taken back from it.
const NOT_IN_TIME: &str = "the lease was not given back in time";
const TERMS: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];

/// One process, and its way to the API server.
struct Replica {
    name: String,
    epo: Epo,
    way: Recorder,
}

/// A site with two of them.
struct Pair {
    site: Arc<Site>,
    records: Arc<Mutex<Vec<Record>>>,
    replicas: Vec<Replica>,
    started: usize,
    witness: Arc<Witness>,
}

impl Pair {
    async fn new(purpose: &str) -> Self {
        let lab = Lab::new().await;
        let site = Site::new(&lab, purpose, 1).await;
        site.put_module(&kubernetes_provider()).await;
        site.put_entry(&site.kubernetes_entry()).await;
        let witness = Arc::new(Witness::default());
        witness.watch(&site);
        let mut pair =
            Self { site: Arc::new(site), records: Arc::default(), replicas: Vec::new(), started: 0, witness };
        pair.start().await;
        pair.start().await;
        pair.site.health(&pair.site.entry, "is active", |status| status.active.clone()).await;
        pair
    }

    /// One more, until it is ready: it says so without the lead, too.
    async fn start(&mut self) {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let kubeconfig = self.site.operator_kubeconfig().await;
        let way = Recorder::new(&self.site.lab, &name, &kubeconfig, &self.records).await;
        let log = format!("{}-{name}", self.site.system.name);
        let mut arguments = vec!["--instance", &name];
        arguments.extend(TERMS);
        let mut epo = self.site.start_as(&log, &way.kubeconfig, &arguments);
        epo.ready().await;
        self.replicas.push(Replica { name, epo, way });
    }

    /// Who has the Lease, as its name begins.
    async fn holder(&self) -> Result<String, String> {
        let leases: Api<Lease> = self.site.system.api();
        let lease = leases.get("egress-operator").await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        holder.split_once('_').map(|(name, _)| name.to_owned()).ok_or(holder)
    }

    /// The place of the one that leads.
    async fn leader(&self) -> usize {
        eventually("one of them leads", async || {
            let holder = self.holder().await?;
            self.replicas.iter().position(|replica| replica.name == holder).ok_or(holder)
        })
        .await
    }

    /// Until somebody else leads; how long that took.
    async fn successor(&self, of: &str) -> Duration {
        let start = Instant::now();
        eventually("somebody else leads", async || {
            let holder = self.holder().await?;
            let other = self.replicas.iter().any(|replica| replica.name == holder && holder != of);
            other.then_some(()).ok_or(holder)
        })
        .await;
        start.elapsed()
    }

    /// Whether the last that this one wrote of the lease is that nobody has it.
    fn gave_back(&self, who: &str) -> bool {
        let records = self.records.lock().unwrap();
        let last = records.iter().rfind(|record| record.who == who && record.holder.is_some());
        last.is_some_and(|lease| lease.holder.as_deref() == Some("") && landed(lease).is_some())
    }

    /// Proxies come and go while `trouble` does what it does; afterwards all is as it was.
    async fn under_load(&mut self, trouble: impl AsyncFnOnce(&mut Self)) {
        let before = self.site.objects().await;
        let (begun, over, site) = (AtomicUsize::new(0), AtomicBool::new(false), Arc::clone(&self.site));
        let working = join_all((0..AT_ONCE).map(async |_| {
            while !over.load(Ordering::SeqCst) {
                let name = format!("p{}", begun.fetch_add(1, Ordering::SeqCst));
                site.create(0, &name, Wanted::default()).await;
                site.ready(0, &name).await;
                site.delete(0, &name).await;
            }
        }));
        let trouble = async {
            trouble(self).await;
            over.store(true, Ordering::SeqCst);
        };
        futures::join!(trouble, working);
        println!("{} Proxies came and went, of {} Pods", begun.load(Ordering::SeqCst), self.witness.pods());
        assert_eq!(self.witness.twice(), [], "Pods that were made twice");
        assert_eq!(self.site.objects().await, before, "nothing is left");
        for replica in &mut self.replicas {
            replica.epo.assert_running();
        }
        self.assert_proven();
    }

    /// Every write came from who had the lease then.
    fn assert_proven(&self) {
        let records = self.records.lock().unwrap();
        let leases: Vec<&Record> =
            records.iter().filter(|record| record.holder.is_some() && landed(record).is_some()).collect();
        let writes: Vec<&Record> = records.iter().filter(|record| is_write(record, &self.site)).collect();
        let wrong: Vec<_> = writes.iter().filter(|write| !is_proven(write, &leases)).collect();
        assert!(wrong.is_empty(), "{} of {} writes: {wrong:#?}", wrong.len(), writes.len());
        let who: BTreeSet<_> = writes.iter().map(|write| &write.who).collect();
        println!("{} writes by {who:?}, {} writes of the lease", writes.len(), leases.len());
        assert!(writes.len() > 20 && who.len() > 1, "{} by {who:?}", writes.len());
    }
}

fn landed(record: &Record) -> Option<Instant> {
    record.answered.filter(|(_, status)| status.is_success()).map(|(at, _)| at)
}

/// Of the loops, or of a provider: not of the lease itself, no question, and not the identity, which a start mints
/// before anybody can lead.
fn is_write(record: &Record, site: &Site) -> bool {
    let questions = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
    record.holder.is_none()
        && !questions.iter().any(|kinds| record.path.starts_with(kinds))
        && record.path != format!("/api/v1/namespaces/{}/secrets", site.system.name)
}

/// Whether who wrote had been told of his lease before, and nobody had even asked for it since.
fn is_proven(write: &Record, leases: &[&Record]) -> bool {
    let before = leases.iter().filter(|lease| landed(lease).is_some_and(|at| at <= write.came));
    let last = before.max_by_key(|lease| landed(lease));
    let held = last.is_some_and(|lease| {
        lease.who == write.who && lease.holder.as_ref().is_some_and(|holder| !holder.is_empty())
    });
    let taken = leases.iter().any(|lease| {
        lease.who != write.who && lease.came <= write.came && landed(lease).is_some_and(|at| at > write.came)
    });
    held && !taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_is_followed_and_nothing_is_doubled_or_lost() {
    let mut pair = Pair::new("led-kill").await;
    pair.under_load(async |pair| {
        for kill in 1..=KILLS.get() {
            let killed = pair.replicas.remove(pair.leader().await);
            killed.epo.kill();
            let took = pair.successor(&killed.name).await;
            println!("kill {kill}: {} was followed after {took:?} of {LEASE:?}", killed.name);
            pair.start().await;
            // It has work to do before it goes, too.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_frozen_past_its_lease_or_cut_off_starts_no_write_when_it_goes_on() {
    let mut pair = Pair::new("led-freeze").await;
    pair.under_load(async |pair| {
        for _ in 0..ROUNDS.get() {
            let frozen = &pair.replicas[pair.leader().await];
            in_mid_create(pair, &frozen.name).await;
            frozen.epo.signal(Signal::STOP);
            let took = pair.successor(&frozen.name).await;
            tokio::time::sleep(LEASE / 2).await;
            frozen.epo.signal(Signal::CONT);
            println!("{} was frozen and followed after {took:?} of {LEASE:?}", frozen.name);
            tokio::time::sleep(Duration::from_secs(2)).await;

            let cut = &pair.replicas[pair.leader().await];
            cut.way.cut(true);
            let took = pair.successor(&cut.name).await;
            tokio::time::sleep(LEASE / 2).await;
            cut.way.cut(false);
            println!("{} was cut off and followed after {took:?} of {LEASE:?}", cut.name);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    })
    .await;
}

/// Until a create of a Pod by this one is on its way.
async fn in_mid_create(pair: &Pair, who: &str) {
    let creates = || {
        let records = pair.records.lock().unwrap();
        let of_pods = |record: &&Record| record.who == who && record.path.ends_with("/pods");
        records.iter().filter(of_pods).count()
    };
    let before = creates();
    eventually("a Pod is being made", async || if creates() > before { Ok(()) } else { Err("none") }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_asked_to_end_is_followed_at_once_by_one_that_is_ready() {
    let mut pair = Pair::new("led-stop").await;
    pair.under_load(async |pair| {
        for _ in 0..KILLS.get() {
            let stopped = pair.replicas.remove(pair.leader().await);
            let waits = pair.replicas[0].epo.metrics().await.contains("egress_leader 0");
            assert!(waits, "the other one waits");
            stopped.epo.signal(Signal::TERM);
            let took = pair.successor(&stopped.name).await;
            println!("{} was asked to end, and followed after {took:?}", stopped.name);
            let log = stopped.epo.log_path();
            assert!(stopped.epo.ended().await.success());
            // An API server that answers nobody for seconds can't take it; then it is said.
            let said = std::fs::read_to_string(log).unwrap().contains(NOT_IN_TIME);
            assert!(said || pair.gave_back(&stopped.name), "{} let its lease run out", stopped.name);
            pair.start().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let events = pair.site.system.api::<k8s_openapi::api::events::v1::Event>();
    let told = events.list(&Default::default()).await.unwrap().items;
    let of_lease = told.iter().filter(|event| event.reason.as_deref() == Some("LeaderElection")).count();
    assert!(of_lease >= 2, "{:?}", told.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
}
