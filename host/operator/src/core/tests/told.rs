//! What the loop writes and says, and when it keeps still.

use std::time::Duration;

use egress_contract::{Error, ErrorClass};

use crate::{
    api::Phase,
    core::{
        reconcile::Next,
        tests::{
            provider::When,
            world::{World, drive},
        },
    },
};

#[test]
fn a_pass_that_changes_nothing_writes_nothing() {
    let (world, host) = World::running();
    let (writes, version) = (world.store.status_writes(), world.record().version);
    world.pass_for(&host, Duration::from_secs(3600));
    assert!(world.backend.calls("get") > 100);
    assert_eq!((world.store.status_writes(), world.record().version), (writes, version));
}

#[test]
fn what_is_made_and_runs_is_one_write_and_one_that_is_on_its_way_is_told_so() {
    for (addresses, phase) in [(true, Phase::Running), (false, Phase::Provisioning)] {
        let world = World::new();
        world.backend.inner().addresses = addresses;
        let host = world.host();
        world.until(&host, |record| record.status.instance.as_ref().is_some_and(|i| i.created));
        assert_eq!(world.status().phase, Some(phase), "at the write that says that it is made");
    }
}

#[test]
fn a_look_that_fails_after_a_create_loses_nothing_of_what_was_made() {
    for error in [
        Error::transient("timeout", "no answer"),
        Error::permanent("forbidden", "no"),
        Error::new(ErrorClass::NotFound, "gone", "not there yet"),
    ] {
        let world = World::new();
        world.backend.inner().create_steps = 0;
        world.backend.pass_then_fail(4, (When::Before, error));
        let host = world.host();
        world.until(&host, |record| record.status.instance.as_ref().is_some_and(|i| i.created));
        let status = world.status();
        assert_eq!((status.phase, status.failure), (Some(Phase::Provisioning), None));
        assert!(status.instance.unwrap().id.is_some());
        world.until_running(&host);
        assert_eq!(world.backend.names(), [world.name()]);
        assert_eq!(world.status().incarnation, 1);
    }
}

/// Each write of a status wakes the loop again.
#[test]
fn an_early_wake_makes_no_call() {
    let world = World::new();
    let host = world.host();
    world.backend.fail([(When::Before, Error::transient("busy", "busy"))]);
    for round in 0..40 {
        let calls = world.backend.log().len();
        let (next, _) = drive(host.reconcile(&world.key), None);
        let Some(Next::Requeue(after)) = next else { break };
        if !after.is_zero() {
            let made = world.backend.log().len();
            assert!(made <= calls + 2, "a create and a look at it, at most");
            drive(host.reconcile(&world.key), None);
            assert_eq!(world.backend.log().len(), made, "round {round}");
        }
        world.clock.advance(after);
        match round {
            15 => world.apply(|spec| spec.port = 8080),
            30 => world.store.request_delete(&world.key),
            _ => {}
        }
    }
    assert!(world.backend.calls("delete") > 0);
}

#[test]
fn a_change_is_not_made_to_wait_for_the_interval() {
    let (world, host) = World::running();
    drive(host.reconcile(&world.key), None);
    world.backend.clear_log();
    drive(host.reconcile(&world.key), None);
    assert_eq!(world.backend.log(), Vec::<String>::new(), "it is not due");
    world.apply(|spec| spec.port = 8080);
    drive(host.reconcile(&world.key), None);
    assert_eq!(world.backend.calls("delete"), 1);
}

#[test]
fn a_woken_proxy_is_looked_at_at_once() {
    let (world, host) = World::running();
    drive(host.reconcile(&world.key), None);
    world.backend.clear_log();
    host.wake(&world.key);
    drive(host.reconcile(&world.key), None);
    assert_eq!(world.backend.calls("get"), 1);
}

#[test]
fn a_swap_writes_no_status_of_what_runs() {
    let (world, host) = World::running();
    let writes = world.store.status_writes();
    world.entries.set("one", Some((world.backend.clone(), "r2")));
    world.pass_for(&host, Duration::from_secs(120));
    assert_eq!(world.store.status_writes(), writes);
    assert_eq!(world.status().revision.as_deref(), Some("r1"), "r2 advanced nothing");
}

#[test]
fn messages_are_cut_to_what_a_status_may_carry() {
    let world = World::new();
    world.backend.fail([(When::Before, Error::permanent("x".repeat(5000), "ä".repeat(100_000)))]);
    world.pass(&world.host());
    let status = world.status();
    assert!(status.message.unwrap().chars().count() <= 1024);
    assert!(status.conditions.iter().all(|c| c.message.chars().count() <= 1024 && c.reason.len() <= 64));
    let failure = status.failure.unwrap();
    assert!(failure.message.chars().count() <= 1024 && failure.reason.len() <= 64);
    assert!(world.store.notices().iter().all(|(_, n)| n.message.chars().count() <= 1024));
}

#[test]
fn a_failure_shows_its_next_attempt() {
    let world = World::new();
    world.backend.fail([(When::Before, Error::permanent("forbidden", "no"))]);
    world.pass(&world.host());
    let failure = world.status().failure.unwrap();
    let wait = failure.retry_at.unwrap().0.duration_since(failure.at.unwrap().0).as_secs();
    assert!((3600..=3961).contains(&wait), "{wait}");
}

#[test]
fn what_is_abandoned_stays_where_it_is_and_is_named() {
    let (world, host) = World::running();
    let (name, id) = (world.name(), world.status().instance.unwrap().id.unwrap());
    world.store.request_delete(&world.key);
    world.store.set_abandon(&world.key);
    world.until_gone(&host);
    assert_eq!(world.backend.calls("delete"), 0);
    assert_eq!(world.told().last().map(String::as_str), Some("Abandoned"));
    let notices = world.store.notices();
    let (_, notice) = notices.last().unwrap();
    assert!(
        notice.warning && notice.message.starts_with(&format!("{name} (id {id}) of entry ")),
        "{notice:?}"
    );
}
