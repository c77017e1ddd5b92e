//! A call harms no other: not when it traps, not when it is given up, not while it holds a lock.

use std::sync::Arc;

use egress_contract::{Created, ErrorClass, Provider};
use egress_runtime::Limits;
use futures::future::join_all;
use serde_json::json;

use crate::{
    cluster::Cluster,
    support::{candidate, candidate_at, create_error, guest_with, slot, spec, target, target_of, until},
};

#[tokio::test]
async fn a_component_that_is_called_by_hand_asks_nobody_before_and_becomes_nothing() {
    let (slot, cluster) = (slot(), Arc::new(Cluster::default()));
    let revision = slot.configured(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    assert_eq!((revision.places(), cluster.calls()), (&["home".to_owned()][..], 0));
    assert!(slot.active().is_none());
    assert!(revision.check("home").await.unwrap().ready);
    assert!(cluster.calls() > 0);
}

#[tokio::test]
async fn an_instance_comes_and_goes() {
    let cluster = Arc::new(Cluster::default());
    let revision = slot().load(candidate_at(cluster.clone(), json!({ "steps": 2 }))).await.unwrap();
    let mut target = target();
    let mut steps = 0;
    let id = loop {
        match revision.create(&target, &spec(), b"").await.unwrap() {
            Created::Done(id) => break id,
            Created::Pending(pending) => {
                steps += 1;
                target.id = pending.id;
                target.progress = Some(pending.progress);
            }
        }
    };
    assert_eq!((steps, id.as_str()), (2, target.name.as_str()));
    let instance = revision.get(&target).await.unwrap();
    assert_eq!(instance.addresses[0].ip, "10.0.0.1");
    assert_eq!(revision.list("home", None).await.unwrap().items[0].name, id);
    assert!(revision.check("home").await.unwrap().ready);
    revision.delete(&target).await.unwrap();
    assert_eq!(revision.get(&target).await.unwrap_err().class, ErrorClass::NotFound);
    assert_eq!(cluster.count("pods"), 0);
}

#[tokio::test]
async fn a_trap_says_in_whose_words_it_fell_and_harms_no_other_call() {
    let revision = guest_with("trap", "create", 0, Limits::default()).await;
    let calls = (0..20).map(|number| {
        let (revision, proxy) = (revision.clone(), format!("web-{number}"));
        async move {
            let trapped = revision.create(&target_of(&proxy), &spec(), b"").await.unwrap_err();
            (trapped, revision.check("home").await.unwrap())
        }
    });
    for (trapped, health) in join_all(calls).await {
        assert_eq!((trapped.class, trapped.reason.as_str()), (ErrorClass::Transient, "trap"));
        assert!(trapped.message.contains("unreachable"), "{trapped}");
        assert!(trapped.message.contains("it had logged: about to trap"), "{trapped}");
        assert!(health.ready);
    }
}

#[tokio::test]
async fn a_panic_is_told_in_its_own_words() {
    let revision = guest_with("panic", "create", 0, Limits::default()).await;
    let error = create_error(&revision).await;
    assert_eq!(error.reason, "trap");
    assert!(error.message.contains("this guest was told to panic"), "{error}");
    assert!(!error.message.contains('\n'), "{error}");
}

#[tokio::test]
async fn a_panic_is_told_also_when_the_log_is_full() {
    let limits = Limits { log_lines: 0, ..Limits::default() };
    let revision = guest_with("panic", "create", 0, limits).await;
    let error = create_error(&revision).await;
    assert!(error.message.contains("this guest was told to panic"), "{error}");
}

#[tokio::test]
async fn a_recursion_without_end_is_a_trap() {
    let revision = guest_with("overflow", "create", 0, Limits::default()).await;
    let error = create_error(&revision).await;
    assert_eq!(error.reason, "trap");
    assert!(error.message.contains("call stack exhausted"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_once_with_all_that_it_waits_for() {
    let cluster = Arc::new(Cluster::default());
    cluster.stall("create");
    let revision = slot().load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    let call = {
        let revision = revision.clone();
        tokio::spawn(async move { revision.create(&target(), &spec(), b"").await })
    };
    until(|| cluster.stalled() == 1).await;
    call.abort();
    call.await.unwrap_err();
    assert_eq!(cluster.stalled(), 0, "the host call goes on without its guest");
    // The target is free again, and so is the revision.
    revision.delete(&target()).await.unwrap();
}

#[tokio::test]
async fn a_lock_is_held_by_one_call_in_all_revisions_of_the_entry() {
    let cluster = Arc::new(Cluster::default());
    let slot = slot();
    let holding = json!({ "do": "lock-call", "in": "create" });
    let holding = slot.load(candidate_at(cluster.clone(), holding)).await.unwrap();
    cluster.stall("about");
    let holder = tokio::spawn(async move { holding.create(&target(), &spec(), b"").await });
    until(|| cluster.stalled() == 1).await;
    let new = slot.load(candidate(json!({ "do": "lock-try", "in": "create" }))).await.unwrap();
    let error = new.create(&target_of("other"), &spec(), b"").await.unwrap_err();
    assert!(error.message.contains("got no lock"), "{error}");
    cluster.release();
    holder.await.unwrap().unwrap();
    let error = new.create(&target_of("other"), &spec(), b"").await.unwrap_err();
    assert!(error.message.contains("got the lock"), "{error}");
}

#[tokio::test]
async fn a_lock_is_freed_when_its_holder_traps() {
    let slot = slot();
    let trapping = slot.load(candidate(json!({ "do": "lock-trap", "in": "create" }))).await.unwrap();
    assert_eq!(create_error(&trapping).await.reason, "trap");
    let next = slot.load(candidate(json!({ "do": "lock-try", "in": "create" }))).await.unwrap();
    let error = create_error(&next).await;
    assert!(error.message.contains("got the lock"), "{error}");
}

#[tokio::test]
async fn a_lock_is_freed_when_its_holder_is_given_up() {
    let cluster = Arc::new(Cluster::default());
    let slot = slot();
    let holding = json!({ "do": "lock-call", "in": "create" });
    let holding = slot.load(candidate_at(cluster.clone(), holding)).await.unwrap();
    cluster.stall("about");
    let holder = tokio::spawn(async move { holding.create(&target(), &spec(), b"").await });
    until(|| cluster.stalled() == 1).await;
    holder.abort();
    holder.await.unwrap_err();
    let next = slot.load(candidate(json!({ "do": "lock-try", "in": "create" }))).await.unwrap();
    let error = create_error(&next).await;
    assert!(error.message.contains("got the lock"), "{error}");
}

#[tokio::test]
async fn locks_are_bounded() {
    let fits = guest_with("locks", "create", 64, Limits::default()).await;
    fits.create(&target(), &spec(), b"").await.unwrap();
    let too_many = guest_with("locks", "create", 65, Limits::default()).await;
    let error = create_error(&too_many).await;
    assert_eq!(error.reason, "contract-violation");
    assert!(error.message.contains("64 locks"), "{error}");
}
