//! Many Proxies, looked after by the whole: controller, reconciler and prober, in virtual time, over a network that a
//! test breaks.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::Installation;
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{HealthCheck, ProxySpec, ProxyStatus},
    controller::{Controller, Inlets},
    core::{
        backoff::{Dice, Pace},
        clock::Clock,
        memory::MemoryStore,
        probe::{Fault, Fleet, HealthConfig, Outcome, Probe, Teller, run},
        reconcile::{Reconciler, Setup},
        store::{Notice, ProxyKey, Store},
        tests::{
            provider::{Backend, Entries},
            world::INSTALLATION,
        },
    },
    proxies::Change,
};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const URL: &str = "http://probe.test/";
pub const EGRESS_URL: &str = "http://address.test/";

/// What is wrong with a Squid. Each is known by its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squid {
    /// Nobody listens.
    Dead,
    /// It takes connections and no more.
    Hangs,
    /// It answers by itself.
    Answers(u16),
    /// Its requests get no answer.
    NoRoute,
    /// The operator would wait for ever.
    Stuck,
}

/// What is wrong with the URL, for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Silent,
    Answers(u16),
}

#[derive(Default)]
pub struct Network {
    pub squids: BTreeMap<u16, Squid>,
    pub site: Option<Site>,
    /// Whether the operator itself has no way out.
    pub shut_in: bool,
    /// Addresses seen outside; the port's own where none.
    pub outside: BTreeMap<u16, IpAddr>,
    /// Every probe that began: when, of which port.
    pub asked: Vec<(Instant, u16)>,
    pub directly: usize,
    now: usize,
    pub most: usize,
}

#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<Network>>);

impl Net {
    pub fn at(&self) -> MutexGuard<'_, Network> {
        self.0.lock().unwrap()
    }

    fn begin(&self, port: u16) {
        let mut net = self.at();
        net.asked.push((Instant::now(), port));
        net.now += 1;
        net.most = net.most.max(net.now);
    }

    /// How the way to the proxy ends, if not well.
    async fn reach(&self, at: SocketAddr, within: Duration) -> Option<Outcome> {
        self.begin(at.port());
        sleep(Duration::from_millis(20)).await;
        let squid = self.at().squids.get(&at.port()).copied();
        let fault = |reason: &str| Fault::new(reason, format!("{at} {reason}"));
        let outcome = match squid {
            None => None,
            Some(Squid::Dead) => Some(Outcome::Broken(fault("connect-refused"))),
            Some(Squid::Hangs) => {
                sleep(within).await;
                Some(Outcome::Broken(fault("hangs")))
            }
            Some(Squid::Answers(status)) => {
                Some(Outcome::Doubtful(fault(&format!("proxy-answered-{status}"))))
            }
            Some(Squid::NoRoute) => {
                sleep(within).await;
                Some(Outcome::Doubtful(fault("no-answer")))
            }
            Some(Squid::Stuck) => std::future::pending().await,
        };
        self.at().now -= 1;
        outcome
    }
}

#[async_trait]
impl Probe for Net {
    async fn connect(&self, at: SocketAddr, within: Duration) -> Outcome {
        match self.reach(at, within).await {
            Some(broken @ Outcome::Broken(_)) => broken,
            _ => Outcome::Passed(String::new()),
        }
    }

    async fn through(&self, at: SocketAddr, url: &Uri, within: Duration) -> Outcome {
        if let Some(outcome) = self.reach(at, within).await {
            return outcome;
        }
        if *url == EGRESS_URL {
            let own = || IpAddr::from([192, 0, 2, u8::try_from(at.port() % 256).unwrap()]);
            let seen = self.at().outside.get(&at.port()).copied().unwrap_or_else(own);
            return Outcome::Passed(format!("{seen}\n"));
        }
        let site = self.at().site;
        match site {
            None => Outcome::Passed("ok".to_owned()),
            Some(Site::Silent) => {
                sleep(within).await;
                Outcome::Doubtful(Fault::new("proxy-answered-504", format!("{at} answers 504")))
            }
            Some(Site::Answers(status)) => Outcome::UrlAtFault(Fault::new(
                format!("url-answered-{status}"),
                format!("{url} answers {status}"),
            )),
        }
    }

    async fn direct(&self, _: &Uri, within: Duration) -> bool {
        let works = {
            let mut net = self.at();
            net.directly += 1;
            net.site.is_none() && !net.shut_in
        };
        if !works {
            sleep(within).await;
        }
        works
    }
}

/// Virtual time as the reconciler reads it.
struct Moving(Instant);

impl Clock for Moving {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + self.0.elapsed()
    }
}

#[derive(Clone)]
struct Tells {
    changes: mpsc::Sender<Change>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Teller for Tells {
    async fn changed(&self, keys: BTreeSet<ProxyKey>) {
        for key in keys {
            let _ = self.changes.send(Change::Due(key)).await;
        }
    }

    async fn tell(&self, _: &str, notice: Notice) {
        self.told.lock().unwrap().push(notice.reason);
    }
}

pub struct Town {
    pub store: Arc<MemoryStore>,
    pub backend: Arc<Backend>,
    pub entries: Entries,
    pub net: Net,
    pub leads: watch::Sender<Option<u32>>,
    fleet: Arc<Fleet>,
    began: Instant,
    ports: Vec<u16>,
    told: Arc<Mutex<Vec<String>>>,
    process: Option<(JoinSet<()>, mpsc::Sender<Change>, mpsc::Sender<String>)>,
}

/// What most tests probe with: a request, every ten seconds.
pub fn requests() -> HealthConfig {
    HealthConfig {
        url: Some(URL.to_owned()),
        period_seconds: 10,
        timeout_seconds: 2,
        ..HealthConfig::default()
    }
}

pub fn key(port: u16) -> ProxyKey {
    ProxyKey { namespace: "team-a".to_owned(), name: format!("p{port}") }
}

impl Town {
    /// So many Proxies, and the operator begins.
    pub fn new(size: u16, health: HealthConfig) -> Self {
        let store = Arc::new(MemoryStore::default());
        let backend = Arc::new(Backend::new(store.clone()));
        backend.inner().at_once = true;
        let entries = Entries::default();
        entries.set("one", Some((backend.clone(), "r1")));
        entries.change("one", |active| active.health = Some(health));
        let ports: Vec<_> = (1..=size).collect();
        let mut town = Self {
            store,
            backend,
            entries,
            net: Net::default(),
            leads: watch::Sender::new(Some(1)),
            fleet: Arc::new(Fleet::new(Dice::seeded(2))),
            began: Instant::now(),
            ports,
            told: Arc::default(),
            process: None,
        };
        for port in town.ports.clone() {
            town.apply(port, |_| ());
        }
        town.restart();
        town
    }

    /// The same once all are healthy.
    pub async fn healthy(size: u16, health: HealthConfig) -> Self {
        let town = Self::new(size, health);
        town.pass(MINUTE * 3).await;
        for port in &town.ports {
            assert_eq!(town.healthy_is(*port), "True Passed", "{port}");
        }
        town
    }

    /// Whether this process knows anything of it.
    pub fn is_known(&self, port: u16) -> bool {
        let record = self.store.peek(&key(port)).unwrap();
        self.fleet.report(&record.key, &record.uid).is_some()
    }

    /// The process ends.
    pub fn halt(&mut self) {
        self.process = None;
    }

    /// Another process, without a memory.
    pub fn restart(&mut self) {
        self.process = None;
        self.fleet = Arc::new(Fleet::new(Dice::seeded(2)));
        let fleet = self.fleet.clone();
        let setup = Setup {
            installation: Installation::new(INSTALLATION),
            pace: Pace::default(),
            clock: Arc::new(Moving(self.began)),
            dice: Dice::seeded(1),
            fleet: fleet.clone(),
        };
        let reconciler = Reconciler::new(self.store.clone(), self.entries.clone(), setup);
        let controller = Controller::new(reconciler, Arc::default(), 64);
        let (changes, proxies) = mpsc::channel(64);
        let (entries_changed, entries) = mpsc::channel(16);
        let inlets = Inlets { proxies, entries, watches: 1, leadership: self.leads.subscribe() };
        let teller = Tells { changes: changes.clone(), told: self.told.clone() };
        let (net, leadership) = (Arc::new(self.net.clone()), self.leads.subscribe());
        let mut tasks = JoinSet::new();
        tasks.spawn(controller.run(inlets, CancellationToken::new(), || ()));
        tasks.spawn(run(fleet, net, teller, leadership));
        let (first, ports) = (changes.clone(), self.ports.clone());
        tasks.spawn(async move {
            for port in ports {
                first.send(Change::Due(key(port))).await.unwrap();
            }
            first.send(Change::Listed).await.unwrap();
        });
        self.process = Some((tasks, changes, entries_changed));
    }

    /// Time goes on.
    pub async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    pub fn apply(&self, port: u16, change: impl FnOnce(&mut ProxySpec)) {
        let before = self.store.peek(&key(port)).map(|record| record.spec);
        let mut spec =
            before.unwrap_or_else(|| ProxySpec { provider: "one".into(), port, ..ProxySpec::default() });
        change(&mut spec);
        self.store.apply(&key(port), spec);
        if let Some((_, changes, _)) = &self.process {
            changes.try_send(Change::Due(key(port))).unwrap();
        }
    }

    /// Somebody takes its finalizer off, and it goes behind the operator's back.
    pub async fn vanish(&self, port: u16) {
        let record = self.store.peek(&key(port)).unwrap();
        Store::set_finalizer(&*self.store, &record, false).await.unwrap();
        self.store.request_delete(&key(port));
        let (_, changes, _) = self.process.as_ref().unwrap();
        changes.send(Change::Gone(key(port))).await.unwrap();
    }

    /// They are replaced when they stay unhealthy for so long.
    pub fn replace_after(&self, seconds: u32) {
        for port in &self.ports {
            let check = HealthCheck { replace_after_seconds: Some(seconds), ..HealthCheck::default() };
            self.apply(*port, |spec| spec.health_check = Some(check));
        }
    }

    pub fn breaks(&self, port: u16, squid: Squid) {
        self.net.at().squids.insert(port, squid);
    }

    pub fn mend(&self, port: u16) {
        self.net.at().squids.remove(&port);
    }

    pub fn status(&self, port: u16) -> ProxyStatus {
        self.store.peek(&key(port)).unwrap().status
    }

    pub fn condition(&self, port: u16, kind: &str) -> Option<Condition> {
        self.status(port).conditions.into_iter().find(|condition| condition.type_ == kind)
    }

    /// Of one condition, what it says and why.
    pub fn said(&self, port: u16, kind: &str) -> String {
        self.condition(port, kind).map_or("absent".to_owned(), |c| format!("{} {}", c.status, c.reason))
    }

    pub fn healthy_is(&self, port: u16) -> String {
        self.said(port, "Healthy")
    }

    pub fn count(&self, kind: &str, says: &str) -> usize {
        self.ports.iter().filter(|port| self.said(**port, kind).starts_with(says)).count()
    }

    /// Reasons of all Events about one.
    pub fn events(&self, port: u16) -> Vec<String> {
        let notices = self.store.notices().into_iter().filter(|(of, _)| *of == key(port));
        notices.map(|(_, notice)| notice.reason).collect()
    }

    /// What people were told of the entry.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}
