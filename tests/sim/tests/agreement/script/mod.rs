//! What both are asked, by subject.

mod applies;
mod deletes;
mod kinds;
mod limits;
mod lists;
mod lives;
mod objects;
mod owners;
mod patches;
mod pods;
mod refusals;

use serde_json::{Value, json};

use crate::step::{Call, Step, create, get};

/// All of it, in order.
pub fn steps() -> Vec<Step> {
    let mut steps = begin();
    for part in [
        objects::steps,
        lists::steps,
        patches::steps,
        deletes::steps,
        pods::steps,
        kinds::steps,
        applies::steps,
        refusals::steps,
        owners::steps,
    ] {
        steps.extend(part());
    }
    steps.extend(end());
    steps.extend(limits::steps());
    steps
}

/// The same with a node: what becomes of Pods.
pub fn lives() -> Vec<Step> {
    let mut steps = lives::begin();
    steps.extend(lives::steps());
    steps
}

fn begin() -> Vec<Step> {
    vec![
        Step::new("about the cluster", "version", Call::About),
        create("a namespace", "namespaces", json!({ "metadata": { "name": "$ns" } })).within(""),
        get("the namespace has a ServiceAccount", "serviceaccounts", "default").until(is_there),
        get("the namespace has the authority's certificate", "configmaps", "kube-root-ca.crt")
            .until(is_there),
        create("the same namespace again", "namespaces", json!({ "metadata": { "name": "$ns" } })).within(""),
        create("a namespace with a bad name", "namespaces", json!({ "metadata": { "name": "Bad_Name" } }))
            .within(""),
        create("a namespace with dots", "namespaces", json!({ "metadata": { "name": "a.b" } })).within(""),
    ]
}

fn end() -> Vec<Step> {
    use crate::step::delete;
    vec![
        delete("the namespace is deleted", "namespaces", "$ns").within(""),
        get("the namespace is gone", "namespaces", "$ns").within("").until(is_gone),
    ]
}

pub fn is_there(answer: &Value) -> bool {
    answer["metadata"].is_object()
}

pub fn is_gone(answer: &Value) -> bool {
    answer["code"] == 404
}

/// A ConfigMap.
pub fn map(name: &str, data: Value) -> Value {
    json!({ "metadata": { "name": name }, "data": data })
}

/// A Pod that no scheduler looks at.
pub fn pod(name: &str, spec: Value) -> Value {
    let mut whole =
        json!({ "schedulerName": "nobody", "containers": [{ "name": "main", "image": "squid:6" }] });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": whole })
}
