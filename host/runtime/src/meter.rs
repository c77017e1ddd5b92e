//! What one call has used, seen from inside and outside of its store.
//!
//! The store is gone when a call is cut off; what it had used then is what somebody will ask for. So the
//! meter stands beside the store, and both hold it.
//!
//! Time is counted by polls: the call's future is charged while it is polled, a host call's is not. So
//! nobody pays for waiting, whatever it is that he waits for.

use std::{
    future::poll_fn,
    pin::pin,
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
    /// Since when the guest computes; none while it does not.
    since: Option<Instant>,
}

impl Meter {
    /// Nothing used yet.
    pub(crate) fn new() -> Self {
        Self {
            compute: Mutex::new(Compute { used: Duration::ZERO, since: None }),
            memory_peak: AtomicU64::new(0),
            host_calls: AtomicU32::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Charges the guest for what is done in here.
    pub(crate) async fn charged<T>(&self, guest: impl Future<Output = T>) -> T {
        let mut guest = pin!(guest);
        poll_fn(|context| {
            self.resume();
            let polled = guest.as_mut().poll(context);
            self.pause();
            polled
        })
        .await
    }

    /// Waits for the host, within what is charged, and charges nothing for it.
    pub(crate) async fn wait<T>(&self, what: String, host: impl Future<Output = T>) -> T {
        self.set_waiting(Some(what));
        let mut host = pin!(host);
        let outcome = poll_fn(|context| {
            self.pause();
            let polled = host.as_mut().poll(context);
            self.resume();
            polled
        })
        .await;
        self.set_waiting(None);
        outcome
    }

    /// Time that the guest computed so far.
    pub(crate) fn computed(&self) -> Duration {
        let compute = self.compute();
        compute.used + compute.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn pause(&self) {
        let mut compute = self.compute();
        if let Some(since) = compute.since.take() {
            compute.used += since.elapsed();
        }
    }

    fn resume(&self) {
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

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    const WORK: Duration = Duration::from_millis(30);

    #[tokio::test(start_paused = true)]
    async fn a_guest_is_charged_for_its_work_and_for_no_waiting() {
        let meter = Meter::new();
        let guest = async {
            sleep(WORK);
            // Whether it knows that it waits, or not.
            meter.wait("the host".to_owned(), tokio::time::sleep(Duration::from_secs(600))).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            sleep(WORK);
        };
        meter.charged(guest).await;
        let computed = meter.computed();
        assert!(computed >= 2 * WORK && computed < Duration::from_secs(600), "{computed:?}");
    }

    #[tokio::test]
    async fn the_hosts_work_is_its_own() {
        let meter = Meter::new();
        let host = async {
            sleep(Duration::from_secs(1));
            tokio::task::yield_now().await;
            sleep(Duration::from_secs(1));
        };
        meter.charged(meter.wait("the host".to_owned(), host)).await;
        assert!(meter.computed() < Duration::from_secs(1), "{:?}", meter.computed());
    }
}
