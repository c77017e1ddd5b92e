//! Pod Security admission: the levels `baseline` and `restricted`, as far as Pods of providers reach.
//!
//! The checks, their order and their words are the API server's.

use serde_json::{Value, json};

use super::json::{at, list, text};

/// As a namespace's label may say.
pub(super) const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
/// What a container may keep at the level baseline.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: [&str; 8] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
];
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Why a Pod may not stand in a namespace; nothing where it may.
pub(super) fn violation(namespace: &Value, pod: &Value) -> Option<String> {
    let label = |key: &str| text(namespace, &["metadata", "labels", key]).to_owned();
    let level = label("pod-security.kubernetes.io/enforce");
    let found = match level.as_str() {
        "baseline" => baseline(pod, false),
        "restricted" => restricted(pod),
        _ => Vec::new(),
    };
    let version = match label("pod-security.kubernetes.io/enforce-version").as_str() {
        "" => "latest".to_owned(),
        version => version.to_owned(),
    };
    let told: Vec<String> = found
        .into_iter()
        .map(|(what, detail)| if detail.is_empty() { what } else { format!("{what} ({detail})") })
        .collect();
    (!told.is_empty()).then(|| format!("violates PodSecurity \"{level}:{version}\": {}", told.join(", ")))
}

type Found = Vec<(String, String)>;

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|of| list(pod, &["spec", of]))
}

/// `container "a"`, `containers "a", "b"`, of those to which something applies.
fn named<'a>(pod: &'a Value, applies: impl Fn(&'a Value) -> bool) -> Option<String> {
    let names: Vec<String> = containers(pod)
        .filter(|container| applies(container))
        .map(|container| format!("\"{}\"", text(container, &["name"])))
        .collect();
    let word = if names.len() == 1 { "container" } else { "containers" };
    (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")))
}

fn is_true(object: &Value, path: &[&str]) -> bool {
    at(object, path) == Some(&json!(true))
}

fn added(container: &Value) -> impl Iterator<Item = &str> {
    list(container, &["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str)
}

/// `strict` leaves out what the level restricted asks more strictly.
fn baseline(pod: &Value, strict: bool) -> Found {
    let mut found = Vec::new();
    let mut push = |what: &str, detail: String| found.push((what.to_owned(), detail));
    let extra = |container: &Value| added(container).any(|capability| !CAPABILITIES.contains(&capability));
    if let Some(who) = named(pod, extra).filter(|_| !strict) {
        let all = containers(pod).flat_map(added).filter(|capability| !CAPABILITIES.contains(capability));
        let all: Vec<String> = all.map(|capability| format!("\"{capability}\"")).collect();
        let detail = format!("{who} must not include {} in securityContext.capabilities.add", all.join(", "));
        push("non-default capabilities", detail);
    }
    let namespaces: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| is_true(pod, &["spec", field]))
        .map(|field| format!("{field}=true"))
        .collect();
    if !namespaces.is_empty() {
        push("host namespaces", namespaces.join(", "));
    }
    let paths: Vec<String> = list(pod, &["spec", "volumes"])
        .iter()
        .filter(|volume| volume.get("hostPath").is_some() && !strict)
        .map(|volume| format!("\"{}\"", text(volume, &["name"])))
        .collect();
    if !paths.is_empty() {
        let word = if paths.len() == 1 { "volume" } else { "volumes" };
        push("hostPath volumes", format!("{word} {}", paths.join(", ")));
    }
    let host_ports = |container: &Value| -> Vec<String> {
        let ports = list(container, &["ports"]).iter().filter_map(|port| port.get("hostPort")?.as_u64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    if let Some(who) = named(pod, |container| !host_ports(container).is_empty()) {
        let ports: Vec<String> = containers(pod).flat_map(host_ports).collect();
        let verb = if who.starts_with("containers") { "use" } else { "uses" };
        let word = if ports.len() > 1 { "hostPorts" } else { "hostPort" };
        push("hostPort", format!("{who} {verb} {word} {}", ports.join(", ")));
    }
    if let Some(who) = named(pod, |container| is_true(container, &["securityContext", "privileged"])) {
        push("privileged", format!("{who} must not set securityContext.privileged=true"));
    }
    let unconfined =
        |object: &Value| text(object, &["securityContext", "seccompProfile", "type"]) == "Unconfined";
    if let Some(who) = named(pod, unconfined).filter(|_| !strict) {
        let detail = format!("{who} must not set securityContext.seccompProfile.type to \"Unconfined\"");
        push("seccompProfile", detail);
    }
    let sysctls: Vec<&str> = list(pod, &["spec", "securityContext", "sysctls"])
        .iter()
        .map(|sysctl| text(sysctl, &["name"]))
        .filter(|name| !SYSCTLS.contains(name))
        .collect();
    if !sysctls.is_empty() {
        push("forbidden sysctls", sysctls.join(", "));
    }
    found
}

fn restricted(pod: &Value) -> Found {
    let mut found = baseline(pod, true);
    let mut push = |what: &str, detail: String| found.push((what.to_owned(), detail));
    let escalates = |container: &Value| {
        at(container, &["securityContext", "allowPrivilegeEscalation"]) != Some(&json!(false))
    };
    if let Some(who) = named(pod, escalates) {
        let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
        push("allowPrivilegeEscalation != false", detail);
    }
    let keeps = |container: &Value| {
        !list(container, &["securityContext", "capabilities", "drop"]).contains(&json!("ALL"))
    };
    let adds = |container: &Value| added(container).any(|capability| capability != "NET_BIND_SERVICE");
    let capabilities: Vec<String> = [
        named(pod, keeps).map(|who| format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]")),
        named(pod, adds).map(|who| {
            let all = containers(pod).flat_map(added).filter(|capability| *capability != "NET_BIND_SERVICE");
            let all: Vec<String> = all.map(|capability| format!("\"{capability}\"")).collect();
            format!("{who} must not include {} in securityContext.capabilities.add", all.join(", "))
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !capabilities.is_empty() {
        push("unrestricted capabilities", capabilities.join("; "));
    }
    let kinds: Vec<String> = list(pod, &["spec", "volumes"])
        .iter()
        .flat_map(|volume| {
            let source = volume.as_object().into_iter().flat_map(|fields| fields.keys());
            source
                .filter(|key| *key != "name" && !VOLUMES.contains(&key.as_str()))
                .map(move |kind| (volume, kind))
        })
        .map(|(volume, kind)| {
            format!("volume \"{}\" uses restricted volume type \"{kind}\"", text(volume, &["name"]))
        })
        .collect();
    if !kinds.is_empty() {
        push("restricted volume types", kinds.join(", "));
    }
    if let Some(detail) = root(pod) {
        push("runAsNonRoot != true", detail);
    }
    let is_root = |object: &Value, path: &[&str]| at(object, path) == Some(&json!(0));
    if is_root(pod, &["spec", "securityContext", "runAsUser"]) {
        push("runAsUser=0", "pod must not set runAsUser=0".to_owned());
    } else if let Some(who) = named(pod, |container| is_root(container, &["securityContext", "runAsUser"])) {
        push("runAsUser=0", format!("{who} must not set runAsUser=0"));
    }
    found.extend(seccomp(pod));
    found
}

/// Who says something wrong is told so; only where nobody does, those that say nothing.
fn seccomp(pod: &Value) -> Found {
    let path = ["securityContext", "seccompProfile", "type"];
    let wrong = |kind: &str| !matches!(kind, "" | "RuntimeDefault" | "Localhost");
    let by_pod = text(pod, &["spec", path[0], path[1], path[2]]);
    let setters = named(pod, |container| wrong(text(container, &path)));
    let setters: Vec<String> = wrong(by_pod).then(|| "pod".to_owned()).into_iter().chain(setters).collect();
    if !setters.is_empty() {
        let kinds = std::iter::once(by_pod).chain(containers(pod).map(|container| text(container, &path)));
        let mut kinds: Vec<String> =
            kinds.filter(|kind| wrong(kind)).map(|kind| format!("\"{kind}\"")).collect();
        kinds.sort();
        kinds.dedup();
        let detail = format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.join(" and "),
            kinds.join(", ")
        );
        return vec![("seccompProfile".to_owned(), detail)];
    }
    let silent = named(pod, |container| by_pod.is_empty() && text(container, &path).is_empty());
    let silent = silent.map(|who| {
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        )
    });
    silent.map(|detail| ("seccompProfile".to_owned(), detail)).into_iter().collect()
}

/// The same for root.
fn root(pod: &Value) -> Option<String> {
    let path = ["securityContext", "runAsNonRoot"];
    let by_pod = at(pod, &["spec", path[0], path[1]]);
    let setters = named(pod, |container| at(container, &path) == Some(&json!(false)));
    let by_pod_wrong = by_pod == Some(&json!(false));
    let setters: Vec<String> = by_pod_wrong.then(|| "pod".to_owned()).into_iter().chain(setters).collect();
    if !setters.is_empty() {
        return Some(format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and ")));
    }
    let silent = named(pod, |container| by_pod.is_none() && at(container, &path).is_none());
    silent.map(|who| format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}
