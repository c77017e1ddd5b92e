//! One call of a component: a fresh store and instance, bounded in every way, gone at its end.
//!
//! What ends a guest is nested: it is interrupted at every tick and made to yield, so that one that spins
//! can't keep the thread; the time it computes is added up there. Around that stands a timer on the whole
//! call, which fires because the guest yields, and drops the store with all that it holds.

use std::{sync::Arc, time::Duration};

use egress_contract::ErrorClass;
use tokio::{sync::Semaphore, time::timeout};
use tracing::Instrument;
use wasmtime::{PoolConcurrencyLimitError, Store, StoreContextMut, UpdateDeadline, component::InstancePre};

use crate::{
    bindings::ProviderComponentIndices,
    compile::Compiled,
    failure::{Failure, Stop},
    guest_log::GuestLog,
    limits::Limit,
    locks::{Held, Locks},
    meter::Meter,
    module::Digest,
    operations::Operation,
    revision::RevisionId,
    runtime::Runtime,
    scrub::Scrubber,
    state::{Identity, Setup, State},
    telemetry::{self, Callee, OperationName, OperationRecord},
};

/// Beyond what the limits on a request and an answer count: what lifting adds to their text.
const TRANSFER_SLACK: u64 = 64 * 1024;
/// Handles that a guest may hold at once.
const MOST_HANDLES: usize = 1024;

/// A linked component, with all that its calls share.
pub(crate) struct Linked {
    pub(crate) revision: RevisionId,
    pub(crate) digest: Digest,
    pub(crate) setup: Arc<Setup>,
    pub(crate) component: InstancePre<State>,
    pub(crate) exports: ProviderComponentIndices,
    /// As long as somebody keeps it, the same bytes need not be compiled again.
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) turns: Semaphore,
    pub(crate) runtime: Runtime,
    /// Who is being created or deleted, in all revisions of the entry.
    pub(crate) targets: Locks,
}

impl Linked {
    pub(crate) async fn run<O: Operation>(&self, operation: &O) -> Result<O::Answer, Failure> {
        let target = operation.target();
        let callee = Callee {
            entry: &self.setup.entry,
            digest: self.digest,
            revision: &self.revision,
            target: target.map(|target| target.name.as_str()).unwrap_or_default(),
            place: operation.place(),
        };
        let span = telemetry::operation_span(O::NAME, &callee);
        let record = OperationRecord::start(O::NAME, callee, span.clone());
        let outcome = self.bounded(operation, &record).instrument(span).await;
        record.end(outcome.as_ref().map(|_| ()));
        outcome
    }

    async fn bounded<O: Operation>(
        &self,
        operation: &O,
        record: &OperationRecord<'_>,
    ) -> Result<O::Answer, Failure> {
        let limits = &self.setup.limits;
        let wall = Duration::from_millis(O::WALL.value(limits));
        let _alone = self.alone(operation, wall).await?;
        let Ok(Ok(_turn)) = timeout(wall, self.turns.acquire()).await else {
            return Err(Failure::Limit { limit: Limit::ConcurrentCalls, waiting: None });
        };
        let Ok(Ok(_place)) = timeout(wall, self.runtime.places().acquire()).await else {
            return Err(Failure::Full { places: self.runtime.config().places });
        };
        let scrubber = Scrubber::new(operation.user_data()).map(Arc::new);
        let log = GuestLog::new(self.setup.entry.clone(), limits.log_lines, scrubber.clone());
        let (meter, log) = (Arc::new(Meter::new()), Arc::new(log));
        let identity = operation.target().map(|target| Identity::new(&self.setup.installation, target));
        let state = State::new(
            Arc::clone(&self.setup),
            O::NAME,
            O::WALL,
            identity,
            Arc::clone(&meter),
            Arc::clone(&log),
            scrubber.clone(),
        );
        let outcome = match timeout(wall, meter.charged(self.guest(operation, state))).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Limit { limit: O::WALL, waiting: meter.waiting() }),
        };
        record.used(&meter, &log);
        match scrubber {
            Some(scrubber) => outcome.map_err(|failure| failure.clean(&scrubber)),
            None => outcome,
        }
    }

    /// Creates and deletes of one name don't overlap, whichever revision they run on.
    async fn alone<O: Operation>(&self, operation: &O, wall: Duration) -> Result<Option<Held>, Failure> {
        match (O::NAME, operation.target()) {
            (OperationName::Create | OperationName::Delete, Some(target)) => {
                let held = timeout(wall, self.targets.acquire(target.name.as_str())).await;
                held.map(Some).map_err(|_| Failure::Busy { limit: O::WALL })
            }
            _ => Ok(None),
        }
    }

    async fn guest<O: Operation>(&self, operation: &O, state: State) -> Result<O::Answer, Failure> {
        let (scrubber, log) = (state.scrubber.clone(), Arc::clone(&state.log));
        let mut store = self.store(state);
        let failed = |error: wasmtime::Error| match error.is::<PoolConcurrencyLimitError>() {
            true => Failure::Full { places: self.runtime.config().places },
            false => Failure::from_wasmtime(&error, log.last_words()),
        };
        let instance = self.component.instantiate_async(&mut store).await.map_err(failed)?;
        // Their types are compared only here: the contract's name does not vouch for its shape.
        let exports = self.exports.load(&mut store, &instance);
        let component = exports.map_err(|error| Failure::Mismatch(format!("{error:#}")))?;
        let raw = operation.call(&component, &mut store).await.map_err(failed)?;
        if O::size(&raw) > self.setup.limits.answer_bytes {
            return Err(Failure::Limit { limit: Limit::AnswerBytes, waiting: None });
        }
        let answer = operation.answer(raw, scrubber.as_deref());
        let told = store.data().told;
        answer.map_err(|failure| match (failure, told) {
            // It may keep to itself that a limit made its host call fail; whoever reads it must know.
            (Failure::Provider(error), Some(limit)) if error.class == ErrorClass::Transient => {
                Failure::Told { limit, error }
            }
            (failure, _) => failure,
        })
    }

    fn store(&self, state: State) -> Store<State> {
        let limits = &self.setup.limits;
        let compute = Duration::from_millis(limits.compute_ms);
        let meter = Arc::clone(&state.meter);
        let mut store = Store::new(self.component.engine(), state);
        store.limiter(|state| state);
        let most = limits.request_bytes.max(limits.answer_bytes).saturating_mul(2);
        let fuel = most.saturating_add(TRANSFER_SLACK);
        store.set_hostcall_fuel(usize::try_from(fuel).unwrap_or(usize::MAX));
        store.set_max_component_handles(MOST_HANDLES);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_: StoreContextMut<'_, State>| {
            if meter.computed() > compute {
                return Err(Stop::Limit(Limit::ComputeMs).into());
            }
            // Others have their turn.
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store
    }
}
