//! What has no Proxy goes, when it may; and when much has none at once, people are asked.

use std::{process::Command, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::harness::{Lab, Site, Wanted, eventually, from, kubernetes_provider, program, shows};

/// What was made by hand, as the operator would have, for a Proxy that never was.
async fn forge(site: &Site, like: &Pod, number: usize) -> String {
    let mut labels = like.labels().clone();
    let uid = labels.keys().find(|key| key.ends_with("uid")).expect("a UID in the mark").clone();
    labels.insert(uid, format!("00000000-0000-4000-8000-{number:012}"));
    let name = like.name_any();
    let installation = name.rsplit('-').nth(1).expect("the installation's part");
    let name = format!(
        "proxy-forged-{installation}-forged{}",
        char::from(b'a' + number as u8).to_string().repeat(2)
    );
    let mut spec = serde_json::to_value(like.spec.as_ref().expect("a spec")).unwrap();
    let fields = spec.as_object_mut().unwrap();
    fields.remove("nodeName");
    // Squid's config is not there, and nothing here needs it to run.
    fields.remove("volumes");
    for container in spec["containers"].as_array_mut().unwrap() {
        container.as_object_mut().unwrap().remove("volumeMounts");
    }
    let pod = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
    let pods: Api<Pod> = site.teams[0].api();
    pods.create(&PostParams::default(), &from(pod)).await.expect("a forged Pod");
    name
}

async fn pods(site: &Site) -> Vec<String> {
    let mut names: Vec<String> = site.pods().await.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

async fn only(site: &Site, wanted: &str) {
    eventually("only the Proxy's own Pod is there", async || {
        let there = pods(site).await;
        if there == [wanted] { Ok(()) } else { Err(there) }
    })
    .await;
}

fn orphans(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    command.args(["orphans", &site.entry]).args(arguments).arg("--kubeconfig").arg(&site.lab.kubeconfig);
    let output = command.output().expect("epo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn collected_soon(site: &Site) -> Value {
    let mut entry = site.kubernetes_entry();
    entry["collect"] = json!({ "intervalSeconds": 2, "graceSeconds": 3 });
    entry
}

/// An orphan beside its pattern, over several sweeps and the grace.
async fn both_stay(site: &Site, own: &Pod, orphan: String) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut both = vec![own.name_any(), orphan];
    both.sort();
    assert_eq!(pods(site).await, both);
}

#[tokio::test]
async fn one_that_nobody_owns_goes_with_what_belongs_to_it_and_no_other_does() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "orphan", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&collected_soon(&site)).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    let before = site.objects().await;
    let own = site.pods().await.remove(0);

    let name = forge(&site, &own, 0).await;
    // What a Pod leaves behind bears the same name and mark; here there is no Pod to it.
    let labels = own.labels().clone();
    let uid = labels.keys().find(|key| key.ends_with("uid")).unwrap().clone();
    let mut labels = labels;
    labels.insert(uid, "00000000-0000-4000-8000-000000000099".to_owned());
    let leftover = format!("{}zz", name.get(..name.len() - 2).unwrap());
    let config =
        json!({ "metadata": { "name": leftover, "labels": labels }, "data": { "squid.conf": "# nothing" } });
    let maps: Api<ConfigMap> = site.teams[0].api();
    maps.create(&PostParams::default(), &from(config)).await.unwrap();

    only(&site, &own.name_any()).await;
    eventually("all is as before", async || {
        let now = site.objects().await;
        if now == before { Ok(()) } else { Err(now) }
    })
    .await;
    site.ready(0, "web").await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn nothing_goes_while_the_proxies_can_not_be_read() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "unread", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&collected_soon(&site)).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    let own = site.pods().await.remove(0);
    site.may_see("proxies", false).await;
    let unread = async || {
        site.health(&site.entry, "it says that it can't read the Proxies", |status| {
            let halted = status.collector.halted.as_ref()?;
            halted.contains("can't read the Proxies").then_some(())
        })
        .await;
    };
    unread().await;
    let name = forge(&site, &own, 0).await;
    both_stay(&site, &own, name).await;
    unread().await;
    site.may_see("proxies", true).await;
    only(&site, &own.name_any()).await;
    site.ready(0, "web").await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn a_removed_entry_tells_what_nobody_owns_and_collects_it_when_it_is_back() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "left", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&collected_soon(&site)).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    let own = site.pods().await.remove(0);
    site.put_entries([]).await;
    site.health(&site.entry, "it is kept for its Proxy", |status| {
        let listed = status.conditions.iter().find(|condition| condition.type_ == "Listed")?;
        (listed.reason == "EntryRemoved").then_some(())
    })
    .await;
    let name = forge(&site, &own, 0).await;
    site.health(&site.entry, "it tells the orphan", |status| {
        let orphan = status.collector.ownerless.iter().find(|orphan| orphan.name == name)?;
        orphan.message.contains("its entry was removed").then_some(())
    })
    .await;
    both_stay(&site, &own, name).await;
    site.put_entry(&collected_soon(&site)).await;
    only(&site, &own.name_any()).await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn many_wait_for_a_word_about_exactly_them() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "many", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&collected_soon(&site)).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    let own = site.pods().await.remove(0);
    for number in 0..3 {
        forge(&site, &own, number).await;
    }
    let sweep = site
        .health(&site.entry, "the collector asks", |status| {
            let asks = status.collector.asks.as_ref()?;
            (status.collector.ownerless.len() == 3).then(|| asks.sweep.clone())
        })
        .await;
    shows(&lab, "the-collector-asks", &["providerhealth", &site.entry]).await;
    let told = orphans(&site, &[]);
    assert!(told.contains("proxy-forged-") && told.contains("waits for your word"), "{told}");
    assert!(told.contains(&format!("egressproxies.dev/collect={sweep}")), "{told}");
    assert_eq!(pods(&site).await.len(), 4);
    let said = orphans(&site, &["--delete"]);
    assert!(said.contains(&sweep), "{said}");
    only(&site, &own.name_any()).await;
    site.health(&site.entry, "nothing is asked any more", |status| {
        status.collector.asks.is_none().then_some(())
    })
    .await;
    site.delete(0, "web").await;
}
