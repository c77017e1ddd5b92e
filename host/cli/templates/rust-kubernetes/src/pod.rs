//! A Pod as the API shows it, and what follows from it: tables without any call.

use provider_sdk::{Error, State, reason};
use serde_json::Value;

use crate::cluster::{Location, Owned, text};

/// What a Pod is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Ready,
    Succeeded,
    Failed,
    /// The node does not answer, or a later Kubernetes has a new word.
    Unknown(String),
}

/// A Pod of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub phase: Phase,
    pub ips: Vec<String>,
    /// Why it is in this state, in Kubernetes' own words: `Unschedulable`, `ErrImagePull`.
    pub reason: String,
    pub message: String,
}

impl Pod {
    pub fn read(owned: &Owned) -> Self {
        let pod = owned.object();
        let ready = condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
        let phase = match text(pod, "/status/phase") {
            "Pending" => Phase::Pending,
            "Running" if ready => Phase::Ready,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            other => Phase::Unknown(other.to_owned()),
        };
        let ips = pod.pointer("/status/podIPs").and_then(Value::as_array);
        let ips = ips
            .into_iter()
            .flatten()
            .map(|ip| text(ip, "/ip").to_owned())
            .collect();
        let (reason, message) = why(pod);
        Self {
            phase,
            ips,
            reason,
            message,
        }
    }

    /// Whether the kubelet may be waiting for the ConfigMap: somebody may have removed it since the
    /// Pod was made, and then it waits for ever.
    pub fn may_lack_its_config(&self) -> bool {
        self.phase == Phase::Pending && self.reason == "ContainerCreating"
    }

    /// `Unschedulable: no node has room`.
    pub fn why(&self) -> String {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => "no reason given".to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

/// The first of these that says something: the Pod itself, the scheduler, the container, readiness.
fn why(pod: &Value) -> (String, String) {
    let failed =
        |kind: &str| condition(pod, kind).filter(|found| text(found, "/status") == "False");
    let waiting = pod.pointer("/status/containerStatuses/0/state/waiting");
    let sources = [
        pod.get("status"),
        failed("PodScheduled"),
        waiting,
        failed("Ready"),
    ];
    let told = sources
        .into_iter()
        .flatten()
        .find(|source| !text(source, "/reason").is_empty());
    told.map(|source| {
        (
            text(source, "/reason").to_owned(),
            text(source, "/message").to_owned(),
        )
    })
    .unwrap_or_default()
}

/// What create does about a Pod of ours.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Done,
    /// Kubernetes is at work.
    Wait,
    Fail(Error),
}

/// The table of create.
pub fn next(at: &Location, owned: &Owned, pod: &Pod) -> Next {
    if let Some(waits_for) = owned.deleting() {
        let id = at.id();
        let message = format!("Pod {id} is being deleted and waits for {waits_for}");
        return Next::Fail(Error::transient(reason::DELETING, message));
    }
    match &pod.phase {
        Phase::Pending | Phase::Running => Next::Wait,
        Phase::Ready => Next::Done,
        Phase::Succeeded | Phase::Failed => Next::Fail(Error::permanent(
            reason::FINISHED,
            format!(
                "Pod {} has ended and can't be started again ({})",
                at.id(),
                pod.why()
            ),
        )),
        Phase::Unknown(phase) => Next::Fail(Error::transient(
            reason::BACKEND,
            format!(
                "Pod {} has phase {phase:?}: bring its node back, or delete the Pod",
                at.id()
            ),
        )),
    }
}

/// The table of get.
pub fn state(owned: &Owned, pod: &Pod) -> State {
    if owned.deleting().is_some() {
        return State::Deleting;
    }
    match pod.phase {
        // Running means usable, and nobody can use what has no address.
        Phase::Ready if !pod.ips.is_empty() => State::Running,
        Phase::Pending | Phase::Running | Phase::Ready => State::Provisioning,
        Phase::Succeeded | Phase::Failed | Phase::Unknown(_) => State::Stopped,
    }
}
