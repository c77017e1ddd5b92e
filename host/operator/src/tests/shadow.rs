//! An entry whose source offers something worse than what runs.

use std::sync::{Arc, LazyLock};

use egress_capabilities::HomeCluster;
use egress_contract::Installation;
use egress_runtime::Module;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::process::{World, built, compare};
use crate::{cluster::Cluster, trial};

static MISBEHAVE: LazyLock<Vec<u8>> = LazyLock::new(|| built("fixture-misbehave"));

/// A cluster with one instance of this installation, for whoever asks.
async fn site() -> String {
    let installation = Installation::new("installation");
    let name = installation.instance_name("web", "uid", 1);
    let labels: serde_json::Map<String, Value> = installation
        .mark("uid", 1, "team", "web")
        .into_iter()
        .map(|(key, value)| (key, value.into()))
        .collect();
    let pods = json!({ "kind": "PodList", "metadata": {}, "items": [{ "metadata": { "name": name.to_string(), "labels": labels } }] });
    let pods = Arc::new(pods.to_string());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&pods)));
        }
    });
    url
}

async fn serve(stream: TcpStream, pods: Arc<String>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            length = line.strip_prefix("content-length: ").map_or(length, |digits| digits.parse().unwrap());
            request.get_or_insert(line);
        }
        stream.read_exact(&mut vec![0; length]).await.ok()?;
        let body = match request? {
            line if line.contains("/pods") => pods.as_str(),
            _ => {
                r#"{"gitVersion":"v1.36.3","metadata":{"uid":"cluster"},"status":{"userInfo":{"username":"epo"}}}"#
            }
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).await.ok()?;
    }
}

fn entry(config: &str, more: &str) -> String {
    format!(
        "module: {{ file: m.wasm }}\nconfig: {config}\n{more}\ngrants:\n  kubernetes:\n    clusters:\n      home:\n        \
         operator: true\n        rules: [{{ resources: [pods], verbs: [list], namespaces: [proxies] }}]\n"
    )
}

const SHORTER: &str = "{ do: shorter, in: list, n: 0 }";

async fn running(name: &str) -> (World, super::process::Process, String) {
    let mut world = World::new(name);
    world.home = site().await;
    world.put("m.wasm", &MISBEHAVE);
    let process = world.start();
    process.apply(&entry("{}", ""));
    let first = process.active_after(None).await;
    (world, process, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lists_less_is_refused_and_the_health_says_what_it_does_not_list() {
    let (_world, process, first) = running("shorter").await;
    process.apply(&entry(SHORTER, ""));
    let health = process.shows(|health| health["status"]["refusal"]["stage"] == "shadow").await;
    let refusal = &health["status"]["refusal"];
    assert_eq!(refusal["reason"], "ShadowDiffers");
    compare("a-newer-component-sees-less", &health);
    let name = Installation::new("installation").instance_name("web", "uid", 1);
    let fault = refusal["faults"][0].as_str().unwrap();
    assert!(
        fault.starts_with(&format!("places.home.instances.{name}: revision {first} lists it")),
        "{fault}"
    );
    assert_eq!(refusal["faults"].as_array().unwrap().len(), 1);
    assert_eq!(health["status"]["active"]["revision"], first.as_str());
    assert_eq!(process.active(), Some(first.clone()));

    // One that is mended goes through.
    process.apply(&entry("{ steps: 1 }", ""));
    process.active_after(Some(&first)).await;
    process.shows(|health| health["status"]["refusal"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_only_wants_to_be_warned_takes_it_up_and_shows_it_also_after_a_restart() {
    let (world, process, first) = running("warned").await;
    process.apply(&entry(SHORTER, "shadow: warn"));
    let second = process.active_after(Some(&first)).await;
    let health = process.shows(|health| !health["status"]["shadow"].is_null()).await;
    let shadow = health["status"]["shadow"].clone();
    assert_eq!((&shadow["revision"], &shadow["against"]), (&json!(second), &json!(first)));
    assert_eq!(shadow["differences"].as_array().unwrap().len(), 1);
    let warned = |event: &Value| {
        event["type"] == "Warning" && event["note"].as_str().unwrap().contains("sees less than revision")
    };
    assert!(world.api.below("/apis/events.k8s.io/v1/namespaces/default/events/").iter().any(warned));
    drop(process);

    let process = world.start();
    process.apply(&entry(SHORTER, "shadow: warn"));
    process.shows(|_| process.active() == Some(second.clone())).await;
    let places = |health: &Value| health["status"]["places"][0]["ready"] == true;
    let health = process.shows(places).await;
    assert_eq!(health["status"]["shadow"], shadow);
    process.apply(&entry("{ steps: 1 }", ""));
    process.active_after(Some(&second)).await;
    process.shows(|health| health["status"]["shadow"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_tried_beside_what_runs_before_it_stands_in_the_cluster() {
    let (world, process, first) = running("trial").await;
    process.kept(1).await;
    drop(process);
    let writes = || ["POST", "PUT", "PATCH", "DELETE"].map(|method| world.api.count(method, ""));
    let before = writes();
    let hash = Installation::new("installation").hash().to_owned();
    let cluster = Cluster { client: world.api.client(), namespace: "system".to_owned() };
    let offer = |config: &str| {
        let data = json!({ super::process::ENTRY: entry(config, "") });
        let config_map = json!({ "metadata": { "name": "egress-providers" }, "data": data });
        world.api.put("/api/v1/namespaces/system/configmaps/egress-providers", config_map);
    };
    let tried = async || {
        let name = super::process::entry();
        let trial = trial::read(&cluster, "egress-providers", &name, Some(&hash), u64::MAX).await.unwrap();
        assert!(trial.needs_home && trial.active() == first);
        let home =
            HomeCluster { config: kube::Config::new(world.home.parse().unwrap()), uid: "cluster".to_owned() };
        let module = Module::unpack(&MISBEHAVE, u64::MAX).unwrap();
        trial.run(&super::process::RUNTIME, Some(home), module).await
    };
    offer(SHORTER);
    let shorter = tried().await.unwrap();
    assert_eq!(shorter.comparison.differences.len(), 1);
    offer("{ steps: 1 }");
    let good = tried().await.unwrap();
    assert_eq!((good.comparison.differences.len(), good.places), (0, vec!["home".to_owned()]));
    assert_eq!(good.comparison.against.unwrap().to_string(), first);
    assert_ne!(good.revision, first);
    offer("{ do: write, in: check }");
    let refused = tried().await.unwrap_err().to_string();
    assert!(refused.starts_with("the component is refused at the stage check"), "{refused}");
    assert_eq!(writes(), before, "nothing is written");

    let missing = "other".parse().unwrap();
    let error =
        trial::read(&cluster, "egress-providers", &missing, Some(&hash), u64::MAX).await.err().unwrap();
    assert_eq!(error.to_string(), "ConfigMap system/egress-providers has no entry other; it has: kubernetes");
}
