//! How many Proxies are in which phase, of which entry: what dashboards and alerts begin with.
//!
//! Kept from pass to pass, since nobody lists statuses: the loop reads each Proxy when it looks at it. Of each Proxy
//! a few bytes are kept, for there may be ten thousand.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
};

use metrics::{gauge, histogram};

use crate::{
    api::{Phase, ProxyStatus},
    core::{
        decide::holder,
        store::{ProxyKey, ProxyRecord},
        story,
    },
};

/// See the module.
#[derive(Default)]
pub struct Tally {
    hasher: RandomState,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Entries get a number each, once and for all.
    entries: Vec<String>,
    /// Under a hash of its key: which entry, which phase.
    proxies: HashMap<u64, (usize, &'static str)>,
    counts: BTreeMap<(usize, &'static str), u32>,
}

/// A Proxy that nobody wrote a status of yet.
const NEW: &str = "new";

fn spelled(phase: Option<Phase>) -> &'static str {
    match phase {
        None => NEW,
        Some(Phase::Waiting) => "waiting",
        Some(Phase::Creating) => "creating",
        Some(Phase::Provisioning) => "provisioning",
        Some(Phase::Running) => "running",
        Some(Phase::Stopped) => "stopped",
        Some(Phase::Replacing) => "replacing",
        Some(Phase::Deleting) => "deleting",
        Some(Phase::Failed) => "failed",
    }
}

impl Tally {
    /// As it was read, or written.
    pub fn note(&self, record: &ProxyRecord) {
        let phase = spelled(record.status.phase);
        let key = self.hasher.hash_one(&record.key);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.number(holder(record));
        if inner.proxies.get(&key) != Some(&(entry, phase)) {
            inner.leave(key);
            inner.proxies.insert(key, (entry, phase));
            inner.change((entry, phase), 1);
        }
    }

    /// It is gone.
    pub fn leave(&self, key: &ProxyKey) {
        let key = self.hasher.hash_one(key);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).leave(key);
    }

    /// Somebody else had them meanwhile.
    pub fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<u64> = inner.proxies.keys().copied().collect();
        all.into_iter().for_each(|key| inner.leave(key));
    }
}

impl Inner {
    fn number(&mut self, entry: &str) -> usize {
        self.entries.iter().position(|known| known == entry).unwrap_or_else(|| {
            self.entries.push(entry.to_owned());
            self.entries.len().saturating_sub(1)
        })
    }

    fn leave(&mut self, key: u64) {
        if let Some(at) = self.proxies.remove(&key) {
            self.change(at, -1);
        }
    }

    fn change(&mut self, at: (usize, &'static str), by: i32) {
        let count = self.counts.entry(at).or_default();
        *count = count.saturating_add_signed(by);
        let entry = self.entries.get(at.0).cloned().unwrap_or_default();
        gauge!("egress_proxies", "entry" => entry, "phase" => at.1).set(f64::from(*count));
    }
}

/// A status is about to be stored: how long the instance took from its name to its address, if it is there now for
/// the first time.
pub fn ready(before: &ProxyRecord, after: &ProxyStatus) {
    if before.status.phase == Some(Phase::Running) || after.phase != Some(Phase::Running) {
        return;
    }
    if let Some((_, Some(since))) = story::ended(before, after) {
        // Both clocks are this process's own, or the leader's before it.
        let took = since.elapsed().unwrap_or_default();
        histogram!("egress_proxy_ready_seconds", "entry" => holder(before).to_owned())
            .record(took.as_secs_f64());
    }
}
