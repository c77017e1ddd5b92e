//! Whether a real cluster is fit to be tried on: the namespaces are there, nobody works in them, and whoever looks
//! and acts behind the provider's back may do so.

use egress_runtime::capability::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind,
};
use egress_sim::backend::{Thing, Unable};
use serde_json::{Value, json};

use super::objects::{api_resource, text};

/// What runs by itself: where some of it stands, somebody works.
const WORK: [&str; 3] = ["pods", "deployments.apps", "statefulsets.apps"];
/// What is done behind the provider's back, beside looking.
const VERBS: [&str; 2] = ["patch", "delete"];
/// What others keep in a namespace, under this name.
const OTHERS: &str = "egress-conformance";
/// It must not come out of a component.
pub const SECRET: &str = "registry-password-of-somebody-else-0815";
/// Things that a message names.
const NAMED: usize = 3;

/// What the API says of an administrator's request.
pub fn failed(failure: KubernetesFailure) -> Unable {
    Unable::Failed(failure.message)
}

/// Whether an answer is one of these of the API itself.
pub fn is_status(failure: &KubernetesFailure, code: u16) -> bool {
    failure.kind == KubernetesFailureKind::Status && failure.code == code
}

/// The namespace is there, and stays.
pub async fn is_there(admin: &dyn Kubernetes, cluster: &str, namespace: &str) -> Result<(), Unable> {
    let found = match admin.get(cluster, &api_resource("namespaces"), "", namespace).await {
        Ok(found) => found,
        Err(failure) if is_status(&failure, 404) => {
            return Err(Unable::Failed(format!(
                "cluster {cluster} has no namespace {namespace}: make it (kubectl create namespace {namespace}), or \
                 name another"
            )));
        }
        // Whoever may do everything in a namespace need not be allowed to look at the namespace itself.
        Err(failure) if is_status(&failure, 403) => return Ok(()),
        Err(failure) => {
            return Err(Unable::Failed(format!(
                "cluster {cluster} can't be asked by whoever looks behind the provider's back: {}; see that the kubeconfig \
                 leads there, as somebody that the cluster knows",
                failure.message
            )));
        }
    };
    match text(&found, "/status/phase") {
        "Terminating" => Err(Unable::Failed(format!(
            "namespace {namespace} of cluster {cluster} is being deleted: name another, or wait and make it again"
        ))),
        _ => Ok(()),
    }
}

/// An administrator may do there what an administrator does.
pub async fn is_ours_to_change(
    admin: &dyn Kubernetes,
    cluster: &str,
    namespace: &str,
    plurals: impl Iterator<Item = (&'static str, &'static str)>,
) -> Result<(), Unable> {
    for (api_version, plural) in plurals {
        for verb in VERBS {
            let access = Access {
                verb: verb.to_owned(),
                resource: super::resource_of(api_version, plural),
                namespace: namespace.to_owned(),
            };
            if !admin.allowed(cluster, &access).await.map_err(failed)? {
                return Err(Unable::Failed(format!(
                    "whoever looks and acts behind the provider's back must be allowed to {verb} {plural} in namespace \
                     {namespace} of cluster {cluster}, and is not: give the kubeconfig of an administrator of the \
                     namespace"
                )));
            }
        }
    }
    Ok(())
}

/// Nothing runs there.
pub fn is_free(things: &[Thing]) -> Result<(), Unable> {
    let work: Vec<String> = things
        .iter()
        .filter(|thing| WORK.contains(&thing.kind.as_str()))
        .map(|thing| format!("{} {}/{}", thing.kind, thing.place, thing.name))
        .collect();
    match work.get(..NAMED.min(work.len())).unwrap_or_default() {
        [] => Ok(()),
        named => Err(Unable::Failed(format!(
            "somebody works in these namespaces ({}{}): name two where nobody does, since a quota that leaves no room \
             is part of what is tried",
            named.join(", "),
            if work.len() > named.len() { " ..." } else { "" }
        ))),
    }
}

/// Puts a secret there that is nothing of a provider's.
pub async fn furnish(admin: &dyn Kubernetes, cluster: &str, namespace: &str) -> Result<(), Unable> {
    unfurnish(admin, cluster, namespace).await?;
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
        "metadata": { "name": OTHERS, "namespace": namespace },
        "stringData": { "password": SECRET },
    });
    admin.create(cluster, &api_resource("secrets"), namespace, body).await.map(drop).map_err(failed)
}

/// Takes it away again.
pub async fn unfurnish(admin: &dyn Kubernetes, cluster: &str, namespace: &str) -> Result<(), Unable> {
    let options = DeleteOptions::default();
    match admin.delete(cluster, &api_resource("secrets"), namespace, OTHERS, &options).await {
        Ok(_) => Ok(()),
        Err(failure) if is_status(&failure, 404) => Ok(()),
        Err(failure) => Err(failed(failure)),
    }
}

/// Something that is nobody's instance.
pub fn named(kind: &str, place: &str, namespace: &str, name: &str) -> Thing {
    Thing {
        kind: kind.to_owned(),
        place: place.to_owned(),
        name: format!("{namespace}/{name}"),
        instance: false,
        deleting: false,
        mark: Vec::new(),
        content: String::new(),
    }
}

/// Whether a Pod will change by itself.
pub fn moves(pod: &Value, hold: &str) -> bool {
    let finalizers = pod.pointer("/metadata/finalizers").and_then(Value::as_array);
    let held = finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == hold));
    let goes = pod.pointer("/metadata/deletionTimestamp").is_some();
    let over = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    match (goes, held) {
        (true, held) => !held || (!over && is_ready(pod)),
        (false, _) => !over && !is_ready(pod),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_moves_until_it_is_ready_over_or_held() {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        for (metadata, status, expected) in [
            (json!({}), json!({ "phase": "Pending" }), true),
            (
                json!({}),
                json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "False" }] }),
                true,
            ),
            (json!({}), json!({ "phase": "Running", "conditions": ready }), false),
            (json!({}), json!({ "phase": "Failed" }), false),
            (json!({ "deletionTimestamp": "x" }), json!({ "phase": "Running", "conditions": ready }), true),
            (json!({ "deletionTimestamp": "x", "finalizers": ["h"] }), json!({ "phase": "Failed" }), false),
        ] {
            let pod = json!({ "metadata": metadata, "status": status });
            assert_eq!(moves(&pod, "h"), expected, "{pod}");
        }
    }

    #[test]
    fn where_somebody_works_is_told_with_what_works_there() {
        let thing = |kind: &str, name: &str| named(kind, "home", "team-a", name);
        assert_eq!(is_free(&[thing("configmaps", "kube-root-ca.crt")]), Ok(()));
        let told = is_free(&[thing("pods", "shop")]).unwrap_err().to_string();
        assert!(told.contains("pods home/team-a/shop"), "{told}");
    }
}
