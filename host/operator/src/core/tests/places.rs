//! Instances at a place that their entry has no longer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use egress_contract::{Error, State};

use super::{
    provider::Backend,
    world::{Host, World, spec},
};
use crate::{
    api::{Phase, ProxySpec},
    core::former::{Former, Was},
};

/// One runs at a place that `r1` had; `r2` is active and sees another one alone.
fn removed() -> (World, Host, Arc<Backend>) {
    let (world, host) = World::running();
    let other = Arc::new(Backend::new(world.store.clone()));
    world.entries.set("one", Some((other.clone(), "r2")));
    remember(&world);
    (world, host, other)
}

/// As a process finds it that knows nothing else.
fn remember(world: &World) {
    let was = Was { revision: "r1".into(), places: vec!["old".into()], provider: world.backend.clone() };
    let former = Former::new("r2".into(), vec![was], BTreeSet::new(), None);
    world.entries.change("one", |active| active.former = Some(Arc::new(former)));
}

#[test]
fn an_instance_at_a_removed_place_serves_on_and_is_removed_by_who_had_the_place() {
    let (world, host, other) = removed();
    let name = world.name();
    world.pass_for(&host, Duration::from_secs(1200));
    assert_eq!((world.status().phase, world.name()), (Some(Phase::Running), name.clone()));
    world.backend.assert_only(&name);
    assert_eq!(other.calls("create") + other.calls("delete"), 0);
    world.store.request_delete(&world.key);
    world.until_gone(&host);
    world.backend.assert_empty();
    assert_eq!(other.names(), Vec::<String>::new());
}

#[test]
fn a_removal_at_a_removed_place_goes_on_after_each_restart() {
    let (world, _, other) = removed();
    world.store.request_delete(&world.key);
    for _ in 0..100 {
        remember(&world);
        world.pass(&world.host());
        if world.store.peek(&world.key).is_none() {
            break;
        }
    }
    assert_eq!(world.store.peek(&world.key), None);
    world.backend.assert_empty();
    other.assert_empty();
}

#[test]
fn what_is_replaced_leaves_the_removed_place_for_one_that_there_is() {
    let (world, host, other) = removed();
    world.store.apply(&world.key, ProxySpec { port: 8080, ..spec() });
    world.until_running(&host);
    world.backend.assert_empty();
    other.assert_only(&world.name());
    // What the active revision made concerns nobody else.
    world.backend.clear_log();
    world.store.request_delete(&world.key);
    world.until_gone(&host);
    other.assert_empty();
    assert_eq!(world.backend.log(), Vec::<String>::new());
}

#[test]
fn nothing_is_called_gone_while_a_removed_place_does_not_answer() {
    let (world, host, other) = removed();
    let name = world.name();
    world.backend.fail_always(&Error::transient("unreachable", "no route to host"));
    world.pass_for(&host, Duration::from_secs(600));
    assert_eq!(world.name(), name, "it is not replaced");
    world.store.request_delete(&world.key);
    world.pass_for(&host, Duration::from_secs(600));
    let failure = world.status().failure.unwrap();
    assert_eq!(failure.reason, "place-removed");
    assert!(failure.message.contains("(old)") && failure.message.contains("no route to host"), "{failure:?}");
    world.backend.unfail();
    world.until_gone(&host);
    world.backend.assert_empty();
    other.assert_empty();
}

#[test]
fn nothing_is_called_gone_before_it_is_known_which_places_were_removed() {
    let (world, host, _) = removed();
    let (name, before) = (world.name(), world.record());
    world.backend.machine(&name, |machine| machine.state = State::Stopped);
    let asks = || Some(Arc::new(Former::unknown("r2".into())));
    world.entries.change("one", |active| active.former = asks());
    // Also by a process that has just begun.
    for host in [host, world.host()] {
        world.pass_for(&host, Duration::from_secs(300));
    }
    assert_eq!(world.record(), before, "that it is not known for a moment is no failure of the Proxy's");
    let why = "the kept revisions can't be read".to_owned();
    let unknown = Former::new("r2".into(), Vec::new(), BTreeSet::new(), Some(why));
    world.entries.change("one", |active| active.former = Some(Arc::new(unknown)));
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!((world.name(), world.status().failure.unwrap().reason.as_str()), (name, "place-removed"));
    remember(&world);
    world.until_running(&host);
}
