//! A swap that proves itself, and what stays when an entry goes.

use std::process::Command;

use egress_operator::api::{ProviderHealth, Proxy};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{
    Lab, Site, Wanted, another_build, eventually, kubernetes_provider, misbehaving, mutants, program,
};

/// The command line, as an engineer types it: its exit code, and both outputs.
async fn epo(site: &Site, arguments: &[&str]) -> (i32, String) {
    let kubeconfig = site.operator_kubeconfig().await;
    let namespace = &site.system.name;
    let output = Command::new(program())
        .args(arguments)
        .args(["--namespace", namespace, "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .expect("epo runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an exit code"), String::from_utf8_lossy(&said).into_owned())
}

fn of_module(mut entry: Value, module: &str) -> Value {
    entry["module"]["configMap"]["name"] = json!(module);
    entry
}

#[tokio::test]
async fn a_component_that_sees_less_is_refused_with_the_difference_and_a_good_one_goes_through() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "shadow", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let _epo = site.start(&[]).await;
    let first = site.active(&kubernetes_provider()).await;
    site.create(0, "web", Wanted::default()).await;
    let instance = site.ready(0, "web").await.status.unwrap().instance.unwrap();

    site.put_module_as("worse", &mutants()).await;
    for (mutant, path) in [
        ("items-by-name", format!("places.home.instances.{}: revision {first}", instance.name)),
        ("never-ready", "places.home.check: it is ready for revision".to_owned()),
    ] {
        let mut worse = of_module(site.kubernetes_entry(), "worse");
        worse["config"]["mutant"] = json!(mutant);
        site.put_entry(&worse).await;
        let (active, faults) = site
            .health(&site.entry, "what sees less is refused", |status| {
                let refusal = status.refusal.as_ref().filter(|refusal| refusal.stage == "shadow")?;
                let seen = refusal.faults.iter().any(|fault| fault.starts_with(&path));
                seen.then(|| (status.active.clone(), refusal.faults.clone()))
            })
            .await;
        println!("{mutant}: {faults:#?}");
        assert_eq!(active.unwrap().revision, first, "what ran goes on");
    }
    site.ready(0, "web").await;

    // Beforehand, from an engineer's machine: the entry still asks for the mutant that is never ready.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mutants.wasm");
    std::fs::write(&file, mutants()).unwrap();
    let shadow = ["provider", "shadow", file.to_str().unwrap(), "--entry", &site.entry];
    let (code, said) = epo(&site, &shadow).await;
    assert!(code == 1 && said.contains("- places.home.check"), "{code}: {said}");
    site.put_entry(&of_module(site.kubernetes_entry(), "worse")).await;
    let (code, said) = epo(&site, &shadow).await;
    assert!(code == 0 && said.contains("it sees no less than what runs"), "{code}: {said}");
    let second = site.active(&mutants()).await;
    assert_ne!(second, first);
    site.health(&site.entry, "nothing is refused", |status| status.refusal.is_none().then_some(())).await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn a_hold_by_hand_holds_over_a_restart() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "hold", 1).await;
    let builds = ["one", "two", "three"].map(|note| another_build(&kubernetes_provider(), note));
    site.put_module(&builds[0]).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let running = site.start(&[]).await;
    let one = site.active(&builds[0]).await;
    eventually("the revision is kept, and held", async || {
        match epo(&site, &["provider", "hold", &site.entry]).await {
            (0, _) => Ok(()),
            (code, said) => Err(format!("{code}: {said}")),
        }
    })
    .await;
    site.put_module(&builds[1]).await;
    let offered = async |before: &str| {
        site.health(&site.entry, "something else is offered, and not run", |status| {
            let offered = status.offered.clone().filter(|offered| offered != before)?;
            (status.active.as_ref()?.revision == one).then_some(offered)
        })
        .await
    };
    let two = offered(&one).await;
    running.kill();
    site.put_module(&builds[2]).await;
    let _epo = site.start(&[]).await;
    let three = site
        .health(&site.entry, "the third is offered, and not run", |status| {
            let offered = status.offered.clone().filter(|offered| *offered != one && *offered != two)?;
            (status.active.as_ref()?.revision == one).then_some(offered)
        })
        .await;
    let (code, said) = epo(&site, &["provider", "history", &site.entry]).await;
    assert!(code == 0 && said.contains("held until resumed"), "{code}: {said}");
    let (code, said) = epo(&site, &["provider", "resume", &site.entry]).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(site.active(&builds[2]).await, three);
}

#[tokio::test]
async fn the_proxies_of_a_removed_entry_are_deleted_after_a_restart_too() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "removed", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let before = site.objects().await;
    let running = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.create(0, "mail", Wanted::default()).await;
    site.ready(0, "web").await;
    site.ready(0, "mail").await;
    let api: Api<ProviderHealth> = Api::all(lab.client.clone());
    eventually("the revision is kept", async || {
        let (_, said) = epo(&site, &["provider", "history", &site.entry]).await;
        if said.contains("not kept yet") { Err(said) } else { Ok(()) }
    })
    .await;
    site.put_entries([]).await;
    let left = async |wanted: &str| {
        site.health(&site.entry, "it says who still needs it", |status| {
            let listed = status.conditions.iter().find(|condition| condition.type_ == "Listed")?;
            (listed.reason == "EntryRemoved" && listed.message.contains(wanted)).then_some(())
        })
        .await;
    };
    left("2 Proxies").await;
    site.delete(0, "web").await;
    running.kill();

    let _epo = site.start(&[]).await;
    left("1 Proxies").await;
    site.delete(0, "mail").await;
    assert_eq!(site.objects().await, before, "nothing is left");
    eventually("its ProviderHealth goes when nobody needs it", async || {
        match api.get_opt(&site.entry).await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(health) => Err(format!("{:?}", health.status)),
        }
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_is_abandoned_goes_and_its_instance_is_named() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "abandon", 1).await;
    site.put_module(&misbehaving()).await;
    site.put_entry(&site.misbehaving_entry(json!({ "do": "trap", "in": "delete" }))).await;
    let _epo = site.start(&[]).await;
    let proxies = site.proxies(0);
    let created = site.create(0, "web", Wanted::default()).await;
    let uid = created.metadata.uid.unwrap();
    let name = eventually("an instance is begun", async || {
        let proxy = proxies.get("web").await.map_err(|e| e.to_string())?;
        let instance = proxy.status.and_then(|status| status.instance);
        instance.map(|instance| instance.name).ok_or_else(|| "none yet".to_owned())
    })
    .await;
    proxies.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("its removal was tried in vain", async || {
        let proxy: Proxy = proxies.get("web").await.map_err(|e| e.to_string())?;
        let failure = proxy.status.and_then(|status| status.failure);
        failure.filter(|failure| failure.reason == "trap").map(drop).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    let asked = json!({ "metadata": { "annotations": { "egressproxies.dev/abandon": "true" } } });
    proxies.patch("web", &PatchParams::default(), &Patch::Merge(asked)).await.unwrap();
    eventually("it is gone", async || {
        let left = proxies.get_opt("web").await.map_err(|e| e.to_string())?;
        if left.is_none() { Ok(()) } else { Err("it is there".to_owned()) }
    })
    .await;
    let events: Api<Event> = site.teams[0].api();
    eventually("an Event names what was left", async || {
        let told = events.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
        let of_it = |event: &&Event| {
            event.regarding.as_ref().is_some_and(|about| about.uid.as_deref() == Some(uid.as_str()))
                && event.reason.as_deref() == Some("Abandoned")
        };
        let told = told.iter().find(of_it).and_then(|event| event.note.clone()).ok_or("no such Event")?;
        if told.contains(&name) { Ok(()) } else { Err(told) }
    })
    .await;
}
