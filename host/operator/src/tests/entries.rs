//! An entry over real components and a plain API server: what becomes active, and what people see of it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::process::{ENTRY, GUEST, HEALTH, World, compare, entry, text};
use crate::{
    config::read_entries,
    core::store::{Inactive, Providers},
    rollback,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_comes_later_is_taken_up_when_it_comes() {
    let world = World::new("later");
    let mut process = world.start();
    process.apply(&text("b.wasm", "one"));
    assert_eq!(process.changes.recv().await.as_deref(), Some(ENTRY), "those who wait hear why");
    let health = process.shows(|health| health["status"]["refusal"]["reason"] == "FileMissing").await;
    assert_eq!(health["status"]["refusal"]["stage"], "fetch");
    assert_eq!(health["status"]["conditions"][0]["reason"], "NoRevision");
    let Err(Inactive::Missing(why)) = process.entries.active(ENTRY) else { panic!() };
    assert!(why.contains("b.wasm does not exist"), "{why}");

    world.put("b.wasm", &GUEST);
    let revision = process.active_after(None).await;
    assert_eq!(process.active(), Some(revision));
    let health = process.shows(|health| health["status"]["refusal"].is_null()).await;
    assert_eq!(health["status"]["active"]["source"], "file b.wasm");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_told_once_and_what_was_active_goes_on() {
    let world = World::new("refused");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let first = process.active_after(None).await;
    let truncated = GUEST.get(..GUEST.len() / 2).unwrap();
    world.put("a.wasm", truncated);
    let health = process.shows(|health| health["status"]["refusal"]["stage"] == "parse").await;
    assert_eq!(health["status"]["active"]["revision"], first.as_str());
    assert_ne!(health["status"]["offered"], first.as_str());
    world.put("a.wasm", b"");
    process.shows(|health| health["status"]["refusal"]["reason"] == "Empty").await;
    process.apply("module: { file: a.wasm }\nlimits: { memoryBytes: 0 }\nother: 1");
    let health = process.shows(|health| health["status"]["refusal"]["stage"] == "entry").await;
    assert_eq!(health["status"]["refusal"]["faults"].as_array().unwrap().len(), 2);
    assert_eq!(process.active(), Some(first.clone()));

    world.put("a.wasm", &GUEST);
    process.apply(&text("a.wasm", "one"));
    process.shows(|health| health["status"]["refusal"].is_null()).await;
    assert_eq!(process.active(), Some(first));
    let mut told = process.told();
    told.sort_unstable();
    assert_eq!(told, ["Activated", "Refused", "Refused", "Refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_source_is_broken_takes_up_what_was_active_last() {
    let world = World::new("fallback");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    process.apply(&text("a.wasm", "two"));
    let two = process.active_after(Some(&one)).await;
    process.kept(2).await;
    drop(process);

    world.put("a.wasm", b"not a component");
    let process = world.start();
    process.apply(&text("a.wasm", "two"));
    let health = process.shows(|health| health["status"]["refusal"]["stage"] == "parse").await;
    process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active(), Some(two.clone()), "{health:#}");
    let health = process.shows(|health| health["status"]["active"]["revision"] == two.as_str()).await;
    assert_eq!(health["status"]["refusal"]["stage"], "parse", "the status still says what is wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_module_is_gone_takes_up_what_ran_though_it_was_offered() {
    let world = World::new("gone");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    drop(process);
    std::fs::remove_file(world.dir.join("a.wasm")).unwrap();
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active(), Some(one));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_shows_what_the_last_process_showed_until_it_knows_better() {
    let world = World::new("restart");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    process.active_after(None).await;
    let before =
        process.shows(|health| health["status"]["places"][0]["reason"].as_str() != Some("unchecked")).await;
    drop(process);
    let process = world.start();
    assert!(matches!(process.entries.active(ENTRY), Err(Inactive::Missing(_))), "no such entry");
    process.apply(&text("a.wasm", "one"));
    assert_eq!(process.entries.active(ENTRY).err(), Some(Inactive::Starting));
    process.shows(|_| process.active().is_some()).await;
    let after = process.shows(|_| process.api.count("PATCH", "/egress-revision-") > 1).await;
    assert_eq!(after["status"]["active"], before["status"]["active"], "active since then, and not since now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_lasts_over_a_start_and_until_the_source_offers_something_new() {
    let world = World::new("rollback");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    process.apply(&text("a.wasm", "two"));
    let two = process.active_after(Some(&one)).await;
    process.kept(2).await;

    let back = rollback::rollback(world.api.client(), "system", &entry(), None).await.unwrap();
    assert_eq!((back.to.as_str(), back.from.as_deref()), (one.as_str(), Some(two.as_str())));
    process.see_hold();
    assert_eq!(process.active_after(Some(&two)).await, one);
    drop(process);

    let process = world.start();
    process.apply(&text("a.wasm", "two"));
    process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active().as_ref(), Some(&one), "a start keeps the hold, and never ran the other");
    let past = rollback::history(world.api.client(), "system", &entry()).await.unwrap();
    let of = |revision: &str| past.iter().find(|past| past.about.revision == revision).unwrap();
    assert!(of(&one).active && of(&one).held && of(&two).offered);

    process.apply(&text("a.wasm", "three"));
    let three = process.active_after(Some(&one)).await;
    assert!(three != one && three != two);
    process.shows(|health| health["spec"]["hold"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_by_hand_lasts_over_a_start_and_on_another_replica_until_it_is_resumed() {
    let world = World::new("hold");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    let client = || world.api.client();
    let hold = rollback::hold_on(client(), "system", &entry(), None).await.unwrap();
    assert_eq!((hold.revision.as_str(), hold.instead_of), (one.as_str(), None));
    process.see_hold();
    // Another one knows it from its start, and both pass over two offers.
    let replica = world.start();
    replica.leads.send_replace(None);
    for image in ["two", "three"] {
        for process in [&process, &replica] {
            process.apply(&text("a.wasm", image));
            process.shows(|health| health["status"]["offered"] != one.as_str()).await;
            process.shows(|_| process.active().is_some()).await;
            assert_eq!(process.active().as_ref(), Some(&one));
        }
    }
    compare("what-the-source-offers-is-not-taken-up-the-entry-is-held", &world.api.object(HEALTH).unwrap());
    drop((process, replica));

    let process = world.start();
    process.apply(&text("a.wasm", "four"));
    process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active().as_ref(), Some(&one), "a start never ran another");
    let past = rollback::history(client(), "system", &entry()).await.unwrap();
    assert!(past[0].about.revision == one && past[0].held && past[0].until_resumed);

    let ended = rollback::resume(client(), "system", &entry()).await.unwrap();
    assert_eq!(ended.unwrap().revision, one);
    process.see_hold();
    let four = process.active_after(Some(&one)).await;
    assert_ne!(four, one);
    assert_eq!(rollback::resume(client(), "system", &entry()).await.unwrap(), None);
    let missing = rollback::hold_on(client(), "system", &entry(), Some("ffff")).await.unwrap_err();
    assert!(missing.to_string().contains("has no revision ffff"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_to_lead_has_loaded_and_writes_nothing_before_he_leads() {
    let world = World::new("standby");
    let process = world.start();
    process.leads.send_replace(None);
    process.apply(&text("a.wasm", "one"));
    process.shows(|_| process.active().is_some()).await;
    process.apply(&text("a.wasm", "two"));
    let one = process.active();
    process.shows(|_| process.active() != one).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(["POST", "PUT", "PATCH", "DELETE"].map(|method| process.api.count(method, "")), [0; 4]);
    process.leads.send_replace(Some(2));
    let two = process.active_after(None).await;
    assert_eq!(process.active(), Some(two));
    process.kept(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ten_newest_revisions_are_kept() {
    let world = World::new("kept");
    let process = world.start();
    let mut last = None;
    let mut all = Vec::new();
    for image in 0..12 {
        process.apply(&text("a.wasm", &format!("image-{image}")));
        let revision = process.active_after(last.as_deref()).await;
        let kept = format!("/api/v1/namespaces/system/configmaps/egress-revision-{ENTRY}-{revision}");
        process.shows(|_| process.api.object(&kept).is_some()).await;
        process.kept((image + 1).min(10)).await;
        all.push(revision.clone());
        last = Some(revision);
    }
    let kept = rollback::history(world.api.client(), "system", &entry()).await.unwrap();
    let kept: Vec<_> = kept.into_iter().map(|past| past.about.revision).collect();
    let newest: Vec<_> = all.into_iter().rev().take(10).collect();
    assert_eq!(kept, newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_is_no_longer_shown_and_still_serves_what_it_made() {
    let world = World::new("removed");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.entries.apply(read_entries([]));
    process.beside(process.entries.take_over(), process.shows(Value::is_null)).await;
    let active = process.entries.active(ENTRY).unwrap();
    assert!(!active.listed && active.revision == one);
    process.apply(&text("a.wasm", "two"));
    process.active_after(None).await;
    assert!(process.entries.active(ENTRY).unwrap().listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_removed_while_no_operator_ran_is_no_longer_shown() {
    let world = World::new("retired");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    process.active_after(None).await;
    drop(process);
    let foreign = HEALTH.replace(ENTRY, "foreign");
    world.api.put(&foreign, json!({ "metadata": { "name": "foreign" }, "spec": {} }));

    let process = world.start();
    let other = [("other".to_owned(), text("a.wasm", "one"))];
    process.entries.apply(read_entries(other.iter().map(|(key, text)| (key, text))));
    process.beside(process.entries.take_over(), process.shows(Value::is_null)).await;
    process.shows(|_| world.api.object(&HEALTH.replace(ENTRY, "other")).is_some()).await;
    assert!(world.api.object(&foreign).is_some(), "what others made stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_providers_config_map_what_ran_goes_on_before_and_after_a_restart() {
    let world = World::new("unlisted");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    let listed = |health: &Value, wanted: &str| {
        health["status"]["conditions"][1]["type"] == "Listed"
            && health["status"]["conditions"][1]["status"] == wanted
    };
    process.shows(|health| listed(health, "True")).await;
    process.entries.missing();
    let health = process.shows(|health| listed(health, "False")).await;
    let why = health["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(why.contains("there is no ConfigMap system/egress-providers"), "{why}");
    compare("there-is-no-providers-configmap", &health);
    assert_eq!(process.active().as_ref(), Some(&one));
    drop(process);

    let process = world.start();
    process.entries.missing();
    process.beside(process.entries.take_over(), process.shows(|_| process.active().is_some())).await;
    assert_eq!(process.active(), Some(one.clone()));
    let health = process.shows(|health| health["status"]["active"]["revision"] == one.as_str()).await;
    assert!(listed(&health, "False"), "{health:#}");

    process.apply(&text("a.wasm", "two"));
    process.active_after(Some(&one)).await;
    process.shows(|health| listed(health, "True")).await;
    process.entries.apply(read_entries([]));
    process.beside(process.entries.take_over(), process.shows(Value::is_null)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_can_not_be_read_leaves_the_others_alone() {
    let world = World::new("others");
    let process = world.start();
    let data = [
        ("broken".to_owned(), "a: [".to_owned()),
        ("missing".to_owned(), text("none.wasm", "one")),
        (ENTRY.to_owned(), text("a.wasm", "one")),
    ];
    process.entries.apply(read_entries(data.iter().map(|(key, text)| (key, text))));
    process.active_after(None).await;
    let reason = |entry: &str| {
        let health = process.api.object(&HEALTH.replace(ENTRY, entry)).unwrap();
        health["status"]["refusal"]["reason"].clone()
    };
    assert_eq!((reason("broken"), reason("missing")), (json!("EntryUnreadable"), json!("FileMissing")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_fails_for_a_while_costs_nothing_but_time() {
    let world = World::new("outage");
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    world.api.set_broken(true);
    process.apply(&text("a.wasm", "two"));
    process.shows(|_| process.active().as_ref() != Some(&one)).await;
    world.api.set_broken(false);
    let two = process.active_after(Some(&one)).await;
    assert_eq!(process.active(), Some(two));
    process.kept(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_entry_is_neither_loaded_nor_written_again() {
    let world = World::new("unchanged");
    let process = Arc::new(world.start());
    process.apply(&text("a.wasm", "one"));
    process.active_after(None).await;
    process.kept(1).await;
    process.shows(|health| health["status"]["places"][0]["reason"] == "unreachable").await;
    let writes = process.api.count("PATCH", "/providerhealths/");
    // The same bytes in another file: seen, fetched, and found to be what runs.
    world.put("a.wasm", &GUEST);
    process.apply(&text("a.wasm", "one"));
    world.put("c.wasm", &GUEST);
    process.apply(&text("c.wasm", "one"));
    process.shows(|health| health["status"]["active"]["source"] == "file c.wasm").await;
    assert_eq!(process.api.count("PATCH", "/providerhealths/"), writes + 1);
}
