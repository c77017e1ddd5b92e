//! Which Proxies wait for which entries, so that a change of an entry wakes those and no others.
//!
//! Noted where Proxies are read and written anyway: the watch knows their metadata alone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use crate::{
    api::{Phase, ProxyStatus},
    core::store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
};

/// Which Proxies wait for which entries.
#[derive(Default)]
pub struct Waiting(Mutex<HashMap<ProxyKey, BTreeSet<String>>>);

impl Waiting {
    fn note(&self, record: &ProxyRecord) {
        let status = &record.status;
        let settled = matches!(status.phase, Some(Phase::Running | Phase::Provisioning | Phase::Stopped))
            && status.failure.is_none()
            && status.observed_generation == Some(record.generation)
            && !record.deleting;
        if settled {
            self.forget(&record.key);
            return;
        }
        let holder = status.instance.iter().map(|instance| instance.provider.clone());
        let entries = holder.chain([record.spec.provider.clone()]).collect();
        self.proxies().insert(record.key.clone(), entries);
    }

    /// It is gone.
    pub fn forget(&self, key: &ProxyKey) {
        self.proxies().remove(key);
    }

    /// Those that a change of the entry may set free.
    pub fn for_entry(&self, entry: &str) -> Vec<ProxyKey> {
        let proxies = self.proxies();
        let waits = proxies.iter().filter(|(_, entries)| entries.contains(entry));
        waits.map(|(key, _)| key.clone()).collect()
    }

    fn proxies(&self) -> MutexGuard<'_, HashMap<ProxyKey, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store that notes who waits.
pub struct Noting<S> {
    store: S,
    waiting: Arc<Waiting>,
}

impl<S> Noting<S> {
    /// Over another store.
    pub fn new(store: S, waiting: Arc<Waiting>) -> Self {
        Self { store, waiting }
    }
}

#[async_trait]
impl<S: Store> Store for Noting<S> {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        let found = self.store.get(key).await?;
        match &found {
            Some(record) => self.waiting.note(record),
            None => self.waiting.forget(key),
        }
        Ok(found)
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        let written = self.store.write_status(record, status).await?;
        self.waiting.note(&written);
        Ok(written)
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        self.store.set_finalizer(record, on).await
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        self.store.user_data(record).await
    }

    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError> {
        self.store.is_kind_going(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        self.store.notify(record, notice).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Failure, InstanceStatus, ProxySpec};

    fn record(status: ProxyStatus) -> ProxyRecord {
        ProxyRecord {
            key: ProxyKey { namespace: "a".to_owned(), name: "web".to_owned() },
            uid: "uid".to_owned(),
            generation: 1,
            version: "1".to_owned(),
            deleting: false,
            finalizer: true,
            retry: None,
            abandon: false,
            adopt: None,
            spec: ProxySpec { provider: "wanted".to_owned(), ..ProxySpec::default() },
            status,
        }
    }

    #[test]
    fn a_proxy_that_waits_or_failed_is_woken_by_both_its_entries() {
        let waiting = Waiting::default();
        let instance = InstanceStatus { provider: "holding".to_owned(), ..InstanceStatus::default() };
        let failed = ProxyStatus {
            phase: Some(Phase::Replacing),
            failure: Some(Failure::default()),
            instance: Some(instance),
            ..ProxyStatus::default()
        };
        waiting.note(&record(failed));
        assert_eq!(waiting.for_entry("wanted").len(), 1);
        assert_eq!(waiting.for_entry("holding").len(), 1);
        assert_eq!(waiting.for_entry("other").len(), 0);
        let running = ProxyStatus {
            phase: Some(Phase::Running),
            observed_generation: Some(1),
            ..ProxyStatus::default()
        };
        waiting.note(&record(running));
        assert_eq!(waiting.for_entry("wanted").len(), 0, "a swap is no reason to ask after what runs well");
    }

    #[test]
    fn a_proxy_that_nobody_looked_at_yet_waits() {
        let waiting = Waiting::default();
        waiting.note(&record(ProxyStatus::default()));
        assert_eq!(waiting.for_entry("wanted").len(), 1);
    }
}
