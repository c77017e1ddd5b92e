//! ConfigMaps, Secrets, Services, Deployments, quotas, namespaces, bindings.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    super::{
        faults::Faults,
        json::{at, fields, list, text},
        kinds::Kind,
        names,
        quantity::Quantity,
        security::LEVELS,
    },
    containers::port_name_faults,
    one_of, port,
};

const MOST_BYTES: usize = 1_048_576;

fn keys(faults: &mut Faults, object: &Value, part: &str) {
    for key in fields(object, &[part]).into_iter().flat_map(|data| data.keys()) {
        if let Some(fault) = names::config_key_fault(key) {
            faults.invalid(format!("{part}[{key}]"), key.as_str(), &fault);
        }
    }
}

fn decoded(value: &Value) -> usize {
    value.as_str().and_then(|text| STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len())
}

pub(super) fn config_map(object: &Value) -> Faults {
    let mut faults = Faults::default();
    let binary = fields(object, &["binaryData"]);
    keys(&mut faults, object, "data");
    for key in fields(object, &["data"]).into_iter().flat_map(|data| data.keys()) {
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            faults.invalid(format!("data[{key}]"), key.as_str(), why);
        }
    }
    keys(&mut faults, object, "binaryData");
    let texts = fields(object, &["data"]).into_iter().flatten();
    let size = texts.map(|(_, value)| value.as_str().map_or(0, str::len)).sum::<usize>()
        + binary.into_iter().flatten().map(|(_, value)| decoded(value)).sum::<usize>();
    if size > MOST_BYTES {
        faults.too_long("[]", MOST_BYTES);
    }
    faults
}

pub(super) fn secret(object: &Value) -> Faults {
    let mut faults = Faults::default();
    keys(&mut faults, object, "data");
    let data = fields(object, &["data"]);
    if data.into_iter().flatten().map(|(_, value)| decoded(value)).sum::<usize>() > MOST_BYTES {
        faults.too_long("data", MOST_BYTES);
    }
    let needed: &[&str] = match text(object, &["type"]) {
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in needed.iter().filter(|key| !data.is_some_and(|data| data.contains_key(**key))) {
        faults.required(format!("data[{key}]"));
    }
    faults
}

/// Of ConfigMaps and Secrets.
pub(super) fn immutable_data(before: &Value, object: &Value) -> Faults {
    let mut faults = Faults::default();
    if before.get("immutable") != Some(&json!(true)) {
        return faults;
    }
    let why = "field is immutable when `immutable` is set";
    if object.get("immutable") != Some(&json!(true)) {
        faults.forbidden("immutable", why);
    }
    for part in ["data", "binaryData"] {
        if before.get(part) != object.get(part) {
            faults.forbidden(part, why);
        }
    }
    faults
}

/// Of Secrets.
pub(super) fn changed_type(before: &Value, object: &Value) -> Faults {
    let mut faults = Faults::default();
    if before.get("type") != object.get("type") {
        faults.invalid("type", text(object, &["type"]), "field is immutable");
    }
    faults
}

pub(super) fn service(object: &Value) -> Faults {
    let mut faults = Faults::default();
    let ports = list(object, &["spec", "ports"]);
    let kind = text(object, &["spec", "type"]);
    let headless = text(object, &["spec", "clusterIP"]) == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        faults.required("spec.ports");
    }
    if kind == "ExternalName" && text(object, &["spec", "externalName"]).is_empty() {
        faults.required("spec.externalName");
    }
    for (index, found) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(found, &["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                faults.required(format!("{path}.name"));
            }
        } else {
            for why in names::label_faults(name) {
                faults.invalid(format!("{path}.name"), name, &why);
            }
        }
        port(&mut faults, format!("{path}.port"), Some(found.get("port").unwrap_or(&json!(0))));
        one_of(&mut faults, format!("{path}.protocol"), found, &["protocol"], &["SCTP", "TCP", "UDP"]);
        match found.get("targetPort") {
            Some(Value::String(name)) => {
                for why in port_name_faults(name) {
                    faults.invalid(format!("{path}.targetPort"), name.as_str(), why);
                }
            }
            value => port(&mut faults, format!("{path}.targetPort"), value),
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut faults, "spec.type".to_owned(), object, &["spec", "type"], &kinds);
    faults
}

pub(super) fn deployment(object: &Value) -> Faults {
    let mut faults = Faults::default();
    if let Some(replicas) =
        at(object, &["spec", "replicas"]).filter(|found| found.as_i64().is_some_and(|n| n < 0))
    {
        faults.invalid("spec.replicas", replicas.clone(), "must be greater than or equal to 0");
    }
    let selector = fields(object, &["spec", "selector", "matchLabels"]);
    if at(object, &["spec", "selector"]).is_none() {
        faults.required("spec.selector");
    }
    let labels = at(object, &["spec", "template", "metadata", "labels"]);
    let matches = selector.is_some_and(|selector| {
        selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    });
    if !matches {
        let why = "`selector` does not match template `labels`";
        faults.invalid("spec.template.metadata.labels", labels.cloned().unwrap_or_default(), why);
    }
    if list(object, &["spec", "template", "spec", "containers"]).is_empty() {
        faults.required("spec.template.spec.containers");
    }
    let path = ["spec", "template", "spec", "restartPolicy"];
    one_of(&mut faults, path.join("."), object, &path, &["Always"]);
    faults
}

pub(super) fn quota(object: &Value) -> Faults {
    let mut faults = Faults::default();
    for (name, amount) in fields(object, &["spec", "hard"]).into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        let counted = name.starts_with("count/") || name.contains('/');
        let known = ["pods", "services", "secrets", "configmaps", "resourcequotas", "cpu", "memory"];
        let measured = ["requests.", "limits."].iter().any(|prefix| name.starts_with(prefix));
        if !counted && !measured && !known.contains(&name.as_str()) {
            faults.invalid(
                field.clone(),
                name.as_str(),
                "must be a standard resource type or fully qualified",
            );
            faults.invalid(field.clone(), name.as_str(), "must be a standard resource for quota");
        }
        if amount.as_str().and_then(Quantity::parse).is_some_and(Quantity::is_negative) {
            faults.invalid(field, amount.clone(), "must be greater than or equal to 0");
        }
    }
    faults
}

pub(super) fn namespace(object: &Value) -> Faults {
    let mut faults = Faults::default();
    for mode in ["enforce", "audit", "warn"] {
        let label = format!("pod-security.kubernetes.io/{mode}");
        let level = text(object, &["metadata", "labels", &label]);
        if !level.is_empty() && !LEVELS.contains(&level) {
            let why = format!("must be one of {}", LEVELS.join(", "));
            faults.invalid(format!("metadata.labels[{label}]"), level, &why);
        }
    }
    faults
}

pub(super) fn binding(object: &Value) -> Faults {
    let mut faults = Faults::default();
    if text(object, &["roleRef", "name"]).is_empty() {
        faults.required("roleRef.name");
    }
    faults
}

/// What may not change.
pub(super) fn update(kind: &Kind, before: &Value, object: &Value) -> Faults {
    let mut faults = Faults::default();
    let differs = |path: &[&str]| at(before, path) != at(object, path);
    match kind.kind.as_ref() {
        "Service" if differs(&["spec", "clusterIP"]) => {
            let now = json!([text(object, &["spec", "clusterIP"])]);
            faults.invalid("spec.clusterIPs[0]", now, "may not change once set");
        }
        "Deployment" if differs(&["spec", "selector"]) => {
            let now = at(object, &["spec", "selector"]).cloned().unwrap_or_default();
            faults.invalid("spec.selector", now, "field is immutable");
        }
        "RoleBinding" | "ClusterRoleBinding" if differs(&["roleRef"]) => {
            let of = |field: &str| Value::from(text(object, &["roleRef", field]));
            let now = json!({ "APIGroup": of("apiGroup"), "Kind": of("kind"), "Name": of("name") });
            faults.invalid("roleRef", now, "cannot change roleRef");
        }
        _ => {}
    }
    faults
}
