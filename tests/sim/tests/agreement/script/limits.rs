//! What the simulator does not do: see `differences.rs`. At the very end, since what only one of two makes would
//! shift all that comes after it.

use serde_json::json;

use super::pod;
use crate::step::{Step, create, get};

pub fn steps() -> Vec<Step> {
    let within = |step: Step| step.within("default");
    vec![
        within(get("a kind of which there are none here", "persistentvolumeclaims", "none")),
        within(create(
            "a bad init container",
            "pods",
            pod("init", json!({ "initContainers": [{ "name": "A" }] })),
        )),
        within(create(
            "a bad affinity",
            "pods",
            pod(
                "affinity",
                json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] },
        } } }),
            ),
        )),
        within(create(
            "a class of runtime that is not there",
            "pods",
            pod("class", json!({ "runtimeClassName": "none" })),
        )),
    ]
}
