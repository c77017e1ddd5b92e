//! The contract's suite against a real API server and a real node: what the simulation says is tried on the real
//! thing, as far as a real cluster lets itself be tried.

use std::sync::Arc;

use egress_capabilities::KubernetesCapability;
use egress_conformance::{
    Entry, Outcome, Progress, Settings, Suite, Verdict, kind::kubernetes::RealKubernetes,
};
use egress_runtime::{Limits, Module};
use serde_json::{Value, json};

use crate::harness::{Lab, kubernetes_provider, seed};

/// Of the points of each promise, where the long forms are not asked for: each takes seconds.
const POINTS: usize = 1;

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

/// Not in an executor: the suite brings its own.
#[test]
#[ignore = "takes a quarter of an hour: EPO_SOAK=1 tests/e2e/run.sh conformance --ignored"]
fn the_kubernetes_provider_keeps_the_contract_on_a_real_cluster() {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (lab, one, two) = executor.block_on(async {
        let lab = Lab::new().await;
        let namespaces = (lab.namespace("one").await, lab.namespace("two").await);
        (lab, namespaces.0, namespaces.1)
    });
    let namespaces = [one.name.clone(), two.name.clone()];
    let rules = json!([
        { "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create", "patch", "delete"],
          "namespaces": namespaces },
        { "resources": ["resourcequotas"], "verbs": ["list"], "namespaces": namespaces },
    ]);
    let everything = json!([
        { "apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["get", "list", "create", "patch", "delete"],
          "namespaces": ["*"] },
    ]);
    let kind = RealKubernetes::new(
        lend(&lab, &rules),
        lend(&lab, &everything),
        vec!["lab".to_owned()],
        namespaces.clone(),
    );
    let entry = Entry {
        name: "conformance".parse().unwrap(),
        config: json!({
            "cluster": "lab", "image": "docker.io/lab/squid:1", "namespaces": namespaces,
            "squid": { "shutdownSeconds": 1 },
        }),
        grants: json!({ "kubernetes": { "clusters": { "lab": { "rules": rules } } } }),
        limits: Limits::default(),
        legacy: Vec::new(),
    };
    let module = Module::unpack(&kubernetes_provider(), u64::MAX).unwrap();
    let long = std::env::var_os("EPO_SOAK").is_some();
    let settings = Settings {
        entry: Some(entry),
        seed: seed(),
        points: (!long).then_some(POINTS),
        ..Settings::new(module)
    };
    let report = Suite::open(Arc::new(kind), settings).unwrap().run(&Told).unwrap();
    println!("{}", report.summary());
    assert_eq!((report.broken(), report.failed()), (0, 0));
    // What a real cluster can't be made to do is the exception.
    assert!(report.kept() > 4 * report.skipped(), "{}", report.summary());
}
