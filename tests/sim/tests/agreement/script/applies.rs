//! Server-side apply. The capability always forces, so there are no conflicts but those of versions.

use serde_json::{Value, json};

use super::pod;
use crate::step::{Step, apply, create, delete, get, merge};

fn map(metadata: Value, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
}

pub fn steps() -> Vec<Step> {
    let named = || json!({ "name": "ap", "labels": { "l": "1" } });
    let on = |name, body| apply(name, "configmaps", "ap", body);
    let mut with_env = pod(
        "app",
        json!({ "automountServiceAccountToken": false, "containers": [{
        "name": "main", "image": "squid:6", "env": [{ "name": "A", "value": "1" }], "ports": [{ "containerPort": 80 }],
    }] }),
    );
    with_env["metadata"]["labels"] = json!({ "x": "1" });
    let mut without_env = with_env.clone();
    without_env["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
    let mut other_image = with_env.clone();
    other_image["spec"]["containers"][0]["image"] = json!("squid:7");
    vec![
        on("apply makes", map(named(), json!({ "a": "1", "b": "2" }))),
        on("apply the same", map(named(), json!({ "a": "1", "b": "2" }))),
        on("apply less", map(json!({}), json!({ "a": "1" }))),
        merge("somebody else writes", "configmaps", "ap", json!({ "data": { "m": "1", "a": "7" } })),
        on("apply takes it back", map(json!({}), json!({ "a": "1" }))),
        on("apply nothing", map(json!({}), json!({}))),
        on("apply null", map(json!({}), json!({ "a": null }))),
        on("apply a finalizer", map(json!({ "finalizers": ["a.b/c"] }), json!({ "a": "1" }))),
        on("apply no finalizer", map(json!({}), json!({ "a": "1" }))),
        apply("apply without a name", "configmaps", "new", map(json!({}), json!({}))),
        apply("apply another name", "configmaps", "new", map(json!({ "name": "other" }), json!({}))),
        apply(
            "apply to another namespace",
            "configmaps",
            "new",
            map(json!({ "name": "new", "namespace": "other" }), json!({})),
        ),
        apply(
            "apply in a namespace that is not there",
            "configmaps",
            "new",
            map(json!({ "name": "new" }), json!({})),
        )
        .within("$ns-none"),
        apply("apply a bad name", "configmaps", "NEW_", map(json!({ "name": "NEW_" }), json!({}))),
        on("apply without a kind", json!({ "apiVersion": "v1", "data": {} })),
        on("apply another kind", json!({ "apiVersion": "v1", "kind": "Secret", "data": {} })),
        on("apply another version", json!({ "apiVersion": "v2", "kind": "ConfigMap", "data": {} })),
        on("apply a number", map(json!({}), json!({ "a": 1 }))),
        on(
            "apply an unknown field",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "zzz": 1 }),
        ),
        on("apply managers", map(json!({ "managedFields": [{}] }), json!({}))),
        on("apply an old version of the object", map(json!({ "resourceVersion": "1" }), json!({ "a": "1" }))),
        on("apply another UID", map(json!({ "uid": "x" }), json!({ "a": "1" }))),
        on("apply a list", json!([])),
        on("apply a bad key", map(json!({}), json!({ "a/b": "x" }))),
        apply("apply a Pod", "pods", "app", with_env),
        apply("apply a Pod without its variables", "pods", "app", without_env),
        apply("apply another image", "pods", "app", other_image),
        apply(
            "apply an unknown field of a container",
            "pods",
            "app",
            pod("app", json!({ "containers": [{ "name": "main", "zzz": 1 }] })),
        ),
        apply(
            "apply nothing of a Pod",
            "pods",
            "app",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} }),
        ),
        get("what is left of the Pod", "pods", "app"),
        delete("the applied Pod goes", "pods", "app"),
        create(
            "a ConfigMap to be applied to",
            "configmaps",
            json!({ "metadata": { "name": "created", "labels": { "a": "1" } }, "data": { "a": "1" } }),
        ),
        apply(
            "apply to what a create made",
            "configmaps",
            "created",
            map(json!({ "labels": { "b": "2" } }), json!({ "a": "1", "b": "2" })),
        ),
        apply("and apply less of it", "configmaps", "created", map(json!({}), json!({ "b": "2" }))),
    ]
}
