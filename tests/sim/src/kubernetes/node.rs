//! Nodes, images, and how fast things go.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Also its host name.
    pub name: String,
    /// Beside those that every node bears.
    pub labels: BTreeMap<String, String>,
    /// What Pods may ask for, in thousandths of a processor.
    pub cpu_milli: u64,
    /// The same in bytes.
    pub memory: u64,
    /// How many Pods it takes.
    pub pods: usize,
    /// Its own address.
    pub address: String,
    /// Whether its kubelet answers.
    pub up: bool,
}

impl Node {
    /// One of ordinary size.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            cpu_milli: 2000,
            memory: 8 << 30,
            pods: 110,
            address: "192.0.2.10".to_owned(),
            up: true,
        }
    }

    /// With one label more.
    #[must_use]
    pub fn with_label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn all_labels(&self) -> BTreeMap<String, String> {
        let own = [("kubernetes.io/arch", "amd64"), ("kubernetes.io/os", "linux")];
        let mut labels: BTreeMap<String, String> =
            own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        labels.insert("kubernetes.io/hostname".to_owned(), self.name.clone());
        labels.extend(self.labels.clone());
        labels
    }

    /// As the API shows it.
    pub(super) fn object(&self) -> Value {
        let room = json!({
            "cpu": format!("{}m", self.cpu_milli), "memory": self.memory.to_string(), "pods": self.pods.to_string(),
        });
        let (ready, reason, message) = match self.up {
            true => ("True", "KubeletReady", "kubelet is posting ready status"),
            false => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        };
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": self.name, "labels": self.all_labels() },
            "spec": {},
            "status": {
                "allocatable": room, "capacity": room,
                "addresses": [
                    { "address": self.address, "type": "InternalIP" }, { "address": self.name, "type": "Hostname" },
                ],
                "conditions": [{ "type": "Ready", "status": ready, "reason": reason, "message": message }],
            },
        })
    }
}

/// What becomes of a container with an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// It runs until it is stopped.
    Runs,
    /// It runs, but no readiness probe succeeds.
    NeverReady,
    /// It runs, but no startup probe succeeds.
    NeverStarted,
    /// It ends by itself.
    Exits {
        /// 0 for well.
        code: i32,
        /// Its last words, where the container asks for them.
        message: String,
        /// How long it ran.
        after_ms: u64,
    },
    /// No registry has it.
    Missing,
}

/// How long everything takes, in milliseconds. The defaults were measured on a node with its images at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From a create to its node.
    pub schedule: u64,
    /// From its node to the kubelet's first word.
    pub admit: u64,
    /// From there to the Pod's network.
    pub sandbox: u64,
    /// Until the image is there.
    pub pull: u64,
    /// From the image to a running container.
    pub start: u64,
    /// From a running container to the first probe's success being seen.
    pub probe: u64,
    /// From the signal to the end of a container that heeds it.
    pub stop: u64,
    /// From there until the Pod is gone.
    pub remove: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            schedule: 10,
            admit: 30,
            sandbox: 250,
            pull: 50,
            start: 200,
            probe: 900,
            stop: 400,
            remove: 100,
        }
    }
}
