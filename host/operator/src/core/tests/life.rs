//! The life of a Proxy whose provider does what it should.

use std::time::Duration;

use egress_contract::{Error, State};

use crate::{
    api::{CloudInit, KeyRef, Phase},
    core::{
        memory::Source,
        reconcile::Next,
        tests::{
            provider::When,
            world::{World, drive},
        },
    },
};

#[test]
fn a_proxy_is_made_watched_and_removed() {
    let world = World::new();
    let host = world.host();
    world.until_running(&host);
    let status = world.status();
    world.backend.assert_only(&world.name());
    assert_eq!(status.incarnation, 1);
    assert_eq!(status.address.as_deref(), Some("10.0.0.7"));
    assert_eq!(status.failure, None);
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
    assert_eq!(world.condition("Progressing"), ("False".into(), "Settled".into()));
    assert_eq!(world.backend.calls("create"), 6, "five pending steps and done");

    world.store.request_delete(&world.key);
    world.until_gone(&host);
    world.backend.assert_empty();
    assert_eq!(world.told(), ["Running", "Deleting", "Deleted"]);
}

#[test]
fn the_first_instance_of_a_proxy_that_names_one_has_that_id_from_its_beginning_and_its_successor_has_not() {
    let world = World::new();
    let host = world.host();
    world.store.set_adopt(&world.key, "hv1/squid-old");
    // What create answers would be its own id, in this double.
    world.backend.fail([(When::Before, Error::transient("away", "the backend is away"))]);
    world.until(&host, |record| record.status.instance.is_some());
    let id = |world: &World| world.status().instance.unwrap().id;
    assert_eq!(id(&world).as_deref(), Some("hv1/squid-old"));
    world.until_running(&host);

    world.apply(|spec| spec.port = 8080);
    world.until_running(&host);
    assert_eq!(world.status().incarnation, 2);
    assert_ne!(id(&world).as_deref(), Some("hv1/squid-old"));
}

#[test]
fn a_proxy_that_goes_with_its_kind_keeps_its_instance() {
    let world = World::new();
    let host = world.host();
    world.until_running(&host);
    world.store.set_kind_going(true);
    world.store.request_delete(&world.key);
    for _ in 0..20 {
        world.pass(&host);
    }
    world.backend.assert_only(&world.name());
    assert_eq!(world.backend.calls("delete"), 0);
    assert!(world.record().finalizer);
    assert!(world.told().contains(&"KindGoing".to_owned()));
    // Who meant it says so otherwise.
    world.store.set_kind_going(false);
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn the_finalizer_is_on_before_anything_is_made() {
    let world = World::new();
    let host = world.host();
    for cut in 0..100 {
        if drive(host.reconcile(&world.key), Some(cut)).0.is_some() {
            break;
        }
        assert!(world.record().finalizer || world.backend.log().is_empty());
    }
    assert!(world.record().finalizer && !world.backend.log().is_empty());
}

#[test]
fn a_pass_calls_a_provider_once_and_looks_at_what_it_made() {
    let world = World::new();
    let host = world.host();
    for round in 0..60 {
        world.backend.clear_log();
        world.pass(&host);
        let calls: Vec<_> =
            world.backend.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert!(calls.len() <= 1 || calls == ["create", "get"], "{calls:?}");
        match round {
            20 => world.apply(|spec| spec.port = 8080),
            40 => world.store.request_delete(&world.key),
            _ => {}
        }
    }
    assert_eq!(world.store.peek(&world.key), None);
}

#[test]
fn progress_is_stored_and_given_back_and_ends_with_its_instance() {
    let (world, host) = World::running();
    world.apply(|spec| spec.port = 8080);
    world.until_running(&host);
    let given: Vec<_> = world.backend.inner().targets.iter().map(|t| t.progress.clone()).collect();
    let given: Vec<_> = given.iter().map(|p| p.as_deref().unwrap_or("-")).collect();
    let create = ["-", "create reserved", "create task", "create landed", "create 1", "create 0", "-"];
    let delete = ["-", "delete 1", "delete 0", "delete secret"];
    assert_eq!(given, [create.as_slice(), &delete, &create].concat());
}

#[test]
fn a_delete_is_told_what_a_create_began() {
    let world = World::new();
    let host = world.host();
    world.until(&host, |_| !world.backend.inner().tasks.is_empty());
    world.store.request_delete(&world.key);
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn a_changed_spec_replaces_the_instance_under_the_next_incarnation() {
    let (world, host) = World::running();
    let old = world.name();
    world.apply(|spec| spec.port = 8080);
    world.until_running(&host);
    assert_ne!(world.name(), old);
    world.backend.assert_only(&world.name());
    assert_eq!(world.status().incarnation, 2);
    assert_eq!(world.backend.inner().machines.values().next().unwrap().port, 8080);
    assert_eq!(world.told(), ["Running", "Replacing", "Running"]);
}

#[test]
fn ready_is_false_before_the_old_instance_is_touched() {
    let (world, host) = World::running();
    world.apply(|spec| spec.port = 8080);
    for cut in 0..100 {
        if drive(host.reconcile(&world.key), Some(cut)).0.is_some() {
            break;
        }
        if world.backend.calls("delete") > 0 {
            assert_eq!(world.condition("Ready"), ("False".into(), "Replacing".into()));
            assert_eq!(world.status().address, None);
            return;
        }
    }
    panic!("nothing was deleted");
}

#[test]
fn a_spec_that_changes_back_while_its_instance_goes_does_not_save_it() {
    let (world, host) = World::running();
    let old = world.name();
    world.apply(|spec| spec.port = 8080);
    world.pass(&host);
    assert!(world.status().instance.unwrap().deleting);
    world.apply(|spec| spec.port = 3128);
    world.until_running(&host);
    assert_ne!(world.name(), old);
    world.backend.assert_only(&world.name());
}

#[test]
fn a_changed_provider_removes_the_old_instance_through_the_old_entry() {
    let (world, host) = World::running();
    let two = std::sync::Arc::new(super::provider::Backend::new(world.store.clone()));
    world.entries.set("two", Some((two.clone(), "r9")));
    world.apply(|spec| spec.provider = "two".into());
    world.until_running(&host);
    world.backend.assert_empty();
    two.assert_only(&world.name());
    assert_eq!(two.calls("delete"), 0);
    assert_eq!(world.status().revision.as_deref(), Some("r9"));
}

#[test]
fn an_outdated_instance_serves_until_its_new_provider_is_there() {
    let (world, host) = World::running();
    world.apply(|spec| spec.provider = "two".into());
    world.pass_for(&host, Duration::from_secs(300));
    world.backend.assert_only(&world.name());
    assert_eq!(world.status().phase, Some(Phase::Waiting));
    assert_eq!(world.condition("Ready"), ("False".into(), "ProviderMissing".into()));
    assert!(world.status().message.unwrap().contains("entry two: the ConfigMap has no such key"));
}

#[test]
fn a_proxy_without_its_entry_waits_and_goes_on_when_it_comes() {
    let world = World::new();
    world.entries.set("one", None);
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(300));
    assert_eq!(world.status().phase, Some(Phase::Waiting));
    assert_eq!(world.status().incarnation, 0, "nothing was begun");
    world.entries.set("one", Some((world.backend.clone(), "r1")));
    world.until_running(&host);
    assert_eq!(world.told(), ["ProviderMissing", "Running"]);
}

#[test]
fn a_running_proxy_whose_entry_goes_is_unknown_not_down() {
    let (world, host) = World::running();
    world.entries.set("one", None);
    world.pass(&host);
    assert_eq!(world.condition("Ready"), ("Unknown".into(), "ProviderMissing".into()));
    world.entries.set("one", Some((world.backend.clone(), "r1")));
    world.until_running(&host);
    assert_eq!(world.status().incarnation, 1);
}

#[test]
fn a_start_that_still_loads_an_entry_says_nothing_of_its_proxies() {
    let (world, _) = World::running();
    let before = world.record();
    world.entries.starting("one");
    let host = world.host();
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.record(), before, "a restart is no news of a Proxy");
    world.store.request_delete(&world.key);
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.status().phase, Some(Phase::Deleting));
    world.entries.set("one", Some((world.backend.clone(), "r1")));
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn a_new_proxy_shows_that_its_entry_is_being_loaded() {
    let world = World::new();
    world.entries.starting("one");
    let host = world.host();
    let before = world.store.status_writes();
    world.pass(&host);
    assert_eq!((world.status().phase, world.store.status_writes()), (None, before), "it takes a moment");
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.status().phase, Some(Phase::Waiting));
    assert!(world.status().message.unwrap().contains("it is being loaded"));
}

#[test]
fn an_entry_that_was_removed_makes_nothing_new_and_still_removes() {
    let (world, host) = World::running();
    world.entries.unlist("one");
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.status().phase, Some(Phase::Running));
    world.apply(|spec| spec.port = 8080);
    world.pass_for(&host, Duration::from_secs(60));
    world.backend.assert_only(&world.name());
    assert!(world.status().message.unwrap().contains("it was removed, and makes nothing new"));
    world.store.request_delete(&world.key);
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn a_delete_without_its_entry_waits_and_names_the_way_out() {
    let (world, host) = World::running();
    world.store.request_delete(&world.key);
    world.entries.set("one", None);
    world.pass_for(&host, Duration::from_secs(7200));
    let status = world.status();
    let message = status.message.unwrap();
    assert!(
        message.contains(&status.instance.unwrap().name) && message.contains("bring the entry back"),
        "{message}"
    );
    assert!(world.record().finalizer);
    world.entries.set("one", Some((world.backend.clone(), "r2")));
    world.until_gone(&host);
    world.backend.assert_empty();
}

#[test]
fn a_proxy_that_never_began_is_released_without_a_call() {
    let world = World::new();
    world.entries.set("one", None);
    let host = world.host();
    world.pass(&host);
    world.store.request_delete(&world.key);
    world.until_gone(&host);
    assert_eq!(world.backend.log(), Vec::<String>::new());
}

#[test]
fn a_deleted_proxy_that_another_finalizer_holds_is_left_alone() {
    let (world, host) = World::running();
    world.store.set_foreign_finalizer(&world.key, "example.com/other", true);
    world.store.request_delete(&world.key);
    world.until(&host, |record| !record.finalizer);
    world.backend.assert_empty();
    world.backend.clear_log();
    assert_eq!(world.pass(&host), Next::Wait);
    assert_eq!(world.backend.log(), Vec::<String>::new());
}

#[test]
fn an_instance_that_is_gone_is_replaced_and_what_it_left_is_removed() {
    let (world, host) = World::running();
    let old = world.name();
    world.backend.inner().machines.clear();
    world.pass(&host);
    world.until_running(&host);
    assert_ne!(world.name(), old);
    world.backend.assert_only(&world.name());
}

#[test]
fn an_instance_that_stands_still_is_started_not_replaced() {
    let (world, host) = World::running();
    let name = world.name();
    world.backend.machine(&name, |m| m.state = State::Stopped);
    world.pass(&host);
    assert_eq!(world.status().phase, Some(Phase::Stopped));
    assert_eq!(world.condition("Ready"), ("False".into(), "Stopped".into()));
    world.until_running(&host);
    world.backend.assert_only(&name);
    assert_eq!(world.told(), ["Running", "Stopped", "Running"]);
}

#[test]
fn an_instance_that_finished_is_replaced() {
    let (world, host) = World::running();
    let name = world.name();
    world.backend.machine(&name, |m| (m.state, m.finished) = (State::Stopped, true));
    world.pass(&host);
    world.until_running(&host);
    assert_ne!(world.name(), name);
    world.backend.assert_only(&world.name());
}

#[test]
fn an_instance_that_somebody_removes_is_replaced() {
    let (world, host) = World::running();
    let name = world.name();
    world.backend.machine(&name, |m| m.state = State::Deleting);
    world.pass(&host);
    world.until_running(&host);
    assert_ne!(world.name(), name);
    world.backend.assert_only(&world.name());
}

#[test]
fn a_machine_without_address_is_provisioning() {
    let world = World::new();
    world.backend.inner().addresses = false;
    let host = world.host();
    world.until(&host, |record| record.status.phase == Some(Phase::Provisioning));
    world.pass_for(&host, Duration::from_secs(60));
    assert_eq!(world.condition("Ready"), ("False".into(), "Provisioning".into()));
    let name = world.name();
    world.backend.machine(&name, |m| m.address = true);
    world.until_running(&host);
}

#[test]
fn user_data_reaches_the_provider_and_nothing_else() {
    let world = World::new();
    let at = KeyRef { name: "squid".into(), key: "user-data".into() };
    world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"a sentinel of user-data"));
    world.apply(|s| s.cloud_init = Some(CloudInit { secret_ref: Some(at.clone()), ..Default::default() }));
    let host = world.host();
    world.backend.fail([(super::provider::When::Before, egress_contract::Error::transient("busy", "busy"))]);
    world.until_running(&host);
    let name = world.name();
    world.backend.machine(&name, |m| assert_eq!(m.user_data, b"a sentinel of user-data"));
    let status = serde_json::to_string(&world.status()).unwrap();
    assert!(!status.contains("sentinel"), "{status}");

    world.store.set_user_data(Source::Secret, "team-a", &at, Some(b"another"));
    world.pass_for(&host, Duration::from_secs(300));
    assert_eq!(world.name(), name, "a changed Secret replaces nothing");
}
