//! Containers of a Pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{
        faults::Faults,
        json::{at, fields, list, text},
        names,
        quantity::Quantity,
    },
    one_of, port,
};

/// Containers, as far as a Pod's volumes and network let them be.
pub(super) fn all(containers: &[Value], volumes: &[Value], host_network: bool) -> Faults {
    let mut faults = Faults::default();
    if containers.is_empty() {
        faults.required("spec.containers");
    }
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        let name = text(container, &["name"]);
        if !name.is_empty() && !seen.insert(name) {
            faults.duplicate(format!("{path}.name"), name);
        }
        faults.extend(one(&path, container, volumes, host_network));
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(found) = container.get(kind) {
                faults.extend(probe(&format!("{path}.{kind}"), kind, found));
            }
        }
    }
    faults
}

fn one(path: &str, container: &Value, volumes: &[Value], host_network: bool) -> Faults {
    let mut faults = Faults::default();
    let name = text(container, &["name"]);
    if name.is_empty() {
        faults.required(format!("{path}.name"));
    } else {
        for fault in names::label_faults(name) {
            faults.invalid(format!("{path}.name"), name, &fault);
        }
    }
    let image = text(container, &["image"]);
    if image.is_empty() {
        faults.required(format!("{path}.image"));
    } else if image.trim() != image {
        faults.invalid(format!("{path}.image"), image, "must not have leading or trailing whitespace");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    one_of(
        &mut faults,
        format!("{path}.terminationMessagePolicy"),
        container,
        &["terminationMessagePolicy"],
        &policies,
    );
    faults.extend(ports(path, list(container, &["ports"]), host_network));
    faults.extend(env(path, container));
    faults.extend(mounts(path, list(container, &["volumeMounts"]), volumes));
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(&mut faults, format!("{path}.imagePullPolicy"), container, &["imagePullPolicy"], &policies);
    faults.extend(resources(&format!("{path}.resources"), container));
    faults.extend(security(&format!("{path}.securityContext"), container));
    faults
}

fn ports(path: &str, ports: &[Value], host_network: bool) -> Faults {
    let mut faults = Faults::default();
    let mut seen = BTreeSet::new();
    for (index, found) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(found, &["name"]);
        if !name.is_empty() {
            let why = port_name_faults(name);
            for why in &why {
                faults.invalid(format!("{path}.name"), name, why);
            }
            if why.is_empty() && !seen.insert(name) {
                faults.duplicate(format!("{path}.name"), name);
            }
        }
        match found.get("containerPort").filter(|value| **value != 0) {
            None => faults.required(format!("{path}.containerPort")),
            value => port(&mut faults, format!("{path}.containerPort"), value),
        }
        let on_host = found.get("hostPort").filter(|value| **value != 0);
        port(&mut faults, format!("{path}.hostPort"), on_host);
        if let Some(on_host) =
            on_host.filter(|on_host| host_network && Some(*on_host) != found.get("containerPort"))
        {
            let why = "must match `containerPort` when `hostNetwork` is true";
            faults.invalid(format!("{path}.hostPort"), on_host.clone(), why);
        }
        one_of(&mut faults, format!("{path}.protocol"), found, &["protocol"], &["SCTP", "TCP", "UDP"]);
    }
    faults
}

pub(super) fn port_name_faults(name: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
        return faults;
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    faults
}

fn env(path: &str, container: &Value) -> Faults {
    let mut faults = Faults::default();
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let field = format!("{path}.env[{index}].name");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            faults.required(field);
        } else if name.contains('=') || !name.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            faults.invalid(field, name, why);
        }
        let from = variable.get("valueFrom").and_then(Value::as_object);
        if from.is_some_and(serde_json::Map::is_empty) {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                       `fileKeyRef`";
            faults.invalid(format!("{path}.env[{index}].valueFrom"), "", why);
        }
    }
    for source in list(container, &["envFrom"]) {
        if source.get("configMapRef").is_none() && source.get("secretRef").is_none() {
            faults.invalid(
                format!("{path}.envFrom"),
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            );
        }
    }
    faults
}

fn mounts(path: &str, mounts: &[Value], volumes: &[Value]) -> Faults {
    let mut faults = Faults::default();
    let mut seen = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (name, at) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            faults.required(format!("{path}.name"));
        } else if !volumes.iter().any(|volume| text(volume, &["name"]) == name) {
            faults.not_found(format!("{path}.name"), name);
        }
        if at.is_empty() {
            faults.required(format!("{path}.mountPath"));
        } else if !seen.insert(at) {
            faults.invalid(format!("{path}.mountPath"), at, "must be unique");
        }
    }
    faults
}

fn resources(path: &str, container: &Value) -> Faults {
    let mut faults = Faults::default();
    let amounts = |what: &str| fields(container, &["resources", what]);
    let parse = |value: &Value| value.as_str().and_then(Quantity::parse);
    for what in ["limits", "requests"] {
        for (name, value) in amounts(what).into_iter().flatten() {
            let field = format!("{path}.{what}[{name}]");
            let known = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-")
                || name.contains('/');
            if !known {
                faults.invalid(
                    field.clone(),
                    name.as_str(),
                    "must be a standard resource type or fully qualified",
                );
                faults.invalid(field.clone(), name.as_str(), "must be a standard resource for containers");
            }
            if parse(value).is_some_and(Quantity::is_negative) {
                faults.invalid(field, value.clone(), "must be greater than or equal to 0");
            }
        }
    }
    for (name, value) in amounts("requests").into_iter().flatten() {
        let limit = amounts("limits").and_then(|limits| limits.get(name)).and_then(parse);
        if let (Some(limit), Some(asked)) = (limit, parse(value))
            && asked > limit
        {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            faults.invalid(format!("{path}.requests"), value.clone(), &why);
        }
    }
    faults
}

fn security(path: &str, container: &Value) -> Faults {
    let mut faults = Faults::default();
    for field in ["runAsUser", "runAsGroup"] {
        super::pods::id(&mut faults, format!("{path}.{field}"), at(container, &["securityContext", field]));
    }
    faults
}

fn probe(path: &str, kind: &str, probe: &Value) -> Faults {
    let mut faults = Faults::default();
    let handlers: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc"]
        .into_iter()
        .filter(|handler| probe.get(*handler).is_some())
        .collect();
    match handlers.as_slice() {
        [] => faults.required_for(path, "must specify a handler type"),
        [first, others @ ..] => {
            handler_port(&mut faults, &format!("{path}.{first}"), probe.get(*first));
            for other in others {
                faults.forbidden(format!("{path}.{other}"), "may not specify more than 1 handler type");
            }
        }
    }
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        let value = probe.get(field);
        if let Some(value) = value.filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
            faults.invalid(format!("{path}.{field}"), value.clone(), "must be greater than or equal to 0");
        }
    }
    let once = probe.get("successThreshold").filter(|value| kind != "readinessProbe" && **value != 1);
    if let Some(value) = once {
        faults.invalid(format!("{path}.successThreshold"), value.clone(), "must be 1");
    }
    faults
}

fn handler_port(faults: &mut Faults, path: &str, handler: Option<&Value>) {
    match handler.and_then(|handler| handler.get("port")) {
        Some(Value::String(name)) => {
            for why in port_name_faults(name) {
                faults.invalid(format!("{path}.port"), name.as_str(), why);
            }
        }
        value => port(faults, format!("{path}.port"), value),
    }
}
