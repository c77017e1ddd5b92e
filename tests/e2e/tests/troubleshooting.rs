//! One of each failure at once, and what an engineer sees of it who has `kubectl` and nothing else: each is compared
//! with its entry in docs/troubleshooting.md, word for word.

use std::collections::BTreeMap;

use egress_contract::Installation;
use k8s_openapi::api::{
    core::v1::{ConfigMap, ResourceQuota, Secret},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{Lab, Site, Wanted, eventually, kubectl, kubernetes_provider, misbehaving, shows};

/// Of what the cluster has, what a symptom is shown at.
#[derive(Clone)]
enum At {
    /// A Proxy: the number of its team, and its name.
    Proxy(usize, &'static str),
    /// An entry, by what its name has behind the site's.
    Entry(&'static str),
}

/// Each symptom, by the anchor of its entry in the page.
const SYMPTOMS: [(&str, At); 26] = [
    ("its-provider-entry-does-not-exist", At::Proxy(0, "no-entry")),
    ("its-provider-entry-has-no-revision", At::Proxy(0, "no-revision")),
    ("its-placement-cannot-be-honoured", At::Proxy(0, "placed")),
    ("its-provider-takes-no-user-data", At::Proxy(0, "user-data")),
    ("its-secret-or-configmap-is-missing", At::Proxy(0, "no-secret")),
    ("its-secret-may-not-be-read", At::Proxy(1, "no-right-to-it")),
    ("its-image-can-not-be-pulled", At::Proxy(0, "image")),
    ("no-node-takes-it", At::Proxy(0, "picky")),
    ("a-right-is-missing-in-its-namespace", At::Proxy(1, "forbidden")),
    ("a-rule-is-missing-in-the-grant", At::Proxy(0, "lean")),
    ("a-quota-is-used-up", At::Proxy(2, "quota")),
    ("its-namespace-is-not-served", At::Proxy(1, "elsewhere")),
    ("somebody-else-has-its-name", At::Proxy(0, "taken")),
    ("the-provider-traps", At::Proxy(0, "trap")),
    ("a-limit-is-hit", At::Proxy(0, "loop")),
    ("the-backend-is-out-of-reach", At::Proxy(0, "down")),
    ("the-entry-can-not-be-read", At::Entry("-yaml")),
    ("the-entry-has-faults", At::Entry("-typo")),
    ("the-modules-configmap-is-missing", At::Entry("-nomod")),
    ("the-configmap-lacks-the-key", At::Entry("-nokey")),
    ("the-module-is-another-than-the-pinned-one", At::Entry("-pinned")),
    ("the-module-is-no-component", At::Entry("-junk")),
    ("the-config-is-refused", At::Entry("-config")),
    ("an-import-is-not-granted", At::Entry("-grant")),
    ("a-place-is-out-of-reach", At::Entry("-down")),
    ("a-place-refuses-the-credentials", At::Entry("-token")),
];

/// A kubeconfig for a server that nobody listens at, or with a token that nobody issued.
fn kubeconfig(site: &Site, folder: &tempfile::TempDir, name: &str, down: bool) -> Value {
    let path = folder.path().join(name);
    site.lab.write_kubeconfig(&path, json!({ "token": "nobody-issued-this" }));
    if down {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:9");
        std::fs::write(&path, config.to_string()).unwrap();
    }
    json!({ "file": path.to_str().unwrap() })
}

/// Every entry, by what its name has behind the site's.
fn entries(site: &Site, folder: &tempfile::TempDir) -> Vec<(&'static str, Value)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut entry = site.kubernetes_entry();
        change(&mut entry);
        entry
    };
    let home = |entry: &mut Value, change: Value| {
        let rules = entry["grants"]["kubernetes"]["clusters"]["home"]["rules"].clone();
        let mut home = change;
        home["rules"] = rules;
        entry["grants"]["kubernetes"]["clusters"]["home"] = home;
    };
    let misbehaves = |config: Value| {
        let mut entry = site.misbehaving_entry(config);
        entry["module"]["configMap"]["name"] = json!("misbehaving");
        entry["limits"] = json!({ "computeMs": 100 });
        entry
    };
    vec![
        ("", with(&|_| {})),
        ("-typo", with(&|entry| entry["limits"] = json!({ "memoryByte": 1 }))),
        ("-nomod", with(&|entry| entry["module"]["configMap"]["name"] = json!("nowhere"))),
        ("-nokey", with(&|entry| entry["module"]["configMap"]["key"] = json!("other.wasm"))),
        ("-pinned", with(&|entry| entry["module"]["digest"] = json!(format!("sha256:{}", "0".repeat(64))))),
        ("-junk", with(&|entry| entry["module"]["configMap"]["name"] = json!("junk"))),
        ("-config", with(&|entry| entry["config"]["image"] = json!("a b"))),
        ("-grant", with(&|entry| entry["grants"] = json!({}))),
        ("-image", with(&|entry| entry["config"]["image"] = json!("docker.io/lab/nothing:1"))),
        ("-picky", with(&|entry| entry["config"]["nodeSelector"] = json!({ "disk": "tape" }))),
        (
            "-lean",
            with(&|entry| {
                entry["grants"]["kubernetes"]["clusters"]["home"]["rules"][0]["resources"] = json!(["pods"]);
            }),
        ),
        ("-few", with(&|entry| entry["config"]["namespaces"] = json!([site.teams[0].name]))),
        (
            "-down",
            with(&|entry| home(entry, json!({ "kubeconfig": kubeconfig(site, folder, "down", true) }))),
        ),
        (
            "-token",
            with(&|entry| home(entry, json!({ "kubeconfig": kubeconfig(site, folder, "token", false) }))),
        ),
        ("-trap", misbehaves(json!({ "do": "trap", "in": "create" }))),
        ("-loop", misbehaves(json!({ "do": "loop", "in": "create" }))),
    ]
}

/// Every Proxy, with its team and its entry.
const PROXIES: [(usize, &str, &str); 13] = [
    (0, "no-entry", "-none"),
    (0, "no-revision", "-nomod"),
    (0, "image", "-image"),
    (0, "picky", "-picky"),
    (1, "forbidden", ""),
    (0, "lean", "-lean"),
    (2, "quota", ""),
    (1, "elsewhere", "-few"),
    (0, "taken", "-none"),
    (0, "trap", "-trap"),
    (0, "loop", "-loop"),
    (0, "down", "-down"),
    (0, "well", ""),
];

async fn break_everything(site: &Site, folder: &tempfile::TempDir) {
    site.put_module(&kubernetes_provider()).await;
    site.put_module_as("junk", b"this is no module").await;
    site.put_module_as("misbehaving", &misbehaving()).await;
    let mut data: BTreeMap<String, String> = entries(site, folder)
        .into_iter()
        .map(|(suffix, entry)| (format!("{}{suffix}", site.entry), entry.to_string()))
        .collect();
    data.insert(format!("{}-yaml", site.entry), "module: [".to_owned());
    let providers = json!({ "metadata": { "name": "egress-providers" }, "data": data });
    site.lab.apply::<ConfigMap>(&site.system.api(), providers).await;

    for role in ["egress-instances", "egress-user-data"] {
        let bindings = site.teams[1].api::<RoleBinding>();
        bindings.delete(role, &DeleteParams::default()).await.unwrap();
    }
    let none = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } });
    site.lab.apply::<ResourceQuota>(&site.teams[2].api(), none).await;
    for (team, name, suffix) in PROXIES {
        let entry = Some(format!("{}{suffix}", site.entry));
        site.create(team, name, Wanted { entry, ..Wanted::default() }).await;
    }
    let secret = json!({ "secretRef": { "name": "squid", "key": "user-data" } });
    for (team, name, cloud_init) in [
        (0, "user-data", json!({ "inline": "#cloud-config\n" })),
        (0, "no-secret", secret.clone()),
        (1, "no-right-to-it", secret),
    ] {
        site.create(team, name, Wanted { cloud_init: Some(cloud_init), ..Wanted::default() }).await;
    }
    site.create(0, "placed", Wanted::default()).await;
    let placed = json!({ "spec": { "placement": { "region": "eu" } } });
    site.proxies(0).patch("placed", &PatchParams::default(), &Patch::Merge(placed)).await.unwrap();
}

/// Puts something of nobody's where a Proxy's instance is to stand, and lets it go there.
async fn take_its_name(site: &Site, name: &str) {
    let secrets: Api<Secret> = site.system.api();
    let id = eventually("the installation's identity", async || {
        let secret = secrets.get("egress-installation").await.map_err(|e| e.to_string())?;
        let id = secret.data.and_then(|data| data.get("id").cloned()).ok_or("no id")?;
        String::from_utf8(id.0).map_err(|e| e.to_string())
    })
    .await;
    let proxy = site.proxies(0).get(name).await.unwrap();
    let instance = Installation::new(&id).instance_name(name, &proxy.uid().unwrap(), 1);
    let stranger = json!({ "metadata": { "name": instance.to_string(), "labels": { "app": "theirs" } } });
    site.lab.apply::<ConfigMap>(&site.teams[0].api(), stranger).await;
    let to = json!({ "spec": { "provider": site.entry } });
    site.proxies(0).patch(name, &PatchParams::default(), &Patch::Merge(to)).await.unwrap();
}

#[tokio::test]
async fn one_of_each_failure_shows_the_thing_the_cause_and_the_next_step() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "trouble", 3).await;
    let folder = tempfile::tempdir().unwrap();
    break_everything(&site, &folder).await;
    let _epo = site.start(&[]).await;
    take_its_name(&site, "taken").await;
    site.ready(0, "well").await;

    let walk = SYMPTOMS.into_iter().map(|(symptom, at)| {
        let (site, lab) = (&site, &lab);
        async move {
            match at {
                At::Proxy(team, name) => {
                    shows(lab, symptom, &["proxy", name, "-n", &site.teams[team].name]).await;
                }
                At::Entry(suffix) => {
                    shows(lab, symptom, &["providerhealth", &format!("{}{suffix}", site.entry)]).await;
                }
            }
        }
    });
    futures::future::join_all(walk).await;
    // Who sees the tables alone is told as much.
    let mut tables = kubectl(&lab, &["get", "providerhealths", "-o", "wide"]);
    for team in &site.teams {
        tables += &kubectl(&lab, &["get", "proxies", "-n", &team.name, "-o", "wide"]);
    }
    println!("{tables}");
    for (symptom, _) in SYMPTOMS {
        let untold = docs_tests::shown::untold(&docs_tests::root(), symptom, &tables);
        assert_eq!(untold, Ok(Vec::new()), "{symptom}");
    }
}
