//! Time that nobody waits for: whoever sleeps moves it on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use egress_runtime::capability::Clock;

/// When every simulation begins: 2026-01-01T00:00:00Z.
pub const START_MS: u64 = 1_767_225_600_000;

/// A clock that only moves when somebody sleeps or moves it. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    elapsed_ms: Arc<AtomicU64>,
}

impl VirtualClock {
    /// One that has gone so far already.
    pub fn at(elapsed: Duration) -> Self {
        let clock = Self::default();
        clock.advance(elapsed);
        clock
    }

    /// Moves it on.
    pub fn advance(&self, time: Duration) {
        self.elapsed_ms.fetch_add(ms(time), Ordering::SeqCst);
    }

    /// Since the simulation began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms())
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        START_MS + self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.elapsed_ms.load(Ordering::SeqCst)
    }

    async fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

/// Rounded up: who sleeps must find that time has passed.
fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_year_passes_at_once() {
        let clock = VirtualClock::default();
        clock.clone().sleep(Duration::from_secs(365 * 24 * 3600)).await;
        assert_eq!(clock.now_ms() - START_MS, 31_536_000_000);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(clock.monotonic_ms(), 31_536_000_001);
    }
}
