//! The controllers of Deployments and ReplicaSets.
//!
//! A changed template makes a new ReplicaSet; the old ones shrink to nothing once the new one's Pods are ready. How
//! many may be more or fewer meanwhile is not counted.

use serde_json::{Value, json};

use super::{
    due::Due,
    json::{at, list, put, text},
    requests::Subject,
    state::State,
    store::Key,
    time::stamp,
};

const DEPLOYMENTS: &str = "deployments.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// From a change to the controller's answer to it.
const SYNC_MS: u64 = 20;
/// How soon a Pod that was refused is tried again.
const RETRY_MS: u64 = 1_000;

impl State {
    /// Plans what follows from a change of an object.
    pub(super) fn plan_sync(&mut self, key: &Key, object: &Value) {
        if matches!(key.resource.as_str(), DEPLOYMENTS | REPLICA_SETS) {
            self.agenda.plan(self.now_ms + SYNC_MS, Due::Sync(key.clone()));
        }
        let Some(owner) = controller(object) else { return };
        let resource = match text(owner, &["kind"]) {
            "ReplicaSet" => REPLICA_SETS,
            "Deployment" => DEPLOYMENTS,
            _ => return,
        };
        let owner = Key::new(resource, &key.namespace, text(owner, &["name"]));
        self.agenda.plan(self.now_ms + SYNC_MS, Due::Sync(owner));
    }

    /// One look at a Deployment or a ReplicaSet.
    pub(super) fn sync(&mut self, key: &Key) {
        let Some(object) = self.store.get(key).map(|object| Value::clone(object)) else { return };
        if at(&object, &["metadata", "deletionTimestamp"]).is_some() {
            return;
        }
        match key.resource.as_str() {
            DEPLOYMENTS => self.sync_deployment(key, object),
            _ => self.sync_replica_set(key, object),
        }
    }

    fn owned(&self, resource: &str, owner: &Value) -> Vec<(Key, Value)> {
        let (namespace, uid) = (text(owner, &["metadata", "namespace"]), text(owner, &["metadata", "uid"]));
        self.store
            .of(resource, namespace)
            .filter(|(_, object)| controller(object).is_some_and(|owner| text(owner, &["uid"]) == uid))
            .map(|(key, object)| (key.clone(), Value::clone(object)))
            .collect()
    }

    fn sync_deployment(&mut self, key: &Key, mut deployment: Value) {
        let template = at(&deployment, &["spec", "template"]).cloned().unwrap_or_default();
        let hash = hash(&template);
        let name = format!("{}-{hash}", key.name);
        let wanted = count(&deployment, &["spec", "replicas"]);
        let sets = self.owned(REPLICA_SETS, &deployment);
        let paused = at(&deployment, &["spec", "paused"]) == Some(&json!(true));
        let current = sets.iter().find(|(key, _)| key.name == name).map(|(_, set)| set.clone());
        match &current {
            None if !paused => {
                let revision = (sets.len() + 1).to_string();
                let set = replica_set(&deployment, &name, &hash, &template, wanted, &revision);
                self.make(REPLICA_SETS, &key.namespace, set);
                put(&mut deployment, &["metadata", "annotations", REVISION], revision);
            }
            Some(set) => self.scale(
                &Key { name: name.clone(), ..Key::new(REPLICA_SETS, &key.namespace, "") },
                set,
                wanted,
            ),
            None => {}
        }
        let is_ready = current.as_ref().is_some_and(|set| count(set, &["status", "readyReplicas"]) >= wanted);
        for (old, set) in sets.iter().filter(|(old, _)| old.name != name && is_ready) {
            self.scale(old, set, 0);
        }
        let sum = |field: &str| sets.iter().map(|(_, set)| count(set, &["status", field])).sum::<u64>();
        let updated = current.as_ref().map_or(0, |set| count(set, &["status", "replicas"]));
        let (replicas, ready) = (sum("replicas"), sum("readyReplicas"));
        let mut status = json!({ "observedGeneration": at(&deployment, &["metadata", "generation"]), "terminatingReplicas": 0 });
        for (field, value) in [
            ("replicas", replicas),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("unavailableReplicas", wanted.saturating_sub(ready)),
        ] {
            if value > 0 {
                put(&mut status, &[field], value);
            }
        }
        let done = is_ready && updated == wanted && replicas == wanted;
        let conditions = self.conditions(&deployment, &name, ready >= wanted, done);
        put(&mut status, &["conditions"], conditions);
        put(&mut deployment, &["status"], status);
        if self.store.get(key).is_some_and(|before| **before != deployment) {
            self.write(key, deployment);
        }
    }

    fn conditions(&self, deployment: &Value, set: &str, available: bool, done: bool) -> Value {
        let now = stamp(self.now_ms);
        let before = list(deployment, &["status", "conditions"]);
        let condition = |kind: &str, status: &str, reason: &str, message: String| {
            let old = before.iter().find(|old| text(old, &["type"]) == kind);
            let same_status = old.filter(|old| text(old, &["status"]) == status);
            let same = same_status.filter(|old| text(old, &["reason"]) == reason);
            let time = |old: Option<&Value>, field: &str| {
                old.map_or(now.as_str(), |old| text(old, &[field])).to_owned()
            };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastUpdateTime": time(same, "lastUpdateTime"),
                "lastTransitionTime": time(same_status, "lastTransitionTime"),
            })
        };
        let available = match available {
            true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            false => {
                ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
            }
        };
        let (reason, message) = match done {
            true => ("NewReplicaSetAvailable", format!("ReplicaSet \"{set}\" has successfully progressed.")),
            false => ("ReplicaSetUpdated", format!("ReplicaSet \"{set}\" is progressing.")),
        };
        json!([
            condition("Available", available.0, available.1, available.2.to_owned()),
            condition("Progressing", "True", reason, message),
        ])
    }

    fn scale(&mut self, key: &Key, set: &Value, replicas: u64) {
        if count(set, &["spec", "replicas"]) != replicas {
            let mut set = set.clone();
            put(&mut set, &["spec", "replicas"], replicas);
            let generation = count(&set, &["metadata", "generation"]) + 1;
            put(&mut set, &["metadata", "generation"], generation);
            self.write(key, set);
        }
    }

    fn sync_replica_set(&mut self, key: &Key, mut set: Value) {
        let all = self.owned("pods", &set);
        let active: Vec<&(Key, Value)> = all
            .iter()
            .filter(|(_, pod)| {
                at(pod, &["metadata", "deletionTimestamp"]).is_none()
                    && !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
            })
            .collect();
        let wanted = count(&set, &["spec", "replicas"]);
        let there = active.len() as u64;
        for _ in there..wanted {
            if !self.make("pods", &key.namespace, pod(&set)) {
                self.agenda.plan(self.now_ms + RETRY_MS, Due::Sync(key.clone()));
                break;
            }
        }
        let surplus = usize::try_from(there.saturating_sub(wanted)).unwrap_or_default();
        for (pod, _) in active.iter().rev().take(surplus) {
            self.delete_object(pod);
        }
        let is_ready = |pod: &Value| {
            list(pod, &["status", "conditions"]).iter().any(|condition| {
                text(condition, &["type"]) == "Ready" && text(condition, &["status"]) == "True"
            })
        };
        let ready = active.iter().filter(|(_, pod)| is_ready(pod)).count();
        let mut status = json!({
            "replicas": there, "observedGeneration": at(&set, &["metadata", "generation"]), "terminatingReplicas": 0,
        });
        for (field, value) in
            [("fullyLabeledReplicas", active.len()), ("readyReplicas", ready), ("availableReplicas", ready)]
        {
            if value > 0 {
                put(&mut status, &[field], value);
            }
        }
        put(&mut set, &["status"], status);
        if self.store.get(key).is_some_and(|before| **before != set) {
            self.write(key, set);
        }
    }

    /// As a controller makes it: through all that the API server checks. False where that refuses.
    fn make(&mut self, resource: &str, namespace: &str, mut object: Value) -> bool {
        let Some(kind) = self.kinds.by_key(resource) else { return false };
        super::defaults::fill(&kind, &mut object);
        self.insert(&kind, namespace, object).is_ok()
    }

    /// The delete of a controller, which asks for nothing in particular.
    pub(super) fn delete_object(&mut self, key: &Key) {
        let Some(kind) = self.kinds.by_key(&key.resource) else { return };
        let subject = Subject { kind, subresource: String::new(), key: key.clone() };
        // It can only fail because the object is gone.
        let _ = self.delete(&subject, &egress_runtime::capability::DeleteOptions::default());
    }
}

fn controller(object: &Value) -> Option<&Value> {
    list(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| owner.get("controller") == Some(&json!(true)))
}

fn count(object: &Value, path: &[&str]) -> u64 {
    at(object, path).and_then(Value::as_u64).unwrap_or_default()
}

fn owner(of: &Value) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": text(of, &["kind"]), "name": text(of, &["metadata", "name"]),
        "uid": text(of, &["metadata", "uid"]), "controller": true, "blockOwnerDeletion": true,
    }])
}

fn replica_set(
    deployment: &Value,
    name: &str,
    hash: &str,
    template: &Value,
    replicas: u64,
    revision: &str,
) -> Value {
    let mut template = template.clone();
    put(&mut template, &["metadata", "labels", HASH], hash);
    let surge = match text(deployment, &["spec", "strategy", "type"]) {
        "Recreate" => 0,
        _ => replicas.div_ceil(4),
    };
    let mut selector = at(deployment, &["spec", "selector"]).cloned().unwrap_or_default();
    put(&mut selector, &["matchLabels", HASH], hash);
    json!({
        "metadata": {
            "name": name, "labels": at(&template, &["metadata", "labels"]), "ownerReferences": owner(deployment),
            "annotations": {
                REVISION: revision, "deployment.kubernetes.io/desired-replicas": replicas.to_string(),
                "deployment.kubernetes.io/max-replicas": (replicas + surge).to_string(),
            },
        },
        "spec": { "replicas": replicas, "selector": selector, "template": template },
    })
}

fn pod(set: &Value) -> Value {
    let template = at(set, &["spec", "template"]).cloned().unwrap_or_default();
    let mut metadata = at(&template, &["metadata"]).cloned().unwrap_or_else(|| json!({}));
    put(&mut metadata, &["generateName"], format!("{}-", text(set, &["metadata", "name"])));
    put(&mut metadata, &["ownerReferences"], owner(set));
    json!({ "metadata": metadata, "spec": at(&template, &["spec"]) })
}

/// Some name that is one template's own.
fn hash(template: &Value) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut sum = template
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut letter = || {
        let at = usize::try_from(sum % 27).unwrap_or_default();
        sum /= 27;
        LETTERS.get(at).copied().map_or('x', char::from)
    };
    (0..10).map(|_| letter()).collect()
}
