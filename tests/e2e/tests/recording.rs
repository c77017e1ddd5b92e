//! A provider called by hand at the real API server, and what was recorded of it: clean, and good for a test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::harness::{Lab, Namespace, kubernetes_provider, program};

/// What is on disk for one test.
struct Desk {
    folder: tempfile::TempDir,
    token: String,
}

impl Desk {
    /// A component, a kubeconfig of a ServiceAccount with no more rights than needed, and an entry.
    async fn new(lab: &Lab, namespace: &Namespace) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let verbs = ["get", "list", "create", "patch", "delete"];
        let rules = json!([
            { "apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": verbs },
            { "apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list"] },
        ]);
        namespace.account("by-hand", rules).await;
        let token = namespace.token("by-hand").await;
        let kubeconfig = folder.path().join("kubeconfig");
        lab.write_kubeconfig(&kubeconfig, json!({ "token": token }));
        let entry = json!({
            "module": { "file": "kubernetes.wasm" },
            "config": { "cluster": "lab", "image": "docker.io/lab/squid:1", "namespaces": [namespace.name] },
            "grants": { "kubernetes": { "clusters": { "lab": {
                "kubeconfig": { "file": kubeconfig },
                "rules": [
                    { "resources": ["pods", "configmaps"], "verbs": verbs, "namespaces": [namespace.name] },
                    { "resources": ["resourcequotas"], "verbs": ["list"], "namespaces": [namespace.name] },
                ],
            } } } },
        });
        std::fs::write(folder.path().join("lab.yaml"), entry.to_string()).expect("an entry");
        std::fs::write(folder.path().join("kubernetes.wasm"), kubernetes_provider()).expect("a component");
        Self { folder, token }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn epo(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.current_dir(&self.folder).env("XDG_CACHE_HOME", self.path("cache")).args(args);
        command.output().expect("epo")
    }

    /// Calls at the lab's API server, recorded.
    fn call(&self, exports: &[&str], more: &[&str]) -> Output {
        let at_the_lab = ["--entry", "lab.yaml", "--backend", "real", "-o", "json"];
        self.epo(&[&["provider", "call", "kubernetes.wasm"], exports, &at_the_lab, more].concat())
    }
}

#[track_caller]
fn told(output: &Output) -> (String, String) {
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Not the token, nor its signature.
fn assert_clean(desk: &Desk, what: &str, text: &str) {
    let signature = desk.token.rsplit('.').next().unwrap_or(&desk.token);
    for secret in [desk.token.as_str(), signature] {
        assert!(!text.contains(secret), "{what} says {secret}: {text}");
    }
}

/// `EPO_KEEP_RECORDING=FILE` keeps what is recorded, for the tests of the command line.
fn keep(recording: &Path) {
    if let Some(kept) = std::env::var_os("EPO_KEEP_RECORDING") {
        std::fs::copy(recording, kept).expect("the recording is kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_recorded_at_the_api_server_is_clean_and_replays() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("recording").await;
    let desk = Desk::new(&lab, &namespace).await;
    // Beside the executor: whoever asks the lab for a namespace's end waits for none of these.
    let lived = tokio::task::spawn_blocking({
        let name = namespace.name.clone();
        move || {
            denied(&desk, &name);
            with_user_data(&desk, &name);
            life(&desk, &name);
        }
    });
    lived.await.expect("a life");
    let pods: Api<Pod> = namespace.api();
    let left = pods.list(&ListParams::default()).await.expect("Pods").items;
    assert!(left.is_empty(), "{left:?}");
}

fn denied(desk: &Desk, namespace: &str) {
    let denied = desk.call(&["create"], &["--namespace", namespace, "--until-done", "--read-only"]);
    let (out, err) = told(&denied);
    assert_eq!(denied.status.code(), Some(1), "{err}");
    assert!(err.contains("!! read-only -> denied"), "{err}");
    assert_clean(desk, "the output", &out);
}

/// This provider takes none and says so; what was given stands nowhere.
fn with_user_data(desk: &Desk, namespace: &str) {
    const SENTINEL: &str = "password: sentinel-of-this-user-data";
    std::fs::write(desk.path("user-data"), format!("#cloud-config\n{SENTINEL}\n")).expect("user-data");
    let refused = desk.call(
        &["check", "create"],
        &["--namespace", namespace, "--user-data", "user-data", "--record", "refused.json"],
    );
    let (out, err) = told(&refused);
    assert_eq!(refused.status.code(), Some(1), "{err}");
    let recording = std::fs::read_to_string(desk.path("refused.json")).expect("a recording");
    let calls: Value = serde_json::from_str(&recording).expect("JSON");
    assert_eq!(calls["calls"].as_array().expect("calls").len(), 2, "{recording}");
    for (what, text) in [("the output", &out), ("the live text", &err), ("the recording", &recording)] {
        assert_clean(desk, what, text);
        assert!(!text.contains(SENTINEL), "{what}: {text}");
    }
    let (out, err) = told(&desk.epo(&["provider", "replay", "kubernetes.wasm", "refused.json"]));
    assert!(out.starts_with("the same: "), "{out}{err}");
}

fn life(desk: &Desk, namespace: &str) {
    let life = desk.call(
        &["check", "create", "get", "list", "delete"],
        &["--namespace", namespace, "--until-done", "--record", "life.json"],
    );
    let (out, err) = told(&life);
    assert!(life.status.success(), "{err}");
    let recording = std::fs::read_to_string(desk.path("life.json")).expect("a recording");
    for (what, text) in [("the output", &out), ("the live text", &err), ("the recording", &recording)] {
        assert_clean(desk, what, text);
    }
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let get = report["calls"].as_array().expect("calls").iter().find(|call| call["export"] == "get");
    assert_eq!(get.expect("a get")["answer"]["state"], "running", "{out}");
    keep(&desk.path("life.json"));

    let (out, err) = told(&desk.epo(&["provider", "replay", "kubernetes.wasm", "life.json"]));
    assert!(out.starts_with("the same: "), "{out}{err}");
    // Another image is asked for than the one that was.
    let edited = recording.replace("docker.io/lab/squid:1\"", "docker.io/lab/squid:2\"");
    let edited = edited.replacen("docker.io/lab/squid:2\"", "docker.io/lab/squid:1\"", 1);
    std::fs::write(desk.path("edited.json"), edited).expect("a recording");
    let replayed = desk.epo(&["provider", "replay", "kubernetes.wasm", "edited.json"]);
    let (out, _) = told(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{out}");
    assert!(out.contains("spec.containers[0].image"), "{out}");
}
