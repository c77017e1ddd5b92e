//! Making and reading.

use serde_json::json;

use super::map;
use crate::step::{Step, create, get};

pub fn steps() -> Vec<Step> {
    vec![
        create("a ConfigMap", "configmaps", map("c", json!({ "a": "b" }))),
        get("the ConfigMap", "configmaps", "c"),
        get("a ConfigMap that is not there", "configmaps", "none"),
        get("a Pod in a namespace that is not there", "pods", "none").within("$ns-none"),
        create("the same ConfigMap again", "configmaps", map("c", json!({}))),
        create("a ConfigMap with a bad name", "configmaps", map("C_x", json!({}))),
        create("a ConfigMap with a very long name", "configmaps", map(&"x".repeat(254), json!({}))),
        create("a ConfigMap without a name", "configmaps", json!({ "metadata": {} })),
        create("an empty body", "configmaps", json!({})),
        create("a generated name", "configmaps", json!({ "metadata": { "generateName": "gen-" } })),
        create(
            "a bad generated name",
            "configmaps",
            json!({ "metadata": { "name": "x", "generateName": "Bad_" } }),
        ),
        create(
            "a body of another kind",
            "configmaps",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" } }),
        ),
        create(
            "a body of another version",
            "configmaps",
            json!({ "apiVersion": "v2", "kind": "ConfigMap", "metadata": { "name": "x" } }),
        ),
        create("a body that is a list", "configmaps", json!([])),
        create("a body that is a text", "configmaps", json!("x")),
        create(
            "a body for another namespace",
            "configmaps",
            json!({ "metadata": { "name": "x", "namespace": "elsewhere" } }),
        ),
        create("a namespace that is not there", "configmaps", map("x", json!({}))).within("$ns-none"),
        create("a bad name in a namespace that is not there", "configmaps", map("X_", json!({})))
            .within("$ns-none"),
        create(
            "a version in a new object",
            "configmaps",
            json!({ "metadata": { "name": "x", "resourceVersion": "5" } }),
        ),
        create(
            "what only the server decides",
            "configmaps",
            json!({
                "metadata": {
                    "name": "forged", "uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "x",
                    "deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "deletionGracePeriodSeconds": 3,
                },
                "unknown": 1, "data": {},
            }),
        ),
        create("a number as data", "configmaps", map("x", json!({ "a": 1 }))),
        create("a list as data", "configmaps", map("x", json!({ "a": ["b"] }))),
        create("data that is a text", "configmaps", map("x", json!("y"))),
        create("null as data", "configmaps", map("null", json!({ "a": null }))),
        create("a name that is a number", "configmaps", json!({ "metadata": { "name": 1 } })),
        create("metadata that are a text", "configmaps", json!({ "metadata": "x" })),
        create(
            "a label that is a number",
            "configmaps",
            json!({ "metadata": { "name": "x", "labels": { "a": 1 } } }),
        ),
        create(
            "a bad label",
            "configmaps",
            json!({ "metadata": { "name": "x", "labels": { "a": "not ok!" } } }),
        ),
        create(
            "a bad label's key",
            "configmaps",
            json!({ "metadata": { "name": "x", "labels": { "a b": "c" } } }),
        ),
        create(
            "a label's key without its prefix",
            "configmaps",
            json!({ "metadata": { "name": "x", "labels": { "/x": "c" } } }),
        ),
        create(
            "a label that is too long",
            "configmaps",
            json!({ "metadata": { "name": "x", "labels": { "a": "v".repeat(64) } } }),
        ),
        create(
            "everything wrong at once",
            "configmaps",
            json!({
                "metadata": { "name": "X_", "labels": { "a b": "c" }, "annotations": { "x y": "z" }, "finalizers": ["bad"] },
                "data": { "a/b": "c" },
            }),
        ),
        create(
            "an owner without a UID",
            "configmaps",
            json!({ "metadata": { "name": "x", "ownerReferences": [{ "kind": "ConfigMap", "name": "c" }] } }),
        ),
        create(
            "annotations that are too long",
            "configmaps",
            json!({ "metadata": { "name": "x", "annotations": { "a": "x".repeat(262_144) } } }),
        ),
        create("data that are too long", "configmaps", map("x", json!({ "a": "x".repeat(1_048_577) }))),
        create(
            "a key twice",
            "configmaps",
            json!({ "metadata": { "name": "x" }, "data": { "a": "b" }, "binaryData": { "a": "YQ==", "c": "YQ==" } }),
        ),
        create("a resource that nobody serves", "things", json!({ "metadata": { "name": "x" } })),
        get("an object that nobody serves", "things", "x"),
        get("a group that nobody serves", "things", "x").of("egress.invalid/v1"),
        get("a version that nobody serves", "deployments", "x").of("apps/v1beta1"),
        get("a subresource that nobody serves", "configmaps/status", "c"),
        get("a subresource of a Pod that nobody serves", "pods/none", "x"),
        get("a Pod without its namespace", "pods", "x").within(""),
        get("a node within a namespace", "nodes", "x"),
        create("a Pod without a namespace", "pods", json!({ "metadata": { "name": "x" } })).within(""),
        get("a name that leads elsewhere", "configmaps", "../secrets"),
        get("a namespace that leads elsewhere", "configmaps", "x").within("../kube-system"),
        get("a version that leads elsewhere", "configmaps", "x").of("../v1"),
        get("a resource that leads elsewhere", "pods/../secrets", "x"),
    ]
}
