//! Who this is, when the Secret that says so is lost.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::double::Double;
use crate::{
    cluster::Cluster,
    identity::{IdentityError, establish},
};

const SECRET: &str = "/api/v1/namespaces/system/secrets/egress-installation";
const PROXY: &str = "/apis/egressproxies.dev/v1alpha1/namespaces/team-a/proxies/web";

fn world() -> (Double, Cluster) {
    let api = Double::default();
    api.put(
        "/api/v1/namespaces/kube-system",
        json!({ "metadata": { "name": "kube-system", "uid": "here" } }),
    );
    let cluster = Cluster { client: api.client(), namespace: "system".to_owned() };
    (api, cluster)
}

fn proxy(status: &Value) -> Value {
    json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy",
        "metadata": { "name": "web", "namespace": "team-a" },
        "spec": { "provider": "kubernetes" }, "status": status })
}

#[tokio::test]
async fn a_lost_identity_is_not_replaced_while_instances_of_it_stand() {
    let instance = json!({ "incarnation": 1, "instance": {
        "provider": "kubernetes", "name": "proxy-web-aaaaaa-bbbbbbbb", "specHash": "1:0", "created": true } });
    let unreadable = json!({ "incarnation": "many" });
    for status in [instance, unreadable] {
        for watch in [vec![], vec!["team-a".to_owned()]] {
            let (api, cluster) = world();
            api.put(PROXY, proxy(&status));
            let refused = establish(&cluster, &watch).await.unwrap_err();
            assert!(matches!(refused, IdentityError::Lost { count: 1, .. }), "{refused}");
            assert!(refused.to_string().contains("team-a/web"), "{refused}");
            compare("the-operator-does-not-start-its-identity-is-lost", &refused);
            assert!(api.object(SECRET).is_none(), "nothing was minted");

            api.put(PROXY, proxy(&json!({ "incarnation": 1 })));
            establish(&cluster, &watch).await.unwrap();
            api.put(PROXY, proxy(&status));
            establish(&cluster, &watch).await.expect("with its Secret, it goes on");
        }
    }
}

#[tokio::test]
async fn an_identity_that_nobody_minted_is_refused() {
    let (api, cluster) = world();
    let minted = establish(&cluster, &[]).await.unwrap();
    for bad in ["a", &"G".repeat(32), &"A".repeat(32), &"a".repeat(33)] {
        let mut secret = api.object(SECRET).unwrap();
        secret["data"]["id"] = json!(ByteString(bad.as_bytes().to_vec()));
        api.put(SECRET, secret);
        let refused = establish(&cluster, &[]).await.unwrap_err();
        assert!(matches!(refused, IdentityError::NotMinted { .. }), "{bad}: {refused}");
        let told = refused.to_string();
        assert!(bad.len() == 1 || !told.contains(bad), "an identity is no text for a log: {told}");
    }
    assert_eq!(minted.installation.id().len(), 32);
}

/// The page's lines against what the log says last.
fn compare(symptom: &str, refused: &IdentityError) {
    let complaint = docs_tests::shown::complaint(symptom, &[format!("epo: {refused}")]);
    assert!(complaint.is_empty(), "{complaint}");
}

#[tokio::test]
async fn an_identity_of_another_cluster_is_refused_with_both_ways_out() {
    let (api, cluster) = world();
    establish(&cluster, &[]).await.unwrap();
    let mut secret = api.object(SECRET).unwrap();
    secret["data"]["cluster"] = json!(ByteString(b"elsewhere".to_vec()));
    api.put(SECRET, secret);
    let refused = establish(&cluster, &[]).await.unwrap_err();
    assert!(matches!(refused, IdentityError::OtherCluster { .. }), "{refused}");
    compare("the-operator-does-not-start-its-identity-is-another-clusters", &refused);
}
