//! A swap loses no call: what began on the old revision ends there, what begins then goes to the new one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use egress_contract::Provider;
use egress_runtime::{Candidate, Slot};
use serde_json::json;

use crate::{
    cluster::Cluster,
    support::{candidate_at, guest, guest_that, module, slot, spec, target, target_of, until},
};

const SWAPS: usize = 1_000;
const CALLS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_swaps_under_two_hundred_calls_lose_none() {
    // Slow enough that all two hundred are out at the backend whenever a swap comes.
    let cluster = Arc::new(Cluster::default().slow(Duration::from_millis(500)));
    let builds = [module(&guest()), module(&guest_that("version=2.0.0"))];
    let candidate = |swap: usize| Candidate {
        module: builds[swap % 2].clone(),
        // Each build with each config, so that neither alone makes the revision.
        ..candidate_at(cluster.clone(), json!({ "steps": swap / 2 % 2 }))
    };
    let slot = Arc::new(slot());
    slot.load(candidate(0)).await.unwrap();
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let users: Vec<_> = (0..CALLS)
        .map(|user| {
            let (slot, stop, calls) = (slot.clone(), stop.clone(), calls.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    calls.fetch_add(come_and_go(&slot, &format!("web-{user}")).await, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for swap in 1..=SWAPS {
        let revision = slot.load(candidate(swap)).await.unwrap();
        assert_eq!(revision.description().version, ["1.0.0", "2.0.0"][swap % 2]);
        assert_eq!(slot.active().unwrap().id(), revision.id());
    }
    stop.store(true, Ordering::SeqCst);
    for user in users {
        user.await.unwrap();
    }
    let calls = calls.load(Ordering::SeqCst);
    assert!(calls >= (4 * CALLS) as u64, "{calls} calls are no load");
    assert_eq!(cluster.count("pods"), 0, "an instance was left");
}

/// Create, get and delete, each on what is active then; how many calls that took. None may fail.
async fn come_and_go(slot: &Slot, proxy: &str) -> u64 {
    let mut target = target_of(proxy);
    let mut calls = 0;
    loop {
        calls += 1;
        match slot.active().unwrap().create(&target, &spec(), b"").await.unwrap() {
            egress_contract::Created::Done(id) => break target.id = Some(id),
            egress_contract::Created::Pending(pending) => target.progress = Some(pending.progress),
        }
    }
    let seen = slot.active().unwrap().get(&target).await.unwrap();
    assert_eq!(Some(seen.id), target.id);
    slot.active().unwrap().delete(&target).await.unwrap();
    calls + 2
}

#[tokio::test]
async fn a_call_ends_on_the_revision_that_it_began_on() {
    let cluster = Arc::new(Cluster::default());
    let slot = slot();
    let old = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    cluster.stall("create");
    let call = {
        let old = old.clone();
        tokio::spawn(async move { old.create(&target(), &spec(), b"").await })
    };
    until(|| cluster.stalled() == 1).await;
    let new = slot.load(candidate_at(cluster.clone(), json!({ "steps": 1 }))).await.unwrap();
    assert_ne!(new.id(), old.id());
    drop(old);
    cluster.release();
    call.await.unwrap().unwrap();
    // What the old one made, the new one finds and removes.
    new.get(&target()).await.unwrap();
    new.delete(&target()).await.unwrap();
}

#[tokio::test]
async fn calls_about_one_instance_do_not_overlap_across_a_swap() {
    let cluster = Arc::new(Cluster::default());
    let slot = slot();
    let old = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    cluster.stall("create");
    let creating = tokio::spawn(async move { old.create(&target(), &spec(), b"").await });
    until(|| cluster.stalled() == 1).await;
    let new = slot.load(candidate_at(cluster.clone(), json!({ "n": 1 }))).await.unwrap();
    let deleting = tokio::spawn(async move { new.delete(&target()).await });
    tokio::task::yield_now().await;
    cluster.release();
    creating.await.unwrap().unwrap();
    deleting.await.unwrap().unwrap();
    assert_eq!(cluster.count("pods"), 0, "the delete did not wait for the create");
}

#[tokio::test]
async fn the_same_candidate_is_answered_at_once() {
    let cluster = Arc::new(Cluster::default());
    let slot = slot();
    let candidate = candidate_at(cluster.clone(), json!({ "b": 1, "a": { "d": 2, "c": 3 } }));
    let first = slot.load(candidate.clone()).await.unwrap();
    let calls = cluster.calls();
    let again = slot.load(candidate.clone()).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(cluster.calls(), calls, "nothing was asked again");
    assert_eq!(first.id(), &Slot::revision_id(&candidate));
    assert_eq!(first.id().as_str().len(), 12);
    // A change of anything is another revision.
    for changed in [
        Candidate { grants: json!({ "kubernetes": [] }), ..candidate.clone() },
        Candidate { config: json!({}), ..candidate.clone() },
        Candidate {
            limits: egress_runtime::Limits { log_lines: 1, ..Default::default() },
            ..candidate.clone()
        },
        Candidate { legacy: vec![vec![("a".to_owned(), "b".to_owned())]], ..candidate.clone() },
        Candidate { module: module(&guest_that("version=2.0.0")), ..candidate.clone() },
    ] {
        assert_ne!(first.id(), &Slot::revision_id(&changed));
    }
}

#[tokio::test]
async fn candidates_of_one_entry_come_one_after_the_other() {
    let slot = Arc::new(slot());
    let cluster = Arc::new(Cluster::default());
    let loads = (0..10).map(|n| {
        let (slot, cluster) = (slot.clone(), cluster.clone());
        async move { slot.load(candidate_at(cluster, json!({ "n": n }))).await.unwrap().id().to_string() }
    });
    let ids = futures::future::join_all(loads).await;
    assert_eq!(slot.active().unwrap().id().to_string(), ids[9]);
}
