//! Nodes that come, go, and stop answering.
//!
//! A node that is down keeps its Pods as they were. After a while they count as not ready, later they are deleted;
//! but only their own kubelet can end them, so they stay until it is back.

use serde_json::{Value, json};

use super::{
    due::{Due, PodRef},
    json::{at, list, put, text},
    kubelet::Step,
    node::Node,
    state::{State, pod_ref},
    store::Key,
    time::stamp,
};

/// How long a node may be silent before it counts as lost.
const LOST_MS: u64 = 50_000;
/// How long Pods tolerate that, as the API server lets them.
const TOLERATED_MS: u64 = 300_000;

impl State {
    /// Other nodes; what the kubelets of those that are back would have done is done now.
    pub(super) fn set_nodes(&mut self, nodes: Vec<Node>) {
        let before: Vec<Key> = self.store.of("nodes", "").map(|(key, _)| key.clone()).collect();
        for key in before.iter().filter(|key| nodes.iter().all(|node| node.name != key.name)) {
            self.erase(key);
        }
        let was_up = |name: &str| self.nodes.iter().any(|node| node.name == name && node.up);
        let silent: Vec<String> = nodes
            .iter()
            .filter(|node| !node.up && was_up(&node.name))
            .map(|node| node.name.clone())
            .collect();
        for name in silent {
            self.agenda.plan(self.now_ms + LOST_MS, Due::LoseNode(name));
        }
        for node in nodes.iter().filter(|node| node.up) {
            self.write_node(node);
        }
        let up: Vec<String> = nodes.iter().filter(|node| node.up).map(|node| node.name.clone()).collect();
        self.nodes = nodes;
        let waiting: Vec<(String, PodRef, Step)> = std::mem::take(&mut self.waiting);
        for (node, pod, step) in waiting {
            if up.contains(&node) {
                self.agenda.plan(self.now_ms, Due::Kubelet(pod, step));
            } else {
                self.waiting.push((node, pod, step));
            }
        }
        for (key, pod) in self.pods_on(|node| up.iter().any(|up| up == node)) {
            self.write_status(&key, &pod_ref(&pod));
        }
        self.look_again();
    }

    fn write_node(&mut self, node: &Node) {
        let key = Key::new("nodes", "", &node.name);
        let Some(before) = self.store.get(&key).cloned() else {
            self.add(&key, node.object());
            return;
        };
        let mut object = node.object();
        put(&mut object, &["metadata"], at(&before, &["metadata"]).cloned().unwrap_or_default());
        put(&mut object, &["metadata", "labels"], json!(node.all_labels()));
        if object != *before {
            self.write(&key, object);
        }
    }

    fn pods_on(&self, is_there: impl Fn(&str) -> bool) -> Vec<(Key, Value)> {
        self.store
            .of("pods", "")
            .filter(|(_, pod)| is_there(text(pod, &["spec", "nodeName"])))
            .map(|(key, pod)| (key.clone(), Value::clone(pod)))
            .collect()
    }

    /// A node has been silent for too long: its Pods are not ready any more.
    pub(super) fn lose_node(&mut self, name: &str) {
        let Some(node) = self.nodes.iter().find(|node| node.name == name && !node.up).cloned() else {
            return;
        };
        self.write_node(&node);
        let now = stamp(self.now_ms);
        for (key, mut pod) in self.pods_on(|node| node == name) {
            let mut conditions = list(&pod, &["status", "conditions"]).to_vec();
            let ready = conditions.iter_mut().find(|condition| text(condition, &["type"]) == "Ready");
            if let Some(ready) = ready.filter(|ready| text(ready, &["status"]) == "True") {
                put(ready, &["status"], "False");
                put(ready, &["lastTransitionTime"], now.clone());
                put(&mut pod, &["status", "conditions"], conditions);
                self.write(&key, pod);
            }
        }
        self.agenda.plan(self.now_ms + TOLERATED_MS, Due::EvictFrom(name.to_owned()));
    }

    /// Its Pods are deleted. Nobody can end them there.
    pub(super) fn evict_from(&mut self, name: &str) {
        if !self.nodes.iter().any(|node| node.name == name && !node.up) {
            return;
        }
        let now = stamp(self.now_ms);
        for (key, mut pod) in self.pods_on(|node| node == name) {
            if at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
                continue;
            }
            let mut conditions = list(&pod, &["status", "conditions"]).to_vec();
            conditions.push(json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
                "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint",
            }));
            put(&mut pod, &["status", "conditions"], conditions);
            self.write(&key, pod);
            self.delete_object(&key);
        }
    }
}
