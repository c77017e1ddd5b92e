//! What a call's store holds: what the guest may see, and what it has used.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use egress_contract::{EntryName, Installation, Mark, Target};
use tracing::Instrument;
use wasmtime::{ResourceLimiter, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::{
    capability::{Clock, Withheld, Writes, while_allowed},
    failure::Stop,
    guest_log::{GuestLog, cut},
    inert,
    limits::{Limit, Limits},
    locks::Locks,
    meter::Meter,
    scrub::Scrubber,
    slot::Lent,
    telemetry::{HostCall, OperationName},
};

/// Locks that one call may hold.
const MOST_LOCKS: usize = 64;
const LONGEST_LOCK_NAME: usize = 128;
/// What is printed of a place that a guest names.
const LONGEST_PLACE: usize = 253;

/// What all calls of one revision share.
pub(crate) struct Setup {
    pub(crate) entry: EntryName,
    pub(crate) installation: Installation,
    pub(crate) limits: Limits,
    pub(crate) lent: Lent,
    pub(crate) writes: Arc<dyn Writes>,
    /// Whether it is a candidate no more: before that it is only looked at, and may write nothing.
    pub(crate) adopted: AtomicBool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) locks: Locks,
    pub(crate) config: String,
    pub(crate) legacy: Vec<Mark>,
}

impl Setup {
    fn limit_message(&self, call: &str, limit: Limit) -> String {
        format!("{call} reached {} ({}) of entry {}", limit.key(), limit.value(&self.limits), self.entry)
    }
}

/// Who the call's target is, as far as marks are concerned.
pub(crate) struct Identity {
    pub(crate) uid: String,
    pub(crate) incarnation: u32,
    pub(crate) mark: Mark,
}

impl Identity {
    pub(crate) fn new(installation: &Installation, target: &Target) -> Self {
        // The collector hands back what bore no mark: there is none to write, and none that fits.
        let mark = match target.uid.as_str() {
            "" => Mark::new(),
            uid => installation.mark(uid, target.incarnation, &target.namespace, &target.proxy),
        };
        Self { uid: target.uid.clone(), incarnation: target.incarnation, mark }
    }
}

/// See the module.
pub(crate) struct State {
    pub(crate) setup: Arc<Setup>,
    pub(crate) operation: OperationName,
    pub(crate) wall: Limit,
    pub(crate) identity: Option<Identity>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) log: Arc<GuestLog>,
    pub(crate) scrubber: Option<Arc<Scrubber>>,
    /// A limit that a host call hit: the guest was told, and may go on.
    pub(crate) told: Option<Limit>,
    pub(crate) table: ResourceTable,
    pub(crate) locks_held: usize,
    started_ms: u64,
    memory: u64,
    table_elements: u64,
    wasi: Option<WasiCtx>,
}

impl State {
    pub(crate) fn new(
        setup: Arc<Setup>,
        operation: OperationName,
        wall: Limit,
        identity: Option<Identity>,
        meter: Arc<Meter>,
        log: Arc<GuestLog>,
        scrubber: Option<Arc<Scrubber>>,
    ) -> Self {
        let mut table = ResourceTable::new();
        // Handles escape the limit on memory; no honest call holds more.
        table.set_max_capacity(1024);
        Self {
            started_ms: setup.clock.monotonic_ms(),
            setup,
            operation,
            wall,
            identity,
            meter,
            log,
            scrubber,
            told: None,
            table,
            locks_held: 0,
            memory: 0,
            table_elements: 0,
            wasi: None,
        }
    }

    /// Until the host cuts this call off, by the clock that the guest sees.
    pub(crate) fn remaining(&self) -> Duration {
        let used = self.setup.clock.monotonic_ms().saturating_sub(self.started_ms);
        Duration::from_millis(self.wall.value(&self.setup.limits).saturating_sub(used))
    }

    /// Fails in the calls that may import nothing but the log.
    pub(crate) fn may_import(&self, import: &str) -> wasmtime::Result<()> {
        match self.operation {
            OperationName::Describe | OperationName::Configure => Err(Stop::Violation(format!(
                "{} called {import}; describe and configure may call no import but the log",
                self.operation.as_str()
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// One call of a capability: bounded, counted, timed, traced.
    pub(crate) async fn host_call<T, F: HostFailure>(
        &mut self,
        call: &'static str,
        place: &str,
        request_bytes: usize,
        host: impl Future<Output = Result<T, F>>,
    ) -> wasmtime::Result<Result<T, F>> {
        self.may_import(call)?;
        let (setup, meter) = (Arc::clone(&self.setup), Arc::clone(&self.meter));
        let limits = &setup.limits;
        if meter.count_host_call() > limits.host_calls {
            return Err(Stop::Limit(Limit::HostCalls).into());
        }
        let place = match &self.scrubber {
            Some(scrubber) => scrubber.text(place),
            None => place.into(),
        };
        let place = cut(&place, LONGEST_PLACE);
        let record = HostCall::start(&setup.entry, call, place);
        let outcome = if request_bytes as u64 > limits.request_bytes {
            self.told = Some(Limit::RequestBytes);
            Err(F::too_large(setup.limit_message(call, Limit::RequestBytes), false))
        } else {
            let time = Duration::from_millis(limits.host_call_ms);
            let bounded = tokio::time::timeout(time, host).instrument(record.span());
            match meter.wait(format!("{call} at {place}"), bounded).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    self.told = Some(Limit::HostCallMs);
                    Err(F::timeout(setup.limit_message(call, Limit::HostCallMs)))
                }
            }
        };
        if let Err(failure) = &outcome {
            // The capability may hold to the same limits, and find out earlier.
            self.told = failure.too_large_for().or(self.told);
        }
        record.end(outcome.as_ref().err().map_or("ok", HostFailure::kind));
        Ok(outcome)
    }

    /// The same for what changes something: while no write may begin, it ends the guest. A refusal that the
    /// guest could read as its backend's word would be taken for a fault there.
    pub(crate) async fn write_call<T, F: HostFailure>(
        &mut self,
        call: &'static str,
        place: &str,
        request_bytes: usize,
        host: impl Future<Output = Result<T, F>>,
    ) -> wasmtime::Result<Result<T, F>> {
        let (setup, told) = (Arc::clone(&self.setup), OnceLock::<Withheld>::new());
        if !setup.adopted.load(Ordering::SeqCst) {
            // Not withheld: that would be nobody's fault.
            let looks = self.operation.as_str();
            return Err(
                Stop::Violation(format!("{looks} called {call}; what only looks may write nothing")).into()
            );
        }
        let allowed = async {
            while_allowed(&*setup.writes, host).await.unwrap_or_else(|withheld| {
                let failure = F::withheld(withheld.to_string());
                let _ = told.set(withheld);
                Err(failure)
            })
        };
        let outcome = self.host_call(call, place, request_bytes, allowed).await?;
        match told.into_inner() {
            Some(withheld) => Err(Stop::Withheld { call, withheld }.into()),
            None => Ok(outcome),
        }
    }

    /// Whether an answer of the host fits; the failure otherwise.
    pub(crate) fn fits<F: HostFailure>(&mut self, call: &str, answer: String) -> Result<String, F> {
        self.fit(call, answer.len()).map(|()| answer)
    }

    /// The same of one that is no text.
    pub(crate) fn fit<F: HostFailure>(&mut self, call: &str, bytes: usize) -> Result<(), F> {
        if bytes as u64 <= self.setup.limits.response_bytes {
            return Ok(());
        }
        self.told = Some(Limit::ResponseBytes);
        Err(F::too_large(self.setup.limit_message(call, Limit::ResponseBytes), true))
    }

    /// Whether one lock more is allowed, under this name.
    pub(crate) fn may_lock(&self, name: &str) -> wasmtime::Result<()> {
        self.may_import("locks.acquire")?;
        if name.is_empty() || name.len() > LONGEST_LOCK_NAME {
            let what = format!("a lock's name must have 1 to {LONGEST_LOCK_NAME} bytes, not {}", name.len());
            return Err(Stop::Violation(what).into());
        }
        if self.locks_held >= MOST_LOCKS {
            return Err(Stop::Violation(format!("a call may hold {MOST_LOCKS} locks at once")).into());
        }
        Ok(())
    }
}

/// What a capability's failure must be able to say for the host.
pub(crate) trait HostFailure {
    /// The host gave the call up: its outcome is unknown.
    fn timeout(message: String) -> Self;
    /// No write may begin.
    fn withheld(message: String) -> Self;
    /// Request or answer exceed a limit.
    fn too_large(message: String, sent: bool) -> Self;
    /// Which of the limits on sizes it is about, if it is about one.
    fn too_large_for(&self) -> Option<Limit>;
    /// As the contract spells it.
    fn kind(&self) -> &'static str;
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let memory = grown(self.memory, current, desired);
        if memory > self.setup.limits.memory_bytes {
            return Err(Stop::Limit(Limit::MemoryBytes).into());
        }
        self.memory = memory;
        self.meter.memory(memory);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = grown(self.table_elements, current, desired);
        if elements > self.setup.limits.table_elements {
            return Err(Stop::Limit(Limit::TableElements).into());
        }
        self.table_elements = elements;
        Ok(true)
    }

    // Counted before anything runs; these hold should the counting have missed some. Memories and tables
    // cost mappings of their own, and no component of ours has more of them than instances.
    fn instances(&self) -> usize {
        usize::try_from(self.setup.limits.instances).unwrap_or(usize::MAX)
    }

    fn memories(&self) -> usize {
        self.instances()
    }

    fn tables(&self) -> usize {
        self.instances()
    }
}

/// The sum over all memories, or tables, when one of them grows.
fn grown(sum: u64, current: usize, desired: usize) -> u64 {
    sum.saturating_sub(current as u64).saturating_add(desired as u64)
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // Made when asked for: our own providers never do.
        let ctx = self.wasi.get_or_insert_with(|| inert::wasi(&self.log, &self.setup.clock));
        WasiCtxView { ctx, table: &mut self.table }
    }
}
