//! What goes because something else went: dependents of owners, and the content of namespaces.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    due::Due,
    json::{at, list, put, text},
    kinds::Kind,
    state::State,
    store::Key,
    time::stamp,
};

/// How long the collector takes to see that an owner is gone.
const COLLECT_MS: u64 = 200;
/// When a namespace's content is deleted, and how often its end is looked for.
const NAMESPACE_MS: u64 = 5_000;

impl State {
    /// Plans a look at an object's owners, where it names some.
    pub(super) fn watch_owners(&mut self, key: &Key, object: &Value) {
        if !list(object, &["metadata", "ownerReferences"]).is_empty() {
            self.agenda.plan(self.now_ms + COLLECT_MS, Due::Collect(key.clone()));
        }
    }

    /// Plans a look at everything that something owned.
    pub(super) fn release(&mut self, owner: &Value) {
        let uid = text(owner, &["metadata", "uid"]);
        let owned = |object: &Value| {
            list(object, &["metadata", "ownerReferences"]).iter().any(|owner| text(owner, &["uid"]) == uid)
        };
        let dependents: Vec<Key> =
            self.store.all().filter(|(_, object)| owned(object)).map(|(key, _)| key.clone()).collect();
        for key in dependents {
            self.agenda.plan(self.now_ms + COLLECT_MS, Due::Collect(key));
        }
    }

    /// Deletes an object whose owners are all gone. One whose owner's kind nobody serves is left alone: nobody
    /// can tell.
    pub(super) fn collect(&mut self, key: &Key) {
        let Some(object) = self.store.get(key).cloned() else { return };
        let owners = list(&object, &["metadata", "ownerReferences"]);
        if owners.is_empty() || at(&object, &["metadata", "deletionTimestamp"]).is_some() {
            return;
        }
        let mut left = Vec::new();
        for owner in owners {
            match self.owner_exists(&key.namespace, owner) {
                None => return,
                Some(true) => left.push(owner.clone()),
                Some(false) => {}
            }
        }
        if left.is_empty() {
            self.delete_object(key);
        } else if left.len() < owners.len() {
            let mut object = Value::clone(&object);
            put(&mut object, &["metadata", "ownerReferences"], left);
            self.write(key, object);
        }
    }

    fn owner_exists(&self, namespace: &str, owner: &Value) -> Option<bool> {
        let kind: Arc<Kind> = self.kinds.of(text(owner, &["apiVersion"]), text(owner, &["kind"]))?;
        let namespace = if kind.namespaced { namespace } else { "" };
        let key = Key::new(&kind.qualified(), namespace, text(owner, &["name"]));
        let found = self.store.get(&key);
        Some(found.is_some_and(|found| text(found, &["metadata", "uid"]) == text(owner, &["uid"])))
    }

    /// A namespace begins to end.
    pub(super) fn end_namespace(&mut self, key: &Key, object: &Value) -> Value {
        let mut object = object.clone();
        put(&mut object, &["metadata", "deletionTimestamp"], stamp(self.now_ms));
        put(&mut object, &["status", "phase"], "Terminating");
        let object = self.write(key, object);
        self.agenda.plan(self.now_ms + NAMESPACE_MS, Due::EndNamespace(key.name.clone()));
        Value::clone(&object)
    }

    /// Deletes what is in a namespace that ends, and the namespace once nothing is left.
    pub(super) fn end_content(&mut self, name: &str) {
        let key = Key::new("namespaces", "", name);
        let ends = |found: &Arc<Value>| at(found, &["metadata", "deletionTimestamp"]).is_some();
        if !self.store.get(&key).is_some_and(ends) {
            return;
        }
        let within: Vec<Key> =
            self.store.all().map(|(key, _)| key).filter(|key| key.namespace == name).cloned().collect();
        for key in &within {
            self.delete_object(key);
        }
        let left: Vec<&Key> = within.iter().filter(|key| self.store.get(key).is_some()).collect();
        if left.is_empty() {
            self.erase(&key);
            return;
        }
        let conditions = self.remaining(&left);
        if let Some(object) = self.store.get(&key) {
            let mut object = Value::clone(object);
            put(&mut object, &["status", "conditions"], conditions);
            if self.store.get(&key).is_some_and(|before| **before != object) {
                self.write(&key, object);
            }
        }
        self.agenda.plan(self.now_ms + NAMESPACE_MS, Due::EndNamespace(name.to_owned()));
    }

    fn remaining(&self, left: &[&Key]) -> Value {
        let now = stamp(self.now_ms);
        let resources: BTreeSet<&str> = left.iter().map(|key| key.resource.as_str()).collect();
        let told: Vec<String> = resources
            .iter()
            .map(|resource| {
                let count = left.iter().filter(|key| key.resource == *resource).count();
                format!("{resource}. has {count} resource instances")
            })
            .collect();
        let mut finalizers: Vec<String> = Vec::new();
        for object in left.iter().filter_map(|key| self.store.get(key)) {
            let of = list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str);
            finalizers.extend(of.map(|finalizer| format!("{finalizer} in 1 resource instances")));
        }
        finalizers.sort();
        finalizers.dedup();
        let remain = format!("Some resources are remaining: {}", told.join(", "));
        let held =
            format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
        let (held_status, held_reason, held) = match finalizers.is_empty() {
            true => {
                ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
            }
            false => ("True", "SomeFinalizersRemain", held),
        };
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message });
        json!([
            condition(
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered"
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed"
            ),
            condition(
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization"
            ),
            condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", &remain),
            condition("NamespaceFinalizersRemaining", held_status, held_reason, &held),
        ])
    }
}
