//! Components into a registry, out of it, and in a file between two.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tempfile::TempDir;

use super::{
    command::{Ran, component, epo, ran},
    fake_registry::{Admits, Fake, PASSWORD, USER, says},
};

/// A folder of its own, which is where docker's config is looked for, too.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn run(folder: &TempDir, args: &[&str], input: &str) -> Ran {
    let path = std::env::var("PATH").unwrap();
    let mut command = epo();
    command.arg("provider").args(args).env("DOCKER_CONFIG", folder.path());
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that is refused before it asks has closed its end.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    ran(child.wait_with_output().unwrap())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_is_pulled_saved_and_loaded_and_keeps_its_digest() {
    let (registry, another, folder) =
        (Fake::new(Admits::Everybody).await, Fake::new(Admits::Everybody).await, folder());
    let (image, wasm) = (registry.image("team/p:1"), text(&component()));
    let pushed = run(&folder, &["push", &image, &wasm, "--plain-http"], "").well();
    let digest = pushed.trim().strip_prefix(&format!("{image}@")).unwrap();
    let out = folder.path().join("out.wasm");
    let pull = |image: &str| run(&folder, &["pull", image, "-o", &text(&out), "--plain-http"], "");
    assert_eq!(pull(&image).well(), pushed);
    assert!(std::fs::read(&out).unwrap() == std::fs::read(component()).unwrap());
    pull(&registry.image("team/p:2")).refused(1, &["404 MANIFEST_UNKNOWN", "push it first"]);
    assert!(std::fs::read(&out).unwrap() == std::fs::read(component()).unwrap(), "what stood there stays");

    let tar = text(&folder.path().join("p.tar"));
    assert_eq!(run(&folder, &["save", &tar, &image, "--plain-http"], "").well(), pushed);
    let to = another.image("mirror");
    let loaded = run(&folder, &["load", &tar, "--to", &to, "--plain-http"], "").well();
    assert_eq!(loaded, format!("{to}/team/p:1@{digest}\n"));
    pull(loaded.trim()).well();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing half-written is left: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_has_its_exit_code_and_its_way_out() {
    let (registry, folder) = (Fake::new(Admits::Everybody).await, folder());
    let (image, wasm) = (registry.image("p:1"), text(&component()));
    let text_file = text(&folder.path().join("readme"));
    std::fs::write(&text_file, "no component").unwrap();
    run(&folder, &["push", &image, &text_file, "--plain-http"], "").refused(3, &["stage parse"]);
    assert!(registry.asked().is_empty(), "nothing was sent");
    let ran = run(&folder, &["push", "p:1", &wasm], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("names no image") && ran.err.contains("no registry"), "{}", ran.err);
    let fixed = format!("{image}@sha256:{}", "0".repeat(64));
    run(&folder, &["push", &fixed, &wasm], "").refused(2, &["name a tag alone"]);
    run(&folder, &["push", &image, &wasm], "").refused(1, &["no TLS", "--plain-http"]);
    run(&folder, &["load", &text_file], "").refused(1, &["no tar", "epo provider save"]);
    let manifest = r#"{"config":{"digest":"a","size":1},"layers":[]}"#;
    registry.put_manifest("p", "empty", manifest.as_bytes());
    let pull = |image: &str| {
        let out = text(&folder.path().join("out"));
        run(&folder, &["pull", image, "-o", &out, "--plain-http"], "")
    };
    pull(&registry.image("p:empty")).refused(3, &["no layer", "epo provider push"]);
    registry.rule(|_| Some(says(307, &[("location", "http://127.0.0.1:1/")], b"")));
    pull(&image).refused(1, &["127.0.0.1:1, which is inside", "--inside"]);
    drop(registry);
    pull(&image).refused(4, &["no connection", "try again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_comes_from_the_command_line_dockers_config_or_its_helper_and_is_never_shown() {
    let (registry, folder) = (Fake::new(Admits::Bearer).await, folder());
    let (image, wasm, at) = (registry.image("p:1"), text(&component()), registry.at);
    let push = |more: &[&str], input: &str| {
        let ran = run(&folder, &[&["push", &image, &wasm, "--plain-http"], more].concat(), input);
        assert!(!format!("{}{}", ran.out, ran.err).contains(PASSWORD), "{}", ran.err);
        ran
    };
    push(&[], "").refused(1, &["without a login", "docker login", "--password-stdin"]);
    push(&["--username", USER, "--password-stdin"], "wrong\n").refused(1, &[USER, "401"]);
    push(&["--username", USER, "--password-stdin"], &format!("{PASSWORD}\n")).well();

    let config = |text: &str| std::fs::write(folder.path().join("config.json"), text).unwrap();
    let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    config(&format!(r#"{{ "auths": {{ "{at}": {{ "auth": "{auth}" }} }} }}"#));
    push(&[], "").well();
    config(PASSWORD);
    push(&[], "").refused(1, &["config.json", "no docker config", "log in again"]);

    config(r#"{ "credsStore": "lab" }"#);
    push(&[], "").refused(1, &["docker-credential-lab", "did not start"]);
    let helper = |script: &str| {
        // By another process: what this one has open for writing, no process that it begins can run.
        let path = text(&folder.path().join("docker-credential-lab"));
        let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod +x \"$1\"";
        let written = Command::new("sh").args(["-c", write, "sh", &path, script]).status().unwrap();
        assert!(written.success());
    };
    helper(&format!(
        r#"read registry; [ "$1 $registry" = "get {at}" ] && echo '{{"Username":"{USER}","Secret":"{PASSWORD}"}}'"#
    ));
    push(&[], "").well();
    helper("echo 'credentials not found in native keychain'; exit 1");
    push(&[], "").refused(1, &["without a login"]);
    helper(&format!("echo {PASSWORD}; exit 3"));
    push(&[], "").refused(1, &["docker-credential-lab", "exit status: 3", "docker-credential-lab get"]);
}
