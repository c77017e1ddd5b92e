//! Proxies in memory, kept as the API server keeps them.
//!
//! What the loops rely on is here to the letter: a write of a stale version is refused; one that changes
//! nothing makes no version; a change of the spec raises the generation, and so does a request to delete;
//! an object that bears a finalizer outlives that request, and gets no finalizer after it; times are cut to
//! seconds, since a status goes through JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use crate::{
    api::{CloudInit, FINALIZER, KeyRef, ProxySpec, ProxyStatus},
    core::{
        names,
        store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
    },
};

/// A kind of object that user-data can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Secret data.
    Secret,
    /// Plain data.
    ConfigMap,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

#[derive(Default)]
struct State {
    proxies: BTreeMap<ProxyKey, Stored>,
    user_data: BTreeMap<(Source, String, String, String), Vec<u8>>,
    notices: Vec<(ProxyKey, Notice)>,
    /// Gives UIDs and versions.
    last: u64,
    status_writes: u64,
    kind_going: bool,
}

#[derive(Clone)]
struct Stored {
    uid: String,
    generation: i64,
    version: u64,
    deleting: bool,
    finalizers: BTreeSet<String>,
    retry: Option<String>,
    abandon: bool,
    adopt: Option<String>,
    spec: ProxySpec,
    status: ProxyStatus,
}

/// The store.
#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

impl MemoryStore {
    /// Applies a spec: makes the Proxy, or changes it.
    pub fn apply(&self, key: &ProxyKey, spec: ProxySpec) -> ProxyRecord {
        let mut state = self.state();
        state.last += 1;
        let version = state.last;
        let stored = state.proxies.entry(key.clone()).or_insert_with(|| Stored {
            uid: format!("00000000-0000-4000-8000-{version:012}"),
            generation: 1,
            version,
            deleting: false,
            finalizers: BTreeSet::new(),
            retry: None,
            abandon: false,
            adopt: None,
            spec: spec.clone(),
            status: ProxyStatus::default(),
        });
        if stored.spec != spec {
            stored.spec = spec;
            stored.generation += 1;
            stored.version = version;
        }
        stored.record(key)
    }

    /// Somebody deletes the kind itself, or it is made anew.
    pub fn set_kind_going(&self, going: bool) {
        self.state().kind_going = going;
    }

    /// Sets the retry annotation.
    pub fn set_retry(&self, key: &ProxyKey, value: &str) -> Option<ProxyRecord> {
        self.change(key, |stored| stored.retry = Some(value.to_owned()))
    }

    /// Sets the annotation that leaves its instance behind.
    pub fn set_abandon(&self, key: &ProxyKey) -> Option<ProxyRecord> {
        self.change(key, |stored| stored.abandon = true)
    }

    /// Sets the annotation that names an earlier operator's instance.
    pub fn set_adopt(&self, key: &ProxyKey, id: &str) -> Option<ProxyRecord> {
        self.change(key, |stored| stored.adopt = Some(id.to_owned()))
    }

    /// Puts a status in as somebody with rights on it would, whatever it was.
    pub fn force_status(&self, key: &ProxyKey, status: ProxyStatus) -> Option<ProxyRecord> {
        self.change(key, |stored| stored.status = status)
    }

    /// Puts on, or takes off, a finalizer of somebody else's.
    pub fn set_foreign_finalizer(&self, key: &ProxyKey, finalizer: &str, on: bool) -> Option<ProxyRecord> {
        let record = self.change(key, |stored| {
            if on {
                stored.finalizers.insert(finalizer.to_owned());
            } else {
                stored.finalizers.remove(finalizer);
            }
        });
        self.state().collect(key);
        record
    }

    /// Asks for a Proxy's end: at once without finalizers, else when the last is taken off.
    pub fn request_delete(&self, key: &ProxyKey) {
        self.change(key, |stored| {
            if !stored.deleting {
                stored.deleting = true;
                stored.generation += 1;
            }
        });
        self.state().collect(key);
    }

    /// Writes, or with None removes, a key of a Secret or ConfigMap.
    pub fn set_user_data(&self, source: Source, namespace: &str, at: &KeyRef, data: Option<&[u8]>) {
        let place = (source, namespace.to_owned(), at.name.clone(), at.key.clone());
        let mut state = self.state();
        match data {
            Some(data) => state.user_data.insert(place, data.to_vec()),
            None => state.user_data.remove(&place),
        };
    }

    /// A Proxy as it is, without waiting.
    pub fn peek(&self, key: &ProxyKey) -> Option<ProxyRecord> {
        self.state().proxies.get(key).map(|stored| stored.record(key))
    }

    /// All that exist.
    pub fn keys(&self) -> Vec<ProxyKey> {
        self.state().proxies.keys().cloned().collect()
    }

    /// What people were told, oldest first.
    pub fn notices(&self) -> Vec<(ProxyKey, Notice)> {
        self.state().notices.clone()
    }

    /// How many status writes there were, whether or not they changed anything.
    pub fn status_writes(&self) -> u64 {
        self.state().status_writes
    }

    fn change(&self, key: &ProxyKey, change: impl FnOnce(&mut Stored)) -> Option<ProxyRecord> {
        let mut state = self.state();
        state.last += 1;
        let version = state.last;
        let stored = state.proxies.get_mut(key)?;
        change(stored);
        stored.version = version;
        Some(stored.record(key))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    fn record(&self, key: &ProxyKey) -> ProxyRecord {
        ProxyRecord {
            key: key.clone(),
            uid: self.uid.clone(),
            generation: self.generation,
            version: self.version.to_string(),
            deleting: self.deleting,
            finalizer: self.finalizers.contains(FINALIZER),
            retry: self.retry.clone(),
            abandon: self.abandon,
            adopt: self.adopt.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

impl State {
    /// The record's object, if the record is the newest of it.
    fn newest(&mut self, record: &ProxyRecord) -> Result<&mut Stored, StoreError> {
        let stored = self.proxies.get_mut(&record.key).ok_or_else(|| StoreError::Gone(record.key.clone()))?;
        if stored.uid != record.uid || stored.version.to_string() != record.version {
            return Err(StoreError::Conflict(record.key.clone()));
        }
        Ok(stored)
    }

    /// Removes an object whose end was asked for and that nobody holds.
    fn collect(&mut self, key: &ProxyKey) {
        if self.proxies.get(key).is_some_and(|stored| stored.deleting && stored.finalizers.is_empty()) {
            self.proxies.remove(key);
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        Ok(self.peek(key))
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        let failed =
            |e: serde_json::Error| StoreError::Failed { key: record.key.clone(), message: e.to_string() };
        let status = serde_json::to_value(status).and_then(serde_json::from_value).map_err(failed)?;
        let mut state = self.state();
        state.status_writes += 1;
        let version = state.last + 1;
        let stored = state.newest(record)?;
        if stored.status != status {
            stored.status = status;
            stored.version = version;
        }
        let record = stored.record(&record.key);
        state.last = version;
        Ok(record)
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        let mut state = self.state();
        let version = state.last + 1;
        let stored = state.newest(record)?;
        if on && stored.deleting {
            let message = "an object that is being deleted gets no finalizer".to_owned();
            return Err(StoreError::Failed { key: record.key.clone(), message });
        }
        let changed = if on {
            stored.finalizers.insert(FINALIZER.to_owned())
        } else {
            stored.finalizers.remove(FINALIZER)
        };
        if changed {
            stored.version = version;
        }
        state.last = version;
        state.collect(&record.key);
        Ok(state.proxies.get(&record.key).map(|stored| stored.record(&record.key)))
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        let Some(cloud_init) = &record.spec.cloud_init else { return Ok(Vec::new()) };
        names::check_user_data(cloud_init)?;
        let CloudInit { inline, secret_ref, config_map_ref } = cloud_init;
        if let Some(inline) = inline {
            return Ok(inline.clone().into_bytes());
        }
        let (source, at) = match (secret_ref, config_map_ref) {
            (Some(at), _) => (Source::Secret, at),
            (None, Some(at)) => (Source::ConfigMap, at),
            (None, None) => return Ok(Vec::new()),
        };
        let namespace = &record.key.namespace;
        let place = (source, namespace.clone(), at.name.clone(), at.key.clone());
        self.state().user_data.get(&place).cloned().ok_or_else(|| UserDataError::Missing {
            what: format!("{} {namespace}/{}, key {}", source.as_str(), at.name, at.key),
        })
    }

    async fn is_kind_going(&self, _: &ProxyRecord) -> Result<bool, StoreError> {
        Ok(self.state().kind_going)
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        self.state().notices.push((record.key.clone(), notice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Phase;

    fn store() -> (MemoryStore, ProxyKey, ProxyRecord) {
        let (store, key) = (MemoryStore::default(), ProxyKey { namespace: "a".into(), name: "web".into() });
        let record = store.apply(&key, ProxySpec { port: 3128, ..ProxySpec::default() });
        (store, key, record)
    }

    fn waiting() -> ProxyStatus {
        ProxyStatus { phase: Some(Phase::Waiting), ..ProxyStatus::default() }
    }

    #[tokio::test]
    async fn a_stale_write_is_refused() {
        let (store, _, record) = store();
        let newer = store.write_status(&record, waiting()).await.unwrap();
        let stale = store.write_status(&record, ProxyStatus::default()).await;
        assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
        assert!(matches!(store.set_finalizer(&record, true).await, Err(StoreError::Conflict(_))));
        assert_eq!(store.write_status(&newer, waiting()).await.unwrap().version, newer.version, "unchanged");
    }

    #[tokio::test]
    async fn a_successor_of_the_same_name_is_not_written_to() {
        let (store, key, record) = store();
        store.request_delete(&key);
        assert!(matches!(store.write_status(&record, waiting()).await, Err(StoreError::Gone(_))));
        let successor = store.apply(&key, record.spec.clone());
        assert_ne!(successor.uid, record.uid);
        assert!(matches!(store.write_status(&record, waiting()).await, Err(StoreError::Conflict(_))));
    }

    #[tokio::test]
    async fn a_finalizer_holds_a_deleted_proxy_and_comes_not_after() {
        let (store, key, record) = store();
        let held = store.set_finalizer(&record, true).await.unwrap().unwrap();
        store.request_delete(&key);
        let deleted = store.peek(&key).unwrap();
        assert!(deleted.deleting && deleted.generation == held.generation + 1);
        assert_eq!(store.set_finalizer(&deleted, false).await.unwrap(), None);
        assert_eq!(store.peek(&key), None);

        let again = store.apply(&key, record.spec);
        store.set_foreign_finalizer(&key, "example.com/other", true);
        store.request_delete(&key);
        let deleted = store.peek(&key).unwrap();
        assert_eq!(deleted.uid, again.uid);
        assert!(matches!(store.set_finalizer(&deleted, true).await, Err(StoreError::Failed { .. })));
    }
}
