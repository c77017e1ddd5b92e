//! What one call has used, seen from inside and outside of its store.
//!
//! The store is gone when a call is cut off; what it had used then is what somebody will ask for. So the
//! meter stands beside the store, and both hold it.
//!
//! Time is counted by polls: the call's future is charged while it is polled, a host call's is not. So
//! nobody pays for waiting, whatever it is that he waits for. And a machine that does much else makes no guest
//! pay for it: a poll that lasts is charged by the thread's own processor time. That costs a system call to
//! ask, so it is asked only from the first tick of a poll on: what came before can't be more than a tick.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::runtime::TICK;

/// See the module.
pub(crate) struct Meter {
    compute: Mutex<Compute>,
    memory_peak: AtomicU64,
    host_calls: AtomicU32,
    waiting: Mutex<Option<String>>,
}

struct Compute {
    used: Duration,
    poll: Option<Poll>,
}

/// The guest computes, until this poll ends.
struct Poll {
    began: Instant,
    /// The thread's processor time at the first tick, and what had been used of the poll before. A poll begins
    /// and ends on one thread.
    ticked: Option<(Duration, Duration)>,
}

impl Poll {
    fn used(&self) -> Duration {
        self.ticked.map_or_else(
            || self.began.elapsed().min(TICK),
            |(then, before)| before + processor_time().saturating_sub(then),
        )
    }
}

/// What this thread has computed, ever.
fn processor_time() -> Duration {
    // The clock of a thread does not go below zero.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Meter {
    /// Nothing used yet.
    pub(crate) fn new() -> Self {
        Self {
            compute: Mutex::new(Compute { used: Duration::ZERO, poll: None }),
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

    /// Time that the guest computed so far. To be asked at each tick, on the guest's thread, and when it has ended.
    pub(crate) fn computed(&self) -> Duration {
        let mut compute = self.compute();
        let used = compute.used;
        let Some(poll) = &mut compute.poll else { return used };
        let so_far = poll.used();
        poll.ticked.get_or_insert_with(|| (processor_time(), so_far));
        used + so_far
    }

    fn pause(&self) {
        let mut compute = self.compute();
        if let Some(poll) = compute.poll.take() {
            compute.used += poll.used();
        }
    }

    fn resume(&self) {
        self.compute().poll = Some(Poll { began: Instant::now(), ticked: None });
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
    use super::*;

    const WORK: Duration = Duration::from_millis(50);

    /// Computes so long, however long that takes, and is asked at each tick.
    fn work(meter: &Meter, time: Duration) {
        let end = processor_time() + time;
        while processor_time() < end {
            meter.computed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_is_charged_for_its_work_and_for_no_waiting() {
        let meter = Meter::new();
        let guest = async {
            work(&meter, WORK);
            // Whether it knows that it waits, or not.
            meter.wait("the host".to_owned(), tokio::time::sleep(Duration::from_secs(600))).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            work(&meter, WORK);
        };
        meter.charged(guest).await;
        let computed = meter.computed();
        // The ticks are where the test asks, so the clocks differ by what lies between.
        assert!(computed > WORK && computed < 4 * WORK, "{computed:?}");
    }

    #[tokio::test]
    async fn a_guest_that_waits_for_a_processor_is_not_charged_for_it() {
        let meter = Meter::new();
        let guest = async {
            meter.computed();
            std::thread::sleep(20 * WORK);
        };
        meter.charged(guest).await;
        assert!(meter.computed() < WORK, "{:?}", meter.computed());
    }

    #[tokio::test]
    async fn a_poll_without_a_tick_is_charged_no_more_than_one() {
        let meter = Meter::new();
        meter.charged(async { std::thread::sleep(20 * WORK) }).await;
        assert_eq!(meter.computed(), TICK);
    }

    #[tokio::test]
    async fn the_hosts_work_is_its_own() {
        let meter = Meter::new();
        let host = async {
            work(&meter, WORK);
            tokio::task::yield_now().await;
            work(&meter, WORK);
        };
        meter.charged(meter.wait("the host".to_owned(), host)).await;
        assert!(meter.computed() < WORK, "{:?}", meter.computed());
    }
}
