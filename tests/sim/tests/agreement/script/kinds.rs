//! Secrets, Services, Deployments, and ConfigMaps that never change.

use serde_json::{Value, json};

use crate::step::{Step, create, delete, merge};

fn deployment(spec: Value) -> Value {
    let mut whole = json!({
        "replicas": 0, "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "squid:6" }] } },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({ "metadata": { "name": "d" }, "spec": whole })
}

pub fn steps() -> Vec<Step> {
    let secret = |name, body| create(name, "secrets", body);
    let service = |name, body| create(name, "services", body);
    let apps = |step: Step| step.of("apps/v1");
    vec![
        secret(
            "a Secret with both kinds of data",
            json!({ "metadata": { "name": "x1" }, "data": { "a": "YQ==" }, "stringData": { "b": "c" } }),
        ),
        secret(
            "a Secret that is no base64",
            json!({ "metadata": { "name": "x" }, "data": { "a": "not base64!" } }),
        ),
        secret(
            "a Secret without what its type needs",
            json!({ "metadata": { "name": "x" }, "type": "kubernetes.io/dockerconfigjson" }),
        ),
        secret(
            "a Secret that never changes",
            json!({ "metadata": { "name": "x4" }, "type": "my/type", "immutable": true, "stringData": { "a": "b" } }),
        ),
        merge("change it anyway", "secrets", "x4", json!({ "stringData": { "a": "c" } })),
        merge("another type", "secrets", "x1", json!({ "type": "other" })),
        merge(
            "a bad label of a Secret",
            "secrets",
            "x1",
            json!({ "metadata": { "labels": { "x": "not ok!" } } }),
        ),
        merge("a bad key of a Secret", "secrets", "x1", json!({ "data": { "a/b": "YQ==" } })),
        merge("a text in a Secret", "secrets", "x1", json!({ "stringData": { "b": "d" } })),
        merge("a key of a Secret goes", "secrets", "x1", json!({ "data": { "b": null } })),
        secret(
            "a Secret that is too long",
            json!({ "metadata": { "name": "x" }, "stringData": { "a": "x".repeat(1_048_577) } }),
        ),
        create(
            "a ConfigMap that never changes",
            "configmaps",
            json!({ "metadata": { "name": "im" }, "immutable": true, "data": { "a": "b" } }),
        ),
        merge("change its data", "configmaps", "im", json!({ "data": { "a": "c" } })),
        merge("let it change", "configmaps", "im", json!({ "immutable": false })),
        service(
            "a Service",
            json!({ "metadata": { "name": "sv" }, "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80 }] } }),
        ),
        service(
            "a headless Service",
            json!({ "metadata": { "name": "h" }, "spec": { "clusterIP": "None", "ports": [
            { "port": 80, "targetPort": "web", "name": "w" }, { "port": 81, "name": "x" },
        ] } }),
        ),
        service("a Service without ports", json!({ "metadata": { "name": "np" } })),
        service(
            "a Service that is wrong all over",
            json!({ "metadata": { "name": "np" }, "spec": { "type": "Weird", "ports": [{ "port": 0 }, { "port": 1 }] } }),
        ),
        service(
            "a Service that leads nowhere",
            json!({ "metadata": { "name": "en" }, "spec": { "type": "ExternalName" } }),
        ),
        service(
            "a Service with a bad name",
            json!({ "metadata": { "name": "a.b" }, "spec": { "ports": [{ "port": 80 }] } }),
        ),
        merge("another address", "services", "sv", json!({ "spec": { "clusterIP": "10.96.0.77" } })),
        merge(
            "a bad label of a Service",
            "services",
            "sv",
            json!({ "metadata": { "labels": { "x": "not ok!" } } }),
        ),
        merge("a bad port", "services", "sv", json!({ "spec": { "ports": [{ "port": 0 }] } })),
        merge("another port", "services", "sv", json!({ "spec": { "ports": [{ "port": 8080 }] } })),
        delete("the Service goes", "services", "sv"),
        apps(create("a Deployment", "deployments", deployment(json!({})))),
        apps(create(
            "a Deployment without anything",
            "deployments",
            json!({ "metadata": { "name": "e" }, "spec": {} }),
        )),
        apps(create(
            "a Deployment that does not match",
            "deployments",
            deployment(json!({ "selector": { "matchLabels": { "a": "x" } } })),
        )),
        apps(create(
            "a Deployment of Pods that end",
            "deployments",
            deployment(json!({ "template": {
            "metadata": { "labels": { "a": "b" } }, "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] },
        } })),
        )),
        apps(merge(
            "another selector of a Deployment",
            "deployments",
            "d",
            json!({ "spec": { "selector": { "matchLabels": { "a": "z" } } } }),
        )),
        apps(merge(
            "a bad label of a Deployment",
            "deployments",
            "d",
            json!({ "metadata": { "labels": { "x": "not ok!" } } }),
        )),
        apps(merge("fewer than none", "deployments", "d", json!({ "spec": { "replicas": -1 } }))),
        apps(delete("the Deployment goes", "deployments", "d")),
        apps(delete("a Deployment that is not there", "deployments", "none")),
    ]
}
