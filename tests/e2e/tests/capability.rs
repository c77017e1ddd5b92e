//! The Kubernetes capability against a real API server: what a grant reaches, and what the server's refusals
//! look like by the time a provider reads them.

use egress_capabilities::{HomeCluster, KubernetesCapability};
use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind as Kind, ListOptions,
    PatchKind, Resource,
};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, ResourceQuota, ServiceAccount};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};

use crate::harness::{Lab, Namespace, eventually};

fn resource(plural: &str) -> Resource {
    Resource { api_version: "v1".into(), plural: plural.into() }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "e2e": "yes" } },
        "spec": { "containers": [{ "name": "pause", "image": "docker.io/lab/pause:1" }],
                  "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0 },
    })
}

/// Everything on Pods, ConfigMaps and Secrets of one namespace.
fn rules(namespace: &str) -> Value {
    json!([{ "resources": ["pods", "configmaps", "secrets"], "verbs": ["*"], "namespaces": [namespace] }])
}

fn lend(cluster: Value, home: Option<HomeCluster>) -> KubernetesCapability {
    let grant = serde_json::from_value(json!({ "clusters": { "lab": cluster } })).unwrap();
    KubernetesCapability::new(&"e2e".parse().unwrap(), grant, home).unwrap()
}

/// As the cluster's administrator, within the grant.
fn lend_admin(namespace: &Namespace) -> KubernetesCapability {
    let file = &namespace.lab.kubeconfig;
    lend(json!({ "kubeconfig": { "file": file }, "rules": rules(&namespace.name) }), None)
}

async fn create(
    lent: &KubernetesCapability,
    namespace: &str,
    body: Value,
) -> Result<Value, KubernetesFailure> {
    lent.create("lab", &resource("pods"), namespace, body).await
}

/// What a provider decides by.
fn seen(failure: &KubernetesFailure) -> (Kind, u16, &str) {
    (failure.kind, failure.code, &failure.reason)
}

#[tokio::test]
async fn a_pod_lives_and_dies_within_a_grant() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("life").await;
    let (ns, lent) = (&namespace.name, lend_admin(&namespace));
    for name in ["a", "b", "c"] {
        let made = create(&lent, ns, pod(name)).await.unwrap();
        assert_eq!(made["metadata"]["name"], name);
    }
    let exists = create(&lent, ns, pod("a")).await.unwrap_err();
    assert_eq!(seen(&exists), (Kind::Status, 409, "AlreadyExists"));

    let (mut names, mut next) = (Vec::new(), None);
    loop {
        let options = ListOptions {
            label_selector: "e2e=yes".into(),
            field_selector: "metadata.name!=b".into(),
            limit: 1,
            continue_token: next.take(),
        };
        let page = lent.list("lab", &resource("pods"), ns, &options).await.unwrap();
        names.extend(page["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].clone()));
        match page["metadata"]["continue"].as_str().unwrap_or_default() {
            "" => break,
            token => next = Some(token.to_owned()),
        }
    }
    assert_eq!(names, ["a", "c"], "page by page");

    let patch = async |kind, body| lent.patch("lab", &resource("pods"), ns, "a", kind, body).await;
    let merged = patch(PatchKind::Merge, json!({ "metadata": { "labels": { "m": "1" } } })).await.unwrap();
    assert_eq!(merged["metadata"]["labels"], json!({ "e2e": "yes", "m": "1" }));
    let add = json!([{ "op": "add", "path": "/metadata/labels/j", "value": "2" }]);
    assert_eq!(patch(PatchKind::Json, add).await.unwrap()["metadata"]["labels"]["j"], "2");
    let applied = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "labels": { "e2e": "no" } } });
    let applied = patch(PatchKind::Apply, applied).await.unwrap();
    assert_eq!(applied["metadata"]["labels"]["e2e"], "no");
    let managers = applied["metadata"]["managedFields"].to_string();
    assert!(managers.contains("egress-proxies-operator.e2e"), "{managers}");

    let uid = applied["metadata"]["uid"].as_str().unwrap().to_owned();
    let delete = async |uid: &str| {
        let options = DeleteOptions { uid: Some(uid.into()), ..DeleteOptions::default() };
        lent.delete("lab", &resource("pods"), ns, "a", &options).await
    };
    assert_eq!(seen(&delete("another").await.unwrap_err()), (Kind::Status, 409, "Conflict"));
    delete(&uid).await.unwrap();
    let gone =
        eventually("the Pod is gone", async || match lent.get("lab", &resource("pods"), ns, "a").await {
            Ok(pod) => Err(pod["metadata"]["deletionTimestamp"].clone()),
            Err(failure) => Ok(failure),
        })
        .await;
    assert_eq!(seen(&gone), (Kind::Status, 404, "NotFound"));
    assert_eq!(gone.details["name"], "a");
}

#[tokio::test]
async fn a_refusal_says_whether_it_is_quota_right_or_a_namespace() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("refusal").await;
    let lent = lend_admin(&namespace);
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "0" } } });
    lab.apply::<ResourceQuota>(&namespace.api(), quota).await;
    let quotas: Api<ResourceQuota> = namespace.api();
    eventually("the quota is counted", async || {
        quotas.get("q").await.unwrap().status.and_then(|status| status.used).ok_or("no usage yet")
    })
    .await;
    let full = create(&lent, &namespace.name, pod("a")).await.unwrap_err();
    assert_eq!(seen(&full), (Kind::Status, 403, "Forbidden"));
    assert!(full.message.contains("exceeded quota: q"), "{}", full.message);

    // Who may nothing: the ServiceAccount of the namespace.
    let poor = json!({ "kubeconfig": { "file": lab.kubeconfig }, "rules": rules(&namespace.name),
                       "serviceAccount": { "namespace": namespace.name, "name": "default" } });
    let forbidden = create(&lend(poor, None), &namespace.name, pod("a")).await.unwrap_err();
    assert_eq!(seen(&forbidden), (Kind::Status, 403, "Forbidden"));
    let user = format!("system:serviceaccount:{}:default", namespace.name);
    assert!(
        forbidden.message.contains(&user) && forbidden.message.contains("cannot create"),
        "{}",
        forbidden.message
    );

    let nowhere =
        lend(json!({ "kubeconfig": { "file": lab.kubeconfig }, "rules": rules("e2e-nowhere") }), None);
    let missing = create(&nowhere, "e2e-nowhere", pod("a")).await.unwrap_err();
    assert_eq!(
        (seen(&missing), &missing.details["kind"]),
        ((Kind::Status, 404, "NotFound"), &json!("namespaces"))
    );

    let rules = json!([{ "apiGroups": ["egress.invalid"], "resources": ["things"], "verbs": ["get"], "namespaces": ["*"] }]);
    let lent = lend(json!({ "kubeconfig": { "file": lab.kubeconfig }, "rules": rules }), None);
    let things = Resource { api_version: "egress.invalid/v1".into(), plural: "things".into() };
    let unserved = lent.get("lab", &things, "default", "x").await.unwrap_err();
    assert_eq!(seen(&unserved), (Kind::Status, 404, ""), "not NotFound: nobody knows whether it exists");
}

#[tokio::test]
async fn a_namespace_that_is_going_says_so() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("going").await;
    let lent = lend_admin(&namespace);
    // Held by a finalizer, so that it stays in going.
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["egress.invalid/e2e"]);
    create(&lent, &namespace.name, held).await.unwrap();
    let namespaces: Api<KubeNamespace> = Api::all(lab.client.clone());
    namespaces.delete(&namespace.name, &DeleteParams::default()).await.unwrap();
    let going = create(&lent, &namespace.name, pod("late")).await.unwrap_err();
    assert_eq!(seen(&going), (Kind::Status, 403, "Forbidden"));
    assert_eq!(going.details["causes"][0]["reason"], "NamespaceTerminating");
    let free = json!({ "metadata": { "finalizers": null } });
    lent.patch("lab", &resource("pods"), &namespace.name, "held", PatchKind::Merge, free).await.unwrap();
}

#[tokio::test]
async fn an_impersonated_account_has_its_own_rights_and_no_others() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("account").await;
    let may = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"] }]);
    namespace.account("squid", may).await;
    let home = Some(HomeCluster { config: lab.config.clone(), uid: lab.uid().await });
    let account = json!({ "namespace": namespace.name, "name": "squid" });
    let grant = json!({ "operator": true, "serviceAccount": account, "rules": rules(&namespace.name) });
    let lent = lend(grant, home);

    let about = lent.about("lab").await.unwrap();
    assert_eq!(about.user, format!("system:serviceaccount:{}:squid", namespace.name));
    assert!(about.version.starts_with("v1.") && about.home, "{about:?}");
    let allowed = async |verb: &str, plural: &str| {
        let access =
            Access { verb: verb.into(), resource: resource(plural), namespace: namespace.name.clone() };
        lent.allowed("lab", &access).await.unwrap()
    };
    eventually("the binding takes effect", async || {
        allowed("create", "pods").await.then_some(()).ok_or("denied")
    })
    .await;
    assert!(!allowed("delete", "pods").await && !allowed("get", "secrets").await);
    create(&lent, &namespace.name, pod("a")).await.unwrap();
    let list =
        lent.list("lab", &resource("pods"), &namespace.name, &ListOptions::default()).await.unwrap_err();
    assert_eq!(seen(&list), (Kind::Status, 403, "Forbidden"));
}

#[tokio::test]
async fn home_is_told_by_the_clusters_own_uid() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("home").await;
    let grant = || json!({ "kubeconfig": { "file": lab.kubeconfig }, "rules": rules(&namespace.name) });
    // Another address, so that only the UID can tell.
    let elsewhere = || kube::Config::new("https://elsewhere.invalid".parse().unwrap());
    for (uid, expected) in [(lab.uid().await, true), ("another".to_owned(), false)] {
        let lent = lend(grant(), Some(HomeCluster { config: elsewhere(), uid }));
        assert_eq!(lent.about("lab").await.unwrap().home, expected);
    }
    assert!(!lend(grant(), None).about("lab").await.unwrap().home);
}

#[tokio::test]
async fn a_rotated_token_takes_effect_where_the_old_one_is_refused() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("rotate").await;
    let may = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }]);
    namespace.account("squid", may.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, namespace.token("squid").await).unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    lab.write_kubeconfig(&kubeconfig, json!({ "tokenFile": token }));

    let lent = lend(json!({ "kubeconfig": { "file": kubeconfig }, "rules": rules(&namespace.name) }), None);
    let list = async || lent.list("lab", &resource("pods"), &namespace.name, &ListOptions::default()).await;
    eventually("the binding takes effect", &list).await;

    // A token ends with its account, though not at once: the server remembers it for a while.
    let accounts: Api<ServiceAccount> = namespace.api();
    accounts.delete("squid", &DeleteParams::default()).await.unwrap();
    let refused = eventually("the old token is refused", async || match list().await {
        Ok(_) => Err("still accepted"),
        Err(failure) => Ok(failure),
    })
    .await;
    assert_eq!(seen(&refused), (Kind::Status, 401, "Unauthorized"));
    namespace.account("squid", may).await;
    std::fs::write(&token, namespace.token("squid").await).unwrap();
    list().await.unwrap();
}

#[tokio::test]
async fn what_the_server_quotes_of_a_secret_is_withheld() {
    let lab = Lab::new().await;
    let namespace = lab.namespace("quote").await;
    let lent = lend_admin(&namespace);
    let sentinel = "sentinel-2f9e \"quoted\" text";
    let secret = |data: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": data });
    let secrets = resource("secrets");
    let undecodable = secret(json!({ "user-data": [{ "nested": sentinel }] }));
    let refused = lent.create("lab", &secrets, &namespace.name, undecodable).await.unwrap_err();
    assert_eq!((refused.kind, refused.code), (Kind::Status, 400), "{}", refused.message);
    assert!(!format!("{refused:?}").contains("sentinel"), "{refused:?}");

    lent.create("lab", &secrets, &namespace.name, secret(json!({ "user-data": sentinel }))).await.unwrap();
    let undecodable = json!({ "stringData": { "user-data": { "nested": sentinel } } });
    for (kind, body) in [
        (PatchKind::Merge, undecodable.clone()),
        (PatchKind::Json, json!([{ "op": "add", "path": "/stringData", "value": undecodable }])),
        (PatchKind::Apply, secret(undecodable["stringData"].clone())),
    ] {
        let refused = lent.patch("lab", &secrets, &namespace.name, "s", kind, body).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Status, "{kind:?}");
        assert!(!format!("{refused:?}").contains("sentinel"), "{kind:?}: {refused:?}");
    }
}
