//! Pods: what is filled in, what is refused, what may change, how they end without a node.

use serde_json::{Value, json};

use super::pod;
use crate::step::{Step, create, delete, delete_within, get, json_patch, merge};

fn container(more: Value) -> Value {
    let mut whole = json!({ "name": "main", "image": "squid:6" });
    for (key, value) in more.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!([whole])
}

/// Its owner's kind is one that no server knows: one that is known makes the real collector take the Pod.
fn provider_pod() -> Value {
    let probe = json!({ "tcpSocket": { "port": 3128 }, "periodSeconds": 1 });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "proxy-web", "namespace": "$ns", "labels": { "egress/installation": "abc123" },
                      "ownerReferences": [{ "apiVersion": "example.com/v1", "kind": "Proxy", "name": "web",
                                            "uid": "u-1", "controller": true, "blockOwnerDeletion": false }] },
        "spec": {
            "schedulerName": "nobody", "restartPolicy": "Always", "automountServiceAccountToken": false,
            "enableServiceLinks": false, "terminationGracePeriodSeconds": 10,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 13, "runAsGroup": 13,
                                 "seccompProfile": { "type": "RuntimeDefault" },
                                 "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }] },
            "containers": [{
                "name": "squid", "image": "squid:6", "command": ["squid", "-N"],
                "ports": [{ "name": "proxy", "containerPort": 3128, "protocol": "TCP" }],
                "resources": { "requests": { "cpu": "0.05", "memory": "64Mi" }, "limits": { "memory": "0.25Gi" } },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe,
                "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                     "capabilities": { "drop": ["ALL"] } },
                "volumeMounts": [{ "name": "config", "mountPath": "/etc/x", "readOnly": true },
                                 { "name": "tmp", "mountPath": "/tmp" }],
            }],
            "volumes": [{ "name": "config", "configMap": { "name": "proxy-web" } },
                        { "name": "tmp", "emptyDir": { "sizeLimit": "64Mi" } }],
            "nodeSelector": { "zone": "a" }, "imagePullSecrets": [{ "name": "pull" }],
            "tolerations": [{ "key": "egress", "operator": "Exists" }],
        },
    })
}

pub fn steps() -> Vec<Step> {
    let mut steps = vec![
        create("a provider's Pod", "pods", provider_pod()),
        get("the provider's Pod", "pods", "proxy-web"),
        delete("the provider's Pod goes at once, since no node has it", "pods", "proxy-web"),
        create("a plain Pod", "pods", pod("plain", json!({}))),
        create(
            "a Pod that leaves much open",
            "pods",
            pod(
                "open",
                json!({
                    "hostNetwork": true, "enableServiceLinks": null, "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists" }],
                    "initContainers": [{ "name": "init", "image": "i@sha256:0000000000000000000000000000000000000000000000000000000000000000" }],
                    "containers": [
                        { "name": "m", "image": "i", "ports": [{ "containerPort": 5 }],
                          "env": [{ "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }, { "name": "E", "value": "" }] },
                        { "name": "n", "image": "r:5000/x", "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
                          "livenessProbe": { "httpGet": { "port": 80 } } },
                    ],
                    "volumes": [{ "name": "b", "secret": { "secretName": "x" } }, { "name": "c", "projected": { "sources": [{ "configMap": { "name": "y" } }] } },
                                { "name": "d", "hostPath": { "path": "/x" } }, { "name": "e" }],
                }),
            ),
        ),
        delete("the open Pod goes", "pods", "open"),
    ];
    let refused: Vec<(&'static str, Value)> = vec![
        ("a Pod without a spec", json!({ "metadata": { "name": "x" } })),
        ("a Pod without containers", pod("x", json!({ "containers": [] }))),
        ("a container without anything", pod("x", json!({ "containers": [{}] }))),
        ("a container with a bad name", pod("x", json!({ "containers": [{ "name": "A", "image": "" }] }))),
        (
            "two containers of one name",
            pod("x", json!({ "containers": [{ "name": "a", "image": "i" }, { "name": "a", "image": "i" }] })),
        ),
        (
            "bad ports",
            pod(
                "x",
                json!({ "containers": container(json!({ "ports": [
            { "containerPort": 0 }, { "containerPort": 70000 }, { "containerPort": 1, "protocol": "X", "name": "TOO_long_name_here_x" },
            { "containerPort": 2, "name": "a" }, { "containerPort": 3, "name": "a" },
        ] })) }),
            ),
        ),
        (
            "bad mounts",
            pod(
                "x",
                json!({ "volumes": [{ "name": "w", "emptyDir": {} }], "containers": container(json!({ "volumeMounts": [
            { "name": "v", "mountPath": "/x" }, { "name": "w", "mountPath": "/x" }, { "name": "u", "mountPath": "" },
        ] })) }),
            ),
        ),
        (
            "bad volumes",
            pod(
                "x",
                json!({ "volumes": [
            { "name": "w", "emptyDir": {} }, { "name": "w", "emptyDir": {} }, { "name": "B", "configMap": {} },
            { "name": "y", "configMap": { "name": "a" }, "secret": { "secretName": "b" } }, { "name": "m", "configMap": { "name": "a", "defaultMode": 9999 } },
        ] }),
            ),
        ),
        (
            "no quantity",
            pod(
                "x",
                json!({ "containers": container(json!({ "resources": { "requests": { "cpu": "x" } } })) }),
            ),
        ),
        (
            "more than the limit",
            pod(
                "x",
                json!({ "containers": container(json!({ "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } })) }),
            ),
        ),
        (
            "less than nothing",
            pod(
                "x",
                json!({ "containers": container(json!({ "resources": { "requests": { "cpu": "-1" } } })) }),
            ),
        ),
        (
            "an unknown resource",
            pod(
                "x",
                json!({ "containers": container(json!({ "resources": { "requests": { "foo": "1" } } })) }),
            ),
        ),
        (
            "a Pod that is wrong all over",
            pod(
                "x",
                json!({
                    "restartPolicy": "Sometimes", "dnsPolicy": "X", "nodeSelector": { "a b": "c" }, "nodeName": "A_b", "hostname": "A_b",
                    "tolerations": [{ "operator": "Bad", "key": "a" }], "activeDeadlineSeconds": 0,
                    "securityContext": { "runAsUser": -1, "runAsGroup": -2, "fsGroup": -3, "supplementalGroups": [-1] },
                    "containers": [{ "name": "A", "image": "" }], "volumes": [{ "name": "B" }],
                }),
            ),
        ),
        (
            "bad tolerations",
            pod(
                "x",
                json!({ "tolerations": [
            { "operator": "Bad" }, { "key": "a b" }, { "effect": "x" }, { "key": "a", "operator": "Exists", "value": "b" },
        ] }),
            ),
        ),
        (
            "bad sysctls",
            pod(
                "x",
                json!({ "securityContext": { "seccompProfile": { "type": "Bad" }, "sysctls": [
            { "name": "a b", "value": "1" }, { "name": "kernel.shm", "value": "1" }, { "name": "kernel.shm", "value": "1" },
        ] } }),
            ),
        ),
        (
            "bad policies",
            pod(
                "x",
                json!({ "containers": container(json!({
            "imagePullPolicy": "Never2", "terminationMessagePolicy": "x",
            "env": [{ "name": "", "value": "x" }, { "name": "a=b" }, { "name": "A", "valueFrom": {} }], "envFrom": [{}],
        })) }),
            ),
        ),
        (
            "bad probes",
            pod(
                "x",
                json!({ "containers": container(json!({
            "readinessProbe": { "periodSeconds": -1 }, "livenessProbe": { "tcpSocket": { "port": 0 } },
            "startupProbe": { "tcpSocket": { "port": 1 }, "httpGet": { "port": 1, "path": "/" }, "successThreshold": 2 },
        })) }),
            ),
        ),
        (
            "a bad port's name",
            pod(
                "x",
                json!({ "containers": container(json!({ "readinessProbe": { "tcpSocket": { "port": "NOPE_x" } } })) }),
            ),
        ),
        (
            "another port of the host",
            pod(
                "x",
                json!({ "hostNetwork": true, "containers": container(json!({ "ports": [{ "containerPort": 1, "hostPort": 2 }] })) }),
            ),
        ),
        ("an image in blanks", pod("x", json!({ "containers": container(json!({ "image": " i" })) }))),
        ("containers that are a text", pod("x", json!({ "containers": "x" }))),
        (
            "a port that is a text",
            pod("x", json!({ "containers": container(json!({ "ports": [{ "containerPort": "x" }] })) })),
        ),
        ("grace that is a text", pod("x", json!({ "terminationGracePeriodSeconds": "x" }))),
        (
            "a port that is no whole number",
            pod("x", json!({ "containers": container(json!({ "ports": [{ "containerPort": 1.5 }] })) })),
        ),
        ("a command of numbers", pod("x", json!({ "containers": container(json!({ "command": [1] })) }))),
        ("a spec that is a text", json!({ "metadata": { "name": "x" }, "spec": "x" })),
        ("no such ServiceAccount", pod("x", json!({ "serviceAccountName": "none" }))),
        ("no such class of priority", pod("x", json!({ "priorityClassName": "none" }))),
        ("a priority of one's own", pod("x", json!({ "priority": 5 }))),
        ("a Pod with a bad name", pod("X_", json!({}))),
        ("the plain Pod again", pod("plain", json!({}))),
    ];
    steps.extend(refused.into_iter().map(|(name, body)| create(name, "pods", body)));
    let changes: Vec<(&'static str, Value)> = vec![
        ("a label of a Pod", json!({ "metadata": { "labels": { "x": "y" } } })),
        ("a bad label of a Pod", json!({ "metadata": { "labels": { "x": "not ok!" } } })),
        ("another UID of a Pod", json!({ "metadata": { "uid": "x" } })),
        ("a deadline", json!({ "spec": { "activeDeadlineSeconds": 5 } })),
        ("a restart policy", json!({ "spec": { "restartPolicy": "Never" } })),
        ("another grace", json!({ "spec": { "terminationGracePeriodSeconds": 5 } })),
        ("a node selector", json!({ "spec": { "nodeSelector": { "a": "b" } } })),
        ("a node", json!({ "spec": { "nodeName": "x" } })),
        ("no containers", json!({ "spec": { "containers": [] } })),
        ("a status beside the spec", json!({ "status": { "phase": "Running" } })),
    ];
    steps.extend(changes.into_iter().map(|(name, body)| merge(name, "pods", "plain", body)));
    steps.extend([
        json_patch("an image", "pods", "plain", json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "squid:7" }])),
        json_patch("no image", "pods", "plain", json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "" }])),
        json_patch("a toleration more", "pods", "plain", json!([{ "op": "add", "path": "/spec/tolerations/-", "value": { "key": "a", "operator": "Exists" } }])),
        json_patch("a toleration less", "pods", "plain", json!([{ "op": "remove", "path": "/spec/tolerations/0" }])),
        merge("a status", "pods/status", "plain", json!({ "status": { "phase": "Running", "foo": 1 }, "metadata": { "labels": { "x": "z" } } })),
        get("the status", "pods/status", "plain"),
        merge("a spec through the status", "pods/status", "plain", json!({ "spec": { "nodeName": "x" }, "status": { "message": "told" } })),
        create("a status as something new", "pods/status", pod("plain", json!({}))),
        delete("the plain Pod goes", "pods", "plain"),
        create("a Pod on a node that is not there", "pods", pod("bound", json!({ "nodeName": "ghost", "terminationGracePeriodSeconds": 20 }))),
        delete("it is deleted", "pods", "bound"),
        delete("it is deleted again", "pods", "bound"),
        delete_within("it can't get more time", "pods", "bound", 60),
        delete_within("it can get less time", "pods", "bound", 5),
        merge("a label while it ends", "pods", "bound", json!({ "metadata": { "labels": { "a": "b" } } })),
        merge("a finalizer while it ends", "pods", "bound", json!({ "metadata": { "finalizers": ["a.b/c"] } })),
        create("its successor, too early", "pods", pod("bound", json!({}))),
        delete_within("it goes now", "pods", "bound", 0),
        get("it is gone", "pods", "bound"),
        create("a Pod with a finalizer", "pods", {
            let mut held = pod("held", json!({}));
            held["metadata"]["finalizers"] = json!(["a.b/c"]);
            held
        }),
        delete("the Pod with a finalizer is deleted", "pods", "held"),
        merge("the Pod's finalizer goes", "pods", "held", json!({ "metadata": { "finalizers": [] } })),
        get("the Pod with a finalizer is gone", "pods", "held"),
        create("no Pod to evict", "pods/eviction", json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "none" } })),
        create("a Pod to evict", "pods", pod("evict", json!({ "nodeName": "ghost" }))),
        create("the Pod is evicted", "pods/eviction", json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "evict" } })),
        get("the evicted Pod", "pods", "evict"),
        delete_within("the evicted Pod goes", "pods", "evict", 0),
    ]);
    steps
}
