//! What a failure does: how long it holds up, what sets it free, what is shown.

use std::time::Duration;

use egress_contract::{Error, ErrorClass, State};

use crate::{
    api::{CloudInit, KeyRef, Phase, ProxyPlacement},
    core::{
        clock::Clock,
        memory::Source,
        reconcile::Next,
        tests::{
            provider::When,
            world::{Host, World, drive},
        },
    },
};

fn quota() -> Error {
    Error::new(ErrorClass::QuotaExceeded, "quota", "project p has no CPU left; raise its quota")
}

fn forbidden() -> Error {
    Error::permanent("forbidden", "may not create pods; grant it")
}

/// Seconds between the calls of a method, while all of them fail.
fn gaps(world: &World, host: &Host, method: &str, calls: usize) -> Vec<f64> {
    let mut gaps = Vec::new();
    let mut last = world.clock.now();
    while gaps.len() < calls {
        let before = world.backend.calls(method);
        let at = world.clock.now();
        world.pass(host);
        if world.backend.calls(method) > before {
            gaps.push(at.duration_since(last).as_secs_f64());
            last = at;
        }
    }
    gaps
}

#[test]
fn transient_failures_back_off_up_to_five_minutes() {
    let world = World::new();
    world.backend.fail_always(&Error::transient("busy", "busy"));
    let host = world.host();
    let gaps = gaps(&world, &host, "create", 15);
    for (n, gap) in gaps.iter().enumerate().skip(1) {
        let whole = f64::from(1 << (n - 1).min(20)).min(300.0);
        assert!((whole / 2.0..=whole).contains(gap), "gap {n}: {gaps:?}");
    }
    let failure = world.status().failure.unwrap();
    assert_eq!((failure.count, failure.class.as_str(), failure.reason.as_str()), (15, "transient", "busy"));
    assert_eq!(world.status().phase, Some(Phase::Creating));
    assert_eq!(world.condition("Progressing"), ("True".into(), "Busy".into()));
    assert_eq!(world.told(), ["Retrying"], "once, not at every attempt");

    world.backend.unfail();
    world.until_running(&host);
    assert_eq!(world.status().failure, None);
}

#[test]
fn want_of_room_waits_longer() {
    let world = World::new();
    world.backend.fail_always(&quota());
    let gaps = gaps(&world, &world.host(), "create", 8);
    for (n, gap) in gaps.iter().enumerate().skip(1) {
        let whole = (60.0 * f64::from(1 << (n - 1))).min(900.0);
        assert!((whole / 2.0..=whole).contains(gap), "gap {n}: {gaps:?}");
    }
    assert_eq!(world.told(), ["QuotaExceeded"]);
}

#[test]
fn the_backends_own_wish_is_obeyed() {
    let world = World::new();
    let hint = Some(Duration::from_secs(40));
    world.backend.fail_always(&Error { retry_after: hint, ..Error::transient("busy", "busy") });
    let gaps = gaps(&world, &world.host(), "create", 5);
    assert!(gaps.iter().skip(1).all(|gap| (40.0..=44.1).contains(gap)), "{gaps:?}");
}

#[test]
fn a_permanent_failure_is_shown_and_tried_again_once_an_hour() {
    let world = World::new();
    world.backend.fail_always(&forbidden());
    let host = world.host();
    let gaps = gaps(&world, &host, "create", 4);
    assert!(gaps.iter().skip(1).all(|gap| (3600.0..=3961.0).contains(gap)), "{gaps:?}");
    let status = world.status();
    assert_eq!(status.phase, Some(Phase::Failed));
    let message = status.message.unwrap();
    assert!(
        message.starts_with("may not create pods; grant it; it is tried again within the hour"),
        "{message}"
    );
    assert!(message.ends_with("egressproxies.dev/retry"), "{message}");
    assert_eq!(world.condition("Ready"), ("False".into(), "Forbidden".into()));
    assert_eq!(world.condition("Progressing"), ("False".into(), "Forbidden".into()));
    assert_eq!(world.told(), ["Failed"]);
    world.backend.unfail();
    world.until_running(&host);
}

/// What sets a permanent failure free, each within half a minute.
#[test]
fn a_permanent_failure_ends_with_its_cause() {
    type Change = fn(&World, &KeyRef);
    let changes: [(&str, Change); 5] = [
        ("spec", |world, _| world.apply(|spec| spec.port = 8080)),
        ("revision", |world, _| world.entries.set("one", Some((world.backend.clone(), "r2")))),
        ("place", |world, _| world.recover("home")),
        ("annotation", |world, _| drop(world.store.set_retry(&world.key, "now"))),
        ("secret", |world, at| world.store.set_user_data(Source::Secret, "team-a", at, Some(b"mended"))),
    ];
    for (what, change) in changes {
        let world = World::new();
        let at = KeyRef { name: "squid".into(), key: "user-data".into() };
        world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"broken"));
        world
            .apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at.clone()), ..Default::default() }));
        world.backend.fail_always(&forbidden());
        let host = world.host();
        world.pass_for(&host, Duration::from_secs(600));
        assert_eq!(world.status().phase, Some(Phase::Failed), "{what}");
        assert_eq!(world.backend.calls("create"), 1, "{what}");
        world.backend.unfail();
        world.pass_for(&host, Duration::from_secs(600));
        assert_eq!(world.status().phase, Some(Phase::Failed), "{what}: nothing changed yet");
        change(&world, &at);
        // The first pass may be one of a changed spec that removes what was begun.
        world.pass_for(&host, Duration::from_secs(45));
        world.until(&host, |r| r.status.phase == Some(Phase::Running));
        assert!(world.clock.now().as_second() - 1_800_001_200 < 90, "{what}");
    }
}

/// Also one that changes nothing of what was made: somebody tries something.
#[test]
fn a_new_generation_sets_a_latched_delete_free() {
    let (world, host) = World::running();
    world.apply(|spec| spec.port = 8080);
    world.backend.fail_always(&forbidden());
    world.pass_for(&host, Duration::from_secs(20));
    assert_eq!((world.status().phase, world.backend.calls("delete")), (Some(Phase::Replacing), 1));
    world.apply(|spec| spec.placement = Some(ProxyPlacement::default()));
    world.pass(&host);
    assert_eq!(world.backend.calls("delete"), 2);
}

#[test]
fn a_latch_outlives_the_process() {
    let world = World::new();
    world.backend.fail_always(&forbidden());
    world.pass_for(&world.host(), Duration::from_secs(60));
    for _ in 0..5 {
        world.pass_for(&world.host(), Duration::from_secs(60));
    }
    assert_eq!(world.backend.calls("create"), 1);
}

#[test]
fn a_permanent_failure_of_create_does_not_hold_up_the_delete() {
    let world = World::new();
    world.backend.fail([(When::After, forbidden())]);
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    world.store.request_delete(&world.key);
    let asked = world.clock.now();
    world.until_gone(&host);
    assert!(world.clock.now().duration_since(asked).as_secs() < 10);
    world.backend.assert_empty();
}

#[test]
fn a_delete_that_was_refused_is_tried_again_within_minutes_and_still_shown_as_one() {
    let world = World::new();
    let host = world.host();
    world.until_running(&host);
    world.backend.fail_always(&forbidden());
    world.store.request_delete(&world.key);
    let gaps = gaps(&world, &host, "delete", 8);
    assert!(gaps.iter().skip(1).all(|gap| (30.0..=1000.0).contains(gap)), "{gaps:?}");
    assert_eq!(world.status().phase, Some(Phase::Deleting));
    assert_eq!(world.condition("Progressing"), ("False".into(), "Forbidden".into()));
    world.backend.unfail();
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn a_delete_that_fails_keeps_the_finalizer() {
    for error in
        [forbidden(), quota(), Error::transient("busy", "busy"), Error::new(ErrorClass::NotFound, "x", "x")]
    {
        let (world, host) = World::running();
        world.backend.fail_always(&error);
        world.store.request_delete(&world.key);
        world.pass_for(&host, Duration::from_secs(7200));
        assert!(world.record().finalizer, "{error:?}");
        assert!(world.backend.calls("delete") > 1, "{error:?}");
        world.backend.unfail();
        world.until_gone(&host);
        world.backend.assert_empty();
    }
}

#[test]
fn one_failed_look_is_no_outage_three_are() {
    let (world, host) = World::running();
    world.backend.fail_always(&Error::transient("unreachable", "host h does not answer"));
    for looks in 1..=3 {
        while world.backend.calls("get") < looks {
            world.pass(&host);
        }
        let wanted = if looks < 3 { ("True", "Running") } else { ("Unknown", "Unreachable") };
        assert_eq!(world.condition("Ready"), (wanted.0.into(), wanted.1.into()), "after {looks}");
    }
    assert_eq!(world.status().address.as_deref(), Some("10.0.0.7"), "nobody said that it is gone");
    world.backend.unfail();
    world.until(&host, |r| r.status.failure.is_none());
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
}

#[test]
fn an_instance_that_keeps_ending_is_started_ever_more_slowly() {
    let (world, host) = World::running();
    let name = world.name();
    let mut rests = Vec::new();
    for _ in 0..12 {
        world.backend.machine(&name, |m| m.state = State::Stopped);
        let stopped = || world.status().phase == Some(Phase::Stopped);
        world.until(&host, |_| stopped());
        let failure = world.status().failure.unwrap();
        let retry_at = failure.retry_at.unwrap().0;
        rests.push(retry_at.duration_since(failure.at.unwrap().0).as_secs());
        world.until(&host, |_| world.backend.runs(&name));
        assert!(world.clock.now() >= retry_at);
        world.until_running(&host);
    }
    assert!(rests[0] <= 1 && rests[5] >= 15 && rests[11] >= 149, "{rests:?}");
    assert_eq!(world.status().failure.unwrap().count, 12);
    assert_eq!(world.condition("Ready").0, "True");

    world.pass_for(&host, Duration::from_secs(700));
    assert_eq!(world.status().failure, None, "it ran for ten minutes");
}

#[test]
fn replacements_of_what_keeps_finishing_slow_down_too() {
    let (world, host) = World::running();
    let mut gaps = Vec::new();
    for _ in 0..8 {
        let name = world.name();
        world.backend.machine(&name, |m| (m.state, m.finished) = (State::Stopped, true));
        let ended = world.clock.now();
        world.until(&host, |r| r.status.instance.as_ref().is_some_and(|i| i.name != name));
        gaps.push(world.clock.now().duration_since(ended).as_secs_f64());
        world.until_running(&host);
        world.backend.assert_only(&world.name());
    }
    assert!(gaps[7] > 120.0, "{gaps:?}");
}

#[test]
fn a_missing_secret_is_waited_for() {
    let world = World::new();
    let at = KeyRef { name: "squid".into(), key: "user-data".into() };
    world.apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at.clone()), ..Default::default() }));
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(3600));
    assert_eq!(world.backend.log(), Vec::<String>::new());
    assert_eq!(world.status().instance, None, "nothing was begun");
    let message = world.status().message.unwrap();
    assert!(message.contains("Secret team-a/squid, key user-data does not exist"), "{message}");
    assert_eq!(world.told(), ["UserDataMissing"]);

    world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"here"));
    let came = world.clock.now();
    world.until_running(&host);
    assert!(world.clock.now().duration_since(came).as_secs() < 45);
}

#[test]
fn a_name_that_no_object_can_have_is_told_and_never_asked_for() {
    let (world, at) = (World::new(), KeyRef { name: "../../squid".into(), key: "user-data".into() });
    world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"here"));
    world.apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at.clone()), ..Default::default() }));
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.backend.log(), Vec::<String>::new());
    assert_eq!(world.status().phase, Some(Phase::Failed));
    let message = world.status().message.unwrap();
    assert!(message.starts_with("spec.cloudInit.secretRef.name is \"../../squid\""), "{message}");

    world.apply(|s| s.cloud_init = None);
    world.until_running(&host);
}

#[test]
fn an_instance_of_another_installation_is_not_called_about() {
    let (world, host) = World::running();
    let mut status = world.status();
    status.instance.as_mut().unwrap().name = "proxy-web-aaaaaa-bbbbbbbb".into();
    world.store.force_status(&world.key, status);
    world.backend.clear_log();
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.status().phase, Some(Phase::Failed));
    assert!(world.status().message.unwrap().contains("proxy-web-aaaaaa-bbbbbbbb"));
    world.store.request_delete(&world.key);
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.backend.log(), Vec::<String>::new());
    assert!(world.record().finalizer);
}

#[test]
fn the_revision_that_mended_it_is_the_one_that_is_named() {
    let world = World::new();
    world.backend.fail_always(&forbidden());
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    world.backend.unfail();
    world.entries.set("one", Some((world.backend.clone(), "r2")));
    world.until_running(&host);
    let status = world.status();
    assert_eq!(status.instance.unwrap().created_by.as_deref(), Some("r2"));
    assert_eq!(status.revision.as_deref(), Some("r2"));
}

#[test]
fn a_failure_may_replace_the_progress_or_have_it_forgotten() {
    for (said, kept) in [(None, Some("create reserved")), (Some(""), None), (Some("other"), Some("other"))] {
        let world = World::new();
        let host = world.host();
        world.until(&host, |r| r.status.instance.as_ref().is_some_and(|i| i.progress.is_some()));
        let error = Error { progress: said.map(Into::into), ..Error::transient("busy", "busy") };
        world.backend.fail([(When::Before, error)]);
        world.until(&host, |r| r.status.failure.is_some());
        assert_eq!(world.status().instance.unwrap().progress.as_deref(), kept, "{said:?}");
        world.until_running(&host);
    }
}

#[test]
fn a_secret_that_cannot_be_read_for_a_while_frees_nothing() {
    let world = World::new();
    let at = KeyRef { name: "squid".into(), key: "user-data".into() };
    world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"broken"));
    world.apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at.clone()), ..Default::default() }));
    world.backend.fail_always(&forbidden());
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    world.unread(true);
    world.pass_for(&host, Duration::from_secs(600));
    world.unread(false);
    world.pass_for(&host, Duration::from_secs(600));
    assert_eq!((world.status().phase, world.backend.calls("create")), (Some(Phase::Failed), 1));
}

#[test]
fn reading_a_secret_backs_off_however_its_failure_is_worded() {
    let world = World::new();
    let at = KeyRef { name: "squid".into(), key: "user-data".into() };
    world.apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at), ..Default::default() }));
    world.unread(true);
    world.pass_for(&world.host(), Duration::from_secs(120));
    let failure = world.status().failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.count), ("user-data-unread", 8));
}

#[test]
fn a_stale_record_is_read_again_soon() {
    let world = World::new();
    let host = world.host();
    // Up to the write that begins the incarnation; then somebody else writes.
    let mut pass = Box::pin(host.reconcile(&world.key));
    while !world.record().finalizer {
        assert!(super::world::poll(pass.as_mut()).is_pending());
    }
    world.store.set_retry(&world.key, "changed");
    let (next, _) = drive(pass, None);
    assert!(matches!(next, Some(Next::Requeue(after)) if after <= Duration::from_millis(100)), "{next:?}");
    assert_eq!(world.backend.log(), Vec::<String>::new());
    world.until_running(&host);
}
