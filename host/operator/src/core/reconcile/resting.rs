//! What holds a Proxy up: its failures, and the places that others have.

use std::time::Duration;

use egress_contract::{Error, ErrorClass};

use super::{Active, Flow, Reconciler};
use crate::{
    api::{Failure, Phase, ProxyStatus, RETRY_ANNOTATION},
    core::{
        backoff::{self, Call, held_up},
        budget::{self, Kind, recovery},
        conditions, decide,
        status::TOO_OFTEN,
        store::{ActiveProvider, Providers, ProxyRecord, Store, StoreError},
    },
};

impl<S: Store, P: Providers> Reconciler<S, P> {
    /// An instance ended by itself: what is left of it goes at once, its successor comes after a rest that
    /// grows with each that ends so.
    pub(super) async fn ended(
        &self,
        record: ProxyRecord,
        active: &ActiveProvider,
        error: Error,
    ) -> Result<Flow, StoreError> {
        let error = Error { class: ErrorClass::Transient, retry_after: None, ..error };
        let (now, per_hour) = (self.setup.clock.now(), active.replace.per_hour);
        let before: Vec<_> = record.status.ends.iter().map(|end| end.0).collect();
        let left = budget::used_up(&before, per_hour, now);
        let ends = budget::ends(before, now, per_hour);
        let (failure, _) = match left {
            None => self.restart_failure(&record, active, &error),
            Some(left) => {
                let message = format!("{}; {}", told_often(ends.len()), error.message);
                let error = Error { reason: TOO_OFTEN.to_owned(), message, ..error.clone() };
                let key = self.key(Call::Restart, &record, active, &[]);
                (self.change(&record).failure(&error, key, left), left)
            }
        };
        let status = self.change(&record).ended(&error, failure, ends);
        let record = self.write(record, status).await?;
        Ok(Flow::Rest(Box::new(record), Duration::ZERO))
    }

    pub(super) fn restart_failure(
        &self,
        record: &ProxyRecord,
        active: &ActiveProvider,
        error: &Error,
    ) -> (Failure, Duration) {
        let key = self.key(Call::Restart, record, active, &[]);
        self.failure(record, Call::Restart, error, key)
    }

    pub(super) async fn failed(
        &self,
        record: ProxyRecord,
        call: Call,
        key: String,
        error: &Error,
    ) -> Result<Flow, StoreError> {
        // Only a look may say that something is gone: elsewhere it would hide what is left.
        let class = match error.class {
            ErrorClass::NotFound | ErrorClass::Transient => ErrorClass::Transient,
            ErrorClass::Permanent => ErrorClass::Permanent,
            ErrorClass::QuotaExceeded => ErrorClass::QuotaExceeded,
        };
        let error = Error { class, ..error.clone() };
        let (failure, rest) = self.failure(&record, call, &error, key);
        let status = self.change(&record).failed(call, &error, failure);
        let record = self.write(record, status).await?;
        Ok(self.rest_held_up(record, rest))
    }

    pub(super) fn failure(
        &self,
        record: &ProxyRecord,
        call: Call,
        error: &Error,
        key: String,
    ) -> (Failure, Duration) {
        let change = self.change(record);
        let count = change.count(error.class, &key);
        let pace = match (error.class, call) {
            // Both look before they touch anything, and somebody waits for what they find.
            (ErrorClass::Permanent, Call::Get | Call::Delete) => ErrorClass::QuotaExceeded,
            (class, _) => class,
        };
        let rest = self.setup.pace.rest(pace, count, error.retry_after, &self.setup.dice);
        (change.failure(error, key, rest), rest)
    }

    pub(super) fn held_up(
        &self,
        record: &ProxyRecord,
        key: &str,
        active: &ActiveProvider,
    ) -> Option<Duration> {
        let (failure, now) = (record.status.failure.as_ref(), self.setup.clock.now());
        let left = held_up(failure, key, now)?;
        if failure.is_some_and(|failure| failure.reason == TOO_OFTEN) {
            // A host that comes and goes is what this is about.
            return Some(left);
        }
        let named = record.spec.placement.as_ref().and_then(|placement| placement.zone.as_deref());
        let recovered = recovery(&active.recoveries, named);
        let free = backoff::set_free(failure, recovered, &record.uid, self.setup.pace.herd, now);
        Some(free.map_or(left, |free| left.min(free))).filter(|left| !left.is_zero())
    }

    pub(super) fn may_be_taken_down(&self, record: &ProxyRecord, active: &Active) -> bool {
        let entry = &record.spec.provider;
        let at_once = active.of(entry).map(|active| active.replace.at_once).unwrap_or_default();
        self.budgets.take(entry, Kind::Replacing, &record.key, at_once)
    }

    /// Who serves as he is wanted needs no place; who rests on a failure does not come back now.
    pub(super) fn settle_at_rest(&self, record: &ProxyRecord) {
        let now = self.setup.clock.now();
        let retry_at = record.status.failure.as_ref().and_then(|failure| failure.retry_at.as_ref());
        if record.deleting || (serves(record) && decide::is_current(record)) {
            self.budgets.leave(&record.key);
        } else if retry_at.is_some_and(|at| at.0 > now) {
            self.budgets.give_back(Kind::Returning, &record.key);
        }
    }

    /// In pieces: what sets the failure free may come without a word.
    pub(super) fn rest_held_up(&self, record: ProxyRecord, left: Duration) -> Flow {
        Flow::Rest(Box::new(record), left.min(self.setup.pace.recheck))
    }
}

/// Whether people can use it now.
pub(super) fn serves(record: &ProxyRecord) -> bool {
    let instance = record.status.instance.as_ref();
    conditions::is_ready(&record.status) && instance.is_some_and(|instance| !instance.deleting)
}

/// Whether it served, was taken down for a changed spec, and does not serve yet.
pub(super) fn is_under_way(record: &ProxyRecord) -> bool {
    let ProxyStatus { phase, incarnation, failure, instance, .. } = &record.status;
    let ended = failure.as_ref().is_some_and(backoff::holds_up_restart);
    let made = instance.as_ref().is_some_and(|instance| instance.created);
    let replaced = match phase {
        Some(Phase::Replacing) => true,
        Some(Phase::Creating | Phase::Provisioning) => *incarnation > 1,
        Some(Phase::Failed) => *incarnation > 1 && !made,
        Some(Phase::Waiting | Phase::Running | Phase::Stopped | Phase::Deleting) | None => false,
    };
    replaced && !ended && !record.deleting
}

fn told_often(times: usize) -> String {
    format!(
        "its instances ended by themselves {times} times within an hour, as often as replace.perHour of its entry \
         allows; the next one comes when the hour is over, or at once with a new value of the annotation \
         {RETRY_ANNOTATION}"
    )
}
