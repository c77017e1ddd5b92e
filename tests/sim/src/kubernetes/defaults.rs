//! What the API server fills in.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    json::{at, default, enter, fields, list, put, take, text},
    kinds::Kind,
};

/// Fills in what an object of its kind leaves open.
pub(super) fn fill(kind: &Kind, object: &mut Value) {
    put(object, &["apiVersion"], kind.api_version.as_ref());
    put(object, &["kind"], kind.kind.as_ref());
    match kind.kind.as_ref() {
        "Pod" => pod(object),
        "Namespace" => {
            let name = text(object, &["metadata", "name"]).to_owned();
            put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
        }
        "Secret" => {
            string_data(object);
            default(object, &["type"], "Opaque");
        }
        "Service" => service(object),
        "Deployment" => deployment(object),
        "ReplicaSet" => {
            default(object, &["spec", "replicas"], 1);
            template(object);
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            default(object, &["roleRef", "apiGroup"], "rbac.authorization.k8s.io");
        }
        _ => {}
    }
}

/// What stands in a new object's status.
pub(super) fn first_status(kind: &Kind, object: &mut Value) {
    let status = match kind.kind.as_ref() {
        "Pod" => json!({ "phase": "Pending", "qosClass": quality(object) }),
        "Namespace" => json!({ "phase": "Active" }),
        "Service" => json!({ "loadBalancer": {} }),
        "ReplicaSet" => json!({ "replicas": 0 }),
        "PodDisruptionBudget" => {
            json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 })
        }
        "Deployment" | "ResourceQuota" => json!({}),
        _ => return,
    };
    put(object, &["status"], status);
}

/// Whether each change of an object's spec counts its generation up.
pub(super) fn has_generation(kind: &Kind) -> bool {
    matches!(kind.kind.as_ref(), "Pod" | "Deployment" | "ReplicaSet" | "PodDisruptionBudget")
        || !kind.is_built_in()
}

/// Plain texts become base64.
fn string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = take(secret, &["stringData"]) else { return };
    for (key, value) in texts {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        put(secret, &["data", &key], encoded);
    }
}

fn pod(pod: &mut Value) {
    pod_spec(pod, &["spec"]);
    default(pod, &["spec", "enableServiceLinks"], true);
    if at(pod, &["spec", "hostNetwork"]) == Some(&json!(true)) {
        for container in items(pod, "/spec/containers") {
            for port in items(container, "/ports") {
                let inside = port.get("containerPort").cloned().unwrap_or_default();
                default(port, &["hostPort"], inside);
            }
        }
    }
    // What is limited is asked for, too.
    for container in items(pod, "/spec/containers") {
        let limits = fields(container, &["resources", "limits"]).cloned().unwrap_or_default();
        for (name, limit) in limits {
            default(container, &["resources", "requests", &name], limit);
        }
    }
}

/// Of a Pod, or of a template.
fn pod_spec(object: &mut Value, path: &[&str]) {
    let spec = |field: &'static str| [path, &[field]].concat();
    default(object, &spec("restartPolicy"), "Always");
    default(object, &spec("terminationGracePeriodSeconds"), 30);
    default(object, &spec("dnsPolicy"), "ClusterFirst");
    default(object, &spec("securityContext"), json!({}));
    default(object, &spec("schedulerName"), "default-scheduler");
    let pointer = format!("/{}", path.join("/"));
    for part in ["initContainers", "containers"] {
        items(object, &format!("{pointer}/{part}")).for_each(container);
    }
    items(object, &format!("{pointer}/volumes")).for_each(volume);
}

fn items<'a>(object: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
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
    items(container, "/ports").for_each(|port| default(port, &["protocol"], "TCP"));
    for variable in items(container, "/env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(reference, &["apiVersion"], "v1");
        }
    }
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let Some(probe) = container.get_mut(probe) else { continue };
        for (field, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            default(probe, &[field], value);
        }
        if let Some(get) = probe.get_mut("httpGet") {
            default(get, &["path"], "/");
            default(get, &["scheme"], "HTTP");
        }
    }
}

fn volume(volume: &mut Value) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            enter(source).entry("defaultMode").or_insert_with(|| json!(420));
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        enter(path).entry("type").or_insert_with(|| json!(""));
    }
    if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
        put(volume, &["emptyDir"], json!({}));
    }
}

fn service(service: &mut Value) {
    default(service, &["spec", "type"], "ClusterIP");
    default(service, &["spec", "sessionAffinity"], "None");
    for port in items(service, "/spec/ports") {
        default(port, &["protocol"], "TCP");
        let same = port.get("port").cloned().unwrap_or_default();
        default(port, &["targetPort"], same);
    }
    if text(service, &["spec", "type"]) != "ExternalName" {
        default(service, &["spec", "internalTrafficPolicy"], "Cluster");
    }
}

/// What a new Service gets of the cluster's addresses.
pub(super) fn addresses(service: &mut Value, next: impl FnOnce() -> String) {
    if text(service, &["spec", "type"]) == "ExternalName" {
        return;
    }
    let headless = text(service, &["spec", "clusterIP"]) == "None";
    if text(service, &["spec", "clusterIP"]).is_empty() {
        put(service, &["spec", "clusterIP"], next());
    }
    let address = text(service, &["spec", "clusterIP"]).to_owned();
    put(service, &["spec", "clusterIPs"], json!([address]));
    let selects = fields(service, &["spec", "selector"]).is_some();
    let (families, policy) = match headless && !selects {
        true => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        false => (json!(["IPv4"]), "SingleStack"),
    };
    default(service, &["spec", "ipFamilies"], families);
    default(service, &["spec", "ipFamilyPolicy"], policy);
}

fn deployment(object: &mut Value) {
    default(object, &["spec", "replicas"], 1);
    default(object, &["spec", "strategy", "type"], "RollingUpdate");
    if text(object, &["spec", "strategy", "type"]) == "RollingUpdate" {
        default(object, &["spec", "strategy", "rollingUpdate", "maxUnavailable"], "25%");
        default(object, &["spec", "strategy", "rollingUpdate", "maxSurge"], "25%");
    }
    default(object, &["spec", "revisionHistoryLimit"], 10);
    default(object, &["spec", "progressDeadlineSeconds"], 600);
    template(object);
}

fn template(object: &mut Value) {
    if at(object, &["spec", "template", "spec"]).is_some() {
        pod_spec(object, &["spec", "template", "spec"]);
    }
}

/// By what its containers ask for.
fn quality(pod: &Value) -> &'static str {
    let containers = || ["containers", "initContainers"].into_iter().flat_map(|of| list(pod, &["spec", of]));
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
    if containers().all(equal) {
        "Guaranteed"
    } else if containers().any(asks) {
        "Burstable"
    } else {
        "BestEffort"
    }
}
