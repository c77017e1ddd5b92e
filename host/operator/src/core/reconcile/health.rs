//! What probes found of a Proxy, taken into its status, and what follows from it.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use egress_contract::Instance;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Active, Flow, Reconciler};
use crate::{
    api::Phase,
    core::{
        budget,
        conditions::HEALTHY,
        decide::holder,
        probe::{Check, Report, State, Target, forgotten, known, told},
        status::is_running,
        store::{ActiveProvider, Providers, ProxyRecord, Store, StoreError},
    },
};

/// Whether an unhealthy instance is to be replaced.
enum Fate {
    /// It is none of those, or it is not time.
    Stays,
    /// It is time, but this speaks against it.
    Kept(String),
    /// It is time.
    Goes,
}

impl<S: Store, P: Providers> Reconciler<S, P> {
    /// A look at what is made: first at what is known of it.
    pub(super) async fn look(
        &self,
        record: ProxyRecord,
        active: &Active,
        holding: &ActiveProvider,
    ) -> Result<Flow, StoreError> {
        if record.status.phase != Some(Phase::Running) {
            return self.get(record, holding).await;
        }
        let Some(check) = Check::of(holding.health.as_ref(), record.spec.health_check.as_ref()) else {
            self.setup.fleet.leave(&record.key);
            let status = forgotten(&record.status);
            let record = self.write(record, status).await?;
            return self.get(record, holding).await;
        };
        let Some(report) = self.setup.fleet.report(&record.key, &record.uid) else {
            return self.get(record, holding).await;
        };
        let now = self.setup.clock.now();
        let at = (record.generation, Timestamp::from_second(now.as_second()).unwrap_or(now));
        let fate = self.fate(&record, &report, active, holding);
        let kept = if let Fate::Kept(why) = &fate { Some(why.as_str()) } else { None };
        let status = told(&record.status, &check, &report, kept, at);
        let record = self.write(record, status).await?;
        match fate {
            Fate::Stays | Fate::Kept(_) => self.get(record, holding).await,
            Fate::Goes => {
                let before = record.status.ends.iter().map(|end| end.0);
                let ends = budget::ends(before, now, holding.replace.per_hour);
                let status = self.change(&record).unhealthy(ends);
                self.setup.fleet.leave(&record.key);
                Ok(Flow::On(Box::new(self.write(record, status).await?)))
            }
        }
    }

    fn fate(&self, record: &ProxyRecord, report: &Report, active: &Active, holding: &ActiveProvider) -> Fate {
        let after = record.spec.health_check.as_ref().and_then(|check| check.replace_after_seconds);
        let (Some(after), State::Unhealthy(_)) = (after, &report.state) else { return Fate::Stays };
        let now = self.setup.clock.now();
        let unhealthy = record.status.conditions.iter().find(|c| c.type_ == HEALTHY && c.status == "False");
        let lasted = unhealthy.map(|condition| now.duration_since(condition.last_transition_time.0));
        let lasted = lasted.and_then(|lasted| Duration::try_from(lasted).ok()).unwrap_or_default();
        if lasted < Duration::from_secs(after.into()) || !self.setup.fleet.still_fails(&record.key) {
            return Fate::Stays;
        }
        let ends: Vec<_> = record.status.ends.iter().map(|end| end.0).collect();
        if budget::used_up(&ends, holding.replace.per_hour, now).is_some() {
            return Fate::Kept(
                "its instances were replaced as often within an hour as replace.perHour of its entry allows"
                    .to_owned(),
            );
        }
        if let Some(why) = self.setup.fleet.keeps(&record.key, holder(record)) {
            return Fate::Kept(why);
        }
        if !self.may_be_taken_down(record, active) {
            return Fate::Kept("as many of its entry as replace.atOnce says are being replaced".to_owned());
        }
        Fate::Goes
    }

    /// A look that found it up, or on its way. What is stored may be older than what the look was about.
    pub(super) async fn seen(
        &self,
        (stored, known): (ProxyRecord, ProxyRecord),
        seen: &Instance,
        active: &ActiveProvider,
    ) -> Result<Flow, StoreError> {
        let pace = &self.setup.pace;
        let change = self.change(&known);
        let (status, interval) = if is_running(seen) {
            (change.running(seen, pace.steady), pace.running)
        } else {
            (change.provisioning(seen), pace.provisioning)
        };
        let before = known.status.phase;
        let record = self.write(stored, status).await?;
        self.watch(&record, before, active);
        Ok(self.rest(record, interval))
    }

    /// It serves, as this pass found: from now on it is probed.
    pub(super) fn watch(&self, record: &ProxyRecord, before: Option<Phase>, active: &ActiveProvider) {
        let Some(check) = Check::of(active.health.as_ref(), record.spec.health_check.as_ref()) else {
            return self.setup.fleet.leave(&record.key);
        };
        let ip = record.status.address.as_ref().and_then(|address| address.parse::<IpAddr>().ok());
        let (Some(instance), Some(ip)) = (&record.status.instance, ip) else {
            // What is no address, but perhaps a name, is not looked up.
            return self.setup.fleet.leave(&record.key);
        };
        let target = Target {
            uid: record.uid.clone(),
            instance: instance.name.clone(),
            entry: instance.provider.clone(),
            at: SocketAddr::new(ip, record.spec.port),
            check: check.at(ip),
        };
        // A status that spoke of another instance, or of this one before it stood still, is no word on it.
        let known = (before == Some(Phase::Running)).then(|| known(&record.status)).flatten();
        self.setup.fleet.watch(&record.key, target, known, Instant::now());
    }

    /// What does not serve is not probed.
    pub(super) fn settle_probes(&self, record: &ProxyRecord) {
        if record.status.phase != Some(Phase::Running) || record.deleting {
            self.setup.fleet.leave(&record.key);
        }
    }
}
