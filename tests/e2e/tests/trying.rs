//! `epo provider test --backend real` at the lab's API server, as an author runs it: what it says, and that it
//! leaves nothing behind, also where it is ended on its way.

use std::process::{Child, Command, Output, Stdio};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod},
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, api::ListParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Lab, Namespace, eventually, kubernetes_provider, program};

/// What an author has on disk, and two namespaces.
struct Desk {
    folder: tempfile::TempDir,
    lab: Lab,
    namespaces: [Namespace; 2],
}

impl Desk {
    /// The entry's identity may do no more than the provider needs; whoever tries it is the lab's administrator.
    async fn new() -> Self {
        let lab = Lab::new().await;
        let namespaces = [lab.namespace("try-a").await, lab.namespace("try-b").await];
        let names = namespaces.each_ref().map(|namespace| namespace.name.clone());
        let verbs = ["get", "list", "create", "patch", "delete"];
        let rules = json!([
            { "apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": verbs },
            { "apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list"] },
        ]);
        let [one, two] = &namespaces;
        one.account("tried", rules.clone()).await;
        let role = json!({ "metadata": { "name": "tried" }, "rules": rules });
        lab.apply::<Role>(&two.api(), role).await;
        let binding = json!({
            "metadata": { "name": "tried" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tried" },
            "subjects": [{ "kind": "ServiceAccount", "name": "tried", "namespace": one.name }],
        });
        lab.apply::<RoleBinding>(&two.api(), binding).await;
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("kubeconfig");
        lab.write_kubeconfig(&kubeconfig, json!({ "token": one.token("tried").await }));
        let entry = json!({
            "module": { "file": "kubernetes.wasm" },
            "config": {
                "cluster": "lab", "image": "docker.io/lab/squid:1", "namespaces": names,
                "squid": { "shutdownSeconds": 1 },
            },
            "grants": { "kubernetes": { "clusters": { "lab": {
                "kubeconfig": { "file": kubeconfig },
                "rules": [
                    { "resources": ["pods", "configmaps"], "verbs": verbs, "namespaces": names },
                    { "resources": ["resourcequotas"], "verbs": ["list"], "namespaces": names },
                ],
            } } } },
        });
        std::fs::write(folder.path().join("lab.yaml"), entry.to_string()).expect("an entry");
        std::fs::write(folder.path().join("kubernetes.wasm"), kubernetes_provider()).expect("a component");
        Self { folder, lab, namespaces }
    }

    fn start(&self, more: &[&str]) -> Child {
        let at_the_lab = ["provider", "test", "kubernetes.wasm", "--entry", "lab.yaml", "--backend", "real"];
        let mut command = Command::new(program());
        command.current_dir(&self.folder).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command.args(at_the_lab).arg("--kubeconfig").arg(&self.lab.kubeconfig).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("epo")
    }

    async fn pods(&self) -> Vec<String> {
        let mut names = Vec::new();
        for namespace in &self.namespaces {
            let pods: Api<Pod> = namespace.api();
            let found = pods.list(&ListParams::default()).await.expect("Pods").items;
            names.extend(found.into_iter().filter_map(|pod| pod.metadata.name));
        }
        names
    }

    /// Nothing but what a cluster puts into every namespace.
    async fn assert_nothing_left(&self) {
        assert_eq!(self.pods().await, Vec::<String>::new());
        for namespace in &self.namespaces {
            let maps: Api<ConfigMap> = namespace.api();
            let found = maps.list(&ListParams::default()).await.expect("ConfigMaps").items;
            let names: Vec<String> = found.into_iter().filter_map(|map| map.metadata.name).collect();
            assert_eq!(names, ["kube-root-ca.crt"]);
        }
    }
}

async fn end(child: Child) -> (Output, String) {
    let output =
        tokio::task::spawn_blocking(|| child.wait_with_output()).await.expect("a thread").expect("an end");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_tries_a_component_on_a_cluster_and_nothing_is_left() {
    let desk = Desk::new().await;
    let only = [
        "--only",
        "list-shows-leftovers",
        "--only",
        "cut-create-is-taken-up",
        "--only",
        "get-unknown-is-stopped",
    ];
    let (output, told) = end(desk.start(&[&only[..], &["--points", "1", "--output", "json"]].concat())).await;
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(output.status.code(), Some(0), "{told}{report:#}");
    assert_eq!(report["about"]["backend"], "kubernetes, for real");
    assert_eq!((&report["kept"], &report["notApplicable"]), (&json!(2), &json!(1)), "{report:#}");
    assert_eq!(report["counts"]["interruptions"], 1, "{report:#}");
    desk.assert_nothing_left().await;

    // What nobody can do is told before anything is made.
    let other = desk.folder.path().join("nowhere");
    for (more, said) in [
        (vec!["--kubeconfig", "/nosuch"], "/nosuch"),
        (vec!["-n", desk.namespaces[0].name.as_str(), "-n", "no-such-namespace"], "no-such-namespace"),
    ] {
        let mut command = Command::new(program());
        command.current_dir(&desk.folder).env("KUBECONFIG", &other);
        command
            .args(["provider", "test", "kubernetes.wasm", "--entry", "lab.yaml", "--backend", "real"])
            .args(more);
        let output = command.output().expect("epo");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(said), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_it_on_its_way_leaves_nothing_behind() {
    let desk = Desk::new().await;
    let child = desk.start(&["--only", "list-can-be-collected"]);
    let pid = Pid::from_child(&child);
    eventually("a Pod of the suite", async || match desk.pods().await {
        pods if pods.is_empty() => Err("no Pod"),
        pods => Ok(pods),
    })
    .await;
    kill_process(pid, Signal::INT).expect("it runs");
    let (output, told) = end(child).await;
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("0 of 1 promises") && told.contains("removed"), "{told}");
    desk.assert_nothing_left().await;
}
