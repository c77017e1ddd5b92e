//! What stands at an instance's name, read from the API's JSON.

use provider_sdk::{Mark, Verdict, mark, time};
use serde_json::{Map, Value};

/// Messages of Pods can be long, and a status has to hold them.
const LONGEST_MESSAGE: usize = 500;

/// An object at our name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    Nothing,
    /// It bears another mark, or none.
    Foreign(Mark),
    /// Ours by name, mark and the Proxy's UID.
    Ours(T),
}

impl<T> Found<T> {
    /// Sorts an object by whose its mark is.
    pub fn sort(
        object: &Value,
        expected: &Mark,
        verify: impl FnOnce(&Mark) -> Verdict,
        read: fn(Owned, &Value) -> T,
    ) -> Self {
        let mark = read_mark(object, expected);
        match verify(&mark) {
            Verdict::ThisTarget => Self::Ours(read(Owned::read(object, mark), object)),
            Verdict::ThisInstallation | Verdict::Legacy | Verdict::Foreign => Self::Foreign(mark),
        }
    }
}

/// Proof that an object was read back as ours: only [`Found::sort`] makes one, and only with one can
/// something be changed or deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    uid: String,
    version: String,
    mark: Mark,
    created_ms: Option<u64>,
    deleting: Option<Deleting>,
}

impl Owned {
    fn read(object: &Value, mark: Mark) -> Self {
        let deleting = object.pointer("/metadata/deletionTimestamp").map(|_| Deleting {
            finalizers: texts(object.pointer("/metadata/finalizers")),
            node: text(object, "/spec/nodeName"),
        });
        Self {
            uid: text(object, "/metadata/uid"),
            version: text(object, "/metadata/resourceVersion"),
            mark,
            created_ms: created_ms(object),
            deleting,
        }
    }

    /// The object's own UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its version when it was read.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The mark as read back.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// When it was made.
    pub fn created_ms(&self) -> Option<u64> {
        self.created_ms
    }

    /// Whether it is being deleted, and what that waits for.
    pub fn deleting(&self) -> Option<&Deleting> {
        self.deleting.as_ref()
    }
}

/// A delete that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleting {
    pub finalizers: Vec<String>,
    pub node: String,
}

impl Deleting {
    /// What it waits for.
    pub fn waits_for(&self) -> String {
        if !self.finalizers.is_empty() {
            return format!("its finalizers {}", self.finalizers.join(", "));
        }
        match self.node.as_str() {
            "" => "the API server".to_owned(),
            node => format!("node {node} to end its containers"),
        }
    }
}

/// A Pod of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub owned: Owned,
    pub phase: Phase,
    /// Its condition Ready.
    pub ready: bool,
    pub ips: Vec<String>,
    pub why: Why,
    pub details: Map<String, Value>,
}

/// A Pod's phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// Also what the API calls `Unknown`: its node is out of reach.
    Unknown(String),
}

/// Why a Pod is as it is, in Kubernetes' own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    pub reason: String,
    pub message: String,
}

impl Why {
    fn new(reason: String, message: &str) -> Self {
        Self { reason, message: cut(message) }
    }

    /// `Unschedulable: 0/3 nodes are available`.
    pub fn show(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message => format!("{}: {message}", self.reason),
        }
    }

    /// The same, with what people can do about it who see nothing but that.
    pub fn told(&self) -> String {
        let way_out = match self.reason.as_str() {
            "Unschedulable" => {
                "; add room, or change nodeSelector or tolerations in the entry's config, or the Proxy's zone"
            }
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
                "; mend image or imagePullSecrets in the entry's config, and delete the Pod"
            }
            "CrashLoopBackOff" => "; mend squid or runAsUser in the entry's config, and delete the Pod",
            _ => "",
        };
        self.show() + way_out
    }
}

impl Pod {
    /// From the API's object.
    pub fn read(owned: Owned, pod: &Value) -> Self {
        let phase = match text(pod, "/status/phase").as_str() {
            "Pending" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            other => Phase::Unknown(other.to_owned()),
        };
        let ready = condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
        Self { owned, phase, ready, ips: ips(pod), why: why(pod), details: details(pod) }
    }
}

/// A ConfigMap of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMap {
    pub owned: Owned,
    pub data: Map<String, Value>,
}

impl ConfigMap {
    /// From the API's object.
    pub fn read(owned: Owned, object: &Value) -> Self {
        let data = object.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
        Self { owned, data }
    }
}

/// The mark in an object's labels.
pub fn read_mark(object: &Value, like: &Mark) -> Mark {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.map(|labels| mark::from_labels(labels, like)).unwrap_or_default()
}

/// When an object was made.
pub fn created_ms(object: &Value) -> Option<u64> {
    time::rfc3339_ms(&text(object, "/metadata/creationTimestamp"))
}

/// A text in an object; empty when it isn't there.
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").is_some_and(|found| found == kind))
}

fn ips(pod: &Value) -> Vec<String> {
    let all = pod.pointer("/status/podIPs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ips: Vec<String> = all.iter().map(|ip| text(ip, "/ip")).filter(|ip| !ip.is_empty()).collect();
    if !ips.is_empty() {
        return ips;
    }
    Some(text(pod, "/status/podIP")).filter(|ip| !ip.is_empty()).into_iter().collect()
}

/// The first of these that says something: the Pod's own word, the scheduler, the container, readiness.
fn why(pod: &Value) -> Why {
    let own = text(pod, "/status/reason");
    if !own.is_empty() {
        return Why::new(own, &text(pod, "/status/message"));
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|found| text(found, "/status") == "False");
    if let Some(found) = unscheduled {
        return Why::new(text(found, "/reason"), &text(found, "/message"));
    }
    let container = pod.pointer("/status/containerStatuses/0");
    if let Some(waiting) = container.and_then(|container| container.pointer("/state/waiting")) {
        let mut message = text(waiting, "/message");
        if let Some(ended) = container.and_then(|container| container.pointer("/lastState/terminated")) {
            message = [message, exit(ended)]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("; ");
        }
        return Why::new(text(waiting, "/reason"), &message);
    }
    if let Some(ended) = container.and_then(|container| container.pointer("/state/terminated")) {
        return Why::new(text(ended, "/reason"), &exit(ended));
    }
    let unready = condition(pod, "Ready").filter(|found| text(found, "/status") != "True");
    unready.map(|found| Why::new(text(found, "/reason"), &text(found, "/message"))).unwrap_or_default()
}

/// How a container ended, with its last words.
fn exit(ended: &Value) -> String {
    let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
    match text(ended, "/message").trim() {
        "" => format!("exit code {code}"),
        words => format!("exit code {code}: {words}"),
    }
}

fn details(pod: &Value) -> Map<String, Value> {
    let mut details = Map::new();
    let container = pod.pointer("/status/containerStatuses/0");
    let image = container.map(|container| text(container, "/imageID")).unwrap_or_default();
    for (key, value) in [("node", text(pod, "/spec/nodeName")), ("image", image)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    let restarts = container.and_then(|container| container.get("restartCount")).filter(|count| **count != 0);
    if let Some(restarts) = restarts {
        details.insert("restarts".to_owned(), restarts.clone());
    }
    details
}

/// The end matters most where a container's last words are long.
fn cut(message: &str) -> String {
    let message = message.trim();
    let skipped = message.chars().count().saturating_sub(LONGEST_MESSAGE);
    match skipped {
        0 => message.to_owned(),
        _ => format!("...{}", message.chars().skip(skipped).collect::<String>()),
    }
}
