//! Objects, and what they were before.
//!
//! One counter numbers every write, as etcd's does: it is each object's resource version. A list that goes on
//! where an earlier page ended sees the state of that page, so the past is kept until it is compacted.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use serde_json::Value;

use super::json::put;

/// Where an object stands. The order is that of a list: by namespace, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// `pods`, `deployments.apps`.
    pub(super) resource: String,
    /// Empty for what has none.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn pod(namespace: &str, name: &str) -> Self {
        Self::new("pods", namespace, name)
    }
}

/// The past that was asked for is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compacted;

type Past = Vec<(u64, Option<Arc<Value>>)>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    past: BTreeMap<Key, Past>,
    version: u64,
    compacted: u64,
}

impl Store {
    /// Of the last write.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// All of one resource, in one namespace or, where that is empty, in all of them.
    pub(super) fn of<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.objects
            .range(Key::new(resource, namespace, "")..)
            .take_while(move |(key, _)| within(key, resource, namespace))
    }

    /// The same as it was at a version, behind a key.
    pub(super) fn of_at(
        &self,
        resource: &str,
        namespace: &str,
        version: u64,
        behind: &Key,
    ) -> Result<Vec<Arc<Value>>, Compacted> {
        if version < self.compacted {
            return Err(Compacted);
        }
        let at = |past: &Past| past.iter().rev().find(|(written, _)| *written <= version)?.1.clone();
        Ok(self
            .past
            .range((Bound::Excluded(behind), Bound::Unbounded))
            .take_while(|(key, _)| within(key, resource, namespace))
            .filter_map(|(_, past)| at(past))
            .collect())
    }

    /// Writes an object under the next version.
    pub(super) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        put(&mut object, &["metadata", "resourceVersion"], self.version.to_string());
        let object = Arc::new(object);
        self.past.entry(key.clone()).or_default().push((self.version, Some(object.clone())));
        self.objects.insert(key, object.clone());
        object
    }

    /// Removes an object; answers it with the version of its removal.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Value> {
        let object = self.objects.remove(key)?;
        self.version += 1;
        self.past.entry(key.clone()).or_default().push((self.version, None));
        let mut object = Value::clone(&object);
        put(&mut object, &["metadata", "resourceVersion"], self.version.to_string());
        Some(object)
    }

    /// Somebody wrote something that is none of our business.
    pub(super) fn tick(&mut self) {
        self.version += 1;
    }

    /// Forgets what was before a version.
    pub(super) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.version));
        let compacted = self.compacted;
        self.past.retain(|_, past| {
            let before = past.iter().filter(|(written, _)| *written <= compacted).count();
            past.drain(..before.saturating_sub(1));
            !matches!(past.as_slice(), [(written, None)] if *written <= compacted)
        });
    }
}

fn within(key: &Key, resource: &str, namespace: &str) -> bool {
    key.resource == resource && (namespace.is_empty() || key.namespace == namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(objects: &[Arc<Value>]) -> Vec<&str> {
        objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_past_is_seen_as_it_was_until_it_is_compacted() {
        let mut store = Store::default();
        for name in ["a", "b", "c"] {
            store.put(Key::pod("ns", name), json!({ "metadata": { "name": name } }));
        }
        let then = store.version();
        store.remove(&Key::pod("ns", "b"));
        store.put(Key::pod("ns", "d"), json!({ "metadata": { "name": "d" } }));
        let behind = Key::pod("ns", "");
        assert_eq!(names(&store.of_at("pods", "ns", then, &behind).unwrap()), ["a", "b", "c"]);
        assert_eq!(names(&store.of_at("pods", "ns", then, &Key::pod("ns", "a")).unwrap()), ["b", "c"]);
        store.compact(then + 1);
        assert_eq!(store.of_at("pods", "ns", then, &behind), Err(Compacted));
        assert_eq!(names(&store.of_at("pods", "ns", store.version(), &behind).unwrap()), ["a", "c", "d"]);
    }

    #[test]
    fn a_namespace_holds_its_own_objects_only() {
        let mut store = Store::default();
        for (resource, namespace) in [("pods", "a"), ("pods", "ab"), ("podsx", "a"), ("secrets", "a")] {
            store.put(Key::new(resource, namespace, "x"), json!({ "metadata": {} }));
        }
        assert_eq!(store.of("pods", "a").count(), 1);
        assert_eq!(store.of("pods", "").count(), 2);
    }
}
