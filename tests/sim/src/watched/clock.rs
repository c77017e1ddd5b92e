//! The clock, watched: what it shows decides what a provider does, so it is recorded too.

use std::{sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use egress_runtime::capability::Clock;

use super::{Inner, Watched, millis};
use crate::recording::SLEEP;

impl Watched<dyn Clock> {
    /// What the clock shows: as recorded, or as it is, which is recorded.
    fn read(&self, function: &str, now: impl FnOnce(&dyn Clock) -> u64) -> u64 {
        let Inner { beside, silent, .. } = &*self.watch.inner;
        if let Some(player) = &beside.player {
            return player.reading(function);
        }
        let read = now(&*self.inner);
        if let Some(recorder) = beside.recorder.as_ref().filter(|_| !silent.load(Ordering::SeqCst)) {
            recorder.keep_reading(millis(self.watch.elapsed()), function, read);
        }
        read
    }
}

/// Time as one host's guests see it: what they sleep is part of the run.
#[async_trait]
impl Clock for Watched<dyn Clock> {
    fn now_ms(&self) -> u64 {
        self.read("now-ms", |clock| clock.now_ms())
    }

    /// From the beginning of the watch, so that two runs can be compared.
    fn monotonic_ms(&self) -> u64 {
        let began_ms = self.watch.inner.began_ms;
        self.read("monotonic-ms", |clock| clock.monotonic_ms().saturating_sub(began_ms))
    }

    async fn sleep(&self, time: Duration) {
        let Inner { beside, silent, .. } = &*self.watch.inner;
        let silent = silent.load(Ordering::SeqCst);
        if !silent {
            self.watch.remark(format!("  clock.sleep {} ms", time.as_millis()));
        }
        if let Some(player) = &beside.player {
            player.slept(time);
            return;
        }
        self.inner.sleep(time).await;
        if let Some(recorder) = beside.recorder.as_ref().filter(|_| !silent) {
            recorder.keep_reading(millis(self.watch.elapsed()), SLEEP, millis(time));
        }
        self.watch.in_time().await;
    }
}
