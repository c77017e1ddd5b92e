//! `epo provider call` and `test` with `--backend real`, at a server that answers by script: what is shown and
//! recorded of it, and what is refused before anything is made.

use serde_json::{Value, json};

use super::{
    super::{
        command::{Ran, component, file, run},
        script::{Act, Server},
    },
    USER_DATA, assert_clean, guests, json, provider,
};

const TOKEN: &str = "sentinel-token-7f3a";

/// An entry whose grant leads to that server, with a kubeconfig of its own.
fn entry(server: &Server, config: &Value) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": { "server": server.url } }],
        "users": [{ "name": "x", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
    });
    // JSON is YAML.
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let rule = json!({ "resources": ["pods", "configmaps", "secrets"], "verbs": ["*"], "namespaces": ["others", "proxies"] });
    let entry = json!({
        "module": { "file": "x" },
        "config": config,
        "grants": { "kubernetes": { "clusters": { "home": {
            "kubeconfig": { "file": kubeconfig }, "rules": [rule],
            "timeouts": { "connectMs": 20_000, "requestMs": 60_000 },
        } } } },
    });
    let path = dir.path().join("mine.yaml");
    std::fs::write(&path, entry.to_string()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

fn kubernetes_config() -> Value {
    json!({ "cluster": "home", "image": "squid:1", "namespaces": ["proxies"] })
}

/// In a thread of its own, so that the server can answer.
async fn call(path: &std::path::Path, args: &[&str]) -> Ran {
    let path = path.to_owned();
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = move || provider("call", &path, &args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_suite_can_not_work_nothing_is_made_and_the_way_out_is_told() {
    let not_found =
        json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no" });
    let unauthorized = json!({ "kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401, "message": "who?" });
    let (there, going) = (json!({}), json!({ "status": { "phase": "Terminating" } }));
    let may_not = json!({ "status": { "allowed": false } });
    for (script, said) in [
        (
            vec![Act::json(404, not_found)],
            &["home has no namespace others", "kubectl create namespace others"][..],
        ),
        (vec![Act::json(200, going)], &["namespace others", "being deleted"]),
        (
            vec![Act::json(200, there), Act::json(201, may_not)],
            &["allowed to patch pods", "others", "kubeconfig"],
        ),
        (vec![Act::json(401, unauthorized)], &["home", "who?"]),
    ] {
        let server = Server::start(script).await;
        let (_dir, entry) = entry(&server, &kubernetes_config());
        let (path, args) = (component(), ["--backend", "real", "--entry", &entry].map(str::to_owned));
        let run = move || provider("test", &path, &args.each_ref().map(String::as_str));
        tokio::task::spawn_blocking(run).await.unwrap().refused(2, said);
        for seen in server.seen() {
            assert!(seen.line.starts_with("GET ") || seen.line.contains("selfsubject"), "{}", seen.line);
        }
    }
}

/// A refusal that repeats all that it was sent.
fn echo() -> Act {
    Act::json(
        403,
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": format!("you sent Authorization: Bearer {TOKEN} and {USER_DATA}"),
            "details": { "headers": { "authorization": format!("Bearer {TOKEN}") } },
        }),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grants_of_the_entry_are_what_it_is_asked_by() {
    let metadata = json!({ "name": "proxy-x", "namespace": "proxies", "uid": "u", "resourceVersion": "1" });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
    let server = Server::start([Act::json(200, pod)]).await;
    let (_dir, entry) = entry(&server, &kubernetes_config());
    let ran = call(
        &component(),
        &["get", "--name", "proxy-x", "-n", "proxies", "--entry", &entry, "--backend", "real"],
    )
    .await;
    assert_eq!(ran.code, 1, "another's Pod is foreign: {}", ran.out);
    assert!(ran.out.contains("foreign") && !ran.out.contains("simulated"), "{}", ran.out);
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "one call, and nothing before it: {seen:?}");
    assert!(seen[0].line.starts_with("GET /api/v1/namespaces/proxies/pods/proxy-x"), "{}", seen[0].line);
    assert_eq!(seen[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert!(ran.err.contains("kubernetes.get read  home v1/pods proxies/proxy-x"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_only_read_sends_no_write() {
    let not_found =
        json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no" });
    let version = json!({ "gitVersion": "v1.36.3" });
    let server =
        Server::start([Act::json(404, not_found), Act::json(200, version.clone()), Act::json(200, version)])
            .await;
    let (_dir, entry) = entry(&server, &kubernetes_config());
    let args =
        ["create", "--until-done", "-n", "proxies", "--entry", &entry, "--backend", "real", "--read-only"];
    let ran = call(&component(), &args).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("!! read-only -> denied"), "{}", ran.err);
    for seen in server.seen() {
        assert!(seen.line.starts_with("GET ") || seen.line.contains("selfsubject"), "{}", seen.line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_and_no_user_data_comes_out_even_if_the_server_repeats_them() {
    let (_dir, user_data) = file("user-data", USER_DATA.as_bytes());
    for (path, config, args) in [
        (component(), kubernetes_config(), vec!["get", "-n", "proxies"]),
        (
            guests::misbehaving().to_owned(),
            json!({ "do": "pass-on", "in": "create" }),
            vec!["create", "--user-data", &user_data],
        ),
    ] {
        for format in ["text", "json"] {
            let server = Server::start([echo()]).await;
            let (_dir, entry) = entry(&server, &config);
            let (_dir, recording) = file("recording.json", b"");
            let more = ["--entry", &entry, "--backend", "real", "--record", &recording, "-o", format];
            let ran = call(&path, &[&args[..], &more].concat()).await;
            assert_eq!(ran.code, 1, "{}", ran.err);
            let recorded = std::fs::read_to_string(&recording).unwrap();
            assert_eq!(
                json(&recorded)["calls"][0]["hostCalls"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|call| call["capability"] == "kubernetes")
                    .count(),
                1
            );
            assert_eq!(server.seen()[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
            if args[0] == "create" {
                assert!(server.seen()[0].body.to_string().contains("115,101,110,116"), "it was sent");
            }
            for (what, text) in
                [("the output", &ran.out), ("the live text", &ran.err), ("the recording", &recorded)]
            {
                assert!(!text.contains(TOKEN), "{what}: {text}");
                if args[0] == "create" {
                    assert_clean(what, text);
                }
                // Nor where the server is.
                if what == "the recording" {
                    assert!(!text.contains("kubeconfig"), "{text}");
                }
            }
            let path = path.to_str().unwrap().to_owned();
            let replayed =
                tokio::task::spawn_blocking(move || run(&["provider", "replay", &path, &recording]));
            let replayed = replayed.await.unwrap();
            assert!(!replayed.out.contains(TOKEN), "{}", replayed.out);
        }
    }
}
