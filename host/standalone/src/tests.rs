//! The directory through the client that the operator uses.

use std::{fs, path::Path};

use egress_operator::api::{FINALIZER, ProviderHealth, Proxy, ProxyStatus};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta,
    runtime::watcher,
};
use serde_json::json;

use crate::{Directory, OpenError};

const WEB: &str =
    "apiVersion: egressproxies.dev/v1alpha1\nkind: Proxy\nmetadata: { name: web }\nspec: { provider: a }\n";

fn open(path: &Path) -> Directory {
    Directory::open(path, "default", "egress-providers").unwrap()
}

/// Until what was written has come to rest.
fn settle(directory: &mut Directory) {
    for _ in 0..3 {
        directory.look();
    }
}

fn proxies(directory: &Directory) -> Api<Proxy> {
    Api::default_namespaced(directory.client())
}

/// Until nobody holds it: a client's own task ends after it.
async fn close(directory: Directory) {
    drop(directory);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// All of it, with its version.
async fn seen(directory: &Directory) -> serde_json::Value {
    serde_json::to_value(proxies(directory).get("web").await.unwrap()).unwrap()
}

async fn held(directory: &Directory, name: &str) -> Proxy {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": [FINALIZER] } }));
    proxies(directory).patch(name, &PatchParams::default(), &patch).await.unwrap()
}

#[tokio::test]
async fn a_file_is_a_proxy_its_change_a_new_generation_and_its_end_a_request_to_delete() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("web.yaml");
    fs::write(&file, WEB).unwrap();
    fs::write(dir.path().join("other.yaml"), WEB.replace("web", "other")).unwrap();
    let mut directory = open(dir.path());
    let first = held(&directory, "web").await;
    assert_eq!((first.spec.port, first.metadata.generation), (3128, Some(1)));

    fs::write(&file, WEB.replace("provider: a", "provider: b")).unwrap();
    settle(&mut directory);
    let second = proxies(&directory).get("web").await.unwrap();
    assert_eq!((second.spec.provider.as_str(), second.metadata.generation), ("b", Some(2)));
    assert_eq!((second.uid(), second.finalizers()), (first.uid(), first.finalizers()));

    fs::remove_file(&file).unwrap();
    settle(&mut directory);
    let third = proxies(&directory).get("web").await.unwrap();
    assert!(third.metadata.deletion_timestamp.is_some());
    close(directory).await;

    // Also the next operator knows it, and its end is the end of its finalizer.
    let directory = open(dir.path());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    let last = proxies(&directory).patch("web", &PatchParams::default(), &patch).await.unwrap();
    assert!(last.metadata.deletion_timestamp.is_some() && last.finalizers().is_empty());
    assert!(proxies(&directory).get_opt("web").await.unwrap().is_none());
    assert!(proxies(&directory).get_opt("other").await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_is_broken_or_empty_for_a_while_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("web.yaml");
    fs::write(&file, WEB).unwrap();
    let mut directory = open(dir.path());
    let before = seen(&directory).await;
    for broken in ["", "kind: [", "a: b\n", &WEB.replace("provider", "provier")] {
        fs::write(&file, broken).unwrap();
        settle(&mut directory);
        assert_eq!(seen(&directory).await, before, "{broken:?}");
        assert_eq!(directory.notes().len().min(1), 1, "{broken:?}");
    }
    fs::write(&file, WEB).unwrap();
    settle(&mut directory);
    assert_eq!(directory.notes(), [""; 0]);
    assert_eq!(seen(&directory).await, before);
}

#[tokio::test]
async fn a_directory_that_is_emptied_removed_or_replaced_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("a"), dir.path().join("b"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("web.yaml"), WEB).unwrap();
    let mut directory = open(&path);
    held(&directory, "web").await;
    let before = seen(&directory).await;

    fs::rename(path.join("web.yaml"), dir.path().join("web.yaml")).unwrap();
    settle(&mut directory);
    assert_eq!(seen(&directory).await, before, "emptied");
    assert!(directory.notes()[0].contains("no document at all"), "{:?}", directory.notes());
    fs::rename(dir.path().join("web.yaml"), path.join("web.yaml")).unwrap();

    fs::rename(&path, &away).unwrap();
    settle(&mut directory);
    fs::create_dir(&path).unwrap();
    settle(&mut directory);
    assert_eq!(seen(&directory).await, before, "replaced");
    let refused = proxies(&directory)
        .patch(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({ "metadata": {
        "finalizers": [] } })),
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("is not there any more"), "{refused}");

    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    settle(&mut directory);
    assert_eq!(seen(&directory).await, before, "back again");
    assert_eq!(directory.notes(), [""; 0]);
}

#[tokio::test]
async fn a_write_with_a_stale_version_is_refused_and_a_status_is_written_apart() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("web.yaml"), WEB).unwrap();
    let directory = open(dir.path());
    let api = proxies(&directory);
    let first = api.get("web").await.unwrap();
    let mut written = first.clone();
    written.status = Some(ProxyStatus { incarnation: 1, ..ProxyStatus::default() });
    written.spec.provider = "not taken".to_owned();
    let second = api.replace_status("web", &PostParams::default(), &written).await.unwrap();
    assert_eq!((second.status.clone().unwrap().incarnation, second.spec.provider.as_str()), (1, "a"));
    assert_eq!(second.metadata.generation, first.metadata.generation);
    let stale = api.replace_status("web", &PostParams::default(), &written).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
}

#[tokio::test]
async fn a_watch_tells_what_is_there_and_each_change_after_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("web.yaml"), WEB).unwrap();
    let mut directory = open(dir.path());
    let api: Api<PartialObjectMeta<Proxy>> = Api::all(directory.client());
    let mut events = watcher(api, watcher::Config::default()).boxed();
    let mut next = async || match events.try_next().await.unwrap().unwrap() {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(found) => format!("there {}", found.name_any()),
        watcher::Event::InitDone => "done".to_owned(),
        watcher::Event::Apply(found) => format!("{} {:?}", found.name_any(), found.metadata.generation),
        watcher::Event::Delete(found) => format!("gone {}", found.name_any()),
    };
    assert_eq!([next().await, next().await, next().await], ["init", "there web", "done"]);
    fs::write(dir.path().join("db.yaml"), WEB.replace("web", "db")).unwrap();
    settle(&mut directory);
    assert_eq!(next().await, "db Some(1)");
    fs::write(dir.path().join("db.yaml"), WEB.replace("web", "db").replace("provider: a", "provider: b"))
        .unwrap();
    settle(&mut directory);
    assert_eq!(next().await, "db Some(2)");
    fs::remove_file(dir.path().join("db.yaml")).unwrap();
    settle(&mut directory);
    assert_eq!(next().await, "gone db");
}

#[tokio::test]
async fn an_applied_status_replaces_the_one_before_and_leaves_the_spec_alone() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let api: Api<ProviderHealth> = Api::all(directory.client());
    let params = PatchParams::apply("operator").force();
    let object = |body: serde_json::Value| {
        let mut object = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "ProviderHealth" });
        object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        Patch::Apply(object)
    };
    let made = object(json!({ "metadata": { "name": "kvm2", "labels": { "a": "b" } }, "spec": {} }));
    let first = api.patch("kvm2", &params, &made).await.unwrap();
    let held = Patch::Merge(json!({ "spec": { "hold": { "revision": "abc" } } }));
    api.patch("kvm2", &PatchParams::default(), &held).await.unwrap();
    api.patch("kvm2", &params, &made).await.unwrap();
    for places in [json!([{ "name": "hv1", "ready": true, "reason": "ready", "message": "" }]), json!([])] {
        let status = object(json!({ "metadata": { "name": "kvm2" }, "status": { "places": places } }));
        api.patch_status("kvm2", &params, &status).await.unwrap();
    }
    let last = api.get("kvm2").await.unwrap();
    assert_eq!((last.uid(), last.spec.hold.unwrap().revision), (first.uid(), "abc".to_owned()));
    assert!(last.status.unwrap().places.is_empty());
    let labelled = ListParams::default().labels("a=b");
    assert_eq!(api.list(&labelled).await.unwrap().items.len(), 1);
    let only = |uid: &str| {
        DeleteParams::default()
            .preconditions(Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() })
    };
    assert!(api.delete("kvm2", &only("another")).await.is_err());
    assert!(api.delete("kvm2", &only(&first.uid().unwrap())).await.unwrap().is_right());
    assert!(api.get_opt("kvm2").await.unwrap().is_none());
}

#[tokio::test]
async fn documents_of_people_are_read_and_never_changed_or_copied() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secrets.yaml");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: token }\nstringData: { token: hush }\n";
    fs::write(&file, secret).unwrap();
    fs::write(dir.path().join("providers.yaml"), "kvm2: { module: { file: kvm2.wasm } }\n").unwrap();
    let mut directory = open(dir.path());
    let secrets: Api<Secret> = Api::default_namespaced(directory.client());
    assert_eq!(secrets.get("token").await.unwrap().data.unwrap()["token"].0, b"hush");
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    assert!(secrets.patch("token", &PatchParams::default(), &patch).await.is_err());
    let maps: Api<ConfigMap> = Api::default_namespaced(directory.client());
    assert!(maps.get("egress-providers").await.unwrap().data.unwrap()["kvm2"].contains("kvm2.wasm"));
    assert!(!dir.path().join(".status/secrets").exists());
    fs::remove_file(&file).unwrap();
    settle(&mut directory);
    assert!(secrets.get_opt("token").await.unwrap().is_none());
}

#[test]
fn two_on_one_directory_and_a_copy_of_one_are_refused_and_a_moved_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::create_dir(&path).unwrap();
    let first = open(&path);
    let refused = |path: &Path| Directory::open(path, "default", "egress-providers").map(drop).unwrap_err();
    let held = refused(&path);
    assert!(
        held.is_held() && held.to_string().contains(&format!("process {}", std::process::id())),
        "{held}"
    );
    drop(first);
    let moved = dir.path().join("b");
    fs::rename(&path, &moved).unwrap();
    drop(open(&moved));
    let status = path.join(".status/namespaces");
    fs::create_dir_all(&status).unwrap();
    fs::copy(moved.join(".status/namespaces/kube-system.yaml"), status.join("kube-system.yaml")).unwrap();
    let copied = refused(&path);
    assert!(matches!(copied, OpenError::Copied { .. }), "{copied}");
}

#[tokio::test]
async fn what_a_command_asks_for_is_done_by_whoever_runs_the_directory_next() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{WEB}---\n{}---\n{}", WEB.replace("web", "db"), WEB.replace("web", "mail"));
    fs::write(dir.path().join("all.yaml"), text).unwrap();
    let directory = open(dir.path());
    for name in ["web", "db", "mail"] {
        held(&directory, name).await;
    }
    close(directory).await;
    for name in ["web", "db"] {
        let ended = crate::end(dir.path(), "default", name, name == "db").unwrap();
        assert_eq!(ended.file, Some(("all.yaml".to_owned(), false)));
    }
    let directory = open(dir.path());
    let deleting: Vec<_> = proxies(&directory).list(&ListParams::default()).await.unwrap().items;
    let told = |proxy: &Proxy| {
        let abandoned = proxy.annotations().get("egressproxies.dev/abandon").cloned();
        (proxy.name_any(), proxy.metadata.deletion_timestamp.is_some(), abandoned.is_some())
    };
    let told: Vec<_> = deleting.iter().map(told).collect();
    let is = |name: &str, deleting, abandoned| (name.to_owned(), deleting, abandoned);
    assert_eq!(told, [is("db", true, true), is("mail", false, false), is("web", true, false)]);
    assert_eq!(fs::read_dir(dir.path().join(".status/requests")).unwrap().count(), 0);
}

#[tokio::test]
async fn one_whose_end_is_asked_for_is_not_made_again_from_a_file_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("web.yaml"), WEB).unwrap();
    fs::write(dir.path().join("db.yaml"), WEB.replace("web", "db")).unwrap();
    let mut directory = open(dir.path());
    let uid = proxies(&directory).get("web").await.unwrap().uid();
    crate::end(dir.path(), "default", "web", false).unwrap();
    // Without a finalizer it goes at once.
    for _ in 0..5 {
        directory.look();
        let web = proxies(&directory).get_opt("web").await.unwrap();
        assert!(web.is_none_or(|web| web.uid() == uid), "another one was made");
    }
    let names: Vec<_> = proxies(&directory).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(names.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["db"]);
}

#[tokio::test]
async fn a_hold_in_a_document_is_taken_up_when_it_changes_and_the_operator_may_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = |revision: &str| {
        format!(
            "apiVersion: egressproxies.dev/v1alpha1\nkind: ProviderHealth\nmetadata: {{ name: kvm2 }}\n\
             spec: {{ hold: {{ revision: {revision} }} }}\n"
        )
    };
    fs::write(dir.path().join("hold.yaml"), text("aaa")).unwrap();
    let mut directory = open(dir.path());
    let api: Api<ProviderHealth> = Api::all(directory.client());
    let held = async || api.get("kvm2").await.unwrap().spec.hold.map(|hold| hold.revision);
    assert_eq!(held().await.as_deref(), Some("aaa"));
    let over = Patch::Merge(json!({ "spec": { "hold": null } }));
    api.patch("kvm2", &PatchParams::default(), &over).await.unwrap();
    settle(&mut directory);
    assert_eq!(held().await, None, "it was ended");
    fs::write(dir.path().join("hold.yaml"), text("bbb")).unwrap();
    settle(&mut directory);
    assert_eq!(held().await.as_deref(), Some("bbb"));
    fs::remove_file(dir.path().join("hold.yaml")).unwrap();
    settle(&mut directory);
    assert_eq!(held().await.as_deref(), Some("bbb"), "what people do not say, they do not unsay");
}
