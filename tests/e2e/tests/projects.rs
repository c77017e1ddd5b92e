//! What an author makes with `epo provider new` in each language, in the real operator: out of a ConfigMap where
//! one holds it, else out of a folder.

use std::{path::Path, process::Command};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{
    harness::{Lab, Site, Wanted, Web, eventually, get_through, program},
    project::Project,
};

const LANGUAGES: [&str; 3] = ["rust", "javascript", "python"];

/// The ConfigMap that `epo provider configmap` writes, or none where none holds the component.
fn config_map(name: &str, component: &Path) -> Option<Value> {
    let output = Command::new(program())
        .args(["provider", "configmap", "--name", name])
        .arg(component)
        .output()
        .expect("epo starts");
    match output.status.code() {
        Some(0) => Some(serde_saphyr::from_slice(&output.stdout).expect("YAML")),
        Some(3) if String::from_utf8_lossy(&output.stderr).contains("--modules-dir") => None,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[tokio::test]
async fn a_component_in_any_language_makes_a_proxy() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "langs", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let team = site.teams[0].name.clone();
    let mut entries = Vec::new();
    let mut out_of_folder = Vec::new();
    for lang in LANGUAGES {
        let build = move || Project::new(&program(), "kubernetes", lang).component();
        let component = tokio::task::spawn_blocking(build).await.expect("it builds");
        let module = match config_map(lang, &component) {
            Some(object) => {
                lab.apply::<ConfigMap>(&site.system.api(), object).await;
                json!({ "configMap": { "name": lang } })
            }
            None => {
                out_of_folder.push(lang);
                std::fs::copy(&component, folder.path().join(format!("{lang}.wasm"))).expect("a copy");
                json!({ "file": format!("{lang}.wasm") })
            }
        };
        let rule = json!({ "resources": ["pods", "configmaps"], "namespaces": [&team],
                           "verbs": ["get", "list", "create", "patch", "delete"] });
        let entry = json!({
            "module": module,
            "config": { "cluster": "home", "namespace": &team, "image": "docker.io/lab/squid:1" },
            "grants": { "kubernetes": { "clusters": { "home": { "operator": true, "rules": [rule] } } } },
        });
        entries.push((format!("{}-{lang}", site.entry), entry));
    }
    assert_eq!(out_of_folder, ["python"], "the others fit a ConfigMap");
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    let before = site.objects().await;
    let modules = folder.path().to_str().unwrap();
    // Where nothing is optimised, an interpreter compiles for a minute.
    let _epo = site.start_unready(&["--modules-dir", modules, "--compile-time", "10m"]).await;
    for (name, _) in &entries {
        site.health(name, "it is active", |status| status.active.as_ref().map(|_| ())).await;
    }
    let web = Web::start().await;
    for (lang, (entry, _)) in LANGUAGES.iter().zip(&entries) {
        site.create(0, lang, Wanted { entry: Some(entry.clone()), ..Wanted::default() }).await;
        let proxy = site.ready(0, lang).await;
        let address = proxy.status.as_ref().unwrap().address.clone().unwrap();
        let answer = get_through(&format!("{address}:3128"), &web.at(&address), "/here").await;
        assert_eq!(answer, Ok(web.answer_to("/here")), "{lang}");
    }
    for lang in LANGUAGES {
        site.delete(0, lang).await;
    }
    eventually("nothing is left", async || match site.objects().await {
        left if left == before => Ok(()),
        left => Err(left),
    })
    .await;
    assert_eq!(site.pods().await.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), [""; 0]);
}
