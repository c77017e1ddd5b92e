//! What stands in deploy/ is taken by a real API server: every overlay is built by `kubectl kustomize`, every object of it
//! and of the samples passes the server's validation, and every Pod that it would make keeps the restricted Pod Security
//! level, which the namespace enforces.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::harness::{Lab, Site, Wanted, kubectl, kubernetes_provider, prepare, try_kubectl};

const HOME: &str = "egress-system";
const TEAM: &str = "team-a";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Every folder with something to build; a component is built with the overlays that have it.
fn buildable(folder: &Path, found: &mut Vec<PathBuf>) {
    let file = folder.join("kustomization.yaml");
    if std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\nkind: Kustomization\n")) {
        found.push(folder.to_path_buf());
    }
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            buildable(&path, found);
        }
    }
}

fn documents(yaml: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML");
    all.into_iter().filter(|document| !document.is_null()).collect()
}

/// Without a word of the objects themselves: what would come of it.
fn try_out(lab: &Lab, yaml: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, yaml).expect("a file");
    let file = file.to_str().expect("a path that is text");
    try_kubectl(lab, &["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file])
}

/// The namespaces that deploy/ names, as deploy/ labels them; true for those that were not there before.
async fn namespaces(lab: &Lab) -> Vec<(String, bool)> {
    let api: Api<Namespace> = Api::all(lab.client.clone());
    let mut made = Vec::new();
    for (file, name) in [("cluster/namespace.yaml", HOME), ("samples/team.yaml", TEAM)] {
        let text = std::fs::read_to_string(deploy().join(file)).expect(file);
        let namespace = documents(&text).into_iter().find(|document| document["kind"] == "Namespace");
        let namespace = namespace.unwrap_or_else(|| panic!("{file} has a namespace"));
        assert_eq!(namespace["metadata"]["name"], name);
        let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
        assert_eq!(level, "restricted", "{file}");
        let is_new = api.get_opt(name).await.expect("an answer").is_none();
        lab.apply::<Namespace>(&api, namespace).await;
        made.push((name.to_owned(), is_new));
    }
    made
}

#[tokio::test]
async fn every_overlay_and_sample_is_taken_and_its_pods_keep_the_restricted_level() {
    let lab = Lab::new().await;
    prepare(&lab).await;
    let made = namespaces(&lab).await;
    let mut folders = Vec::new();
    buildable(&deploy(), &mut folders);
    assert!(folders.len() >= 10, "{folders:?}");
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), HOME);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut tried = 0;
    for folder in &folders {
        let built = kubectl(&lab, &["kustomize", folder.to_str().expect("a path that is text")]);
        let said = try_out(&lab, &built).unwrap_or_else(|said| panic!("{}: {said}", folder.display()));
        assert!(!said.contains("Warning"), "{}: {said}", folder.display());
        for deployment in documents(&built).iter().filter(|document| document["kind"] == "Deployment") {
            tried += 1;
            let template = &deployment["spec"]["template"];
            let container = &template["spec"]["containers"][0]["securityContext"];
            assert_eq!(container["readOnlyRootFilesystem"], true, "{}", folder.display());
            // Its account is not there, unless the overlay is installed.
            let mut spec = template["spec"].clone();
            spec["serviceAccountName"] = json!("default");
            let pod =
                json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "tried" }, "spec": spec });
            let pod = serde_json::from_value(pod).expect("a Pod");
            pods.create(&dry, &pod).await.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
    }
    assert!(tried >= 7, "{tried}");

    // The level is enforced, else the above says nothing.
    let careless = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "careless" },
                           "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    let refused = pods.create(&dry, &serde_json::from_value(careless).expect("a Pod")).await;
    let refused = refused.expect_err("a Pod that says nothing of its rights").to_string();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");

    let mut samples: Vec<PathBuf> = std::fs::read_dir(deploy().join("samples"))
        .expect("samples")
        .map(|entry| entry.expect("one").path())
        .collect();
    samples.sort();
    assert!(samples.len() >= 6, "{samples:?}");
    for sample in samples {
        let text = std::fs::read_to_string(&sample).expect("a sample");
        try_out(&lab, &text).unwrap_or_else(|said| panic!("{}: {said}", sample.display()));
    }
    let api: Api<Namespace> = Api::all(lab.client.clone());
    for (name, _) in made.iter().filter(|(_, is_new)| *is_new) {
        api.delete(name, &DeleteParams::default()).await.expect("what this test made goes");
    }
}

/// The rules of a role in what an overlay builds.
fn rules(built: &[Value], kind: &str) -> Value {
    let role = built.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == "egress-operator");
    role.unwrap_or_else(|| panic!("no {kind}"))["rules"].clone()
}

#[tokio::test]
async fn the_minimal_overlay_is_enough_for_the_proxies_of_one_namespace_and_reaches_no_other() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "minimal", 2).await;
    let folder = deploy().join("overlays/minimal");
    let built = documents(&kubectl(&lab, &["kustomize", folder.to_str().expect("a path that is text")]));
    let everywhere = rules(&built, "ClusterRole");
    // The CRD of that name may be looked at.
    assert!(!everywhere.to_string().contains("\"resources\":[\"proxies"), "{everywhere}");
    let team = built.iter().find(|one| one["kind"] == "Role" && one["metadata"]["namespace"] == TEAM);
    site.lend(everywhere).await;
    site.lend_in(0, team.expect("a Role of the team")["rules"].clone()).await;
    let others = site.teams[1].name.clone();
    let account = format!("system:serviceaccount:{}:egress-operator", site.system.name);
    let asks = ["auth", "can-i", "list", "proxies.egressproxies.dev", "--as", &account, "-n", &others];
    assert!(try_kubectl(&lab, &asks).is_err(), "it sees nothing of {others}");

    let mut site = site;
    // What it watches is what it is started with.
    let other = site.teams.pop();
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let _epo = site.start(&[]).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    site.delete(0, "web").await;
    assert_eq!(site.pods().await.len(), 0);
    drop(other);
}

#[test]
fn every_component_is_part_of_an_overlay() {
    let overlays = deploy().join("overlays");
    let texts: String = std::fs::read_dir(&overlays)
        .expect("overlays")
        .map(|entry| {
            std::fs::read_to_string(entry.expect("one").path().join("kustomization.yaml")).expect("one")
        })
        .collect();
    for component in std::fs::read_dir(deploy().join("components")).expect("components") {
        let name = component.expect("one").file_name().to_string_lossy().into_owned();
        assert!(texts.contains(&format!("../../components/{name}\n")), "nothing tries {name}");
    }
}
