//! A candidate that sees less than what is active does not take its place.

use std::{sync::Arc, time::Duration};

use egress_contract::{Fault, Provider};
use egress_runtime::{
    Candidate, Lent, Refusal, Shadow, Slot, Stage,
    capability::{Clock, SystemClock},
};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    support::{candidate_at, guest_that, module, slot, spec, target, target_of},
};

/// An entry that runs, with two instances.
struct Running {
    slot: Slot,
    cluster: Arc<Cluster>,
}

impl Running {
    async fn new() -> Self {
        let (slot, cluster) = (slot(), Arc::new(Cluster::default()));
        let active = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
        for proxy in ["web", "mail"] {
            active.create(&target_of(proxy), &spec(), b"").await.unwrap();
        }
        Self { slot, cluster }
    }

    /// Another build, whose config makes it do something.
    fn candidate(&self, config: Value) -> Candidate {
        Candidate {
            module: module(&guest_that("version=2.0.0")),
            ..candidate_at(self.cluster.clone(), config)
        }
    }

    async fn refused(&self, config: Value) -> Refusal {
        let before = self.slot.active().unwrap();
        let refusal = self.slot.load(self.candidate(config)).await.unwrap_err();
        assert!(Arc::ptr_eq(&before, &self.slot.active().unwrap()), "what was active goes on");
        refusal
    }

    async fn differs(&self, config: Value) -> Vec<Fault> {
        let refusal = self.refused(config).await;
        assert_eq!((refusal.stage, refusal.reason), (Stage::Shadow, "ShadowDiffers"));
        let said = refusal.faults.iter().all(|fault| refusal.message.contains(&fault.to_string()));
        assert!(said && refusal.message.contains("shadow: warn"), "{}", refusal.message);
        refusal.faults
    }
}

fn doing(fault: &str, export: &str, n: u64) -> Value {
    json!({ "do": fault, "in": export, "n": n })
}

#[tokio::test]
async fn a_candidate_that_sees_as_much_takes_over() {
    let running = Running::new().await;
    let before = running.slot.active().unwrap();
    let now = running.slot.load(running.candidate(json!({}))).await.unwrap();
    assert_eq!(now.compared().against.as_ref(), Some(before.id()));
    assert_eq!((now.compared().differences.len(), now.compared().notes.len()), (0, 0));
    now.delete(&target()).await.unwrap();
    assert_eq!(running.cluster.count("pods"), 1, "and may write from then on");
}

#[tokio::test]
async fn an_instance_that_is_no_longer_listed_refuses_the_candidate() {
    let running = Running::new().await;
    let differences = running.differs(doing("shorter", "list", 1)).await;
    let [difference] = differences.as_slice() else { panic!("{differences:?}") };
    // In the order of their names, web's is the second.
    let web = target_of("web").name;
    assert_eq!(difference.path, format!("places.home.instances.{web}"));
    let active = running.slot.active().unwrap();
    let said = format!("revision {} lists it (id {web}), and this one does not", active.id());
    assert_eq!(difference.message, said);
}

#[tokio::test]
async fn what_bears_no_mark_of_this_installation_need_not_be_listed() {
    let running = Running::new().await;
    running.cluster.put("pods", "proxies", json!({ "metadata": { "name": "proxy-zzz" } }));
    running.slot.load(running.candidate(doing("shorter", "list", 2))).await.unwrap();
}

#[tokio::test]
async fn a_list_that_fails_or_traps_refuses_the_candidate() {
    let running = Running::new().await;
    for (fault, said) in [("fail", "this build can't list"), ("trap", "about to trap")] {
        let differences = running.differs(doing(fault, "list", 0)).await;
        let [difference] = differences.as_slice() else { panic!("{differences:?}") };
        assert_eq!(difference.path, "places.home.list");
        assert!(difference.message.contains(said), "{difference}");
    }
}

#[tokio::test]
async fn a_part_that_is_newly_unread_refuses_the_candidate() {
    let running = Running::new().await;
    let differences = running.differs(doing("unread", "list", 0)).await;
    let [difference] = differences.as_slice() else { panic!("{differences:?}") };
    assert_eq!(difference.path, "places.home.unread");
    assert!(difference.message.contains("the second half: it can't be read"), "{difference}");
}

#[tokio::test]
async fn a_place_that_is_no_longer_ready_refuses_the_candidate() {
    let running = Running::new().await;
    let differences = running.differs(doing("worse", "check", 0)).await;
    let [difference] = differences.as_slice() else { panic!("{differences:?}") };
    assert_eq!(difference.path, "places.home.check");
    assert!(difference.message.contains("for this one it is not: reachable"), "{difference}");
}

#[tokio::test]
async fn a_place_that_is_down_for_both_blames_neither() {
    let (slot, cluster) = (slot(), Arc::new(Cluster::default()));
    let running = Running { slot, cluster };
    running.slot.load(running.candidate(doing("worse", "check", 0))).await.unwrap();
    running.slot.load(running.candidate(doing("worse", "check", 1))).await.unwrap();
    running.slot.load(running.candidate(doing("fail", "list", 0))).await.unwrap_err();
    let slot = slot_with(running.candidate(doing("fail", "list", 0))).await;
    slot.load(running.candidate(doing("fail", "list", 1))).await.unwrap();
    // But one that traps there has a fault of its own.
    let refusal = slot.load(running.candidate(doing("trap", "list", 0))).await.unwrap_err();
    assert_eq!(refusal.faults[0].path, "places.home.list");
}

/// Removes an instance while a load waits.
struct Meanwhile(Arc<Cluster>, SystemClock);

#[async_trait::async_trait]
impl Clock for Meanwhile {
    fn now_ms(&self) -> u64 {
        self.1.now_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.1.monotonic_ms()
    }
    async fn sleep(&self, _: Duration) {
        self.0.remove("pods", "proxies", target_of("web").name.as_str());
    }
}

#[tokio::test]
async fn what_differs_at_one_look_only_refuses_nothing() {
    let running = Running::new().await;
    let clock = Arc::new(Meanwhile(running.cluster.clone(), SystemClock::default()));
    let candidate = running.candidate(doing("shorter", "list", 1));
    let lent = Lent { clock: Some(clock), ..candidate.lent.clone() };
    let now = running.slot.load(Candidate { lent, ..candidate }).await.unwrap();
    assert!(now.compared().differences.is_empty());
}

async fn slot_with(candidate: Candidate) -> Slot {
    let slot = slot();
    slot.load(candidate).await.unwrap();
    slot
}

#[tokio::test]
async fn nothing_that_is_not_active_yet_may_write() {
    let running = Running::new().await;
    let refusal = running.refused(doing("write", "check", 0)).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Check, "ContractViolation"));
    let said = "check called kubernetes.create; what only looks may write nothing";
    assert!(refusal.message.contains(said), "{}", refusal.message);
    let differences = running.differs(doing("write", "list", 0)).await;
    assert!(differences[0].message.contains("list called kubernetes.create"), "{differences:?}");
    assert_eq!(running.cluster.count("configmaps"), 0);
}

#[tokio::test]
async fn an_entry_may_ask_to_be_warned_only_or_not_to_look_at_all() {
    let running = Running::new().await;
    let warned = running.candidate(doing("shorter", "list", 0));
    let now = running.slot.load_with(warned, Shadow::Warn).await.unwrap();
    let paths: Vec<_> = now.compared().differences.iter().map(|fault| fault.path.clone()).collect();
    let names = ["mail", "web"].map(|proxy| format!("places.home.instances.{}", target_of(proxy).name));
    assert_eq!(paths, names);
    let skipped = running.candidate(doing("fail", "list", 0));
    let now = running.slot.load_with(skipped, Shadow::Skip).await.unwrap();
    assert_eq!(now.compared().against, None);
}

#[tokio::test]
async fn a_place_may_come_and_go_and_that_is_told() {
    let running = Running::new().await;
    let now = running.slot.load(running.candidate(json!({ "places": ["home", "new"] }))).await.unwrap();
    assert_eq!(now.compared().notes, ["places.new: it is new"]);
    // The guest shows the same Pods at each place.
    let now = running.slot.load(running.candidate(json!({ "places": ["new"] }))).await.unwrap();
    let stays = "places.home: it is removed; 0 instances of this installation stand there";
    assert_eq!(now.compared().notes, [stays]);
    let gone = json!({ "places": ["other"], "do": "shorter", "in": "list", "n": 0 });
    let now = running.slot.load(running.candidate(gone)).await.unwrap();
    let left = "places.new: it is removed; 2 instances of this installation stand there";
    assert_eq!(now.compared().notes, [left, "places.other: it is new"]);
}
