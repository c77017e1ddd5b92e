//! Owners, and what goes with them.

use serde_json::{Value, json};

use super::is_gone;
use crate::step::{Step, create, delete, get};

fn owned(name: &str, owners: Value) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners } })
}

pub fn steps() -> Vec<Step> {
    let owner = || json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{an owner:/metadata/uid}" });
    let of = |field: &str, value: &str| {
        let mut owner = owner();
        owner[field] = json!(value);
        owner
    };
    let mut controller = owner();
    controller["controller"] = json!(true);
    let mut other = of("uid", "another");
    other["controller"] = json!(true);
    vec![
        create("an owner", "configmaps", owned("owner", json!([]))),
        create("what it owns", "configmaps", owned("owned", json!([controller.clone()]))),
        create(
            "what is owned twice by one",
            "configmaps",
            owned("twice", json!([controller.clone(), controller.clone()])),
        ),
        create("what two would control", "configmaps", owned("two", json!([controller, other]))),
        create("what nobody owns any more", "configmaps", owned("stray", json!([of("uid", "no-such-uid")]))),
        create(
            "what somebody of another name owns",
            "configmaps",
            owned("misnamed", json!([of("name", "elsewhere")])),
        ),
        create(
            "what something unknown owns",
            "configmaps",
            owned(
                "unknown",
                json!([
                    { "apiVersion": "egressproxies.dev/v1", "kind": "Nothing", "name": "x", "uid": "u-1" },
                ]),
            ),
        ),
        get("what nobody owned is gone", "configmaps", "stray").until(is_gone),
        get("what was misnamed is gone", "configmaps", "misnamed").until(is_gone),
        get("what is owned is there", "configmaps", "owned"),
        delete("the owner goes", "configmaps", "owner"),
        get("what it owned goes, too", "configmaps", "owned").until(is_gone),
        get("what something unknown owns stays", "configmaps", "unknown"),
    ]
}
