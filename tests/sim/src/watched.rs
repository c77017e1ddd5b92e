//! One wrapper around any capability, simulated or real.
//!
//! It numbers each call, writes it into the journal, makes go wrong what the plan says, stops a host at a
//! point so that another can go on, and keeps requests and answers for a recording. [`Watch`] does this for
//! whatever capability; [`Watched`] is the capability, one implementation for each below.
//!
//! A host that dies, or whose call takes longer than it may, never gets an answer: whoever drives it waits for
//! [`Watch::ended`] beside the call and drops it, as the death of a process would.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use egress_runtime::capability::Clock;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    fault::{Fault, Plan, When},
    journal::{Effect, Journal, Line},
    recording::{Answer, Exchange, Recorder},
    replay::Player,
};

mod clock;
mod http;
mod kubernetes;
mod libvirt;
#[cfg(test)]
mod tests;
mod transfer;

pub use http::WatchedHttp;
pub use libvirt::WatchedLibvirt;

/// What a capability answers, as far as this wrapper must know it.
pub trait Said: Sized + Send {
    /// In a few words, without anything of a body.
    fn outcome(&self) -> String;
    /// For a recording.
    fn to_json(&self) -> Value;
    /// From a recording.
    fn from_json(value: &Value) -> Option<Self>;
    /// One that has not what it should have; none where there is no such answer.
    fn garbage() -> Option<Self> {
        None
    }
}

/// A capability's failure.
pub trait Failing: Said {
    /// What the real capability answers when this goes wrong; none where it does not make a call fail.
    fn of(fault: &Fault, when: When, place: &str) -> Option<Self>;
    /// What it answers when the grant does not reach there.
    fn denied(place: &str, why: &str) -> Self;
}

/// One call of a capability.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// `kubernetes`.
    pub capability: &'static str,
    /// `get`.
    pub function: &'static str,
    /// The name of the cluster, the endpoint, the host.
    pub place: &'a str,
    /// Resource, namespace, name: for the journal.
    pub about: String,
    /// What it does to the backend.
    pub effect: Effect,
}

/// Why a host's call never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host died.
    Died,
    /// The call took longer than it may, and the host cut it off.
    Overran,
    /// Something else was asked than the recording has an answer for.
    Differs,
}

/// What a watch does beside writing the journal.
#[derive(Clone, Default)]
pub struct Beside {
    /// What goes wrong.
    pub plan: Plan,
    /// Keeps what is said.
    pub recorder: Option<Recorder>,
    /// Answers, instead of the capability.
    pub player: Option<Player>,
    /// Whether every write is denied.
    pub read_only: bool,
}

/// One host's eyes. Clones are the same host's.
#[derive(Clone)]
pub struct Watch {
    inner: Arc<Inner>,
}

struct Inner {
    host: String,
    journal: Journal,
    beside: Beside,
    clock: Arc<dyn Clock>,
    began_ms: u64,
    /// While a host loads a component, what it asks is not part of the run.
    silent: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    end: Option<End>,
    deadline_ms: Option<u64>,
    /// The call that waits to be let on.
    stopped: Option<u64>,
}

impl Watch {
    /// Of a host of this name, which shares journal, plan and clock with others.
    pub fn new(host: &str, journal: Journal, plan: Plan, clock: Arc<dyn Clock>) -> Self {
        Self::with(host, journal, clock, Beside { plan, ..Beside::default() })
    }

    /// The same, with more to do.
    pub fn with(host: &str, journal: Journal, clock: Arc<dyn Clock>, beside: Beside) -> Self {
        let began_ms = clock.monotonic_ms();
        let inner = Inner {
            host: host.to_owned(),
            journal,
            beside,
            clock,
            began_ms,
            silent: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        &self.inner.host
    }

    /// What was asked, by all hosts.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.inner.clock.monotonic_ms().saturating_sub(self.inner.began_ms))
    }

    /// Whether calls go through unseen.
    pub fn silence(&self, silent: bool) {
        self.inner.silent.store(silent, Ordering::SeqCst);
    }

    /// From now on a call that goes beyond this much time is cut off; none for no bound.
    pub fn bound(&self, time: Option<Duration>) {
        let now = self.inner.clock.monotonic_ms();
        let deadline =
            |time: Duration| now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.state().deadline_ms = time.map(deadline);
    }

    /// What a page may hold where so much was asked for; 0 leaves it to the backend.
    fn page(&self, asked: u32) -> u32 {
        match (self.inner.beside.plan.page(), asked) {
            (None, asked) => asked,
            (Some(most), 0) => most,
            (Some(most), asked) => asked.min(most),
        }
    }

    /// Something that explains the calls around it.
    pub fn remark(&self, text: impl Into<String>) {
        self.inner.journal.remark(self.elapsed(), &self.inner.host, text);
    }

    /// Why the call that runs will never come back, once it is so.
    pub async fn ended(&self) -> End {
        self.wait(|state| state.end).await
    }

    /// A host that was cut off in one call goes on with the next; a dead one does not.
    pub fn revive(&self) {
        let mut state = self.state();
        if state.end == Some(End::Overran) {
            state.end = None;
        }
    }

    /// The call at which the host stops, once it does.
    pub async fn stopped(&self) -> u64 {
        self.wait(|state| state.stopped).await
    }

    /// Lets it on.
    pub fn let_on(&self) {
        self.state().stopped = None;
        self.inner.changed.notify_waiters();
    }

    async fn wait<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            // Before the look: what changes after it must wake us.
            changed.as_mut().enable();
            if let Some(found) = ready(&self.state()) {
                return found;
            }
            changed.await;
        }
    }

    async fn end<T>(&self, end: End) -> T {
        self.state().end = Some(end);
        self.inner.changed.notify_waiters();
        std::future::pending().await
    }

    fn line(&self, call: String, about: String, effect: Option<Effect>) -> Line {
        Line {
            number: 0,
            at: self.elapsed(),
            host: self.inner.host.clone(),
            call,
            about,
            effect,
            fault: None,
            outcome: None,
        }
    }

    /// A provider's call begins: it has a number as host calls have, and the host may die before it.
    pub async fn begin(&self, export: &str, about: String) -> u64 {
        let number = self.inner.journal.begin(self.line(format!("provider.{export}"), about, None));
        if self.inner.beside.plan.stops(number) {
            self.stop(number).await;
        }
        self.die_if(number, When::Before).await;
        number
    }

    /// It ended, and nobody kept its answer yet: the host may die here.
    pub async fn finish(&self, number: u64, outcome: impl Into<String>) {
        self.inner.journal.end(number, outcome);
        self.die_if(number, When::After).await;
    }

    async fn die_if(&self, number: u64, side: When) {
        if let Some((when, fault @ Fault::Death)) = self.inner.beside.plan.of(number, "")
            && when == side
        {
            self.inner.journal.fault(number, format!("{} {}", fault.as_str(), side.as_str()));
            self.end::<()>(End::Died).await;
        }
    }

    /// One call of a capability: `request` are its arguments, for a recording; `effect` makes it.
    pub async fn call<T: Said, F: Failing>(
        &self,
        call: Call<'_>,
        request: impl FnOnce() -> Value,
        effect: impl Future<Output = Result<T, F>>,
    ) -> Result<T, F> {
        self.call_answered(call, request, effect, |_, _| None).await
    }

    /// The same where some faults are answers of the backend's own, and no failures of the capability.
    pub async fn call_answered<T: Said, F: Failing>(
        &self,
        call: Call<'_>,
        request: impl FnOnce() -> Value,
        effect: impl Future<Output = Result<T, F>>,
        answers: impl Fn(&Fault, When) -> Option<T>,
    ) -> Result<T, F> {
        let Call { capability, function, place, about, effect: kind } = call;
        let beside = &self.inner.beside;
        let denied = beside.read_only && kind == Effect::Write && beside.player.is_none();
        if self.inner.silent.load(Ordering::SeqCst) && !denied {
            return effect.await;
        }
        let ended = self.state().end;
        if let Some(end) = ended {
            return self.end(end).await;
        }
        let about = format!("{place} {about}").trim().to_owned();
        let line = self.line(format!("{capability}.{function}"), about.clone(), Some(kind));
        let number = self.inner.journal.begin(line);
        let asked = (beside.recorder.is_some() || beside.player.is_some()).then(|| Exchange {
            number,
            at_ms: 0,
            capability: capability.to_owned(),
            function: function.to_owned(),
            about,
            request: request(),
            more: 0,
            answer: Answer::Answer(Value::Null),
        });
        if beside.plan.stops(number) {
            self.stop(number).await;
        }
        let outcome = match &beside.player {
            Some(player) => match asked.clone().and_then(|asked| player.answer(asked)) {
                Some(outcome) => outcome,
                None => {
                    self.inner.journal.end(number, "not as recorded");
                    return self.end(End::Differs).await;
                }
            },
            None if denied => {
                self.inner.journal.fault(number, "read-only");
                Err(F::denied(place, "this call may only read"))
            }
            None => self.through(number, place, effect, answers).await,
        };
        let said = match &outcome {
            Ok(answer) => answer.outcome(),
            Err(failure) => failure.outcome(),
        };
        self.inner.journal.end(number, said);
        if let (Some(recorder), Some(asked)) = (&beside.recorder, asked) {
            let answer = match &outcome {
                Ok(answer) => Answer::Answer(answer.to_json()),
                Err(failure) => Answer::Failure(failure.to_json()),
            };
            recorder.keep(Exchange { at_ms: millis(self.elapsed()), answer, ..asked });
        }
        self.in_time().await;
        outcome
    }

    /// With what the plan makes go wrong.
    async fn through<T: Said, F: Failing>(
        &self,
        number: u64,
        place: &str,
        effect: impl Future<Output = Result<T, F>>,
        answers: impl Fn(&Fault, When) -> Option<T>,
    ) -> Result<T, F> {
        let Some((when, fault)) = self.inner.beside.plan.of(number, place) else { return effect.await };
        self.inner.journal.fault(number, format!("{} {}", fault.as_str(), when.as_str()));
        if let Some(answer) = answers(&fault, when) {
            if when == When::After {
                let _ = effect.await;
            }
            return Ok(answer);
        }
        let happened = match (when, &fault) {
            (_, Fault::Slow(time)) => {
                self.inner.clock.sleep(*time).await;
                return effect.await;
            }
            // What does not make this capability's calls fail is as if it were not.
            (_, fault) if *fault != Fault::Death && F::of(fault, when, place).is_none() => {
                return effect.await;
            }
            (When::Before, _) => None,
            (When::After, _) => Some(effect.await),
        };
        match &fault {
            Fault::Death => {
                let said = match &happened {
                    None => "never sent".to_owned(),
                    Some(Ok(answer)) => format!("{}, and nobody heard it", answer.outcome()),
                    Some(Err(failure)) => format!("{}, and nobody heard it", failure.outcome()),
                };
                self.inner.journal.end(number, said);
                return self.end(End::Died).await;
            }
            Fault::Timeout(time) => self.inner.clock.sleep(*time).await,
            _ => {}
        }
        let garbage = || Some(&fault).filter(|fault| **fault == Fault::Garbage).and_then(|_| T::garbage());
        match (garbage(), F::of(&fault, when, place)) {
            (Some(garbage), _) => Ok(garbage),
            (None, Some(failure)) => Err(failure),
            (None, None) => match happened {
                Some(happened) => happened,
                None => self.end(End::Died).await,
            },
        }
    }

    async fn stop(&self, number: u64) {
        self.remark(format!("stops before {number}"));
        self.state().stopped = Some(number);
        self.inner.changed.notify_waiters();
        self.wait(|state| state.stopped.is_none().then_some(())).await;
        self.remark(format!("goes on with {number}"));
    }

    /// Does not come back from a call that took longer than it may.
    async fn in_time(&self) {
        let deadline = self.state().deadline_ms;
        if deadline.is_some_and(|deadline| self.inner.clock.monotonic_ms() > deadline) {
            self.remark("the call takes longer than it may: the host cuts it off");
            self.end::<()>(End::Overran).await;
        }
    }
}

/// A capability that is watched.
pub struct Watched<C: ?Sized> {
    watch: Watch,
    inner: Arc<C>,
}

impl<C: ?Sized> Watched<C> {
    /// Around it.
    pub fn new(watch: Watch, inner: Arc<C>) -> Self {
        Self { watch, inner }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
