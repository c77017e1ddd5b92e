//! Virtual machines on a real libvirt host: as the sample has it, a Proxy becomes a guest whose Squid cloud-init starts,
//! and web requests go through it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use egress_operator::api::Proxy;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    rbac::v1::{Role, RoleBinding},
};
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::{
    Hypervisor, ImageServer, Lab, Site, Things, Web, eventually, eventually_within, from, get_through,
    kvm_provider, kvm2_provider,
};

/// Its name in the sample.
const IMAGE: &str = "debian-13";
/// An emulated guest on a busy machine.
const BOOT: Duration = Duration::from_secs(600);

/// A document of deploy/samples/kvm2.yaml.
fn sample<T: DeserializeOwned>(kind: &str) -> T {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/kvm2.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    from(documents.into_iter().find(|document| document["kind"] == kind).unwrap())
}

/// The sample's entry, for the lab's host, and images from there.
pub(crate) fn entry(module: &str, hypervisor: &Hypervisor, images: Value, from: &str) -> Value {
    let map: ConfigMap = sample("ConfigMap");
    let mut entry: Value = serde_saphyr::from_str(&map.data.unwrap()["kvm2"]).unwrap();
    entry["module"]["configMap"]["name"] = json!(module);
    entry["config"]["images"] = images;
    entry["config"]["diskSizeGb"] = json!(4);
    entry["config"]["consoleLogs"] = json!("/var/log/libvirt/qemu");
    let host = &mut entry["grants"]["libvirt"]["hosts"]["hv1"];
    host["address"] = json!(hypervisor.address);
    host["user"] = json!("lab");
    entry["grants"]["transfer"]["inside"] = json!([format!("{from}/32")]);
    entry["health"] = json!({ "periodSeconds": 2, "timeoutSeconds": 2 });
    entry
}

/// The way into the host, which the operator may read.
pub(crate) async fn lend_key(site: &Site, hypervisor: &Hypervisor) {
    let secret = BTreeMap::from(["id", "known_hosts"].map(|name| (name.to_owned(), hypervisor.read(name))));
    let secret =
        Secret { string_data: Some(secret), ..from(json!({ "metadata": { "name": "egress-kvm2" } })) };
    site.system.api().create(&PostParams::default(), &secret).await.unwrap();
    let rules = sample::<Role>("Role").rules;
    site.lab
        .apply::<Role>(&site.system.api(), json!({ "metadata": { "name": "egress-kvm2" }, "rules": rules }))
        .await;
    let mut binding = json!(sample::<RoleBinding>("RoleBinding"));
    binding["metadata"]["namespace"] = json!(site.system.name);
    binding["subjects"][0]["namespace"] = json!(site.system.name);
    site.lab.apply::<RoleBinding>(&site.system.api(), binding).await;
}

/// As the sample asks for it, of this entry.
async fn create(site: &Site, entry: &str) {
    let mut spec = sample::<Value>("Proxy")["spec"].clone();
    spec["provider"] = json!(entry);
    let proxy = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy",
                        "metadata": { "name": entry }, "spec": spec });
    site.proxies(0).create(&PostParams::default(), &from(proxy)).await.unwrap();
}

async fn change(site: &Site, name: &str, spec: Value) {
    let change = Patch::Merge(json!({ "spec": spec }));
    site.proxies(0).patch(name, &PatchParams::default(), &change).await.unwrap();
}

/// Until probes of the operator went through the instance of this incarnation.
async fn healthy(site: &Site, name: &str, incarnation: u32) -> Proxy {
    let proxies = site.proxies(0);
    eventually_within(BOOT, &format!("{name} is healthy"), async || {
        let proxy = proxies.get(name).await.map_err(|error| error.to_string())?;
        let status = proxy.status.clone().unwrap_or_default();
        let is_so = |kind: &str| status.conditions.iter().any(|it| it.type_ == kind && it.status == "True");
        let now =
            proxy.metadata.generation == status.observed_generation && status.incarnation == incarnation;
        if now && is_so("Ready") && is_so("Healthy") { Ok(proxy) } else { Err(json!(status).to_string()) }
    })
    .await
}

fn instance(proxy: &Proxy) -> String {
    proxy.status.as_ref().unwrap().instance.as_ref().unwrap().name.clone()
}

fn address(proxy: &Proxy) -> String {
    format!("{}:{}", proxy.status.as_ref().unwrap().address.as_ref().unwrap(), proxy.spec.port)
}

/// What bears a machine's name.
fn of(things: &Things, name: &str) -> Vec<String> {
    things.iter().filter(|thing| thing.contains(name)).cloned().collect()
}

fn parts(name: &str, nvram: bool) -> Vec<String> {
    let mut parts = vec![format!("domain {name}")];
    parts.extend(nvram.then(|| format!("nvram {name}_VARS.fd")));
    parts.extend([format!("volume {name}-seed.iso"), format!("volume {name}.qcow2")]);
    parts
}

/// From its wish to its end, replaced once by `changed`.
async fn lives(site: &Site, hypervisor: &Hypervisor, web: &Web, entry: &str, nvram: bool, changed: Value) {
    let server = format!("{}:{}", hypervisor.here(), web.port);
    create(site, entry).await;
    let first = healthy(site, entry, 1).await;
    println!("{entry}: {} serves at {}", instance(&first), address(&first));
    let console = format!("cat /var/log/libvirt/qemu/{}.console.log", instance(&first));
    eventually_within(BOOT, "cloud-init says that it took the seed", async || {
        let said = hypervisor.within(&console);
        if said.contains("Datasource DataSourceNoCloud") { Ok(()) } else { Err(said) }
    })
    .await;
    let path = format!("/{entry}/first");
    assert_eq!(get_through(&address(&first), &server, &path).await, Ok(web.answer_to(&path)));
    assert_eq!(of(&hypervisor.things(), &instance(&first)), parts(&instance(&first), nvram));

    change(site, entry, changed).await;
    let second = healthy(site, entry, 2).await;
    println!("{entry}: replaced by {} at {}", instance(&second), address(&second));
    let things = hypervisor.things();
    assert_eq!(of(&things, &instance(&first)), [""; 0]);
    assert_eq!(of(&things, &instance(&second)), parts(&instance(&second), nvram));
    site.delete(0, entry).await;
}

#[tokio::test]
async fn a_proxy_becomes_a_machine_that_serves_is_replaced_and_leaves_nothing() {
    let (lab, hypervisor) = (Lab::new().await, Hypervisor::new());
    let site = Site::new(&lab, "kvm", 1).await;
    let web = Web::start().await;
    let (cloud, tiny) = (ImageServer::of("HYPERVISOR_GUEST").await, ImageServer::of("HYPERVISOR_TINY").await);
    lend_key(&site, &hypervisor).await;

    for (name, component) in [("kvm2", kvm2_provider()), ("kvm", kvm_provider())] {
        site.put_module_as(name, &zstd::encode_all(&*component, 9).unwrap()).await;
    }
    let kvm2 = json!({ IMAGE: { "url": cloud.url } });
    let kvm = json!({ IMAGE: { "url": cloud.url, "firmware": "bios" },
                      "tiny": { "url": tiny.url, "firmware": "bios" } });
    let mut entries = [("kvm2", kvm2), ("kvm", kvm)].map(|(name, images)| {
        // The cluster has one of this name.
        let mut entry = entry(name, &hypervisor, images, "127.0.0.1");
        entry["health"]["url"] = json!(format!("http://{}:{}/probe", hypervisor.here(), web.port));
        (format!("{}-{name}", &site.entry), entry)
    });
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    let before = hypervisor.things();
    let _epo = site.start(&[]).await;

    let cloud_init = sample::<Value>("Proxy")["spec"]["cloudInit"]["inline"].as_str().unwrap().to_owned();
    let marked = cloud_init.replace("cache deny all", "cache deny all\n            http_port 3129");
    assert_ne!(marked, cloud_init);
    let another_port = json!({ "port": 3129, "cloudInit": { "inline": marked } });
    let another_image = json!({ "placement": { "image": "tiny" } });
    tokio::join!(
        lives(&site, &hypervisor, &web, &entries[0].0, true, another_port),
        lives(&site, &hypervisor, &web, &entries[1].0, false, another_image),
    );

    // What is left is shared, and goes by the collector.
    let left: Vec<String> = hypervisor.things().difference(&before).cloned().collect();
    assert!(left.iter().all(|thing| thing.starts_with("volume proxy-base-")), "{left:?}");
    for (_, entry) in &mut entries {
        entry["collect"] = json!({ "intervalSeconds": 1, "graceSeconds": 1 });
    }
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    eventually("the base images are collected", async || {
        let now = hypervisor.things();
        if now == before { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}
