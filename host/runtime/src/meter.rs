//! What one call has used, seen from inside and outside of its store.
//!
//! The store is gone when a call is cut off; what it had used then is what somebody will ask for. So the
//! meter stands beside the store, and both hold it.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// See the module.
pub(crate) struct Meter {
    compute: Mutex<Compute>,
    memory_peak: AtomicU64,
    host_calls: AtomicU32,
    waiting: Mutex<Option<String>>,
}

struct Compute {
    used: Duration,
    /// Since when the guest computes; none while it waits for the host or for its turn.
    since: Option<Instant>,
}

impl Meter {
    /// The guest computes from now on.
    pub(crate) fn start() -> Self {
        Self {
            compute: Mutex::new(Compute { used: Duration::ZERO, since: Some(Instant::now()) }),
            memory_peak: AtomicU64::new(0),
            host_calls: AtomicU32::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Time that the guest computed so far.
    pub(crate) fn computed(&self) -> Duration {
        let compute = self.compute();
        compute.used + compute.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The guest stops computing.
    pub(crate) fn pause(&self) {
        let mut compute = self.compute();
        if let Some(since) = compute.since.take() {
            compute.used += since.elapsed();
        }
    }

    /// The guest computes again.
    pub(crate) fn resume(&self) {
        self.compute().since = Some(Instant::now());
    }

    /// One host call more; how many that makes.
    pub(crate) fn count_host_call(&self) -> u32 {
        self.host_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// The guest's memory grew to so much.
    pub(crate) fn memory(&self, bytes: u64) {
        self.memory_peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The most it had.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Ordering::Relaxed)
    }

    /// Waits for the host, which the guest is not charged for.
    pub(crate) async fn wait<T>(&self, what: String, host: impl Future<Output = T>) -> T {
        self.pause();
        self.set_waiting(Some(what));
        let outcome = host.await;
        self.set_waiting(None);
        self.resume();
        outcome
    }

    fn set_waiting(&self, what: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What the guest waits for.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn compute(&self) -> MutexGuard<'_, Compute> {
        self.compute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
