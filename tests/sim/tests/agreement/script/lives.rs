//! Pods on a node: how they come up, why they don't, how they end.

use egress_sim::kubernetes::Image;
use serde_json::{Value, json};

use super::{is_gone, is_there};
use crate::{
    sites::{MISSING, SQUID},
    step::{Call, List, Step, create, delete, delete_within, get, list, merge},
};

pub fn begin() -> Vec<Step> {
    vec![
        create("a namespace for lives", "namespaces", json!({ "metadata": { "name": "$ns" } })).within(""),
        get("its ServiceAccount is there", "serviceaccounts", "default").until(is_there),
    ]
}

fn pod(name: &str, command: Value, container: Value, spec: Value) -> Value {
    let mut main = json!({ "name": "main", "image": SQUID, "command": command });
    for (key, value) in container.as_object().into_iter().flatten() {
        main[key] = value.clone();
    }
    let mut whole = json!({
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 5, "containers": [main],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": whole })
}

fn waits() -> Value {
    json!(["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"])
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == "True"
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] == kind)
        .find_map(|found| found["status"].as_str())
        .unwrap_or("")
}

fn main_container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn waits_for(pod: &Value) -> &str {
    main_container(pod)["state"]["waiting"]["reason"].as_str().unwrap_or("")
}

fn progressed(deployment: &Value, replicas: u64) -> bool {
    let status = &deployment["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut reasons = conditions.map(|condition| condition["reason"].as_str().unwrap_or_default());
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && status["replicas"] == replicas
        && status["availableReplicas"] == replicas
        && status["terminatingReplicas"] == 0
        && reasons.any(|reason| reason == "NewReplicaSetAvailable")
}

pub fn steps() -> Vec<Step> {
    let becomes = |name, image| Step::new(name, "pods", Call::Becomes(image));
    let exits =
        |code: i32, message: &str, after_ms| Image::Exits { code, message: message.to_owned(), after_ms };
    let probe = |command: &str| json!({ "exec": { "command": [command] }, "periodSeconds": 1 });
    let probes = json!({ "startupProbe": probe("true"), "readinessProbe": probe("true") });
    let asks = json!({ "resources": { "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": "64Mi" } } });
    let config = json!({ "volumes": [{ "name": "c", "configMap": { "name": "late" } }] });
    let mounts = json!({ "volumeMounts": [{ "name": "c", "mountPath": "/c", "readOnly": true }, { "name": "c", "mountPath": "/d" }] });
    let deployment = json!({ "metadata": { "name": "d" }, "spec": {
        "replicas": 2, "selector": { "matchLabels": { "app": "d" } }, "strategy": { "type": "Recreate" },
        "template": { "metadata": { "labels": { "app": "d" } },
                      "spec": pod("x", waits(), json!({}), json!({}))["spec"].clone() },
    } });
    let never = json!({ "restartPolicy": "Never" });
    let last_words = json!({ "terminationMessagePolicy": "FallbackToLogsOnError" });
    vec![
        create("a Pod comes up", "pods", pod("up", waits(), probes, json!({}))),
        get("the Pod is ready", "pods", "up").until(is_ready),
        delete("the running Pod is deleted", "pods", "up"),
        get("the running Pod has gone", "pods", "up").until(is_gone),
        create("a Pod without probes", "pods", pod("plain", waits(), asks, json!({}))),
        get("the Pod without probes is ready", "pods", "plain").until(is_ready),
        create(
            "it is evicted by the API",
            "pods/eviction",
            json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "plain" },
            }),
        ),
        get("the evicted Pod has gone", "pods", "plain").until(is_gone),
        create(
            "a Pod without its image",
            "pods",
            pod("pull", waits(), json!({ "image": MISSING }), json!({})),
        ),
        get("its image is not found", "pods", "pull").until(|pod| waits_for(pod) == "ErrImagePull"),
        get("its image is not looked for so often", "pods", "pull")
            .until(|pod| waits_for(pod) == "ImagePullBackOff"),
        delete("the Pod without its image is deleted", "pods", "pull").in_either_state(),
        get("the Pod without its image has gone", "pods", "pull").until(is_gone),
        becomes("nothing gets ready", Image::NeverReady),
        create(
            "a Pod that never gets ready",
            "pods",
            pod("unready", waits(), json!({ "readinessProbe": probe("false") }), json!({})),
        ),
        get("it runs, and is not ready", "pods", "unready").until(|pod| pod["status"]["phase"] == "Running"),
        delete_within("the unready Pod is deleted at once", "pods", "unready", 0),
        becomes("nothing gets started", Image::NeverStarted),
        create(
            "a Pod that never gets started",
            "pods",
            pod(
                "unstarted",
                waits(),
                json!({ "startupProbe": {
            "exec": { "command": ["false"] }, "periodSeconds": 1, "failureThreshold": 100,
        } }),
                json!({}),
            ),
        ),
        get("it runs, and is not started", "pods", "unstarted")
            .until(|pod| pod["status"]["phase"] == "Running"),
        delete_within("the Pod that never starts is deleted at once", "pods", "unstarted", 0),
        becomes("everything runs", Image::Runs),
        create(
            "a Pod for which there is no room",
            "pods",
            pod("large", waits(), json!({ "resources": { "requests": { "cpu": "500" } } }), json!({})),
        ),
        get("it finds no node", "pods", "large").until(|pod| condition(pod, "PodScheduled") == "False"),
        delete("the Pod without a node is deleted", "pods", "large"),
        get("the Pod without a node has gone", "pods", "large"),
        create(
            "a Pod for another kind of node",
            "pods",
            pod("picky", waits(), json!({}), json!({ "nodeSelector": { "zone": "moon" } })),
        ),
        get("it finds no such node", "pods", "picky").until(|pod| condition(pod, "PodScheduled") == "False"),
        delete("the picky Pod is deleted", "pods", "picky"),
        create("a Pod whose ConfigMap is not there", "pods", pod("mounts", waits(), mounts, config)),
        get("it waits for its ConfigMap", "pods", "mounts")
            .until(|pod| waits_for(pod) == "ContainerCreating"),
        create(
            "its ConfigMap comes",
            "configmaps",
            json!({ "metadata": { "name": "late" }, "data": { "a": "b" } }),
        ),
        get("it is ready with its ConfigMap", "pods", "mounts").until(is_ready),
        merge("a finalizer for it", "pods", "mounts", json!({ "metadata": { "finalizers": ["a.b/c"] } })),
        delete("the Pod with a finalizer is to end", "pods", "mounts"),
        get("it has ended, and is held", "pods", "mounts")
            .until(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0),
        merge("nothing holds it", "pods", "mounts", json!({ "metadata": { "finalizers": null } })),
        get("what was held has gone", "pods", "mounts").until(is_gone),
        becomes("everything ends well", exits(0, "", 100)),
        create("a Pod that does its work", "pods", pod("done", json!(["true"]), json!({}), never.clone())),
        get("it has done its work", "pods", "done").until(|pod| pod["status"]["phase"] == "Succeeded"),
        delete("the Pod that is done goes at once", "pods", "done"),
        get("the Pod that is done has gone", "pods", "done"),
        becomes("everything fails", exits(3, "last words\n", 100)),
        create(
            "a Pod that fails for good",
            "pods",
            pod("failed", json!(["sh", "-c", "echo last words; exit 3"]), last_words.clone(), never),
        ),
        get("it has failed", "pods", "failed").until(|pod| pod["status"]["phase"] == "Failed"),
        delete("the Pod that failed goes at once", "pods", "failed"),
        create(
            "a Pod that fails again and again",
            "pods",
            pod("crash", json!(["sh", "-c", "echo last words; exit 3"]), last_words, json!({})),
        ),
        get("it is started again, ever more slowly", "pods", "crash")
            .until(|pod| waits_for(pod) == "CrashLoopBackOff"),
        delete("the crashing Pod is deleted", "pods", "crash").in_either_state(),
        get("the crashing Pod has gone", "pods", "crash").until(is_gone),
        becomes("everything is well again", Image::Runs),
        create(
            "a Pod with a variable from nowhere",
            "pods",
            pod("env", waits(), json!({ "envFrom": [{ "configMapRef": { "name": "none" } }] }), json!({})),
        ),
        get("it can't be configured", "pods", "env")
            .until(|pod| waits_for(pod) == "CreateContainerConfigError"),
        delete("the Pod that can't be configured is deleted", "pods", "env"),
        get("the Pod that can't be configured has gone", "pods", "env").until(is_gone),
        create("a Deployment of two", "deployments", deployment).of("apps/v1"),
        list("its ReplicaSet has two ready Pods", "replicasets", List { labels: "app=d", ..List::default() })
            .of("apps/v1")
            .until(|sets| sets["items"][0]["status"]["readyReplicas"] == 2),
        get("the Deployment is available", "deployments", "d")
            .of("apps/v1")
            .until(|found| progressed(found, 2)),
        merge("the Deployment is to have one", "deployments", "d", json!({ "spec": { "replicas": 1 } }))
            .of("apps/v1"),
        get("the Deployment has one", "deployments", "d").of("apps/v1").until(|found| progressed(found, 1)),
        delete("the Deployment is deleted", "deployments", "d").of("apps/v1"),
        list("its ReplicaSet has gone", "replicasets", List { labels: "app=d", ..List::default() })
            .of("apps/v1")
            .until(|sets| sets["items"] == json!([])),
        list("its Pods have gone", "pods", List { labels: "app=d", ..List::default() })
            .until(|pods| pods["items"] == json!([])),
        delete("the namespace for lives is deleted", "namespaces", "$ns").within(""),
        get("the namespace for lives has gone", "namespaces", "$ns").within("").until(is_gone),
    ]
}
