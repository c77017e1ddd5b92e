//! What the runtime's own metrics say of the call that ended last.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::failure::Failure;

const MEMORY: &str = "egress_provider_memory_bytes";
const COMPUTES: &str = "egress_provider_compute_seconds";

/// Of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Bytes, at most.
    pub memory: f64,
    /// Seconds.
    pub computes: f64,
}

/// See the module. Clones see the same.
#[derive(Clone, Default)]
pub struct Usage(Arc<Mutex<Used>>);

impl Usage {
    /// From here on, for the whole process.
    pub fn collect() -> Result<Self, Failure> {
        let usage = Self::default();
        metrics::set_global_recorder(usage.clone())
            .map_err(|error| Failure::Setup(format!("metrics did not start: {error}")))?;
        Ok(usage)
    }

    /// What was used since this was asked last.
    pub fn take(&self) -> Used {
        self.change(std::mem::take)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Used) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorder for Usage {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            MEMORY => Histogram::from_arc(Arc::new(Memory(self.clone()))),
            COMPUTES => Histogram::from_arc(Arc::new(Computes(self.clone()))),
            _ => Histogram::noop(),
        }
    }
}

struct Memory(Usage);

impl HistogramFn for Memory {
    fn record(&self, bytes: f64) {
        self.0.change(|used| used.memory = used.memory.max(bytes));
    }
}

struct Computes(Usage);

impl HistogramFn for Computes {
    fn record(&self, seconds: f64) {
        self.0.change(|used| used.computes += seconds);
    }
}
