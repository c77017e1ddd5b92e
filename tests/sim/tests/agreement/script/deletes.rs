//! Deleting, and what holds it up.

use serde_json::json;

use super::map;
use crate::step::{Step, create, delete, delete_if, delete_within, get, json_patch, merge};

pub fn steps() -> Vec<Step> {
    let mut held = map("held", json!({ "a": "1" }));
    held["metadata"]["finalizers"] = json!(["a.b/c", "a.b/d"]);
    vec![
        create("a ConfigMap to delete", "configmaps", map("d", json!({}))),
        delete("delete what is not there", "configmaps", "none"),
        delete_if("delete another's UID", "configmaps", "d", Some("x"), None),
        delete_if("delete an old version", "configmaps", "d", None, Some("1")),
        delete_if("delete with both wrong", "configmaps", "d", Some("x"), Some("1")),
        delete_if(
            "delete with both right",
            "configmaps",
            "d",
            Some("{a ConfigMap to delete:/metadata/uid}"),
            Some("{a ConfigMap to delete:/metadata/resourceVersion}"),
        ),
        delete("delete it again", "configmaps", "d"),
        create("its successor", "configmaps", map("d", json!({}))),
        delete_if(
            "delete the predecessor",
            "configmaps",
            "d",
            Some("{a ConfigMap to delete:/metadata/uid}"),
            None,
        ),
        delete_within("delete a ConfigMap with grace", "configmaps", "d", 30),
        create("a ConfigMap with finalizers", "configmaps", held),
        delete("delete what a finalizer holds", "configmaps", "held"),
        delete("delete it once more", "configmaps", "held"),
        get("what a finalizer holds", "configmaps", "held"),
        create("its name again", "configmaps", map("held", json!({}))),
        merge("change what is being deleted", "configmaps", "held", json!({ "data": { "a": "2" } })),
        json_patch(
            "a finalizer too late",
            "configmaps",
            "held",
            json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "a.b/e" }]),
        ),
        merge(
            "one of two finalizers goes",
            "configmaps",
            "held",
            json!({ "metadata": { "finalizers": ["a.b/d"] } }),
        ),
        merge("the last finalizer goes", "configmaps", "held", json!({ "metadata": { "finalizers": null } })),
        get("what no finalizer holds any more", "configmaps", "held"),
        delete("delete in a namespace that is not there", "configmaps", "d").within("$ns-none"),
        delete("delete a default namespace", "namespaces", "default").within(""),
        delete("delete a subresource", "pods/status", "x"),
        delete("delete a Secret", "secrets", "s-a"),
    ]
}
