//! What the API server asks before it lets an object in: the namespace, the ServiceAccount, Pod Security, and
//! whoever else has a say.

use serde_json::{Value, json};

use super::{
    identity,
    json::{at, default, enter, fields, list, put, text},
    kinds::Kind,
    security,
    state::State,
    status::{Answer, status},
    store::Key,
};

/// A refusal by somebody's own rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `pods`; empty for all.
    pub(super) resource: String,
    /// Empty for all.
    pub(super) namespace: String,
    pub(super) message: String,
}

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn forbidden(kind: &Kind, name: &str, why: &str) -> egress_runtime::capability::KubernetesFailure {
    let what = match name {
        "" => kind.qualified(),
        name => format!("{} \"{name}\"", kind.qualified()),
    };
    status(403, "Forbidden", format!("{what} is forbidden: {why}"), kind.details(name))
}

impl State {
    /// What changes an object, or refuses it, before it is looked at closely.
    pub(super) fn admit(&mut self, kind: &Kind, object: &mut Value) -> Answer<()> {
        self.check_namespace(kind, object)?;
        match kind.kind.as_ref() {
            "Pod" => self.admit_pod(kind, object),
            "Namespace" => {
                default(object, &["spec", "finalizers"], json!(["kubernetes"]));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_namespace(&self, kind: &Kind, object: &Value) -> Answer<()> {
        if !kind.namespaced {
            return Ok(());
        }
        let namespace = text(object, &["metadata", "namespace"]);
        let Some(found) = self.store.get(&Key::new("namespaces", "", namespace)) else {
            let message = format!("namespaces \"{namespace}\" not found");
            let details = json!({ "name": namespace, "kind": "namespaces" });
            return Err(status(404, "NotFound", message, details));
        };
        if at(found, &["metadata", "deletionTimestamp"]).is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refused = forbidden(kind, text(object, &["metadata", "name"]), &why);
        let causes = json!([{
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        enter(&mut refused.details).insert("causes".to_owned(), causes);
        Err(refused)
    }

    fn admit_pod(&mut self, kind: &Kind, pod: &mut Value) -> Answer<()> {
        let name = text(pod, &["metadata", "name"]).to_owned();
        let class = text(pod, &["spec", "priorityClassName"]);
        let priority = match class {
            "" => 0,
            "system-cluster-critical" => 2_000_000_000,
            "system-node-critical" => 2_000_001_000,
            other => {
                let why = format!("no PriorityClass with name {other} was found");
                return Err(forbidden(kind, &name, &why));
            }
        };
        if let Some(own) = at(pod, &["spec", "priority"]).filter(|own| **own != priority) {
            let why = format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller \
                 computed {priority} from the given PriorityClass name"
            );
            return Err(forbidden(kind, &name, &why));
        }
        put(pod, &["spec", "priority"], priority);
        default(pod, &["spec", "preemptionPolicy"], "PreemptLowerPriority");
        default(pod, &["spec", "serviceAccountName"], "default");
        let account = text(pod, &["spec", "serviceAccountName"]).to_owned();
        let namespace = text(pod, &["metadata", "namespace"]).to_owned();
        put(pod, &["spec", "serviceAccount"], account.clone());
        let Some(found) = self.store.get(&Key::new("serviceaccounts", &namespace, &account)) else {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            );
            return Err(forbidden(kind, &name, &why));
        };
        let by_account = found.get("automountServiceAccountToken").cloned();
        let mounts = at(pod, &["spec", "automountServiceAccountToken"]).cloned().or(by_account);
        tolerate_trouble(pod);
        if mounts != Some(json!(false)) {
            self.mount_token(pod);
        }
        Ok(())
    }

    fn mount_token(&mut self, pod: &mut Value) {
        let containers = ["initContainers", "containers"].map(|of| list(pod, &["spec", of]).to_vec());
        let mounted = |container: &Value| {
            list(container, &["volumeMounts"]).iter().any(|mount| text(mount, &["mountPath"]) == TOKEN_PATH)
        };
        if !containers.iter().flatten().any(|container| !mounted(container)) {
            return;
        }
        let name = format!("kube-api-access-{}", identity::suffix(&mut self.random));
        let mount = json!({ "name": name, "readOnly": true, "mountPath": TOKEN_PATH });
        for part in ["initContainers", "containers"] {
            let containers = pod.pointer_mut(&format!("/spec/{part}")).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter(|container| !mounted(container)) {
                push(container, "volumeMounts", mount.clone());
            }
        }
        let volume = json!({
            "name": name,
            "projected": {
                "sources": [
                    { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                    { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                    { "downwardAPI": { "items": [
                        { "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } },
                    ] } },
                ],
                "defaultMode": 420,
            },
        });
        if let Some(spec) = pod.get_mut("spec") {
            push(spec, "volumes", volume);
        }
    }

    /// What may still refuse an object that is sound in itself; a quota comes last.
    pub(super) fn validate(&self, kind: &Kind, object: &Value) -> Answer<()> {
        let name = text(object, &["metadata", "name"]);
        let namespace = text(object, &["metadata", "namespace"]);
        if kind.kind == "Pod"
            && let Some(namespace) = self.store.get(&Key::new("namespaces", "", namespace))
            && let Some(why) = security::violation(namespace, object)
        {
            return Err(forbidden(kind, name, &why));
        }
        let refusal = self.refusals.iter().find(|refusal| {
            let fits = |own: &str, asked: &str| own.is_empty() || own == asked;
            fits(&refusal.resource, &kind.qualified()) && fits(&refusal.namespace, namespace)
        });
        match refusal {
            // As a webhook refuses: no reason beside Forbidden, no details.
            Some(refusal) => {
                let message = format!(
                    "admission webhook \"simulated.example.com\" denied the request: {}",
                    refusal.message
                );
                Err(status(403, "Forbidden", message, json!({})))
            }
            None => Ok(()),
        }
    }
}

fn push(object: &mut Value, field: &str, value: Value) {
    match enter(object).entry(field).or_insert_with(|| json!([])) {
        Value::Array(items) => items.push(value),
        other => *other = json!([value]),
    }
}

/// For five minutes, on a node that is not ready or out of reach. Whoever takes that away gets it back.
pub(super) fn tolerate_trouble(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            matches!(text(toleration, &["key"]), "" | "*") && fields(toleration, &[]).is_some()
                || text(toleration, &["key"]) == key
        };
        let effect_fits = |toleration: &Value| matches!(text(toleration, &["effect"]), "" | "NoExecute");
        if list(pod, &["spec", "tolerations"]).iter().any(|own| tolerates(own) && effect_fits(own)) {
            continue;
        }
        let toleration =
            json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
        if let Some(spec) = pod.get_mut("spec") {
            push(spec, "tolerations", toleration);
        }
    }
}
