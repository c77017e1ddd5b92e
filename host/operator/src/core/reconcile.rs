//! The control loop of one Proxy.
//!
//! A pass reads the Proxy live, takes the steps that [`decide`](crate::core::decide::decide) gives, and ends
//! after at most one call of a provider; a create that is done is followed by a look. What a call answered is
//! stored before the next one that changes anything begins, and what is about to be made is stored before it is
//! made; so a process that ends between any two of these leaves a record from which the next one goes on. A write of a stale record is refused by the store, and the pass is
//! begun again.
//!
//! Two hosts at once (a lease that was lost unnoticed) can't both begin an incarnation, nor begin a create
//! of one that the other has given up. A create that one of them had sent before the other marked the instance
//! can still arrive after the delete: what it makes has no owner, and the collector removes it.

mod canary;
mod claim;
mod health;
mod looking;
mod resting;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use egress_contract::{Created, Deleted, Error, ErrorClass, Installation, Pending, Target};
use jiff::Timestamp;
use tracing::{Instrument, Span, field, info, warn};

use self::resting::{is_under_way, serves};
use crate::{
    api::{InstanceStatus, ProxyStatus},
    core::{
        agenda::{Agenda, Occasion},
        backoff::{self, Call, Dice, Pace},
        budget::{Budgets, Kind},
        clock::Clock,
        decide::{Cause, Entries, Step, decide, holder},
        notices,
        probe::Fleet,
        status::Change,
        store::{
            ActiveProvider, Inactive, Providers, ProxyKey, ProxyRecord, Store, StoreError, UserDataError,
        },
        story::{self, Told},
        tally::{self, Tally},
        target::{self, target},
    },
};

/// What the caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Reconcile again after this time, or earlier when the Proxy, its provider or its annotation changes.
    Requeue(Duration),
    /// Nothing is to be done until the Proxy changes.
    Wait,
}

/// How far a pass came.
enum Flow {
    /// Another step, on the newer record.
    On(Box<ProxyRecord>),
    /// Due again after this.
    Rest(Box<ProxyRecord>, Duration),
    /// Not ours any more.
    End,
}

/// A reason of `create`: the instance ended and can't be started again.
const FINISHED: &str = "finished";
const NOT_KEPT: &str = "status.instance was not stored as it was written; install the CRDs of this version";
/// A pass that was overtaken is begun again after at most this.
const OVERTAKEN: Duration = Duration::from_millis(100);
/// Entries are mostly loaded within this after a start. A Proxy that waits for that is woken when they are.
const LOADING: Duration = Duration::from_secs(20);
/// How many Proxies a message names.
const SOME: usize = 3;
const POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));

/// What a [`Reconciler`] is given besides its store and providers.
pub struct Setup {
    /// Whose instances these are.
    pub installation: Installation,
    /// How long it waits for what.
    pub pace: Pace,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For spreading waits.
    pub dice: Dice,
    /// Who is probed, and what was found.
    pub fleet: Arc<Fleet>,
}

/// The control loop. Shared by all Proxies; at most one pass at a time for each.
pub struct Reconciler<S, P> {
    store: S,
    providers: P,
    setup: Setup,
    agenda: Agenda,
    budgets: Budgets,
    tally: Tally,
    began: Timestamp,
}

/// The providers, and what probes had found, when the pass began: it ends on what it began on.
struct Active(Vec<(String, Result<ActiveProvider, Inactive>)>, u64);

impl Active {
    fn of(&self, entry: &str) -> Result<&ActiveProvider, Inactive> {
        match self.0.iter().find(|(name, _)| name == entry) {
            Some((_, Ok(active))) => Ok(active),
            Some((_, Err(why))) => Err(why.clone()),
            None => Err(Inactive::Missing("it was not looked up in this pass".to_owned())),
        }
    }

    fn occasion(&self, record: &ProxyRecord) -> Occasion {
        let revision = |a: &Result<ActiveProvider, _>| {
            a.as_ref().ok().map(|a| (canary::maker(a, record).to_owned(), a.listed))
        };
        Occasion::new(record, self.0.iter().map(|(_, a)| revision(a)).collect(), self.1)
    }
}

impl<S: Store, P: Providers> Reconciler<S, P> {
    /// With nothing waited for.
    pub fn new(store: S, providers: P, setup: Setup) -> Self {
        let (agenda, budgets) = (Agenda::default(), Budgets::default());
        let began = setup.clock.now();
        Self { store, providers, setup, agenda, budgets, tally: Tally::default(), began }
    }

    /// Whether entries may still be loaded without a word of that.
    fn is_starting(&self) -> bool {
        let since = self.setup.clock.now().duration_since(self.began);
        Duration::try_from(since).is_ok_and(|since| since < LOADING)
    }

    /// One pass.
    pub async fn reconcile(&self, key: &ProxyKey) -> Next {
        let advanced = match self.store.get(key).await {
            Ok(Some(record)) => self.pass(record).await,
            Ok(None) => {
                self.agenda.forget(key);
                Ok(Next::Wait)
            }
            Err(error) => Err(error),
        };
        self.conclude(key, advanced)
    }

    /// Makes the Proxy due at once, whatever it waits for.
    pub fn wake(&self, key: &ProxyKey) {
        self.agenda.forget(key);
    }

    /// It is gone, and nobody may come by any more to find that.
    pub fn forget(&self, key: &ProxyKey) {
        self.wake(key);
        self.tally.leave(key);
        self.budgets.leave(key);
        self.setup.fleet.leave(key);
    }

    /// The same for all, since somebody else had them meanwhile; and nothing that serves is taken down before all
    /// were seen.
    pub fn begin_anew(&self) {
        self.agenda.clear();
        self.tally.clear();
        self.setup.fleet.clear();
        self.budgets.close();
    }

    /// All were seen.
    pub fn seen_all(&self) {
        self.budgets.open();
    }

    /// Proxies whose turn has come to be replaced, or to come back; they are due at once.
    pub fn take_turns(&self) -> BTreeSet<ProxyKey> {
        let due = self.budgets.due();
        due.iter().for_each(|key| self.agenda.forget(key));
        due
    }

    fn conclude(&self, key: &ProxyKey, advanced: Result<Next, StoreError>) -> Next {
        if matches!(advanced, Ok(Next::Wait) | Err(StoreError::Gone(_))) {
            self.tally.leave(key);
            self.budgets.leave(key);
            self.setup.fleet.leave(key);
        }
        let (next, outcome) = match advanced {
            Ok(next) => (next, "ok"),
            Err(StoreError::Conflict(_)) => {
                self.agenda.forget(key);
                (Next::Requeue(self.setup.dice.between(OVERTAKEN / 10, OVERTAKEN)), "conflict")
            }
            Err(StoreError::Gone(_)) => {
                self.agenda.forget(key);
                (Next::Wait, "gone")
            }
            Err(error @ StoreError::Failed { .. }) => {
                let count = self.agenda.store_failed(key);
                let rest = self.setup.pace.rest(ErrorClass::Transient, count, None, &self.setup.dice);
                warn!(proxy = %key, error = %error, ?rest, "the store failed; the pass is begun again");
                (Next::Requeue(rest), "store-failed")
            }
        };
        metrics::counter!("egress_reconcile_passes_total", "outcome" => outcome).increment(1);
        next
    }

    async fn pass(&self, record: ProxyRecord) -> Result<Next, StoreError> {
        self.tally.note(&record);
        let active = self.look_up(&record);
        active.note(&record);
        // Most end here, and are nothing that anybody would want to see.
        if let Some(left) = self.agenda.left(&record.key, &active.occasion(&record), self.setup.clock.now()) {
            return Ok(Next::Requeue(left));
        }
        if is_under_way(&record) {
            self.budgets.note(holder(&record), &record.key);
        }
        let span = story::pass_span(&record);
        self.advance(record, &active).instrument(span).await
    }

    async fn advance(&self, mut record: ProxyRecord, active: &Active) -> Result<Next, StoreError> {
        let (key, told) = (record.key.clone(), Told::before(&record));
        loop {
            match self.step(record, active).await? {
                Flow::On(newer) => record = *newer,
                Flow::Rest(record, rest) => {
                    active.note(&record);
                    self.settle_at_rest(&record);
                    self.settle_probes(&record);
                    let now = self.setup.clock.now();
                    let due = now.checked_add(rest).unwrap_or(now);
                    self.agenda.wait(&key, active.occasion(&record), due);
                    told.after(&record.status);
                    return Ok(Next::Requeue(rest));
                }
                Flow::End => {
                    active.leave(&key);
                    self.agenda.forget(&key);
                    return Ok(Next::Wait);
                }
            }
        }
    }

    fn look_up(&self, record: &ProxyRecord) -> Active {
        let wanted = record.spec.provider.as_str();
        let mut entries = vec![wanted];
        entries.extend(Some(holder(record)).filter(|holding| *holding != wanted));
        let probed = self.setup.fleet.serial(&record.key);
        let called = |entry: &str| self.providers.active(entry)?.for_instance(record);
        Active(entries.into_iter().map(|e| (e.to_owned(), called(e))).collect(), probed)
    }

    async fn step(&self, record: ProxyRecord, active: &Active) -> Result<Flow, StoreError> {
        let entries = Entries {
            wanted: active.of(&record.spec.provider).is_ok_and(|active| active.listed),
            holding: active.of(holder(&record)).is_ok(),
        };
        let step = decide(&record, entries);
        let span = Span::current();
        span.record("step", step.as_str());
        span.record("phase", record.status.phase.map(field::debug));
        metrics::counter!("egress_reconcile_steps_total", "step" => step.as_str()).increment(1);
        let removes = matches!(step, Step::MarkDeleting(_) | Step::Delete);
        if removes && record.deleting && self.store.is_kind_going(&record).await? {
            self.store.notify(&record, notices::kind_going()).await;
            return Ok(self.rest(record, self.setup.pace.recheck));
        }
        match step {
            Step::Nothing => Ok(Flow::End),
            Step::Hold => {
                let held = self.store.set_finalizer(&record, true).await?;
                Ok(held.map_or(Flow::End, |r| Flow::On(Box::new(r))))
            }
            Step::Release => {
                let left = self.store.set_finalizer(&record, false).await?;
                self.store.notify(left.as_ref().unwrap_or(&record), notices::deleted()).await;
                Ok(Flow::End)
            }
            Step::Abandon => {
                let left = self.store.set_finalizer(&record, false).await?;
                self.store.notify(left.as_ref().unwrap_or(&record), notices::abandoned(&record)).await;
                Ok(Flow::End)
            }
            Step::Await { entry } => {
                let why = match active.of(&entry) {
                    // What was known before the start stands until more is known, and a moment is no news.
                    Err(Inactive::Starting) if record.status.phase.is_some() || self.is_starting() => {
                        return Ok(self.rest(record, self.setup.pace.recheck));
                    }
                    Err(Inactive::Starting) => "it is being loaded".to_owned(),
                    Err(Inactive::Missing(why)) => why,
                    Ok(_) => "it was removed, and makes nothing new".to_owned(),
                };
                let status = self.change(&record).waiting(&entry, &why);
                let record = self.write(record, status).await?;
                Ok(self.rest(record, self.setup.pace.recheck))
            }
            Step::MarkDeleting(Cause::SpecChanged | Cause::ProviderChanged)
                if serves(&record) && !self.may_be_taken_down(&record, active) =>
            {
                let some = self.budgets.some(&record.spec.provider, Kind::Replacing, SOME);
                let status = self.change(&record).waits_its_turn(&record.spec.provider, &some);
                let record = self.write(record, status).await?;
                // Its turn wakes it; this is for a turn that got lost.
                Ok(self.rest(record, self.setup.pace.turn))
            }
            Step::MarkDeleting(cause) => {
                let status = self.change(&record).marked_deleting(cause);
                Ok(Flow::On(Box::new(self.write(record, status).await?)))
            }
            Step::Begin | Step::Create => match active.of(holder(&record)) {
                Ok(active) => self.create(record, active).await,
                Err(_) => Ok(self.rest(record, self.setup.pace.recheck)),
            },
            Step::Get => match active.of(holder(&record)) {
                Ok(holding) => self.look(record, active, holding).await,
                Err(_) => Ok(self.rest(record, self.setup.pace.recheck)),
            },
            Step::Delete => match active.of(holder(&record)) {
                Ok(active) => self.delete(record, active).await,
                Err(_) => Ok(self.rest(record, self.setup.pace.recheck)),
            },
        }
    }

    async fn create(&self, record: ProxyRecord, looks: &ActiveProvider) -> Result<Flow, StoreError> {
        let Some(active) = canary::route(&record, looks) else {
            return Ok(self.rest(record, canary::OPENING));
        };
        let active = active.as_ref();
        let restart = self.key(Call::Restart, &record, active, &[]);
        if let Some(left) = self.held_up(&record, &restart, active) {
            return Ok(self.rest_held_up(record, left));
        }
        let user_data = match self.store.user_data(&record).await {
            Ok(user_data) => user_data,
            Err(error) => return self.without_user_data(record, active, error).await,
        };
        let key = self.key(Call::Create, &record, active, &user_data);
        if let Some(left) = self.held_up(&record, &key, active) {
            return Ok(self.rest_held_up(record, left));
        }
        let at_once = active.replace.at_once;
        // A step that goes on holds what it has.
        let goes_on = record.status.instance.as_ref().is_some_and(|instance| instance.progress.is_some());
        let returns = record.status.failure.is_some() && !goes_on;
        if returns && !self.budgets.take(holder(&record), Kind::Returning, &record.key, at_once) {
            return Ok(self.rest(record, self.setup.pace.turn));
        }
        let record = self.claim(record, &active.revision).await?;
        let Some(instance) = &record.status.instance else { return Ok(Flow::On(Box::new(record))) };
        let answer = match self.target(&record, instance) {
            Ok(target) => active.provider.create(&target, &target::spec(&record.spec), &user_data).await,
            Err(error) => Err(error),
        };
        drop(user_data);
        match answer {
            Ok(Created::Done(id)) => {
                let status = self.change(&record).created(id, &active.revision);
                self.made(record, status, looks).await
            }
            Ok(Created::Pending(pending)) => {
                let status = self.change(&record).creating(&pending, &active.revision);
                let record = self.write(record, status).await?;
                Ok(Flow::Rest(Box::new(record), poll(&pending)))
            }
            Err(error) if error.class == ErrorClass::Permanent && error.reason == FINISHED => {
                self.ended(record, active, error).await
            }
            Err(error) => {
                let doubted = canary::is_doubted(looks, active, &error);
                let flow = self.failed(record, Call::Create, key, &error).await?;
                Ok(if doubted { soon(flow) } else { flow })
            }
        }
    }

    async fn without_user_data(
        &self,
        record: ProxyRecord,
        active: &ActiveProvider,
        error: UserDataError,
    ) -> Result<Flow, StoreError> {
        let (error, stands_for_it) = match &error {
            UserDataError::Invalid { field, .. } => {
                (Error::permanent("user-data-invalid", error.to_string()), field.as_str())
            }
            UserDataError::Missing { what } => {
                (Error::transient(notices::USER_DATA_MISSING, error.to_string()), what.as_str())
            }
            // Its message may differ each time, and must not set anything free.
            UserDataError::Unread { .. } => (Error::transient("user-data-unread", error.to_string()), ""),
        };
        let key = self.key(Call::Create, &record, active, stands_for_it.as_bytes());
        let failure = record.status.failure.as_ref();
        let unread = failure.filter(|f| stands_for_it.is_empty() && backoff::same_but_data(&f.key, &key));
        let stored = unread.map_or_else(|| key.clone(), |f| f.key.clone());
        match self.held_up(&record, &stored, active) {
            Some(left) => Ok(self.rest_held_up(record, left)),
            None => self.failed(record, Call::Create, key, &error).await,
        }
    }

    async fn delete(&self, record: ProxyRecord, active: &ActiveProvider) -> Result<Flow, StoreError> {
        let key = self.key(Call::Delete, &record, active, &[]);
        if let Some(left) = self.held_up(&record, &key, active) {
            return Ok(self.rest_held_up(record, left));
        }
        let Some(instance) = &record.status.instance else { return Ok(Flow::On(Box::new(record))) };
        let answer = match self.target(&record, instance) {
            Ok(target) => active.provider.delete(&target).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(Deleted::Done) => {
                let status = self.change(&record).removed(&active.revision);
                let record = self.write(record, status).await?;
                Ok(Flow::Rest(Box::new(record), Duration::ZERO))
            }
            Ok(Deleted::Pending(pending)) => {
                let status = self.change(&record).removing(&pending, &active.revision);
                let record = self.write(record, status).await?;
                Ok(Flow::Rest(Box::new(record), poll(&pending)))
            }
            Err(error) => self.failed(record, Call::Delete, key, &error).await,
        }
    }

    async fn write(&self, record: ProxyRecord, status: ProxyStatus) -> Result<ProxyRecord, StoreError> {
        if status == record.status {
            return Ok(record);
        }
        let notices = notices::notices(&record, &status);
        tally::ready(&record, &status);
        let (incarnation, instance) = (status.incarnation, status.instance.clone());
        let newer = self.store.write_status(&record, status).await?;
        // What is made next rests on these two. A CRD of an older version drops what it does not know.
        if (newer.status.incarnation, &newer.status.instance) != (incarnation, &instance) {
            return Err(StoreError::Failed { key: record.key, message: NOT_KEPT.to_owned() });
        }
        self.tally.note(&newer);
        for notice in notices {
            info!(reason = notice.reason, note = notice.message, "a Proxy changed");
            self.store.notify(&newer, notice).await;
        }
        Ok(newer)
    }

    fn target(&self, record: &ProxyRecord, instance: &InstanceStatus) -> Result<Target, Error> {
        target(&self.setup.installation, record, instance)
    }

    fn change<'r>(&self, record: &'r ProxyRecord) -> Change<'r> {
        Change::new(record, self.setup.clock.now())
    }

    fn key(&self, call: Call, record: &ProxyRecord, active: &ActiveProvider, user_data: &[u8]) -> String {
        backoff::key(call, record, &active.revision, user_data, self.setup.installation.id())
    }

    fn rest(&self, record: ProxyRecord, interval: Duration) -> Flow {
        Flow::Rest(Box::new(record), self.setup.pace.spread(interval, &self.setup.dice))
    }
}

fn soon(flow: Flow) -> Flow {
    match flow {
        Flow::Rest(record, _) => Flow::Rest(record, Duration::ZERO),
        Flow::On(_) | Flow::End => flow,
    }
}

fn poll(pending: &Pending) -> Duration {
    pending.poll.clamp(POLL.0, POLL.1)
}
