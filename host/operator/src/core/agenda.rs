//! When each Proxy is next due, in memory.
//!
//! Every write of a status wakes the loop for that very Proxy again. Without a memory of what it waits for,
//! it would ask the backend at each of its own writes. Losing this memory costs one early look.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use crate::core::store::{ProxyKey, ProxyRecord};

/// What a wait was begun with. With anything else the Proxy is due at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    uid: String,
    generation: i64,
    deleting: bool,
    retry: Option<String>,
    abandon: bool,
    revisions: Vec<Option<(String, bool)>>,
    probed: u64,
}

impl Occasion {
    /// Of a record, the revisions that its calls would go to, with whether their entry is listed, and what changes with
    /// what probes find.
    pub fn new(record: &ProxyRecord, revisions: Vec<Option<(String, bool)>>, probed: u64) -> Self {
        Self {
            uid: record.uid.clone(),
            generation: record.generation,
            deleting: record.deleting,
            retry: record.retry.clone(),
            abandon: record.abandon,
            revisions,
            probed,
        }
    }
}

#[derive(Default)]
struct Entry {
    wait: Option<(Occasion, Timestamp)>,
    store_failures: u32,
}

/// All waits.
#[derive(Default)]
pub struct Agenda(Mutex<HashMap<ProxyKey, Entry>>);

impl Agenda {
    /// How long the Proxy still waits.
    pub fn left(&self, key: &ProxyKey, occasion: &Occasion, now: Timestamp) -> Option<Duration> {
        let entries = self.entries();
        let (begun_with, due) = entries.get(key)?.wait.as_ref()?;
        if begun_with != occasion {
            return None;
        }
        Duration::try_from(due.duration_since(now)).ok().filter(|left| !left.is_zero())
    }

    /// It waits from now on.
    pub fn wait(&self, key: &ProxyKey, occasion: Occasion, due: Timestamp) {
        self.entries().insert(key.clone(), Entry { wait: Some((occasion, due)), store_failures: 0 });
    }

    /// The store failed: how often in a row.
    pub fn store_failed(&self, key: &ProxyKey) -> u32 {
        let mut entries = self.entries();
        let entry = entries.entry(key.clone()).or_default();
        entry.wait = None;
        entry.store_failures = entry.store_failures.saturating_add(1);
        entry.store_failures
    }

    /// Nobody waits for anything.
    pub fn clear(&self) {
        self.entries().clear();
    }

    /// It waits for nothing.
    pub fn forget(&self, key: &ProxyKey) {
        self.entries().remove(key);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ProxyKey, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
