//! Merge patches and JSON patches.

use serde_json::{Value, json};

use super::map;
use crate::step::{Step, apply, create, json_patch, merge};

pub fn steps() -> Vec<Step> {
    let mut steps = vec![create("a ConfigMap to patch", "configmaps", map("p", json!({ "a": "1" })))];
    let merges: Vec<(&'static str, Value)> = vec![
        ("merge: a value", json!({ "data": { "a": "2", "z": null } })),
        ("merge: nothing new", json!({ "data": { "a": "2" } })),
        ("merge: nothing at all", json!({})),
        (
            "merge: the right version",
            json!({ "metadata": { "resourceVersion": "{merge: nothing at all:/metadata/resourceVersion}" }, "data": { "b": "1" } }),
        ),
        (
            "merge: an old version",
            json!({ "metadata": { "resourceVersion": "{a ConfigMap to patch:/metadata/resourceVersion}" }, "data": { "a": "3" } }),
        ),
        ("merge: no version at all", json!({ "metadata": { "resourceVersion": "x" } })),
        ("merge: an empty version", json!({ "metadata": { "resourceVersion": "" }, "data": { "a": "3" } })),
        ("merge: the version away", json!({ "metadata": { "resourceVersion": null }, "data": { "a": "4" } })),
        ("merge: another UID", json!({ "metadata": { "uid": "other" } })),
        ("merge: the UID away", json!({ "metadata": { "uid": null }, "data": { "a": "5" } })),
        ("merge: another name", json!({ "metadata": { "name": "other" } })),
        ("merge: another namespace", json!({ "metadata": { "namespace": "other" } })),
        ("merge: the metadata away", json!({ "metadata": null })),
        ("merge: a time of deletion", json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } })),
        (
            "merge: another time and generation",
            json!({ "metadata": { "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9 } }),
        ),
        ("merge: another kind", json!({ "kind": "Pod" })),
        ("merge: another version of the API", json!({ "apiVersion": "v2" })),
        ("merge: a list", json!([])),
        ("merge: null", Value::Null),
        ("merge: a text", json!("x")),
        ("merge: a number as data", json!({ "data": { "a": 1 } })),
        ("merge: data that are a text", json!({ "data": "x" })),
        ("merge: a bad key", json!({ "data": { "a/b": "x" } })),
        ("merge: an unknown field", json!({ "unknown": 1 })),
        (
            "merge: labels and annotations",
            json!({ "metadata": { "labels": { "x": "y" }, "annotations": { "k": "v" } } }),
        ),
        ("merge: a bad label", json!({ "metadata": { "labels": { "x": "not ok!" } } })),
        ("merge: labels away", json!({ "metadata": { "labels": null } })),
        ("merge: managers that are none", json!({ "metadata": { "managedFields": [{}] } })),
        ("merge: managers away", json!({ "metadata": { "managedFields": [] } })),
        ("merge: data away", json!({ "data": null })),
        ("merge: data anew", json!({ "data": { "a": "1" } })),
    ];
    steps.extend(merges.into_iter().map(|(name, body)| merge(name, "configmaps", "p", body)));
    steps.push(apply(
        "an apply after the managers went",
        "configmaps",
        "p",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": { "ap": "1" },
        }),
    ));
    steps.push(merge("merge: noted again", "configmaps", "p", json!({ "data": { "a": "2" } })));
    steps.push(apply(
        "an apply of nothing takes back its own alone",
        "configmaps",
        "p",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {},
        }),
    ));
    steps.push(merge("merge: what is not there", "configmaps", "none", json!({ "data": {} })));
    steps.push(
        merge("merge: in a namespace that is not there", "configmaps", "none", json!({})).within("$ns-none"),
    );
    let patches: Vec<(&'static str, Value)> = vec![
        ("patch: add", json!([{ "op": "add", "path": "/data/n", "value": "1" }])),
        ("patch: replace", json!([{ "op": "replace", "path": "/data/n", "value": "2" }])),
        (
            "patch: replace what is not there",
            json!([{ "op": "replace", "path": "/data/none", "value": "2" }]),
        ),
        ("patch: remove", json!([{ "op": "remove", "path": "/data/none" }])),
        ("patch: remove what is not there", json!([{ "op": "remove", "path": "/data/none" }])),
        ("patch: test fails", json!([{ "op": "test", "path": "/data/n", "value": "9" }])),
        (
            "patch: test holds",
            json!([{ "op": "test", "path": "/data/n", "value": "2" }, { "op": "remove", "path": "/data/n" }]),
        ),
        (
            "patch: test fails behind a change",
            json!([{ "op": "add", "path": "/data/x", "value": "1" }, { "op": "test", "path": "/data/a", "value": "9" }]),
        ),
        ("patch: test for null", json!([{ "op": "test", "path": "/data/zz", "value": null }])),
        ("patch: test below what is not there", json!([{ "op": "test", "path": "/none/zz", "value": null }])),
        ("patch: no parent", json!([{ "op": "add", "path": "/none/x", "value": "1" }])),
        ("patch: copy", json!([{ "op": "copy", "from": "/data/a", "path": "/data/c" }])),
        ("patch: move", json!([{ "op": "move", "from": "/data/c", "path": "/data/m" }])),
        ("patch: move what is not there", json!([{ "op": "move", "from": "/data/none", "path": "/data/m" }])),
        ("patch: copy what is not there", json!([{ "op": "copy", "from": "/data/none", "path": "/data/c" }])),
        ("patch: an unknown operation", json!([{ "op": "bogus", "path": "/data/c", "value": "x" }])),
        ("patch: no operation", json!([{ "path": "/data/zz", "value": "1" }])),
        ("patch: no path", json!([{ "op": "add", "value": "1" }])),
        ("patch: no value", json!([{ "op": "add", "path": "/data/q" }])),
        ("patch: a path without its slash", json!([{ "op": "add", "path": "data/c", "value": "x" }])),
        ("patch: the whole document", json!([{ "op": "add", "path": "", "value": "x" }])),
        ("patch: a key with a slash", json!([{ "op": "add", "path": "/data/m~1x", "value": "x" }])),
        (
            "patch: a key with a tilde",
            json!([{ "op": "add", "path": "/metadata/annotations/a~0b", "value": "x" }]),
        ),
        ("patch: nothing", json!([])),
        ("patch: no list", json!({ "op": "add" })),
        (
            "patch: an old version",
            json!([{ "op": "replace", "path": "/metadata/resourceVersion", "value": "1" }]),
        ),
        ("patch: a finalizer", json!([{ "op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"] }])),
        (
            "patch: a finalizer at the end",
            json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "a.b/d" }]),
        ),
        (
            "patch: a finalizer at the front",
            json!([{ "op": "add", "path": "/metadata/finalizers/0", "value": "a.b/e" }]),
        ),
        (
            "patch: a finalizer too far behind",
            json!([{ "op": "add", "path": "/metadata/finalizers/9", "value": "a.b/f" }]),
        ),
        ("patch: no such finalizer", json!([{ "op": "remove", "path": "/metadata/finalizers/9" }])),
        ("patch: counted from the end", json!([{ "op": "remove", "path": "/metadata/finalizers/-1" }])),
        (
            "patch: a list tested",
            json!([{ "op": "test", "path": "/metadata/finalizers", "value": ["a.b/e", "a.b/c"] }]),
        ),
        ("patch: finalizers away", json!([{ "op": "remove", "path": "/metadata/finalizers" }])),
    ];
    steps.extend(patches.into_iter().map(|(name, body)| json_patch(name, "configmaps", "p", body)));
    steps.push(json_patch("patch: what is not there at all", "configmaps", "none", json!([])));
    steps
}
