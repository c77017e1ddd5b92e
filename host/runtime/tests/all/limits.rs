//! Every limit is an error of its own, and says its key and its value.

use std::{sync::Arc, time::Duration};

use egress_contract::{Error, ErrorClass, Provider};
use egress_runtime::{Candidate, Limits, Runtime, RuntimeConfig, Stage};
use serde_json::json;

use crate::{
    cluster::Cluster,
    support::{
        candidate, candidate_at, create_error, folder, guest_with, refused, slot, slot_on, spec, target,
        target_of, until,
    },
};

const MIB: u64 = 1024 * 1024;

fn stalling(call: &'static str) -> Arc<Cluster> {
    let cluster = Cluster::default();
    cluster.stall(call);
    Arc::new(cluster)
}

/// Nobody who runs into a limit may have to guess which one, nor what it was set to.
fn assert_limit(error: &Error, reason: &str, key: &str, value: u64) {
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, reason), "{error}");
    assert!(error.message.contains("entry test"), "{error}");
    assert!(error.message.contains(&format!("{key} ({value})")), "{error}");
}

#[tokio::test]
async fn memory_is_bounded_for_all_memories_of_a_call() {
    let limits = Limits { memory_bytes: 8 * MIB, ..Limits::default() };
    let revision = guest_with("eat", "create", 0, limits).await;
    assert_limit(&create_error(&revision).await, "limit-memory", "limits.memoryBytes", 8 * MIB);
}

#[tokio::test]
async fn what_fits_the_limit_on_memory_is_allowed() {
    let limits = Limits { memory_bytes: 8 * MIB, ..Limits::default() };
    let revision = guest_with("eat", "create", 4, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
}

#[tokio::test]
async fn tables_are_bounded() {
    let refusal = refused(Candidate {
        limits: Limits { table_elements: 1, ..Limits::default() },
        ..candidate(json!({}))
    })
    .await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Configure, "LimitTables"), "{refusal}");
    assert!(refusal.message.contains("limits.tableElements (1)"), "{refusal}");
}

#[tokio::test]
async fn core_instances_are_bounded_before_anything_runs() {
    let refusal =
        refused(Candidate { limits: Limits { instances: 1, ..Limits::default() }, ..candidate(json!({})) })
            .await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Parse, "LimitInstances"), "{refusal}");
    assert!(refusal.message.contains("limits.instances is 1"), "{refusal}");
}

#[tokio::test]
async fn a_guest_that_spins_is_cut_off_by_the_limit_on_computing() {
    let limits = Limits { compute_ms: 50, ..Limits::default() };
    let revision = guest_with("loop", "create", 0, limits).await;
    assert_limit(&create_error(&revision).await, "limit-compute", "limits.computeMs", 50);
}

#[tokio::test]
async fn a_guest_that_spins_is_cut_off_by_the_limit_on_time_too() {
    let limits = Limits { compute_ms: 600_000, create_ms: 50, ..Limits::default() };
    let revision = guest_with("loop", "create", 0, limits).await;
    assert_limit(&create_error(&revision).await, "limit-time", "limits.createMs", 50);
}

#[tokio::test]
async fn waiting_is_no_computing() {
    let limits = Limits { compute_ms: 250, ..Limits::default() };
    let revision = guest_with("sleep", "create", 1_000, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
}

#[tokio::test]
async fn spinning_guests_leave_the_thread_to_others() {
    // One thread, and a guest that never ends: whoever shares it must have his turn.
    let limits = Limits { compute_ms: 600_000, ..Limits::default() };
    let revision = guest_with("loop", "create", 0, limits).await;
    let spinning = tokio::spawn(async move { revision.create(&target(), &spec(), b"").await });
    let other = guest_with("", "", 0, Limits::default()).await;
    other.create(&target(), &spec(), b"").await.unwrap();
    assert!(!spinning.is_finished());
    spinning.abort();
    assert!(spinning.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn every_export_has_a_limit_on_its_time() {
    let limits = Limits {
        create_ms: 51,
        get_ms: 52,
        delete_ms: 53,
        list_ms: 54,
        check_ms: 1_055,
        ..Limits::default()
    };
    let revision = |export: &'static str| {
        let cluster = Arc::new(Cluster::default());
        let config = json!({ "do": "call", "in": export, "n": 1, "places": ["a"] });
        let candidate = Candidate { limits: limits.clone(), ..candidate_at(cluster.clone(), config) };
        async move {
            let revision = slot().load(candidate).await.unwrap();
            cluster.stall("about");
            revision
        }
    };
    let error = create_error(&*revision("create").await).await;
    assert_limit(&error, "limit-time", "limits.createMs", 51);
    assert!(error.message.contains("waited for kubernetes.about at home"), "{error}");
    let error = revision("get").await.get(&target()).await.unwrap_err();
    assert_limit(&error, "limit-time", "limits.getMs", 52);
    let error = revision("delete").await.delete(&target()).await.unwrap_err();
    assert_limit(&error, "limit-time", "limits.deleteMs", 53);
    let error = revision("list").await.list("a", None).await.unwrap_err();
    assert_limit(&error, "limit-time", "limits.listMs", 54);
    let error = revision("check").await.check("a").await.unwrap_err();
    assert_limit(&error, "limit-time", "limits.checkMs", 1_055);
}

#[tokio::test]
async fn configure_has_a_limit_on_its_time() {
    let refusal = refused(Candidate {
        limits: Limits { compute_ms: 600_000, configure_ms: 56, ..Limits::default() },
        ..candidate(json!({ "do": "loop", "in": "configure" }))
    })
    .await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Configure, "LimitTime"), "{refusal}");
    assert!(refusal.message.contains("limits.configureMs (56)"), "{refusal}");
}

#[tokio::test]
async fn a_host_call_has_a_limit_on_its_time_and_the_guest_is_told() {
    let cluster = stalling("get");
    let candidate = Candidate {
        limits: Limits { host_call_ms: 57, ..Limits::default() },
        ..candidate_at(cluster, json!({}))
    };
    let revision = slot().load(candidate).await.unwrap();
    // The provider passes on what it was told, as it would an API server's own timeout.
    let error = revision.get(&target()).await.unwrap_err();
    assert_limit(&error, "limit-host-call-time", "limits.hostCallMs", 57);
}

#[tokio::test]
async fn a_limit_that_the_provider_keeps_to_itself_is_told_all_the_same() {
    let cluster = stalling("get");
    let candidate = Candidate {
        limits: Limits { host_call_ms: 58, ..Limits::default() },
        ..candidate_at(cluster, json!({ "do": "silent", "in": "create" }))
    };
    let revision = slot().load(candidate).await.unwrap();
    let error = create_error(&revision).await;
    assert!(error.message.starts_with("it did not work"), "{error}");
    assert_limit(&error, "limit-host-call-time", "limits.hostCallMs", 58);
}

#[tokio::test]
async fn host_calls_are_counted() {
    let limits = Limits { host_calls: 5, ..Limits::default() };
    let revision = guest_with("call", "create", 5, limits.clone()).await;
    assert_limit(&create_error(&revision).await, "limit-host-calls", "limits.hostCalls", 5);
    // Four, and the one of the create itself.
    let revision = guest_with("call", "create", 4, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
}

#[tokio::test]
async fn a_request_has_a_limit_on_its_size() {
    let limits = Limits { request_bytes: 10_000, ..Limits::default() };
    let revision = guest_with("big-request", "create", 10_001, limits.clone()).await;
    assert_limit(&create_error(&revision).await, "limit-request", "limits.requestBytes", 10_000);
    let revision = guest_with("big-request", "create", 9_000, limits).await;
    assert_eq!(create_error(&revision).await.reason, "backend");
}

#[tokio::test]
async fn a_host_calls_answer_has_a_limit_on_its_size() {
    let revision = guest_with("", "", 0, Limits { response_bytes: 50, ..Limits::default() }).await;
    let error = create_error(&revision).await;
    assert_limit(&error, "limit-response", "limits.responseBytes", 50);
}

#[tokio::test]
async fn an_answer_has_a_limit_on_its_size() {
    let limits = Limits { answer_bytes: 10_000, ..Limits::default() };
    let revision = guest_with("big", "create", 10_001, limits.clone()).await;
    assert_limit(&create_error(&revision).await, "limit-answer", "limits.answerBytes", 10_000);
    let revision = guest_with("big", "create", 9_000, limits.clone()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    let revision = guest_with("many", "list", 500, limits).await;
    let error = revision.list("home", None).await.unwrap_err();
    assert_limit(&error, "limit-answer", "limits.answerBytes", 10_000);
}

#[tokio::test]
async fn what_is_far_too_large_is_never_copied_and_named_by_both_limits() {
    let limits = Limits { request_bytes: 1_000, answer_bytes: 2_000, ..Limits::default() };
    for (fault, n) in [("big", MIB), ("big-request", MIB)] {
        let revision = guest_with(fault, "create", n, limits.clone()).await;
        let error = create_error(&revision).await;
        assert_limit(&error, "limit-transfer", "limits.requestBytes", 1_000);
        assert_limit(&error, "limit-transfer", "limits.answerBytes", 2_000);
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_their_turn_and_say_so_in_the_end() {
    let cluster = stalling("get");
    let limits = Limits { concurrent_calls: 2, get_ms: 100, ..Limits::default() };
    let config = json!({ "do": "silent", "in": "create" });
    let revision = slot().load(Candidate { limits, ..candidate_at(cluster.clone(), config) }).await.unwrap();
    let calls: Vec<_> = ["one", "two"]
        .into_iter()
        .map(|proxy| {
            let revision = revision.clone();
            tokio::spawn(async move { revision.create(&target_of(proxy), &spec(), b"").await })
        })
        .collect();
    until(|| cluster.stalled() == 2).await;
    let error = revision.get(&target()).await.unwrap_err();
    assert_eq!(error.reason, "limit-concurrent-calls");
    assert!(error.message.contains("2 calls at once (limits.concurrentCalls)"), "{error}");
    cluster.release();
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert_eq!(revision.get(&target()).await.unwrap_err().reason, "not-found");
}

#[tokio::test]
async fn a_process_runs_so_many_calls_at_once_and_no_more_whatever_entries_allow() {
    let cluster = stalling("create");
    let cache_dir = Some(folder("places"));
    let runtime = Runtime::new(RuntimeConfig { cache_dir, places: 1, ..RuntimeConfig::default() }).unwrap();
    let limits = Limits { get_ms: 100, ..Limits::default() };
    let candidate = Candidate { limits, ..candidate_at(cluster.clone(), json!({})) };
    let revision = slot_on(runtime.clone()).load(candidate.clone()).await.unwrap();
    let other = slot_on(runtime).load(candidate).await.unwrap();
    let creating = tokio::spawn(async move { revision.create(&target(), &spec(), b"").await });
    until(|| cluster.stalled() == 1).await;
    let error = other.get(&target()).await.unwrap_err();
    assert_eq!(error.reason, "busy");
    assert!(error.message.contains("among the 1 calls"), "{error}");
    cluster.release();
    creating.await.unwrap().unwrap();
    assert_eq!(other.get(&target()).await.unwrap().id, target().name.as_str());
}

#[tokio::test]
async fn a_second_call_about_one_instance_waits_and_says_so_in_the_end() {
    let cluster = stalling("create");
    let limits = Limits { delete_ms: 100, ..Limits::default() };
    let candidate = Candidate { limits, ..candidate_at(cluster.clone(), json!({})) };
    let revision = slot().load(candidate).await.unwrap();
    let creating = {
        let revision = revision.clone();
        tokio::spawn(async move { revision.create(&target(), &spec(), b"").await })
    };
    until(|| cluster.stalled() == 1).await;
    let error = revision.delete(&target()).await.unwrap_err();
    assert_limit(&error, "busy", "limits.deleteMs", 100);
    // Another instance is none of its business.
    revision.delete(&target_of("other")).await.unwrap();
    cluster.release();
    creating.await.unwrap().unwrap();
    revision.delete(&target()).await.unwrap();
}

#[tokio::test]
async fn a_guest_sees_how_long_it_has() {
    let limits = Limits { get_ms: 30_000, ..Limits::default() };
    let revision = guest_with("", "", 0, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    let instance = revision.get(&target()).await.unwrap();
    let remaining = Duration::from_millis(instance.details["remainingMs"].as_u64().unwrap());
    assert!(remaining <= Duration::from_secs(30) && remaining > Duration::ZERO, "{remaining:?}");
}

#[test]
fn a_limit_that_is_misspelt_is_refused() {
    let error = serde_json::from_value::<Limits>(json!({ "memoryByte": 1 })).unwrap_err();
    assert!(error.to_string().contains("memoryBytes"), "{error}");
}
