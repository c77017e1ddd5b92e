//! What a kubelet knows of a Pod, and the status that it writes of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    json::{at, list, put, text},
    quantity::Quantity,
    time::stamp,
};

/// A Pod on its node.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) started_at: String,
    pub(super) host_ip: String,
    /// Its network; shown only once a container has got somewhere.
    pub(super) ip: Option<String>,
    pub(super) sandbox: bool,
    pub(super) containers: Vec<Container>,
    /// Set where the Pod has ended for good: it, and not its containers, says why.
    pub(super) ended: Option<Ended>,
    /// Being ended: no container comes back.
    pub(super) stopping: bool,
    /// How long the next look for missing volumes is away.
    pub(super) mount_backoff_ms: u64,
}

/// Why a Pod has ended, where its containers don't tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) reason: String,
    pub(super) message: String,
}

/// One container.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) state: State,
    pub(super) last: Option<Exit>,
    pub(super) restarts: u32,
    /// Empty until the image is there.
    pub(super) image_id: String,
    pub(super) id: String,
    pub(super) started: bool,
    pub(super) ready: bool,
    pub(super) backoff_ms: u64,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting { reason: &'static str, message: String },
    Running { since: String },
    Exited(Exit),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) id: String,
}

impl Run {
    pub(super) fn new(pod: &Value, host_ip: &str, now_ms: u64) -> Self {
        let containers = list(pod, &["spec", "containers"]).iter().map(Container::new).collect();
        Self {
            started_at: stamp(now_ms),
            host_ip: host_ip.to_owned(),
            ip: None,
            sandbox: false,
            containers,
            ended: None,
            stopping: false,
            mount_backoff_ms: 500,
        }
    }

    /// As the API calls it.
    pub(super) fn phase(&self, pod: &Value) -> &'static str {
        if self.ended.is_some() {
            return "Failed";
        }
        let exits: Vec<&Exit> = self.containers.iter().filter_map(Container::exit).collect();
        let policy = text(pod, &["spec", "restartPolicy"]);
        let ended = exits.len() == self.containers.len()
            && (self.stopping
                || match policy {
                    "Never" => true,
                    "OnFailure" => exits.iter().all(|exit| exit.code == 0),
                    _ => false,
                });
        if ended {
            return if exits.iter().all(|exit| exit.code == 0) { "Succeeded" } else { "Failed" };
        }
        let begun = |container: &Container| {
            !matches!(container.state, State::Waiting { .. }) || container.last.is_some()
        };
        if self.containers.iter().all(begun) { "Running" } else { "Pending" }
    }

    /// The whole status, as it follows the one before.
    pub(super) fn status(&self, pod: &Value, now_ms: u64) -> Value {
        let phase = self.phase(pod);
        let generation = at(pod, &["metadata", "generation"]).cloned().unwrap_or_else(|| json!(1));
        let mut status = json!({
            "observedGeneration": generation,
            "phase": phase,
            "conditions": self.conditions(pod, phase, &generation, now_ms),
            "hostIP": self.host_ip,
            "hostIPs": [{ "ip": self.host_ip }],
            "startTime": self.started_at,
            "containerStatuses": self.containers.iter().map(|container| container.status(pod)).collect::<Vec<_>>(),
            "qosClass": at(pod, &["status", "qosClass"]).cloned().unwrap_or_else(|| json!("BestEffort")),
        });
        if let Value::Object(fields) = &mut status {
            if let Some(ended) = &self.ended {
                fields.insert("reason".to_owned(), ended.reason.clone().into());
                fields.insert("message".to_owned(), ended.message.clone().into());
            }
            fields.insert("resources".to_owned(), json!({}));
            let allocated = allocated(pod);
            if !allocated.is_empty() && self.containers.iter().any(|container| !container.id.is_empty()) {
                fields.insert("allocatedResources".to_owned(), allocated.into());
            }
            let got_somewhere = |container: &Container| {
                !matches!(container.state, State::Waiting { reason: "ContainerCreating", .. })
            };
            let shown = self.stopping || self.containers.iter().any(got_somewhere);
            if let Some(ip) = self.ip.as_ref().filter(|_| shown) {
                fields.insert("podIP".to_owned(), ip.clone().into());
                fields.insert("podIPs".to_owned(), json!([{ "ip": ip }]));
            }
        }
        status
    }

    fn conditions(&self, pod: &Value, phase: &str, generation: &Value, now_ms: u64) -> Vec<Value> {
        let before = list(pod, &["status", "conditions"]);
        let unready: Vec<&str> =
            self.containers.iter().filter(|container| !container.ready).map(|c| c.name.as_str()).collect();
        let never_began =
            self.containers.iter().all(|container| container.exit().is_some_and(|exit| exit.from.is_none()));
        let (ready, why) = match phase {
            "Succeeded" => ("False", Some(("PodCompleted", String::new()))),
            "Failed" if !never_began => ("False", Some(("PodFailed", String::new()))),
            _ if unready.is_empty() => ("True", None),
            _ => {
                let message = format!("containers with unready status: [{}]", unready.join(" "));
                ("False", Some(("ContainersNotReady", message)))
            }
        };
        let has_sandbox = self.sandbox && !matches!(phase, "Succeeded" | "Failed");
        let initialized = (phase == "Succeeded").then(|| ("PodCompleted", String::new()));
        let sandbox = if has_sandbox { "True" } else { "False" };
        // What others wrote stays, and comes first.
        let theirs =
            before.iter().filter(|condition| text(condition, &["type"]) == "DisruptionTarget").cloned();
        let mine = [
            ("PodReadyToStartContainers", sandbox, None),
            ("Initialized", "True", initialized),
            ("Ready", ready, why.clone()),
            ("ContainersReady", ready, why),
            ("PodScheduled", "True", None),
        ];
        theirs
            .chain(
                mine.into_iter()
                    .map(|(kind, status, why)| condition(before, kind, status, why, generation, now_ms)),
            )
            .collect()
    }
}

/// A condition; its time is kept as long as its status is.
fn condition(
    before: &[Value],
    kind: &str,
    status: &str,
    why: Option<(&str, String)>,
    generation: &Value,
    now_ms: u64,
) -> Value {
    let same = before.iter().find(|old| text(old, &["type"]) == kind && text(old, &["status"]) == status);
    let since = same.map_or_else(|| stamp(now_ms), |old| text(old, &["lastTransitionTime"]).to_owned());
    let mut condition = json!({
        "type": kind, "observedGeneration": generation, "status": status, "lastProbeTime": null,
        "lastTransitionTime": since,
    });
    if let (Value::Object(fields), Some((reason, message))) = (&mut condition, why) {
        fields.insert("reason".to_owned(), reason.into());
        if !message.is_empty() {
            fields.insert("message".to_owned(), message.into());
        }
    }
    condition
}

impl Container {
    fn new(spec: &Value) -> Self {
        Self {
            name: text(spec, &["name"]).to_owned(),
            image: text(spec, &["image"]).to_owned(),
            state: State::Waiting { reason: "ContainerCreating", message: String::new() },
            last: None,
            restarts: 0,
            image_id: String::new(),
            id: String::new(),
            started: false,
            ready: false,
            backoff_ms: 0,
        }
    }

    pub(super) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            State::Exited(exit) => Some(exit),
            State::Waiting { .. } | State::Running { .. } => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    fn status(&self, pod: &Value) -> Value {
        let spec = list(pod, &["spec", "containers"]).iter().find(|spec| text(spec, &["name"]) == self.name);
        let mut status = json!({
            "name": self.name,
            "state": self.state.show(),
            "lastState": self.last.as_ref().map_or_else(|| json!({}), |last| json!({ "terminated": last.show() })),
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": self.image,
            "imageID": self.image_id,
            "started": self.started,
        });
        if let Value::Object(fields) = &mut status
            && !self.id.is_empty()
        {
            fields.insert("containerID".to_owned(), self.id.clone().into());
            let resources = spec.and_then(|spec| spec.get("resources")).cloned();
            fields.insert("resources".to_owned(), resources.unwrap_or_else(|| json!({})));
            let allocated = spec.and_then(|spec| at(spec, &["resources", "requests"])).cloned();
            fields.extend(allocated.map(|allocated| ("allocatedResources".to_owned(), allocated)));
        }
        let mounts: Vec<Value> =
            spec.map(|spec| list(spec, &["volumeMounts"])).unwrap_or_default().iter().map(mount).collect();
        if !mounts.is_empty() {
            put(&mut status, &["volumeMounts"], mounts);
        }
        status
    }
}

/// A mount as a container has it.
fn mount(wanted: &Value) -> Value {
    let mut mount = json!({ "name": text(wanted, &["name"]), "mountPath": text(wanted, &["mountPath"]) });
    if wanted.get("readOnly") == Some(&json!(true)) {
        put(&mut mount, &["readOnly"], true);
        put(&mut mount, &["recursiveReadOnly"], "Disabled");
    }
    mount
}

/// What all containers of a Pod ask for.
fn allocated(pod: &Value) -> Map<String, Value> {
    let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in list(pod, &["spec", "containers"]) {
        for (name, amount) in super::json::fields(container, &["resources", "requests"]).into_iter().flatten()
        {
            let amount = amount.as_str().and_then(Quantity::parse).unwrap_or_default();
            let total = sum.entry(name.clone()).or_default();
            *total = total.plus(amount);
        }
    }
    sum.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect()
}

impl State {
    fn show(&self) -> Value {
        match self {
            Self::Waiting { reason, message } if message.is_empty() => {
                json!({ "waiting": { "reason": reason } })
            }
            Self::Waiting { reason, message } => {
                json!({ "waiting": { "reason": reason, "message": message } })
            }
            Self::Running { since } => json!({ "running": { "startedAt": since } }),
            Self::Exited(exit) => json!({ "terminated": exit.show() }),
        }
    }
}

impl Exit {
    fn show(&self) -> Value {
        let mut shown = json!({
            "exitCode": self.code, "reason": self.reason, "startedAt": self.from, "finishedAt": self.to,
        });
        if let Value::Object(fields) = &mut shown {
            for (key, value) in [("message", &self.message), ("containerID", &self.id)] {
                if !value.is_empty() {
                    fields.insert(key.to_owned(), value.clone().into());
                }
            }
        }
        shown
    }
}
