//! A Proxy from its wish to its end, asked for as people ask.

use egress_operator::api::Proxy;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{
    Lab, Site, Wanted, Web, connect_through, eventually, get_through, kubectl, kubernetes_provider,
};

fn proxy_address(proxy: &Proxy) -> String {
    let status = proxy.status.as_ref().expect("a status");
    format!("{}:{}", status.address.as_deref().expect("an address"), proxy.spec.port)
}

fn instance_name(proxy: &Proxy) -> String {
    proxy.status.as_ref().and_then(|status| status.instance.as_ref()).expect("an instance").name.clone()
}

async fn change_port(proxies: &Api<Proxy>, name: &str, port: u16) {
    let change = Patch::Merge(json!({ "spec": { "port": port } }));
    proxies.patch(name, &PatchParams::default(), &change).await.unwrap();
}

#[tokio::test]
async fn a_proxy_comes_serves_is_replaced_and_leaves_nothing() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "life", 1).await;
    site.put_module(&kubernetes_provider()).await;
    let web = Web::start().await;
    let mut entry = site.kubernetes_entry();
    entry["config"]["squid"]["connectPorts"] = json!([443, web.port]);
    site.put_entry(&entry).await;
    let before = site.objects().await;
    let _epo = site.start(&[]).await;

    site.create(0, "web", Wanted::default()).await;
    let first = site.ready(0, "web").await;
    let server = web.at(first.status.as_ref().unwrap().address.as_ref().unwrap());
    let proxy = proxy_address(&first);
    assert!(proxy.ends_with(":3128"), "{proxy}");
    assert_eq!(get_through(&proxy, &server, "/plain").await, Ok(web.answer_to("/plain")));
    assert_eq!(connect_through(&proxy, &server, "/tunnel").await, Ok(web.answer_to("/tunnel")));

    let pods = site.pods().await;
    assert_eq!(pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), [instance_name(&first)]);
    change_port(&site.proxies(0), "web", 3129).await;
    let second = site.ready(0, "web").await;
    let proxy = proxy_address(&second);
    assert!(proxy.ends_with(":3129"), "{proxy}");
    assert_eq!(get_through(&proxy, &server, "/again").await, Ok(web.answer_to("/again")));
    assert_eq!(second.status.as_ref().unwrap().incarnation, first.status.as_ref().unwrap().incarnation + 1);
    let replaced = site.pods().await;
    assert_eq!(replaced.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), [instance_name(&second)]);
    assert_ne!(replaced[0].uid(), pods[0].uid());

    site.delete(0, "web").await;
    assert_eq!(site.objects().await, before);
    assert_eq!(web.asked(), 3);
}

#[tokio::test]
async fn two_proxies_of_one_name_in_two_namespaces_do_not_meet() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "twins", 2).await;
    site.put_module(&kubernetes_provider()).await;
    // Both instances in one namespace, where only their names and marks keep them apart.
    let mut entry = site.kubernetes_entry();
    entry["config"].as_object_mut().unwrap().remove("namespaces");
    entry["config"]["namespace"] = json!(site.teams[0].name);
    site.put_entry(&entry).await;
    let before = site.objects().await;
    let _epo = site.start(&[]).await;
    for (team, port) in [(0, 3128), (1, 3129)] {
        site.create(team, "web", Wanted { port: Some(port), ..Wanted::default() }).await;
    }
    let (one, two) = (site.ready(0, "web").await, site.ready(1, "web").await);
    assert_ne!(instance_name(&one), instance_name(&two));
    let web = Web::start().await;
    for proxy in [&one, &two] {
        let server = web.at(proxy.status.as_ref().unwrap().address.as_ref().unwrap());
        assert_eq!(get_through(&proxy_address(proxy), &server, "/x").await, Ok(web.answer_to("/x")));
    }
    site.delete(0, "web").await;
    let left: Vec<_> = site.pods().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, [instance_name(&two)]);
    let server = web.at(two.status.as_ref().unwrap().address.as_ref().unwrap());
    assert_eq!(get_through(&proxy_address(&two), &server, "/y").await, Ok(web.answer_to("/y")));
    site.delete(1, "web").await;
    assert_eq!(site.objects().await, before);
}

#[tokio::test]
async fn kubectl_waits_for_it_and_shows_it() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "kubectl", 1).await;
    site.put_module(&kubernetes_provider()).await;
    let mut entry = site.kubernetes_entry();
    // Without a URL: whether the port takes connections.
    entry["health"] = json!({ "periodSeconds": 1, "timeoutSeconds": 1 });
    site.put_entry(&entry).await;
    let _epo = site.start(&[]).await;
    site.active(&kubernetes_provider()).await;
    let team = site.teams[0].name.clone();
    site.create(0, "web", Wanted::default()).await;
    for condition in ["Ready", "Healthy"] {
        let condition = format!("--for=condition={condition}");
        kubectl(&lab, &["wait", "-n", &team, &condition, "proxy/web", "--timeout=180s"]);
    }
    kubectl(
        &lab,
        &["wait", "--for=condition=Ready", &format!("providerhealth/{}", site.entry), "--timeout=60s"],
    );
    let table = kubectl(&lab, &["get", "proxies", "-n", &team]);
    assert!(table.contains("PHASE") && table.contains("Running"), "{table}");
    let health = kubectl(&lab, &["get", "providerhealths"]);
    assert!(health.contains(&site.entry), "{health}");
    kubectl(&lab, &["delete", "proxy", "web", "-n", &team, "--timeout=180s"]);
}

#[tokio::test]
async fn a_proxy_waits_for_an_entry_that_is_missing_and_goes_on_when_it_comes() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "missing", 1).await;
    site.put_entries([]).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    let proxies = site.proxies(0);
    eventually("it waits", async || {
        let status = json!(proxies.get("web").await.unwrap().status);
        if status["phase"] == "Waiting" { Ok(()) } else { Err(status) }
    })
    .await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    site.ready(0, "web").await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn an_operator_that_is_asked_to_end_ends_well_and_its_successor_goes_on() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "end", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    let status = epo.terminate().await;
    assert!(status.success(), "{status}");
    let epo = site.start(&[]).await;
    let uid = site.ready(0, "web").await.uid();
    let pods = site.pods().await;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].owner_references().first().map(|owner| &owner.uid), uid.as_ref());
    // A Proxy that goes while nobody is there goes when somebody comes.
    epo.terminate().await;
    let proxies = site.proxies(0);
    proxies.delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    let _epo = site.start(&[]).await;
    eventually("it is gone", async || match proxies.get_opt("web").await.unwrap() {
        None => Ok(()),
        Some(proxy) => Err(json!(proxy.status)),
    })
    .await;
    assert_eq!(site.pods().await.len(), 0);
}

#[tokio::test]
async fn a_placement_that_can_not_be_honoured_is_told_with_its_field() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "placement", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let _epo = site.start(&[]).await;
    let proxies = site.proxies(0);
    let proxy: Value = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy", "metadata": { "name": "web" },
                               "spec": { "provider": site.entry, "placement": { "region": "eu" } } });
    let proxy = serde_json::from_value(proxy).unwrap();
    proxies.create(&kube::api::PostParams::default(), &proxy).await.unwrap();
    let failure = eventually("it fails", async || {
        let status = proxies.get("web").await.unwrap().status.unwrap_or_default();
        status.failure.clone().ok_or(status)
    })
    .await;
    assert_eq!(failure.class, "permanent");
    assert!(failure.message.contains("region"), "{}", failure.message);
    assert_eq!(site.pods().await.len(), 0);
    site.delete(0, "web").await;
}
