//! What the API server fills in.

use serde_json::{Value, json};

use super::{
    json::{default, enter, list, put, text},
    kinds::Kind,
};

/// Fills in what an object of its kind leaves open.
pub(super) fn fill(kind: &Kind, object: &mut Value) {
    put(object, &["apiVersion"], kind.api_version.as_ref());
    put(object, &["kind"], kind.kind.as_ref());
    match kind.kind.as_ref() {
        "Pod" => {
            put(object, &["metadata", "generation"], 1);
            pod(object);
        }
        "Secret" => default(object, &["type"], "Opaque"),
        _ => {}
    }
}

/// What stands in a new object's status.
pub(super) fn first_status(kind: &Kind, object: &mut Value) {
    if kind.kind == "Pod" {
        let quality = quality(object);
        put(object, &["status"], json!({ "phase": "Pending", "qosClass": quality }));
    }
}

fn pod(pod: &mut Value) {
    default(pod, &["spec", "restartPolicy"], "Always");
    default(pod, &["spec", "terminationGracePeriodSeconds"], 30);
    default(pod, &["spec", "dnsPolicy"], "ClusterFirst");
    default(pod, &["spec", "securityContext"], json!({}));
    default(pod, &["spec", "schedulerName"], "default-scheduler");
    default(pod, &["spec", "enableServiceLinks"], true);
    let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    containers.into_iter().flatten().for_each(container);
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut);
    volumes.into_iter().flatten().for_each(volume);
}

fn container(container: &mut Value) {
    let image = text(container, &["image"]);
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if latest { "Always" } else { "IfNotPresent" };
    default(container, &["imagePullPolicy"], policy);
    default(container, &["resources"], json!({}));
    default(container, &["terminationMessagePath"], "/dev/termination-log");
    default(container, &["terminationMessagePolicy"], "File");
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    ports.into_iter().flatten().for_each(|port| default(port, &["protocol"], "TCP"));
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let Some(probe) = container.get_mut(probe) else { continue };
        for (field, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            default(probe, &[field], value);
        }
    }
}

fn volume(volume: &mut Value) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            enter(source).entry("defaultMode").or_insert_with(|| json!(420));
        }
    }
}

/// By what its containers ask for.
fn quality(pod: &Value) -> &'static str {
    let containers = list(pod, &["spec", "containers"]);
    let of = |container: &Value, what: &str, of: &str| text(container, &["resources", what, of]).to_owned();
    let asks = |container: &Value| {
        ["requests", "limits"]
            .iter()
            .any(|what| ["cpu", "memory"].iter().any(|of_what| !of(container, what, of_what).is_empty()))
    };
    let equal = |container: &Value| {
        ["cpu", "memory"].iter().all(|what| {
            let limit = of(container, "limits", what);
            !limit.is_empty() && of(container, "requests", what) == limit
        })
    };
    if containers.iter().all(equal) {
        "Guaranteed"
    } else if containers.iter().any(asks) {
        "Burstable"
    } else {
        "BestEffort"
    }
}
