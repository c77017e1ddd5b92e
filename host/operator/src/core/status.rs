//! What a status becomes: one function for each thing that can happen to a Proxy.
//!
//! Pure, and in one place, so that phase, conditions, addresses and failure can't disagree.

use egress_contract::{Error, ErrorClass, Instance, Pending, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

use crate::{
    api::{FINALIZER, Failure, InstanceStatus, Phase, ProxyAddress, ProxyStatus, RETRY_ANNOTATION},
    core::{
        backoff::{self, Call},
        conditions::{self, HEALTHY, PROGRESSING, READY, Truth, UNIQUE, bounded},
        decide::{Cause, holder},
        hash,
        store::{ProxyKey, ProxyRecord},
    },
};

/// Looks in a row that may fail before a proxy that ran counts as unknown: one lost packet is no news.
const DOUBT: u32 = 3;
/// The incarnation that may take over what stands already.
const FIRST: u32 = 1;

/// A reason: the budget of replacements within an hour is used up.
pub const TOO_OFTEN: &str = "replaced-too-often";

/// A record at a moment; each method gives the status that follows.
pub struct Change<'a> {
    record: &'a ProxyRecord,
    now: Timestamp,
}

/// What people and `kubectl wait` see.
struct View<'a> {
    phase: Phase,
    ready: (Truth, &'a str),
    progressing: (Truth, &'a str),
    message: &'a str,
}

impl<'a> Change<'a> {
    /// Times are cut to whole seconds, as the API server keeps them.
    pub fn new(record: &'a ProxyRecord, now: Timestamp) -> Self {
        Self { record, now: Timestamp::from_second(now.as_second()).unwrap_or(now) }
    }

    /// The entry is not there.
    pub fn waiting(&self, entry: &str, why: &str) -> ProxyStatus {
        let record = self.record;
        let instance = record.status.instance.as_ref();
        let message = match instance {
            Some(InstanceStatus { name, deleting: true, .. }) if record.deleting => format!(
                "{name} can't be removed without provider entry {entry} ({why}): bring the entry back; or, if its \
                 backend is gone for good, take the finalizer {FINALIZER} off, and what is left there stays"
            ),
            Some(InstanceStatus { name, deleting: true, .. }) => format!(
                "{name} must go before its successor is made, and that needs provider entry {entry} ({why}): \
                 bring the entry back"
            ),
            Some(_) | None => format!("waits for provider entry {entry}: {why}"),
        };
        let unseen = instance.is_some_and(|i| {
            i.created && !i.deleting && i.provider == entry && hash::made_from(&i.spec_hash, &record.spec)
        });
        let ready = if unseen { Truth::Unknown } else { Truth::False };
        let mut status = record.status.clone();
        status.failure = None;
        self.show(
            status,
            View {
                phase: Phase::Waiting,
                ready: (ready, "provider-missing"),
                progressing: (Truth::False, "provider-missing"),
                message: &message,
            },
        )
    }

    /// A new instance gets its name; nothing was called yet. The first one may stand already, made by an earlier
    /// operator: then it has its id before.
    pub fn begun(&self, incarnation: u32, name: String, revision: &str) -> ProxyStatus {
        let mut status = self.record.status.clone();
        let message = format!("creating {name} with provider {}", self.record.spec.provider);
        status.incarnation = incarnation;
        status.instance = Some(InstanceStatus {
            provider: self.record.spec.provider.clone(),
            name,
            spec_hash: hash::spec_hash(&self.record.spec),
            created_by: Some(revision.to_owned()),
            begun: Some(Time(self.now)),
            id: self.record.adopt.clone().filter(|_| incarnation == FIRST),
            ..InstanceStatus::default()
        });
        self.show(without_address(status), going_on(Phase::Creating, "creating", &message))
    }

    /// A first step begins anew, on another revision than the one that failed.
    pub fn taken_over(&self, revision: &str) -> ProxyStatus {
        let mut status = self.record.status.clone();
        if let Some(instance) = &mut status.instance {
            instance.created_by = Some(revision.to_owned());
            instance.begun = Some(Time(self.now));
        }
        status
    }

    /// Create answered `pending`.
    pub fn creating(&self, pending: &Pending, revision: &str) -> ProxyStatus {
        let mut status = self.advanced(revision);
        if let Some(instance) = &mut status.instance {
            instance.progress = Some(pending.progress.clone());
            instance.id = pending.id.clone().or(instance.id.take());
        }
        self.show(without_address(status), going_on(Phase::Creating, "creating", &pending.message))
    }

    /// Create answered `done`.
    pub fn created(&self, id: String, revision: &str) -> ProxyStatus {
        let mut status = self.advanced(revision);
        if let Some(instance) = &mut status.instance {
            instance.created = true;
            instance.progress = None;
            instance.id = Some(id);
        }
        let view = going_on(Phase::Provisioning, "provisioning", "made; waits for its address");
        self.show(without_address(status), view)
    }

    /// Get answered `running`, with an address.
    pub fn running(&self, seen: &Instance, steady: Duration) -> ProxyStatus {
        let mut status = self.seen(seen);
        let ready = status.conditions.iter().find(|c| c.type_ == READY && c.status == "True");
        let since = ready.map_or(self.now, |c| c.last_transition_time.0);
        let ran = Duration::try_from(self.now.duration_since(since)).unwrap_or_default();
        status.failure = status.failure.filter(|f| backoff::holds_up_restart(f) && ran < steady);
        status.addresses =
            seen.addresses.iter().map(|a| ProxyAddress { kind: a.kind.clone(), ip: a.ip.clone() }).collect();
        status.address = status.addresses.first().map(|a| a.ip.clone());
        let at = status.address.clone().unwrap_or_default();
        self.show(
            status,
            View {
                phase: Phase::Running,
                ready: (Truth::True, "running"),
                progressing: (Truth::False, "settled"),
                message: &format!("runs at {at}"),
            },
        )
    }

    /// Get answered `provisioning`, or `running` without an address.
    pub fn provisioning(&self, seen: &Instance) -> ProxyStatus {
        let mut status = self.seen(seen);
        status.failure = status.failure.filter(backoff::holds_up_restart);
        let reason = or(&seen.reason, "provisioning");
        let message = or(&seen.message, "made; waits for its address");
        self.show(without_address(status), going_on(Phase::Provisioning, reason, message))
    }

    /// Get answered `stopped`: the next create starts it.
    pub fn stopped(&self, seen: &Instance, failure: Failure) -> ProxyStatus {
        let mut status = self.seen(seen);
        let message = failure.message.clone();
        status.failure = Some(failure);
        if let Some(instance) = &mut status.instance {
            instance.created = false;
            instance.progress = None;
        }
        let reason = or(&seen.reason, "stopped");
        self.show(without_address(status), going_on(Phase::Stopped, reason, &message))
    }

    /// The instance is to go. Ready turns false here, before anything is removed.
    pub fn marked_deleting(&self, cause: Cause) -> ProxyStatus {
        let name = self.name();
        let message = match cause {
            Cause::Unwanted => format!("removing {name}"),
            Cause::SpecChanged => format!("the spec changed: {name} is removed, then its successor is made"),
            Cause::ProviderChanged => format!(
                "the provider changed from {} to {}: {name} is removed, then its successor is made",
                holder(self.record),
                self.record.spec.provider
            ),
        };
        self.marked(self.record.status.clone(), &message, None)
    }

    /// The instance ended by itself: it is to go, and its successor comes after the failure's rest.
    pub fn ended(&self, error: &Error, failure: Failure, ends: Vec<Timestamp>) -> ProxyStatus {
        let message = failure.message.clone();
        let status = ProxyStatus { ends: ends.into_iter().map(Time).collect(), ..self.left_behind(error) };
        self.marked(status, &message, Some(failure))
    }

    /// The instance does not do what it is for, and its Proxy wants another one then.
    pub fn unhealthy(&self, ends: Vec<Timestamp>) -> ProxyStatus {
        let found = self.record.status.conditions.iter().find(|condition| condition.type_ == HEALTHY);
        let why = found.map_or("", |condition| condition.message.as_str());
        let message =
            format!("{} stays unhealthy ({why}): it is removed, then its successor is made", self.name());
        let ends = ends.into_iter().map(Time).collect();
        self.marked(ProxyStatus { ends, ..self.record.status.clone() }, &message, None)
    }

    /// It serves as it was wanted before, until its turn comes to be replaced.
    pub fn waits_its_turn(&self, entry: &str, others: &[ProxyKey]) -> ProxyStatus {
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        let message = format!(
            "the spec changed; it serves as before until its turn comes: of entry {entry} so many are replaced at \
             once as its replace.atOnce says, now {}",
            if others.is_empty() { "none yet".to_owned() } else { others.join(", ") }
        );
        let mut status = self.record.status.clone();
        status.message = Some(bounded(&message));
        let at = (self.record.generation, self.now);
        conditions::set(&mut status.conditions, PROGRESSING, Truth::True, "waits-its-turn", &message, at);
        status
    }

    fn marked(&self, mut status: ProxyStatus, message: &str, failure: Option<Failure>) -> ProxyStatus {
        status.failure = failure;
        if let Some(instance) = &mut status.instance {
            // Its progress stays: the delete may have to wait for what a create began.
            instance.deleting = true;
        }
        self.show(without_address(status), self.leaving(message))
    }

    /// Delete answered `pending`.
    pub fn removing(&self, pending: &Pending, revision: &str) -> ProxyStatus {
        let mut status = self.advanced(revision);
        if let Some(instance) = &mut status.instance {
            instance.progress = Some(pending.progress.clone());
        }
        self.show(without_address(status), self.leaving(&pending.message))
    }

    /// Delete answered `done`.
    pub fn removed(&self, revision: &str) -> ProxyStatus {
        let mut status = self.advanced(revision);
        let message = format!("nothing is left of {}", self.name());
        status.instance = None;
        match status.failure.clone().filter(|failure| failure.reason == TOO_OFTEN && !self.record.deleting) {
            Some(failure) => {
                let message = format!("{message}; {}", failure.message);
                self.show(without_address(status), stuck(Truth::False, &failure.reason, &message))
            }
            None => self.show(without_address(status), self.leaving(&message)),
        }
    }

    /// A call failed.
    pub fn failed(&self, call: Call, error: &Error, failure: Failure) -> ProxyStatus {
        let mut status = match call {
            Call::Create | Call::Restart | Call::Delete => self.left_behind(error),
            Call::Get => self.record.status.clone(),
        };
        let (reason, message) = (failure.reason.clone(), told(&failure, error.class, call));
        let ran = status.conditions.iter().any(|c| c.type_ == READY && c.status == "True");
        let view = match (error.class, call) {
            (ErrorClass::Permanent, Call::Get) => stuck(Truth::Unknown, &reason, &message),
            (ErrorClass::Permanent, Call::Create | Call::Restart) => stuck(Truth::False, &reason, &message),
            (ErrorClass::Permanent, Call::Delete) => {
                let phase = self.leaving("").phase;
                View { phase, ..stuck(Truth::False, &reason, &message) }
            }
            (ErrorClass::Transient | ErrorClass::NotFound | ErrorClass::QuotaExceeded, Call::Get) => {
                let phase = if status.addresses.is_empty() { Phase::Provisioning } else { Phase::Running };
                let ready = match (ran, failure.count < DOUBT) {
                    (true, true) => (Truth::True, "running"),
                    (true, false) | (false, _) => (Truth::Unknown, reason.as_str()),
                };
                View { phase, ready, progressing: (Truth::True, &reason), message: &message }
            }
            (
                ErrorClass::Transient | ErrorClass::NotFound | ErrorClass::QuotaExceeded,
                Call::Create | Call::Restart,
            ) => going_on(Phase::Creating, &reason, &message),
            (ErrorClass::Transient | ErrorClass::NotFound | ErrorClass::QuotaExceeded, Call::Delete) => {
                View { progressing: (Truth::True, &reason), ..self.leaving(&message) }
            }
        };
        if call == Call::Create {
            status = without_address(status);
        }
        status.failure = Some(failure);
        self.show(status, view)
    }

    /// What is stored of a failure: bounded, counted, with the key and the time of the next attempt.
    pub fn failure(&self, error: &Error, key: String, rest: Duration) -> Failure {
        let retry_at = self.now.checked_add(rest).unwrap_or(Timestamp::MAX);
        Failure {
            class: error.class.as_str().to_owned(),
            reason: error.reason.chars().take(64).collect(),
            message: bounded(&error.message),
            count: self.count(error.class, &key),
            at: Some(Time(self.now)),
            retry_at: Some(Time(Timestamp::from_second(retry_at.as_second()).unwrap_or(retry_at))),
            key,
        }
    }

    /// The how manieth in a row of its class and key this one is.
    pub fn count(&self, class: ErrorClass, key: &str) -> u32 {
        let last = self.record.status.failure.as_ref();
        last.filter(|f| f.class == class.as_str() && f.key == key).map_or(0, |f| f.count).saturating_add(1)
    }

    fn name(&self) -> &str {
        self.record.status.instance.as_ref().map_or("the instance", |i| &i.name)
    }

    fn advanced(&self, revision: &str) -> ProxyStatus {
        let mut status = self.record.status.clone();
        status.revision = Some(revision.to_owned());
        status.failure = status.failure.filter(backoff::holds_up_restart);
        status
    }

    /// A failure may replace the progress, or have it forgotten.
    fn left_behind(&self, error: &Error) -> ProxyStatus {
        let mut status = self.record.status.clone();
        if let (Some(instance), Some(progress)) = (&mut status.instance, &error.progress) {
            instance.progress = Some(progress.to_string()).filter(|progress| !progress.is_empty());
        }
        status
    }

    fn seen(&self, seen: &Instance) -> ProxyStatus {
        let mut status = self.record.status.clone();
        if let Some(instance) = &mut status.instance {
            instance.id = Some(seen.id.clone());
        }
        status
    }

    fn leaving<'m>(&self, message: &'m str) -> View<'m> {
        if self.record.deleting {
            going_on(Phase::Deleting, "deleting", message)
        } else {
            going_on(Phase::Replacing, "replacing", message)
        }
    }

    fn show(&self, mut status: ProxyStatus, view: View<'_>) -> ProxyStatus {
        let at = (self.record.generation, self.now);
        status.phase = Some(view.phase);
        status.message = Some(bounded(view.message));
        status.observed_generation = Some(self.record.generation);
        for (kind, (truth, reason)) in [(READY, view.ready), (PROGRESSING, view.progressing)] {
            conditions::set(&mut status.conditions, kind, truth, reason, view.message, at);
        }
        // What was found of an instance that served says nothing of one that does not, nor of its successor.
        let found = |status: &ProxyStatus, kind| status.conditions.iter().any(|c| c.type_ == kind);
        for kind in [HEALTHY, UNIQUE].into_iter().filter(|_| view.phase != Phase::Running) {
            if found(&status, kind) {
                let reason = view.ready.1;
                conditions::set(&mut status.conditions, kind, Truth::Unknown, reason, view.message, at);
            }
        }
        status
    }
}

/// Not ready, and the operator is at it.
fn going_on<'a>(phase: Phase, reason: &'a str, message: &'a str) -> View<'a> {
    View { phase, ready: (Truth::False, reason), progressing: (Truth::True, reason), message }
}

/// Somebody else must act.
fn stuck<'a>(ready: Truth, reason: &'a str, message: &'a str) -> View<'a> {
    View { phase: Phase::Failed, ready: (ready, reason), progressing: (Truth::False, reason), message }
}

/// What is not tried again soon says how it is tried at once.
fn told(failure: &Failure, class: ErrorClass, call: Call) -> String {
    match (class, call) {
        (ErrorClass::Permanent, Call::Create | Call::Restart) => format!(
            "{}; it is tried again within the hour, or at once with a new value of the annotation \
             {RETRY_ANNOTATION}",
            failure.message
        ),
        _ => failure.message.clone(),
    }
}

fn without_address(mut status: ProxyStatus) -> ProxyStatus {
    status.address = None;
    status.addresses.clear();
    status
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// What the loop makes of a state.
pub fn is_running(seen: &Instance) -> bool {
    seen.state == State::Running && !seen.addresses.is_empty()
}
