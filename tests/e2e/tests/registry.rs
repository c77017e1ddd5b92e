//! Components out of real registries: Debian's docker-registry, with a login and without, and what another tool
//! than ours puts there.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use egress_operator::api::{ProviderHealthStatus, RefusalStatus};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::Secret,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::harness::{
    Lab, PASSWORD, Registry, Site, USER, Wanted, another_build, from, kubernetes_provider, oras, program,
};

const SECRET: &str = "registry-login";

/// A folder with no docker config of whoever runs the tests.
fn epo(folder: &Path, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(program())
        .arg("provider")
        .args(arguments)
        .env_clear()
        .env("DOCKER_CONFIG", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that is refused before it asks has closed its end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn digest(printed: &str) -> String {
    printed.split_once('@').expect("an image with its digest").1.to_owned()
}

/// The site's entry, with this module.
fn entry(site: &Site, module: Value) -> Value {
    let mut entry = site.kubernetes_entry();
    entry["module"] = json!({ "oci": module });
    entry
}

async fn refused(site: &Site, reason: &str) -> RefusalStatus {
    site.health(&site.entry, reason, |status| {
        status.refusal.clone().filter(|refusal| refusal.reason == reason)
    })
    .await
}

fn source(status: &ProviderHealthStatus) -> Option<String> {
    status.active.as_ref().map(|active| active.source.clone())
}

async fn comes_from(site: &Site, digest: &str) -> String {
    let from_it = |status: &ProviderHealthStatus| {
        let source = source(status).filter(|source| source.ends_with(digest))?;
        status.refusal.is_none().then_some(source)
    };
    site.health(&site.entry, &format!("it comes from {digest}"), from_it).await
}

/// Lets the operator read the Secret, and no other.
async fn grant_secret(site: &Site) {
    let rule =
        json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"] });
    let role = json!({ "metadata": { "name": SECRET }, "rules": [rule] });
    site.lab.apply::<Role>(&site.system.api(), role).await;
    let binding = json!({
        "metadata": { "name": SECRET },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SECRET },
        "subjects": [{ "kind": "ServiceAccount", "name": "egress-operator", "namespace": site.system.name }],
    });
    site.lab.apply::<RoleBinding>(&site.system.api(), binding).await;
}

/// As kubectl create secret docker-registry does.
async fn put_secret(site: &Site, registry: &str, password: &str) {
    let config = json!({ "auths": { registry: { "username": USER, "password": password } } });
    let data =
        BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(config.to_string().into_bytes()))]);
    let secret = json!({ "metadata": { "name": SECRET }, "type": "kubernetes.io/dockerconfigjson" });
    let secret = Secret { data: Some(data), ..from(secret) };
    let api: Api<Secret> = site.system.api();
    match api.get_opt(SECRET).await.unwrap() {
        None => api.create(&PostParams::default(), &secret).await.unwrap(),
        Some(_) => api.replace(SECRET, &PostParams::default(), &secret).await.unwrap(),
    };
}

#[tokio::test]
async fn an_entry_follows_a_tag_and_lives_on_whatever_becomes_of_its_registry() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "registry", 1).await;
    let mut registry = Registry::closed().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (name, ca) = (registry.name.clone(), registry.certificate());
    let ca = ca.to_str().unwrap();
    let image = format!("{name}/team/kubernetes-provider:1");
    let push = |component: &[u8], password: &str| {
        let file = write(folder, "provider.wasm", component);
        let login = ["--username", USER, "--password-stdin", "--ca", ca];
        epo(folder, &[&["push", &image, &file], &login[..]].concat(), password)
    };
    let refusal = push(&kubernetes_provider(), "wrong-password").unwrap_err();
    assert!(refusal.contains("does not take the login") && !refusal.contains("wrong-password"), "{refusal}");
    let first = digest(&push(&kubernetes_provider(), PASSWORD).unwrap());

    let module = json!({ "ref": image, "pullSecret": SECRET, "ca": { "file": ca }, "everySeconds": 10 });
    site.put_entry(&entry(&site, module)).await;
    let mut running = site.start(&["--log-level", "trace"]).await;
    let refusal = refused(&site, "PullSecretUnreadable").await;
    assert!(
        refusal.message.contains("forbidden") && refusal.message.contains("right to get it"),
        "{refusal:?}"
    );
    grant_secret(&site).await;
    let refusal = refused(&site, "PullSecretMissing").await;
    let way_out = format!("kubectl create secret docker-registry {SECRET} --docker-server={name}");
    assert!(refusal.message.contains(&way_out), "{refusal:?}");
    put_secret(&site, &name, "wrong-password").await;
    let refusal = refused(&site, "Unauthorized").await;
    assert!(refusal.message.contains("does not take the login"), "{refusal:?}");
    put_secret(&site, &name, PASSWORD).await;
    assert_eq!(comes_from(&site, &first).await, format!("image {image}@{first}"));
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;

    let second = digest(&push(&another_build(&kubernetes_provider(), "2"), PASSWORD).unwrap());
    comes_from(&site, &second).await;
    let earlier =
        site.health(&site.entry, "what ran before is kept", |status| status.history.first().cloned()).await;
    assert!(earlier.source.ends_with(&first), "{earlier:?}");
    let active = site.active(&another_build(&kubernetes_provider(), "2")).await;

    registry.stop();
    let refusal = refused(&site, "Unreachable").await;
    assert!(refusal.message.contains(&name) && refusal.message.contains("tried again"), "{refusal:?}");
    let goes_on = |status: &ProviderHealthStatus| {
        status.active.as_ref().filter(|now| now.revision == active).map(|_| ())
    };
    site.health(&site.entry, "it goes on", goes_on).await;
    running.assert_running();
    let said = running.log();
    running.kill();
    let running = site.start(&["--log-level", "trace"]).await;
    refused(&site, "Unreachable").await;
    site.health(&site.entry, "it goes on after a start", goes_on).await;
    site.create(0, "meanwhile", Wanted::default()).await;
    site.ready(0, "meanwhile").await;
    registry.start().await;
    comes_from(&site, &second).await;

    let shown = json!({ "auths": { &name: { "username": USER, "password": PASSWORD } } }).to_string();
    for said in [said, running.log()] {
        for secret in [PASSWORD, "wrong-password", &shown] {
            assert!(!said.contains(secret), "the log holds {secret:?}");
        }
    }
    site.delete(0, "web").await;
    site.delete(0, "meanwhile").await;
}

#[tokio::test]
async fn what_another_tool_pushed_and_what_was_carried_in_a_file_is_taken_up() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "carried", 1).await;
    let (outside, inside) = (Registry::open().await, Registry::open().await);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let component = kubernetes_provider();
    let file = write(folder, "provider.wasm", &component);
    let config = write(folder, "config.json", br#"{"architecture":"wasm","os":"wasip2"}"#);
    let theirs = format!("{}/theirs/provider:1", outside.name);
    let config = format!("{config}:application/vnd.wasm.config.v0+json");
    let layer = format!("{file}:application/wasm");
    oras(&["push", "--plain-http", "--disable-path-validation", "--config", &config, &theirs, &layer]);
    let ours = format!("{}/ours/provider:1", outside.name);
    let pushed = epo(folder, &["push", &ours, &file, "--plain-http"], "").unwrap();

    let module = |image: &str| json!({ "ref": image, "plainHttp": true });
    site.put_entry(&entry(&site, module(&theirs))).await;
    let _running = site.start(&[]).await;
    site.active(&component).await;

    let tar = folder.join("providers.tar");
    let tar = tar.to_str().unwrap();
    let saved = epo(folder, &["save", tar, &theirs, &ours, "--plain-http"], "").unwrap();
    assert!(saved.lines().any(|line| line == pushed), "{saved}");
    let to = format!("{}/mirror", inside.name);
    let loaded = epo(folder, &["load", tar, "--to", &to, "--plain-http"], "").unwrap();
    let digests = |text: &str| text.lines().map(digest).collect::<Vec<_>>();
    assert_eq!(digests(&loaded), digests(&saved), "an image stays what it is");
    for image in loaded.lines() {
        let copy = folder.join("copy.wasm");
        epo(folder, &["pull", image, "-o", copy.to_str().unwrap(), "--plain-http"], "").unwrap();
        assert!(std::fs::read(copy).unwrap() == component, "{image}");
        site.put_entry(&entry(&site, module(image))).await;
        comes_from(&site, &digest(image)).await;
        let from_inside =
            |status: &ProviderHealthStatus| source(status).filter(|source| source.contains(&to));
        site.health(&site.entry, "it comes from inside", from_inside).await;
    }
    // And the other way round: what we write is what other tools read.
    let title = folder.join("theirs");
    oras(&["pull", "--plain-http", "--output", title.to_str().unwrap(), &ours]);
    assert!(std::fs::read(title.join("provider.wasm")).unwrap() == component);
}
