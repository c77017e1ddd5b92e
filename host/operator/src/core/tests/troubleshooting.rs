//! What docs/troubleshooting.md says of Proxies is what their statuses and Events say: each symptom is provoked here and
//! compared word for word.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use docs_tests::shown::{complaint, described};
use egress_contract::{Error, State};

use super::{
    health::town::{MINUTE, Squid, Town, key, requests},
    provider::Backend,
    world::{World, drive, spec},
};
use crate::{
    api::{CloudInit, KeyRef, Phase, ProxySpec, ProxyStatus},
    core::{
        former::{Former, Was},
        probe::HealthConfig,
        reconcile::Next,
        store::{Notice, ProxyKey},
    },
};

/// A status and Events as `kubectl describe` shows them.
fn shown(status: &ProxyStatus, notices: &[Notice]) -> Vec<String> {
    let mut lines = described(&serde_json::to_value(status).unwrap());
    lines.extend(notices.iter().map(|notice| {
        let kind = if notice.warning { "Warning" } else { "Normal" };
        format!("{kind} {} 1s egressproxies.dev/operator {}", notice.reason, notice.message)
    }));
    lines
}

fn of(world: &World) -> Vec<String> {
    let status = world.store.peek(&world.key).map(|record| record.status).unwrap_or_default();
    let notices: Vec<Notice> = world.store.notices().into_iter().map(|(_, notice)| notice).collect();
    shown(&status, &notices)
}

fn compare(symptom: &str, lines: &[String]) {
    let complaint = complaint(symptom, lines);
    assert!(complaint.is_empty(), "{complaint}");
}

#[test]
fn an_instance_that_stopped_or_is_gone_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    let name = world.name();
    world.backend.machine(&name, |machine| machine.state = State::Stopped);
    world.until(&host, |record| record.status.phase == Some(Phase::Stopped));
    compare("its-instance-stands-still", &of(&world));

    let (world, host) = World::running();
    world.backend.inner().machines.clear();
    world.until(&host, |record| record.status.phase == Some(Phase::Replacing));
    compare("its-instance-is-gone", &of(&world));
}

#[test]
fn one_that_ends_again_and_again_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    world.entries.change("one", |active| active.replace.per_hour = 2);
    for _ in 0..40 {
        world.backend.inner().machines.clear();
        world.pass_for(&host, Duration::from_secs(30));
        if world.status().failure.is_some_and(|failure| failure.reason == "replaced-too-often")
            && world.status().instance.is_none()
        {
            break;
        }
    }
    compare("its-instances-end-again-and-again", &of(&world));
}

#[test]
fn a_change_that_waits_its_turn_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    world.entries.change("one", |active| active.replace.at_once = 1);
    let other = ProxyKey { namespace: "team-a".into(), name: "other".into() };
    world.store.apply(&other, spec());
    let pass = |wanted: Phase| {
        while world.store.peek(&other).unwrap().status.phase != Some(wanted) {
            let Some(Next::Requeue(after)) = drive(host.reconcile(&other), None).0 else { panic!() };
            world.clock.advance(after);
        }
    };
    pass(Phase::Running);
    world.store.apply(&other, ProxySpec { port: 8080, ..spec() });
    pass(Phase::Replacing);
    world.apply(|spec| spec.port = 8080);
    drive(host.reconcile(&world.key), None);
    compare("a-change-of-its-spec-waits", &of(&world));
}

#[test]
fn user_data_by_a_name_that_nothing_can_have_is_shown_as_the_page_says() {
    let world = World::new();
    let at = KeyRef { name: "../squid".into(), key: "user-data".into() };
    world.apply(|spec| spec.cloud_init = Some(CloudInit { secret_ref: Some(at), ..CloudInit::default() }));
    world.pass(&world.host());
    compare("its-user-data-has-a-name-that-nothing-can-have", &of(&world));
}

#[test]
fn one_that_does_not_go_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    world.store.request_delete(&world.key);
    // The mark is stored, and then its entry is gone.
    drive(host.reconcile(&world.key), None);
    world.entries.set("one", None);
    host.wake(&world.key);
    drive(host.reconcile(&world.key), None);
    compare("it-is-deleted-and-its-entry-is-gone", &of(&world));

    let (world, host) = World::running();
    world.store.set_kind_going(true);
    world.store.request_delete(&world.key);
    world.pass(&host);
    compare("it-is-deleted-with-the-crd", &of(&world));

    let (world, host) = World::running();
    world.store.request_delete(&world.key);
    world.store.set_abandon(&world.key);
    world.until_gone(&host);
    compare("it-was-abandoned", &of(&world));
}

#[test]
fn one_whose_removed_place_does_not_answer_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    let other = Arc::new(Backend::new(world.store.clone()));
    world.entries.set("one", Some((other, "r2")));
    let was = Was { revision: "r1".into(), places: vec!["hv1".into()], provider: world.backend.clone() };
    let former = Former::new("r2".into(), vec![was], BTreeSet::new(), None);
    world.entries.change("one", |active| active.former = Some(Arc::new(former)));
    world.backend.fail_always(&Error::transient("unreachable", "connect to hv1: no connection"));
    world.until(&host, |record| record.status.failure.is_some());
    compare("it-may-stand-at-a-place-that-was-removed", &of(&world));
}

#[test]
fn a_status_that_was_copied_is_shown_as_the_page_says() {
    let (world, host) = World::running();
    let mut status = world.status();
    status.instance.as_mut().unwrap().name = "proxy-web-another-installation".into();
    world.store.force_status(&world.key, status);
    world.until(&host, |record| record.status.failure.is_some());
    compare("its-status-names-an-instance-that-is-not-its-own", &of(&world));
}

async fn unhealthy(ports: u16, health: HealthConfig, dead: &[u16]) -> Town {
    let town = Town::healthy(ports, health).await;
    town.replace_after(60);
    for port in dead {
        town.breaks(*port, Squid::Dead);
    }
    town.pass(MINUTE * 5).await;
    town
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_unhealthy_is_shown_as_the_page_says() {
    let town = unhealthy(4, requests(), &[1, 2, 3]).await;
    compare("it-is-unhealthy-and-not-replaced", &shown(&town.status(1), &[]));
}

#[tokio::test(start_paused = true)]
async fn two_that_share_an_address_are_shown_as_the_page_says() {
    let health = HealthConfig {
        egress_address_url: Some(super::health::town::EGRESS_URL.to_owned()),
        egress_address_seconds: 60,
        ..requests()
    };
    let town = Town::healthy(2, health).await;
    for port in [1, 2] {
        town.net.at().outside.insert(port, "192.0.2.9".parse().unwrap());
    }
    town.pass(MINUTE * 10).await;
    let notices = town.store.notices();
    let notices: Vec<Notice> =
        notices.into_iter().filter(|(of, _)| *of == key(1)).map(|(_, notice)| notice).collect();
    compare("two-proxies-have-one-address-outside", &shown(&town.status(1), &notices));
}

#[tokio::test(start_paused = true)]
async fn an_http_check_without_a_url_is_shown_as_the_page_says() {
    use crate::api::{HealthCheck, ProbeType};
    let town = Town::new(1, HealthConfig { period_seconds: 10, ..HealthConfig::default() });
    let http = HealthCheck { kind: Some(ProbeType::Http), ..HealthCheck::default() };
    town.apply(1, |spec| spec.health_check = Some(http));
    town.pass(MINUTE * 2).await;
    compare("its-entry-has-no-probe-url", &shown(&town.status(1), &[]));
}
