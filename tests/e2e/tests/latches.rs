//! What sets a permanent failure free, where nobody touches the Proxy: long before it is tried again by itself.

use egress_operator::api::ProxyStatus;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::DeleteParams;
use serde_json::json;

use crate::harness::{Lab, Site, Wanted, eventually, kubernetes_provider, misbehaving};

/// Until the Proxy rests on a permanent failure.
async fn latched(site: &Site, name: &str) -> ProxyStatus {
    let proxies = site.proxies(0);
    let status = eventually("it rests on a permanent failure", async || {
        let status = proxies.get(name).await.map_err(|e| e.to_string())?.status.unwrap_or_default();
        let permanent = status.failure.as_ref().is_some_and(|failure| failure.class == "permanent");
        if permanent { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    let failure = status.failure.clone().unwrap();
    let (at, retry_at) = (failure.at.unwrap().0, failure.retry_at.unwrap().0);
    assert!(retry_at.duration_since(at).as_secs() >= 3600, "by itself it waits for an hour");
    status
}

#[tokio::test]
async fn a_right_that_was_missing_is_granted() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "granted", 1).await;
    let bindings = site.teams[0].api::<RoleBinding>();
    bindings.delete("egress-instances", &DeleteParams::default()).await.unwrap();
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let _epo = site.start(&[]).await;
    site.health(&site.entry, "its place lacks rights", |status| {
        status.places.iter().find(|place| !place.ready && place.reason != "unchecked").cloned()
    })
    .await;
    site.create(0, "web", Wanted::default()).await;
    let status = latched(&site, "web").await;
    println!("{}", status.message.unwrap_or_default());
    site.grant_team(&site.teams[0]).await;
    site.ready(0, "web").await;
    let recovered = site
        .health(&site.entry, "its place came back", |status| {
            status.places.iter().find_map(|place| place.recovered.clone())
        })
        .await;
    println!("the place came back at {}", recovered.0);
    site.delete(0, "web").await;
}

#[tokio::test]
async fn a_provider_that_was_broken_is_replaced() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "mended", 1).await;
    site.put_module(&misbehaving()).await;
    let broken = json!({ "do": "refuse", "in": "create" });
    site.put_entry(&site.misbehaving_entry(broken)).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    let status = latched(&site, "web").await;
    assert!(status.message.unwrap().contains("this build makes nothing"));
    site.put_module_as("mended", &kubernetes_provider()).await;
    let mut entry = site.kubernetes_entry();
    entry["module"]["configMap"]["name"] = json!("mended");
    site.put_entry(&entry).await;
    let mended = site.ready(0, "web").await.status.unwrap();
    assert_eq!(mended.incarnation, status.incarnation, "nothing was made that had to go first");
    site.delete(0, "web").await;
}
