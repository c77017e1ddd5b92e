//! A revision that makes the next Proxy before it gets all calls: what fails in create is put aside, and what is good
//! goes through.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Lab, Site, Wanted, mutants};

fn on_trial(site: &Site, mutant: &str, within_seconds: u32) -> Value {
    let mut entry = site.kubernetes_entry();
    entry["config"]["mutant"] = json!(mutant);
    entry["rollout"] = json!({ "firstProxies": 1, "withinSeconds": within_seconds });
    entry
}

/// Until a revision that was not there before is on trial and was begun.
async fn trial(site: &Site, known: &[&str]) -> String {
    site.health(&site.entry, "a revision is on trial", |status| {
        let revision = status.canary.as_ref()?.revision.clone();
        (!known.contains(&revision.as_str())).then_some(revision)
    })
    .await
}

/// The hold against a revision, with its reason.
async fn put_aside(lab: &Lab, site: &Site, revision: &str) -> String {
    let api: kube::Api<egress_operator::api::ProviderHealth> = kube::Api::all(lab.client.clone());
    crate::harness::eventually("it is put aside", async || {
        let health = api.get(&site.entry).await.map_err(|e| e.to_string())?;
        let hold = health.spec.hold.ok_or("no hold yet")?;
        if hold.instead_of.as_deref() != Some(revision) {
            return Err(format!("{hold:?}"));
        }
        hold.reason.ok_or_else(|| "a hold without a reason".to_owned())
    })
    .await
}

#[tokio::test]
async fn what_fails_in_create_is_put_aside_also_if_the_operator_is_killed_meanwhile_and_a_good_one_goes_through()
 {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "canary", 1).await;
    site.put_module(&mutants()).await;
    site.put_entry(&on_trial(&site, "", 60)).await;
    let running = site.start(&[]).await;
    let first = site.active(&mutants()).await;

    site.put_entry(&on_trial(&site, "traps-in-create", 60)).await;
    let trapping = trial(&site, &[&first]).await;
    site.create(0, "one", Wanted::default()).await;
    let reason = put_aside(&lab, &site, &trapping).await;
    assert!(reason.contains("/one: create failed (trap)"), "{reason}");
    // What it could not make is made by what runs.
    let made = site.ready(0, "one").await.status.unwrap();
    assert_eq!(made.instance.unwrap().created_by.as_deref(), Some(first.as_str()));

    site.put_entry(&on_trial(&site, "is-never-done", 4)).await;
    let slow = trial(&site, &[&first, &trapping]).await;
    site.create(0, "two", Wanted::default()).await;
    site.health(&site.entry, "it makes one", |status| {
        status.canary.as_ref().filter(|canary| canary.made == 1).map(drop)
    })
    .await;
    running.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _epo = site.start(&[]).await;
    let reason = put_aside(&lab, &site, &slow).await;
    assert!(reason.ends_with("/two was not ready within 4 s"), "{reason}");
    site.ready(0, "two").await;

    let mut mended = on_trial(&site, "", 60);
    mended["config"]["squid"]["shutdownSeconds"] = json!(2);
    site.put_entry(&mended).await;
    let good = trial(&site, &[&first, &trapping, &slow]).await;
    site.create(0, "three", Wanted::default()).await;
    let active = site
        .health(&site.entry, "it is adopted", |status| {
            let active = status.active.as_ref()?.revision.clone();
            (active != first && status.canary.is_none()).then_some(active)
        })
        .await;
    assert_eq!(active, good);
    let made = site.ready(0, "three").await.status.unwrap();
    assert_eq!(made.instance.unwrap().created_by, Some(good));
    for name in ["one", "two", "three"] {
        site.delete(0, name).await;
    }
}
