//! A Pod's spec, and what of it may change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::{
        faults::Faults,
        json::{at, list, put, take, text},
        names,
    },
    containers, labels, one_of,
};

const FIXED: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";

/// What is wrong with a Pod, new or changed.
pub(super) fn spec(pod: &Value) -> Faults {
    let volumes = list(pod, &["spec", "volumes"]);
    let host_network = at(pod, &["spec", "hostNetwork"]) == Some(&json!(true));
    let mut faults = self::volumes(volumes);
    faults.extend(containers::all(list(pod, &["spec", "containers"]), volumes, host_network));
    let policies = ["Always", "OnFailure", "Never"];
    one_of(&mut faults, "spec.restartPolicy".to_owned(), pod, &["spec", "restartPolicy"], &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(&mut faults, "spec.dnsPolicy".to_owned(), pod, &["spec", "dnsPolicy"], &policies);
    faults.extend(labels("spec.nodeSelector", pod, &["spec", "nodeSelector"]));
    faults.extend(security(pod));
    for (field, check) in [
        ("serviceAccountName", names::subdomain_faults as fn(&str) -> Vec<String>),
        ("nodeName", names::subdomain_faults),
    ] {
        name(&mut faults, pod, field, check);
    }
    let deadline = at(pod, &["spec", "activeDeadlineSeconds"]);
    let fits =
        |value: &Value| value.as_i64().is_some_and(|seconds| (1..=i64::from(i32::MAX)).contains(&seconds));
    if let Some(value) = deadline.filter(|value| !fits(value)) {
        let why = "must be between 1 and 2147483647, inclusive";
        faults.invalid("spec.activeDeadlineSeconds", value.clone(), why);
    }
    name(&mut faults, pod, "hostname", names::label_faults);
    faults.extend(tolerations(list(pod, &["spec", "tolerations"])));
    faults
}

fn name(faults: &mut Faults, pod: &Value, field: &str, check: fn(&str) -> Vec<String>) {
    let value = text(pod, &["spec", field]);
    for fault in check(value).into_iter().filter(|_| !value.is_empty()) {
        faults.invalid(format!("spec.{field}"), value, &fault);
    }
}

fn volumes(volumes: &[Value]) -> Faults {
    let mut faults = Faults::default();
    let mut seen = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = format!("spec.volumes[{index}]");
        let sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        for (position, (source, value)) in sources.enumerate() {
            if position > 0 {
                let field = format!("{path}.{}", volume_source(volume));
                faults.forbidden(field, "may not specify more than 1 volume type");
                break;
            }
            faults.extend(self::source(&format!("{path}.{source}"), source, value));
        }
        let name = text(volume, &["name"]);
        if name.is_empty() {
            faults.required(format!("{path}.name"));
        } else {
            for fault in names::label_faults(name) {
                faults.invalid(format!("{path}.name"), name, &fault);
            }
        }
        if !name.is_empty() && !seen.insert(name) {
            faults.duplicate(format!("{path}.name"), name);
        }
    }
    faults
}

/// Which of several is refused: the API server looks at them in an order of its own.
fn volume_source(volume: &Value) -> &'static str {
    const ORDER: [&str; 6] =
        ["emptyDir", "hostPath", "secret", "persistentVolumeClaim", "configMap", "projected"];
    ORDER.into_iter().filter(|source| volume.get(*source).is_some()).nth(1).unwrap_or("configMap")
}

fn source(path: &str, source: &str, value: &Value) -> Faults {
    let mut faults = Faults::default();
    let (name, mode) = match source {
        "configMap" => ("name", true),
        "secret" => ("secretName", true),
        _ => return faults,
    };
    if text(value, &[name]).is_empty() {
        faults.required(format!("{path}.{name}"));
    }
    let wanted = value.get("defaultMode").filter(|_| mode);
    if let Some(found) =
        wanted.filter(|found| !found.as_i64().is_some_and(|found| (0..=0o777).contains(&found)))
    {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.invalid(format!("{path}.defaultMode"), found.clone(), why);
    }
    faults
}

/// A user or a group.
pub(super) fn id(faults: &mut Faults, field: String, value: Option<&Value>) {
    let fits = |value: &Value| value.as_i64().is_some_and(|id| (0..=i64::from(i32::MAX)).contains(&id));
    if let Some(value) = value.filter(|value| !fits(value)) {
        faults.invalid(field, value.clone(), "must be between 0 and 2147483647, inclusive");
    }
}

fn security(pod: &Value) -> Faults {
    let mut faults = Faults::default();
    let Some(context) = at(pod, &["spec", "securityContext"]) else { return faults };
    let path = "spec.securityContext";
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&mut faults, format!("{path}.{field}"), context.get(field));
    }
    for (index, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        id(&mut faults, format!("{path}.supplementalGroups[{index}]"), Some(group));
    }
    let mut seen = BTreeSet::new();
    for (index, sysctl) in list(context, &["sysctls"]).iter().enumerate() {
        let (field, name) = (format!("{path}.sysctls[{index}].name"), text(sysctl, &["name"]));
        if name.is_empty() {
            faults.required(field);
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            faults.invalid(field, name, why);
        } else if !seen.insert(name) {
            faults.duplicate(field, name);
        }
    }
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    one_of(&mut faults, format!("{path}.seccompProfile.type"), context, &["seccompProfile", "type"], &kinds);
    faults
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let segment = |text: &str| {
        let bytes = text.as_bytes();
        let legal = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(legal)
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}

fn tolerations(tolerations: &[Value]) -> Faults {
    let mut faults = Faults::default();
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = format!("spec.tolerations[{index}]");
        let of = |field: &str| text(toleration, &[field]);
        let (key, operator) = (of("key"), of("operator"));
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.invalid(format!("{path}.operator"), operator, why);
        } else if let Some(fault) = names::label_key_fault(key).filter(|_| !key.is_empty()) {
            faults.invalid(format!("{path}.key"), key, &fault);
        }
        match operator {
            "" | "Equal" => {
                if let Some(fault) = names::label_value_fault(of("value")) {
                    faults.invalid(format!("{path}.operator"), of("value"), &fault);
                }
            }
            "Exists" if !of("value").is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                faults.invalid(format!("{path}.operator"), of("value"), why);
            }
            "Exists" => {}
            other => faults.unsupported(format!("{path}.operator"), other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(&mut faults, format!("{path}.effect"), toleration, &["effect"], &effects);
    }
    faults
}

/// Whether there are more containers or fewer.
pub(super) fn containers_differ(before: &Value, pod: &Value) -> bool {
    let count = |pod: &Value| list(pod, &["spec", "containers"]).len();
    count(before) != count(pod)
}

/// What may not change.
pub(super) fn update(before: &Value, pod: &Value) -> Faults {
    let mut faults = Faults::default();
    if containers_differ(before, pod) {
        faults.forbidden("spec.containers", "pod updates may not add or remove containers");
        return faults;
    }
    let kept = list(before, &["spec", "tolerations"]);
    let tolerations = list(pod, &["spec", "tolerations"]);
    if !kept.iter().all(|toleration| tolerations.contains(toleration)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden("spec.tolerations", why);
    }
    let fixed = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for field in ["activeDeadlineSeconds", "tolerations"] {
            take(&mut spec, &[field]);
        }
        for containers in ["containers", "initContainers"] {
            let containers = spec.get_mut(containers).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(|container| put(container, &["image"], ""));
        }
        spec
    };
    if fixed(before) != fixed(pod) {
        faults.forbidden("spec", FIXED);
    }
    faults
}
