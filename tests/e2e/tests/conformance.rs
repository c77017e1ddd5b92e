//! The contract's suite against a real API server and a real node: what the simulation says is tried on the real
//! thing, as far as a real cluster lets itself be tried.
//!
//! Most of a run is waiting for Pods, so several are at work, each in two namespaces of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    thread,
};

use egress_capabilities::KubernetesCapability;
use egress_conformance::{
    CannotRun, Entry, Outcome, Progress, Report, Settings, Suite, Verdict, kind::kubernetes::RealKubernetes,
    promise, trial::Counts,
};
use egress_runtime::{Limits, Module, Runtime, RuntimeConfig};
use egress_sim::random::Random;
use serde_json::{Value, json};

use crate::harness::{Budget, Lab, Namespace, kubernetes_provider, seed};

/// Of the points of each promise, and of what goes wrong at each. All of them are 2,000 runs, which take hours here.
const POINTS: Budget = Budget { usual: 1, soak: 4 };
/// Of the promises, drawn by the seed: so many take two minutes.
const PROMISES: Budget = Budget { usual: 24, soak: usize::MAX };
/// What a real cluster can't be made to do, what would take minutes of waiting, what needs two places, and what the
/// few points that are drawn may all come too early for: before anything was made nothing can vanish.
const NOT_HERE: [&str; 9] = [
    "create-makes-the-vanished-again",
    "create-done-means-running",
    "get-running-has-address",
    "get-unknown-is-stopped",
    "check-missing-rights",
    "missing-right-is-permanent",
    "dead-place-costs-itself",
    "slowness-is-got-on-with",
    "waiting-is-patient",
];
/// Promises at work side by side.
const AT_WORK: usize = 6;

struct Told;

impl Progress for Told {
    fn ended(&self, outcome: &Outcome) {
        let (id, seconds, runs) = (outcome.promise.id, outcome.took.as_secs(), outcome.counts.runs);
        match &outcome.verdict {
            Verdict::Kept => println!("kept {id}: {runs} runs, {seconds} s"),
            Verdict::Skipped(why) => println!("not applicable {id}: {why}"),
            Verdict::Failed(why) => println!("not tried {id}: {why}"),
            Verdict::Broken(_) => println!("BROKEN {}", outcome.told()),
        }
    }
}

fn lend(lab: &Lab, rules: &Value) -> Arc<KubernetesCapability> {
    let cluster = json!({ "kubeconfig": { "file": lab.kubeconfig }, "rules": rules });
    let grant = serde_json::from_value(json!({ "clusters": { "lab": cluster } })).unwrap();
    Arc::new(KubernetesCapability::new(&"conformance".parse().unwrap(), grant, None).unwrap())
}

fn rules(namespaces: &[String; 2]) -> Value {
    json!([
        { "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create", "patch", "delete"],
          "namespaces": namespaces },
        { "resources": ["resourcequotas"], "verbs": ["list"], "namespaces": namespaces },
    ])
}

fn config(namespaces: &[String; 2]) -> Value {
    json!({
        "cluster": "lab", "image": "docker.io/lab/squid:1", "namespaces": namespaces,
        "squid": { "shutdownSeconds": 1 },
    })
}

/// Two namespaces of the lab.
struct Ground {
    lab: Lab,
    pair: [Namespace; 2],
}

impl Ground {
    async fn new(lab: &Lab) -> Self {
        Self { lab: lab.clone(), pair: [lab.namespace("one").await, lab.namespace("two").await] }
    }

    fn names(&self) -> [String; 2] {
        self.pair.each_ref().map(|namespace| namespace.name.clone())
    }

    fn kind(&self) -> RealKubernetes {
        let everything = json!([{
            "apiGroups": ["", "apps"], "resources": ["*"], "namespaces": ["*"],
            "verbs": ["get", "list", "create", "patch", "delete"],
        }]);
        let (lent, admin) = (lend(&self.lab, &rules(&self.names())), lend(&self.lab, &everything));
        RealKubernetes::new(lent, admin, vec!["lab".to_owned()], self.names())
    }

    fn entry(&self) -> Entry {
        Entry {
            name: "conformance".parse().unwrap(),
            config: config(&self.names()),
            grants: json!({ "kubernetes": { "clusters": { "lab": { "rules": rules(&self.names()) } } } }),
            limits: Limits::default(),
            legacy: Vec::new(),
        }
    }
}

fn grounds(number: usize) -> Vec<Ground> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    executor.block_on(async {
        let lab = Lab::new().await;
        let mut grounds = Vec::new();
        for _ in 0..number {
            grounds.push(Ground::new(&lab).await);
        }
        grounds
    })
}

/// Not in an executor: the suite brings its own.
#[test]
fn the_kubernetes_provider_keeps_the_contract_on_a_real_cluster() {
    let (seed, points) = (seed(), POINTS.get());
    let began = std::time::Instant::now();
    let (runtime, module) = (
        Runtime::new(RuntimeConfig::default()).unwrap(),
        Module::unpack(&kubernetes_provider(), u64::MAX).unwrap(),
    );
    let all: Vec<&str> = promise::all().iter().map(|promise| promise.id).collect();
    let drawn: VecDeque<&str> = Random::seeded(seed).sample(all, PROMISES.get()).into();
    let waiting = Mutex::new(drawn);
    let work = |ground: Ground| -> Result<Vec<Report>, CannotRun> {
        let mut reports = Vec::new();
        loop {
            let Some(id) = waiting.lock().unwrap().pop_front() else { return Ok(reports) };
            let settings = Settings {
                entry: Some(ground.entry()),
                seed,
                points: Some(points),
                only: vec![id.to_owned()],
                ..Settings::new(module.clone())
            };
            let suite = Suite::open_in(runtime.clone(), Arc::new(ground.kind()), settings)?;
            reports.push(suite.run(&Told)?);
        }
    };
    let reports: Vec<Report> = thread::scope(|scope| {
        let workers: Vec<_> =
            grounds(AT_WORK).into_iter().map(|ground| scope.spawn(move || work(ground))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap().unwrap()).collect()
    });
    let mut counts = Counts::default();
    reports.iter().for_each(|report| counts += report.counts);
    let sum = |of: fn(&Report) -> usize| -> usize { reports.iter().map(of).sum() };
    let (kept, skipped) = (sum(Report::kept), sum(Report::skipped));
    println!(
        "{kept} promises kept, {} broken, {skipped} not applicable, {} not tried, in {} s; {counts:?}",
        sum(Report::broken),
        sum(Report::failed),
        began.elapsed().as_secs(),
    );
    assert_eq!((sum(Report::broken), sum(Report::failed)), (0, 0));
    let not_here = reports
        .iter()
        .flat_map(|report| &report.outcomes)
        .filter_map(|outcome| matches!(outcome.verdict, Verdict::Skipped(_)).then_some(outcome.promise.id));
    assert_eq!(not_here.filter(|id| !NOT_HERE.contains(id)).collect::<Vec<_>>(), Vec::<&str>::new());
}
