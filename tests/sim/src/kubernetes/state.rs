//! Everything that a cluster is at one time, and what happens in it by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::random::Random;

use super::{
    admission::Refusal,
    due::{Agenda, Due, PodRef},
    identity,
    json::{at, list, put, text},
    kinds::Kinds,
    kubelet::Step,
    node::{Image, Node, Pace},
    paging::COMPACTION_MS,
    pod_status::Run,
    rights::{Granted, Right},
    scheduler,
    store::{Key, Store},
    time::stamp,
};

/// From a namespace to what every namespace has.
const FILL_MS: u64 = 30;
const TRUST: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
     Kubernetes clusters.";

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) now_ms: u64,
    pub(super) store: Store,
    pub(super) kinds: Kinds,
    pub(super) agenda: Agenda,
    pub(super) random: Random,
    pub(super) nodes: Vec<Node>,
    pub(super) images: BTreeMap<String, Image>,
    /// Of all others.
    pub(super) any_image: Image,
    /// Pods whose status somebody else has set.
    pub(super) frozen: BTreeSet<String>,
    /// Whether lists can't go on at all.
    pub(super) tokens_expire: bool,
    pub(super) pace: Pace,
    /// What the kubelets know, by the Pods' UIDs.
    pub(super) runs: BTreeMap<String, Run>,
    /// What kubelets that are out of reach would do.
    pub(super) waiting: Vec<(String, PodRef, Step)>,
    pub(super) granted: Granted,
    /// What the entry's grant does not list.
    pub(super) not_granted: Vec<Right>,
    pub(super) refusals: Vec<Refusal>,
    next_address: u32,
    next_service: u32,
    /// When the past was last marked, and the version then: the next mark compacts it.
    mark: (u64, u64),
}

impl State {
    pub(super) fn new(now_ms: u64, seed: u64) -> Self {
        let mut state = Self {
            now_ms,
            store: Store::default(),
            kinds: Kinds::default(),
            agenda: Agenda::default(),
            random: Random::seeded(seed),
            nodes: Vec::new(),
            images: BTreeMap::new(),
            any_image: Image::Runs,
            frozen: BTreeSet::new(),
            tokens_expire: false,
            pace: Pace::default(),
            runs: BTreeMap::new(),
            waiting: Vec::new(),
            granted: Granted::default(),
            not_granted: Vec::new(),
            refusals: Vec::new(),
            next_address: 2,
            next_service: 2,
            mark: (now_ms, 0),
        };
        for namespace in ["kube-system", "default"] {
            state.add_namespace(namespace);
        }
        state.set_nodes(vec![Node::new("node-1")]);
        state
    }

    /// Lets happen what is due.
    pub(super) fn advance(&mut self, to_ms: u64) {
        while let Some((at_ms, due)) = self.agenda.next(to_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            match due {
                Due::Schedule(pod) => self.schedule(&pod),
                Due::Kubelet(pod, step) => self.kubelet(&pod, step),
                Due::Collect(key) => self.collect(&key),
                Due::FillNamespace(name) => self.fill_namespace(&name),
                Due::EndNamespace(name) => self.end_content(&name),
                Due::CountQuota(namespace) => self.count_quota(&namespace),
                Due::Sync(key) => self.sync(&key),
                Due::LoseNode(name) => self.lose_node(&name),
                Due::EvictFrom(name) => self.evict_from(&name),
            }
        }
        self.now_ms = self.now_ms.max(to_ms);
        let (marked_ms, version) = self.mark;
        if self.now_ms.saturating_sub(marked_ms) >= COMPACTION_MS {
            self.store.compact(version);
            self.mark = (self.now_ms, self.store.version());
        }
    }

    /// Writes an object; what follows from it is planned.
    pub(super) fn write(&mut self, key: &Key, object: Value) -> Arc<Value> {
        let before = self.store.get(key).cloned();
        let object = self.store.put(key.clone(), object);
        let before = before.as_deref().unwrap_or(&Value::Null);
        let changed = |path: &[&str]| at(before, path) != at(&object, path);
        if changed(&["metadata", "ownerReferences"]) {
            self.watch_owners(key, &object);
        }
        let recount = match key.resource.as_str() {
            "resourcequotas" => changed(&["spec"]),
            "pods" => changed(&["status", "phase"]) && !before.is_null(),
            _ => false,
        };
        if recount {
            self.plan_count(&key.namespace);
        }
        self.plan_sync(key, &object);
        object
    }

    /// Writes a new object.
    pub(super) fn add(&mut self, key: &Key, mut object: Value) -> Arc<Value> {
        put(&mut object, &["metadata", "uid"], identity::uuid(&mut self.random));
        put(&mut object, &["metadata", "creationTimestamp"], stamp(self.now_ms));
        let object = self.write(key, object);
        match key.resource.as_str() {
            "pods" => self.plan_pod(&object),
            "namespaces" => self.agenda.plan(self.now_ms + FILL_MS, Due::FillNamespace(key.name.clone())),
            _ => {}
        }
        object
    }

    /// Takes an object away for good; answers it as it was.
    pub(super) fn erase(&mut self, key: &Key) -> Option<Value> {
        let object = self.store.remove(key)?;
        if key.resource == "pods" {
            self.runs.remove(text(&object, &["metadata", "uid"]));
            self.look_again();
        }
        self.release(&object);
        self.plan_sync(key, &object);
        self.plan_count(&key.namespace);
        Some(object)
    }

    fn plan_pod(&mut self, pod: &Value) {
        let of = pod_ref(pod);
        if !text(pod, &["spec", "nodeName"]).is_empty() {
            self.agenda.plan(self.now_ms + self.pace.admit, Due::Kubelet(of, Step::Admit));
        } else if text(pod, &["spec", "schedulerName"]) == "default-scheduler" {
            self.agenda.plan(self.now_ms + self.pace.schedule, Due::Schedule(of));
        }
    }

    /// Pods without a node are looked at again: there may be room now.
    pub(super) fn look_again(&mut self) {
        let pending: Vec<Value> = self
            .store
            .of("pods", "")
            .map(|(_, pod)| pod.as_ref())
            .filter(|pod| text(pod, &["spec", "nodeName"]).is_empty())
            .filter(|pod| !list(pod, &["status", "conditions"]).is_empty())
            .cloned()
            .collect();
        pending.iter().for_each(|pod| self.plan_pod(pod));
    }

    fn schedule(&mut self, pod: &PodRef) {
        let key = Key::pod(&pod.namespace, &pod.name);
        let found = self.store.get(&key).filter(|found| text(found, &["metadata", "uid"]) == pod.uid);
        let Some(object) = found.filter(|found| text(found, &["spec", "nodeName"]).is_empty()) else {
            return;
        };
        let mut object = Value::clone(object);
        let now = stamp(self.now_ms);
        let condition = match scheduler::choose(&self.store, &self.nodes, &object) {
            Ok(node) => {
                put(&mut object, &["spec", "nodeName"], node);
                self.agenda.plan(self.now_ms + self.pace.admit, Due::Kubelet(pod.clone(), Step::Admit));
                json!({
                    "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
                })
            }
            Err(why) => {
                let before = list(&object, &["status", "conditions"]).first();
                let since = before.map_or(now.as_str(), |before| text(before, &["lastTransitionTime"]));
                json!({
                    "type": "PodScheduled", "observedGeneration": at(&object, &["metadata", "generation"]),
                    "status": "False", "lastProbeTime": null, "lastTransitionTime": since,
                    "reason": "Unschedulable", "message": why,
                })
            }
        };
        put(&mut object, &["status", "conditions"], json!([condition]));
        if self.store.get(&key).is_some_and(|before| **before != object) {
            self.write(&key, object);
        }
    }

    /// Lets every token refer to a past that is forgotten.
    pub(super) fn expire_tokens(&mut self) {
        self.store.tick();
        self.store.compact(self.store.version());
    }

    pub(super) fn next_ip(&mut self) -> String {
        let address = self.next_address;
        self.next_address += 1;
        format!("10.244.{}.{}", (address >> 8) & 0xff, address & 0xff)
    }

    pub(super) fn next_service_ip(&mut self) -> String {
        let address = self.next_service;
        self.next_service += 1;
        format!("10.96.{}.{}", (address >> 8) & 0xff, address & 0xff)
    }

    pub(super) fn add_namespace(&mut self, name: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        });
        self.add(&Key::new("namespaces", "", name), object);
        self.fill_namespace(name);
    }

    /// What controllers put into every namespace.
    fn fill_namespace(&mut self, name: &str) {
        if self.store.get(&Key::new("namespaces", "", name)).is_none() {
            return;
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": name },
        });
        let trust = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "kube-root-ca.crt", "namespace": name,
                          "annotations": { "kubernetes.io/description": TRUST } },
            "data": { "ca.crt": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n" },
        });
        for (resource, object) in [("serviceaccounts", account), ("configmaps", trust)] {
            let key = Key::new(resource, name, text(&object, &["metadata", "name"]));
            if self.store.get(&key).is_none() {
                self.add(&key, object);
            }
        }
    }
}

/// This Pod and no successor of its name.
pub(super) fn pod_ref(pod: &Value) -> PodRef {
    let of = |field: &str| text(pod, &["metadata", field]).to_owned();
    PodRef { namespace: of("namespace"), name: of("name"), uid: of("uid") }
}
