//! What every operation and every host call leaves behind, so that somebody can see what happened.

use std::sync::Arc;

use egress_contract::Provider;
use egress_runtime::{Candidate, Limits};
use serde_json::json;
use tracing::Level;

use crate::{
    capture::{Capture, Counts, Seen},
    cluster::Cluster,
    support::{candidate, candidate_at, create_error, guest_with, slot, spec, target, until},
};

fn field<'a>(seen: &'a Seen, name: &str) -> &'a str {
    seen.fields.get(name).map_or("", String::as_str)
}

fn only(mut seen: Vec<Seen>) -> Seen {
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen.remove(0)
}

#[tokio::test]
async fn an_operation_is_a_span_with_all_that_tells_it_from_others() {
    let (capture, _guard) = Capture::start();
    let revision = guest_with("", "", 0, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    let span = only(capture.spans("provider.create"));
    assert_eq!(field(&span, "entry"), "test");
    assert_eq!(field(&span, "digest"), revision.digest().to_string());
    assert_eq!(field(&span, "revision"), revision.id().to_string());
    assert_eq!(field(&span, "instance"), target().name.to_string());
    assert_eq!(field(&span, "outcome"), "ok");
    let ended = capture.events("operation ended");
    let ended = only(ended.into_iter().filter(|event| field(event, "operation") == "create").collect());
    assert_eq!((ended.level, ended.within.as_slice()), (Level::INFO, &["provider.create".to_owned()][..]));
    assert_eq!(field(&ended, "outcome"), "ok");
}

#[tokio::test]
async fn a_failure_is_in_its_span_with_class_and_reason() {
    let (capture, _guard) = Capture::start();
    let revision = guest_with("", "", 0, Limits::default()).await;
    revision.get(&target()).await.unwrap_err();
    let span = only(capture.spans("provider.get"));
    assert_eq!((field(&span, "outcome"), field(&span, "reason")), ("not-found", "not-found"));
    let revision = guest_with("trap", "create", 0, Limits::default()).await;
    create_error(&revision).await;
    let span = only(capture.spans("provider.create"));
    assert_eq!((field(&span, "outcome"), field(&span, "reason")), ("transient", "trap"));
}

#[tokio::test]
async fn a_host_call_is_a_span_within_its_operation_and_holds_no_body() {
    let (capture, _guard) = Capture::start();
    let revision = guest_with("", "", 0, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    revision.create(&target(), &spec(), b"").await.unwrap();
    let creates = |seen: Vec<Seen>| -> Vec<Seen> {
        seen.into_iter().filter(|seen| field(seen, "call") == "kubernetes.create").collect()
    };
    let spans = creates(capture.spans("host.call"));
    assert_eq!(spans.len(), 2);
    for (span, outcome) in spans.iter().zip(["ok", "status"]) {
        assert_eq!(span.within, ["provider.create"]);
        assert_eq!((field(span, "entry"), field(span, "place")), ("test", "home"));
        assert_eq!(field(span, "outcome"), outcome);
    }
    let events = creates(capture.events("host call ended"));
    assert!(events.iter().all(|event| event.level == Level::DEBUG), "{events:?}");
    assert_eq!(events.len(), 2);
    assert!(!capture.text().contains("placement"), "the spec was in the body");
}

#[tokio::test]
async fn a_guests_lines_stand_in_its_operation_and_what_was_too_many_is_counted() {
    let (capture, _guard) = Capture::start();
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let limits = Limits { log_lines: 3, ..Limits::default() };
    let revision = guest_with("flood", "create", 10, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    for line in 0..10 {
        let seen = capture.events(&format!("line {line}"));
        assert_eq!(seen.len(), usize::from(line < 3), "line {line}");
        assert!(seen.iter().all(|line| line.within == ["provider.create"]));
    }
    let dropped =
        only(capture.events("the component logged more lines than limits.logLines; the rest was dropped"));
    assert_eq!((dropped.level, field(&dropped, "dropped")), (Level::WARN, "7"));
    assert_eq!(counts.sum("egress_provider_log_lines_dropped_total", &["entry=test"]), 7);
}

#[tokio::test]
async fn an_operation_that_was_given_up_is_told_as_such() {
    let (capture, _guard) = Capture::start();
    let cluster = Arc::new(Cluster::default());
    let revision = slot().load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    cluster.stall("create");
    let target = target();
    let spec = spec();
    tokio::select! {
        biased;
        outcome = revision.create(&target, &spec, b"") => panic!("{outcome:?}"),
        () = until(|| cluster.stalled() == 1) => {}
    }
    assert_eq!(field(&only(capture.spans("provider.create")), "outcome"), "abandoned");
    let calls = capture.spans("host.call");
    let call = only(calls.into_iter().filter(|span| field(span, "call") == "kubernetes.create").collect());
    assert_eq!(field(&call, "outcome"), "abandoned");
}

#[tokio::test]
async fn stages_swaps_and_refusals_are_told() {
    let (capture, _guard) = Capture::start();
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let slot = slot();
    let revision = slot.load(candidate(json!({}))).await.unwrap();
    let stages: Vec<String> =
        capture.spans("provider.load").iter().map(|span| field(span, "stage").to_owned()).collect();
    assert_eq!(stages, ["digest", "parse", "compile", "link", "configure", "check"]);
    let active = only(capture.events("revision active"));
    assert_eq!(field(&active, "revision"), revision.id().to_string());
    slot.load(candidate(json!({ "faults": ["a"] }))).await.unwrap_err();
    let refused = only(capture.events("candidate refused"));
    assert_eq!((field(&refused, "stage"), field(&refused, "reason")), ("configure", "ConfigRefused"));
    assert_eq!(counts.sum("egress_provider_swaps_total", &["entry=test"]), 1);
    let labels = ["entry=test", "stage=configure", "reason=ConfigRefused"];
    assert_eq!(counts.sum("egress_provider_refusals_total", &labels), 1);
}

#[tokio::test]
async fn operations_host_calls_traps_and_memory_are_measured() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let revision = guest_with("", "", 0, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    revision.get(&target()).await.unwrap();
    let ok = ["entry=test", "operation=create", "class=ok"];
    assert_eq!(counts.sum("egress_provider_operations_total", &ok), 1);
    assert_eq!(counts.sum("egress_provider_operation_seconds", &["operation=create"]), 1);
    assert_eq!(counts.sum("egress_provider_memory_bytes", &["operation=create"]), 1);
    assert_eq!(counts.sum("egress_host_calls_total", &["call=kubernetes.create", "outcome=ok"]), 1);
    assert_eq!(counts.sum("egress_host_call_seconds", &["call=kubernetes.get"]), 1);
    let trapping = guest_with("trap", "create", 0, Limits::default()).await;
    create_error(&trapping).await;
    assert_eq!(counts.sum("egress_provider_traps_total", &["operation=create"]), 1);
    let trap = ["operation=create", "class=transient", "reason=trap"];
    assert_eq!(counts.sum("egress_provider_operations_total", &trap), 1);
}

#[tokio::test]
async fn no_guest_can_make_labels_of_its_own() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let config = json!({ "do": "own-reason", "in": "create" });
    let revision = slot().load(Candidate { ..candidate(config) }).await.unwrap();
    assert_eq!(create_error(&revision).await.reason, "made-up-by-the-guest");
    assert_eq!(counts.sum("egress_provider_operations_total", &["operation=create", "reason=other"]), 1);
    assert!(!counts.text().contains("made-up-by-the-guest"), "{}", counts.text());
}
