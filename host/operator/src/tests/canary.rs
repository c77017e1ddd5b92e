//! A revision on trial: what a process adopts, puts aside, and leaves to the next one.

use serde_json::{Value, json};

use super::process::{ENTRY, HEALTH, Process, World, compare, text};
use crate::{
    api::{InstanceStatus, ProxyStatus},
    core::{
        canary::{Canary, Place},
        store::{Providers, ProxyKey},
    },
};

fn entry(image: &str, rollout: &str) -> String {
    format!("{}rollout: {rollout}\n", text("a.wasm", image))
}

const TWO: &str = "{ firstProxies: 2, withinSeconds: 600 }";

const SOON: &str = "{ firstProxies: 2, withinSeconds: 1 }";

fn key(name: &str) -> ProxyKey {
    ProxyKey { namespace: "team-a".to_owned(), name: name.to_owned() }
}

/// As the loop would leave a Proxy that a revision began.
fn begun(world: &World, name: &str, by: &str, at: &Value) -> ProxyStatus {
    let begun = serde_json::from_value(at.clone()).unwrap();
    let instance = InstanceStatus {
        provider: ENTRY.to_owned(),
        name: format!("proxy-{name}-a-b"),
        spec_hash: "1:0".to_owned(),
        created_by: Some(by.to_owned()),
        begun: Some(begun),
        ..InstanceStatus::default()
    };
    let status = ProxyStatus { instance: Some(instance), ..ProxyStatus::default() };
    put(world, name, &status);
    status
}

fn put(world: &World, name: &str, status: &ProxyStatus) {
    let metadata = json!({ "name": name, "namespace": "team-a", "uid": format!("uid-{name}") });
    let spec = json!({ "provider": ENTRY, "port": 3128 });
    let path = format!("/apis/egressproxies.dev/v1alpha1/namespaces/team-a/proxies/{name}");
    world.api.put(&path, json!({ "metadata": metadata, "spec": spec, "status": status }));
}

fn ready(world: &World, name: &str, status: &ProxyStatus) -> ProxyStatus {
    let by = status.instance.as_ref().unwrap().created_by.clone();
    let conditions = json!([{ "type": "Ready", "status": "True", "reason": "Running", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let mut status = ProxyStatus {
        conditions: serde_json::from_value(conditions).unwrap(),
        revision: by,
        ..status.clone()
    };
    status.instance.as_mut().unwrap().created = true;
    put(world, name, &status);
    status
}

fn trapped(world: &World, name: &str, status: &ProxyStatus) -> ProxyStatus {
    let by = status.instance.as_ref().unwrap().created_by.clone().unwrap();
    let failure = json!({ "class": "transient", "reason": "trap", "message": "the component failed", "count": 1,
        "key": format!("create generation=1 revision={by} 0") });
    let status = ProxyStatus { failure: serde_json::from_value(failure).unwrap(), ..status.clone() };
    put(world, name, &status);
    status
}

/// Tells the process what its watch would, over and over.
async fn watched<T>(process: &Process, wanted: impl Future<Output = T>) -> T {
    let watch = async {
        loop {
            if process.api.object(HEALTH).is_some_and(|health| health["status"].is_object()) {
                process.see_hold();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    process.beside(watch, wanted).await
}

fn canary(process: &Process) -> std::sync::Arc<Canary> {
    process.entries.active(ENTRY).unwrap().canary.expect("one is on trial")
}

fn is_open(process: &Process) -> bool {
    let canary = process.entries.active(ENTRY).ok().and_then(|active| active.canary);
    canary.is_some_and(|canary| canary.take(&key("probe")) != Place::Unknown)
}

/// Runs `one`, and `two` is on trial: what it began since then, by the health.
async fn on_trial(world: &World, process: &Process, rollout: &str) -> (String, String, Value) {
    process.apply(&entry("one", rollout));
    let one = watched(process, process.active_after(None)).await;
    process.kept(1).await;
    process.apply(&entry("two", rollout));
    let health =
        watched(process, process.shows(|health| health["status"]["canary"].is_object() && is_open(process)))
            .await;
    canary(process).leave(&key("probe"));
    let shown = health["status"]["canary"].clone();
    let two = shown["revision"].as_str().unwrap().to_owned();
    assert_eq!((&shown["firstProxies"], &shown["made"]), (&json!(2), &json!(0)));
    assert_eq!((process.active(), &health["status"]["offered"]), (Some(one.clone()), &json!(two)));
    assert!(world.api.below("/api/v1/namespaces/system/configmaps/egress-revision-").len() == 1);
    (one, two, shown["since"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_is_adopted_once_the_proxies_that_it_made_are_ready() {
    let world = World::new("canary-adopted");
    let process = world.start();
    let (one, two, since) = on_trial(&world, &process, TWO).await;
    let canary = canary(&process);
    for name in ["a", "b"] {
        assert_eq!(process.active(), Some(one.clone()));
        let status = begun(&world, name, &two, &since);
        canary.note(&key(name), &status, false);
        canary.note(&key(name), &ready(&world, name, &status), false);
    }
    let health =
        watched(&process, process.shows(|health| health["status"]["active"]["revision"] == two.as_str()))
            .await;
    assert!(health["status"]["canary"].is_null() && health["spec"]["hold"].is_null());
    assert_eq!(process.active(), Some(two.clone()));
    assert!(process.entries.active(ENTRY).unwrap().canary.is_none());
    process.kept(2).await;
    // It is not tried again at the next start.
    drop(process);
    let process = world.start();
    process.apply(&entry("two", TWO));
    watched(&process, process.shows(|_| process.active() == Some(two.clone()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_put_aside_stays_aside_after_a_restart_until_the_source_offers_another() {
    let world = World::new("canary-aside");
    let process = world.start();
    let (one, two, since) = on_trial(&world, &process, TWO).await;
    let status = trapped(&world, "a", &begun(&world, "a", &two, &since));
    canary(&process).note(&key("a"), &status, false);
    let held = |health: &Value| health["spec"]["hold"].is_object() && health["status"]["canary"].is_null();
    let health = watched(&process, process.shows(held)).await;
    let hold = &health["spec"]["hold"];
    assert_eq!((&hold["revision"], &hold["insteadOf"]), (&json!(one), &json!(two)));
    let reason = hold["reason"].as_str().unwrap();
    assert!(reason.contains("team-a/a: create failed (trap): the component failed"), "{reason}");
    compare("a-newer-component-was-put-aside", &health);
    let told =
        |event: &Value| event["reason"] == "PutAside" && event["note"].as_str().unwrap().contains("resume");
    watched(&process, process.shows(|_| world.api.below("/apis/events.k8s.io/v1/").iter().any(told))).await;
    assert_eq!(process.active(), Some(one.clone()));
    drop(process);

    let process = world.start();
    process.apply(&entry("two", TWO));
    let settled = process.shows(|health| {
        health["status"]["conditions"][0]["reason"] != "Starting" && process.active().is_some()
    });
    watched(&process, settled).await;
    assert_eq!(process.active(), Some(one.clone()));
    assert!(process.entries.active(ENTRY).unwrap().canary.is_none());
    process.apply(&entry("three", TWO));
    let anew = |health: &Value| {
        let canary = &health["status"]["canary"]["revision"];
        canary.is_string() && *canary != two.as_str() && health["spec"]["hold"].is_null()
    };
    watched(&process, process.shows(anew)).await;
    assert_eq!(process.active(), Some(one));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_takes_over_in_mid_trial_goes_on_with_it() {
    let world = World::new("canary-restart");
    let process = world.start();
    let (one, two, since) = on_trial(&world, &process, TWO).await;
    let status = begun(&world, "a", &two, &since);
    ready(&world, "a", &status);
    drop(process);

    // The same after its end: it finds when the trial began, and who was made.
    let process = world.start();
    process.apply(&entry("two", TWO));
    let counted = |health: &Value| health["status"]["canary"]["made"] == 1 && is_open(&process);
    let health = watched(&process, process.shows(counted)).await;
    assert_eq!(
        (&health["status"]["canary"]["since"], &health["status"]["canary"]["ready"]),
        (&since, &json!(1))
    );
    assert_eq!(process.active(), Some(one.clone()));

    // A second one holds it ready, gives no place, and follows what the first one does.
    let other = world.start();
    other.leads.send_replace(None);
    other.apply(&entry("two", TWO));
    watched(
        &other,
        other.shows(|_| {
            other.active().as_deref() == Some(&one) && other.entries.active(ENTRY).unwrap().canary.is_some()
        }),
    )
    .await;
    assert_eq!(canary(&other).take(&key("c")), Place::Unknown);
    let status = begun(&world, "b", &two, &since);
    canary(&process).note(&key("b"), &ready(&world, "b", &status), false);
    watched(&process, process.shows(|_| process.active().as_deref() == Some(&two))).await;
    watched(&other, other.shows(|_| other.active().as_deref() == Some(&two))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_that_leads_next_judges_by_what_the_first_one_left() {
    let world = World::new("canary-lead");
    let process = world.start();
    let (one, two, since) = on_trial(&world, &process, SOON).await;
    let other = world.start();
    other.leads.send_replace(None);
    other.apply(&entry("two", SOON));
    watched(
        &other,
        other.shows(|_| {
            other.active().as_deref() == Some(&one) && other.entries.active(ENTRY).unwrap().canary.is_some()
        }),
    )
    .await;
    // It began one that is late, and ended.
    drop(process);
    begun(&world, "b", &two, &since);
    other.leads.send_replace(Some(2));
    let health = watched(&other, other.shows(|health| health["spec"]["hold"].is_object())).await;
    let reason = health["spec"]["hold"]["reason"].as_str().unwrap();
    assert!(reason.ends_with("team-a/b was not ready within 1 s"), "{reason}");
    assert_eq!(other.active(), Some(one));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_candidate_begins_a_trial_of_its_own_and_without_a_rollout_there_is_none() {
    let world = World::new("canary-anew");
    let process = world.start();
    let (one, two, since) = on_trial(&world, &process, TWO).await;
    let first = canary(&process);
    first.note(&key("a"), &begun(&world, "a", &two, &since), false);
    process.apply(&entry("three", TWO));
    let anew = |health: &Value| {
        let canary = &health["status"]["canary"];
        canary["revision"].is_string() && canary["revision"] != two.as_str() && canary["made"] == 0
    };
    watched(&process, process.shows(anew)).await;
    assert_eq!((process.active(), first.take(&key("b"))), (Some(one.clone()), Place::None));
    process.apply(&text("a.wasm", "three"));
    let three = watched(&process, process.active_after(Some(&one))).await;
    let health = watched(&process, process.shows(|health| health["status"]["canary"].is_null())).await;
    assert!(three != two && health["spec"]["hold"].is_null());
}
