//! A candidate that makes the next few Proxies before it gets all calls.
//!
//! One process gives places and judges, the one that leads; the others hold the candidate ready. What one must know who
//! takes over stands in two places: when the trial began in the ProviderHealth, and what became of its Proxies in their
//! statuses. Places are given only once the first is stored, and a verdict stands only if a live reading of all Proxies
//! says the same.
//!
//! Put aside is held: the old revision by a hold against the candidate, which bears the reason.

use std::{sync::Arc, time::Duration};

use egress_runtime::{Revision, Slot};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tracing::{info, warn};

use super::{EntryLoop, Offer, Pass, choice::Choice, choose};
use crate::{
    api::{CanaryStatus, Hold},
    cluster::CallError,
    config::Settings,
    core::{
        canary::{Canary, Candidate, Rollout, Verdict},
        store::Notice,
    },
    health::{self, Shown},
    rollback,
    view::cut,
};

/// What can't be read or written is tried again after this.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two looks at whether the beginning of a trial is stored, and how many there are.
const STORED: (Duration, u32) = (Duration::from_millis(100), 50);
/// How long the watch may take to show a hold that was just stored.
const SHOWN: Duration = Duration::from_secs(10);
const LONGEST_REASON: usize = 1024;

/// A revision on trial.
pub(super) struct Trial {
    revision: Arc<Revision>,
    source: String,
    settings: Settings,
    module: egress_runtime::Module,
    canary: Arc<Canary>,
    rollout: Rollout,
    /// The term in which this process gives places.
    term: Option<u32>,
}

/// Whether something runs while a candidate is tried.
pub(super) enum Standby {
    Runs,
    /// The candidate is what is to run.
    Nothing,
    /// It is not known now.
    Unread,
}

/// What became of a trial.
pub(super) enum Tended {
    /// It goes on, or there is none; to be looked at again after this.
    Goes(Option<Duration>),
    /// It was adopted or put aside.
    Over,
}

/// Until something else is known of the canary.
pub(super) async fn moved(trial: Option<&Trial>) {
    match trial {
        Some(trial) => trial.canary.changed().await,
        None => std::future::pending().await,
    }
}

impl EntryLoop {
    /// Sees to it that the revision before the candidate runs, also after a start.
    pub(super) async fn stand_by(&mut self, offer: &Offer) -> Standby {
        let offered = Slot::revision_id(&offer.candidate).to_string();
        if let Some(active) = self.slot.active() {
            return if active.id().to_string() == offered { Standby::Nothing } else { Standby::Runs };
        }
        let before = self.before.as_ref().map(|before| before.revision.clone());
        let Some(before) = before.filter(|before| *before != offered) else { return Standby::Nothing };
        if self.outlets.view.borrow().canary.as_ref().is_some_and(|canary| canary.revision == offered) {
            // What it began waits for it.
            let canary = Canary::new(None, self.named(offered), offer.swap.rollout.unwrap_or_default());
            self.outlets.canary.send_replace(Some(Arc::new(canary)));
        }
        match self.take_kept(&before).await {
            Ok(()) => Standby::Runs,
            Err(refusal) if refusal.reason == "ApiServer" => {
                self.stop_trial();
                Standby::Unread
            }
            Err(refusal) => {
                warn!(
                    entry = %self.slot.entry(), revision = before, %refusal,
                    "the revision before can't run any more; its successor is taken up without a canary"
                );
                Standby::Nothing
            }
        }
    }

    pub(super) async fn try_out(&mut self, offer: Offer, rollout: Rollout) -> Pass {
        let id = Slot::revision_id(&offer.candidate).to_string();
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.canary.of.revision == id) {
            trial.rollout = rollout;
            trial.source = offer.source;
            trial.canary.set_rollout(rollout);
            self.show_trial();
            return Pass::Settled;
        }
        if self.trial.is_some() {
            // What is offered is no longer what is on trial.
            self.end_trial();
        }
        let Offer { candidate, source, settings, swap } = offer;
        let module = candidate.module.clone();
        let digest = module.digest().to_string();
        let slot = Arc::clone(&self.slot);
        let revision = match self.unless_overtaken(slot.prepare(candidate, swap.shadow)).await {
            None => return Pass::Overtaken,
            Some(Err(refusal)) => {
                self.stop_trial();
                return self.refused(refusal, digest).await;
            }
            Some(Ok(revision)) => revision,
        };
        self.outlets.view.send_if_modified(|view| view.refusal.take().is_some());
        let canary = Arc::new(Canary::new(Some(revision.clone()), self.named(id), rollout));
        // Before it is known who leads: who takes over is to go on at once.
        self.outlets.canary.send_replace(Some(Arc::clone(&canary)));
        self.trial = Some(Trial { revision, source, settings, module, canary, rollout, term: None });
        Pass::Settled
    }

    fn named(&self, revision: String) -> Candidate {
        Candidate { entry: self.slot.entry().to_string(), revision }
    }

    /// It makes nothing more.
    fn stop_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            trial.canary.end();
        }
        self.outlets.canary.send_replace(None);
    }

    /// There is none, and people see that there is none.
    pub(super) fn end_trial(&mut self) {
        self.stop_trial();
        self.outlets.view.send_if_modified(|view| view.canary.take().is_some());
    }

    /// Gives places, looks, judges.
    pub(super) async fn tend(&mut self) -> Tended {
        let Some(trial) = &self.trial else { return Tended::Goes(None) };
        let shown = self.inlets.shown.borrow_and_update().clone();
        let Some(term) = *self.inlets.leadership.borrow() else {
            return self.follow_trial(shown).await;
        };
        if trial.term != Some(term) {
            return match self.begin_trial(term).await {
                Ok(tended) => tended,
                Err(why) => {
                    warn!(entry = %self.slot.entry(), why, "a revision on trial makes nothing yet");
                    // Creates are not to wait for that.
                    self.trial.iter().for_each(|trial| trial.canary.shut());
                    Tended::Goes(Some(AGAIN))
                }
            };
        }
        self.show_trial();
        match self.verdict() {
            Verdict::Wait(until) => return Tended::Goes(until.map(left)),
            Verdict::Adopt | Verdict::PutAside(_) => {}
        }
        // What a process holds in memory can be behind: a Proxy that went without a word.
        if let Err(why) = self.read_all().await {
            warn!(entry = %self.slot.entry(), why, "a revision on trial is not judged yet");
            return Tended::Goes(Some(AGAIN));
        }
        self.show_trial();
        match self.verdict() {
            Verdict::Wait(until) => Tended::Goes(until.map(left)),
            Verdict::Adopt => self.adopt_trial().await,
            Verdict::PutAside(why) => self.put_aside(&why).await,
        }
    }

    fn verdict(&self) -> Verdict {
        let now = Timestamp::now();
        self.trial.as_ref().map_or(Verdict::Wait(None), |trial| trial.canary.verdict(now))
    }

    /// Without the lead: what the process says that has it.
    async fn follow_trial(&mut self, shown: Shown) -> Tended {
        let Some(trial) = &mut self.trial else { return Tended::Goes(None) };
        let on_trial = &trial.canary.of.revision;
        if shown.active.as_ref() == Some(on_trial) {
            return self.adopt_trial().await;
        }
        if trial.term.take().is_some() {
            trial.canary.close();
        }
        if let Some(canary) = shown.canary.filter(|canary| canary.revision == *on_trial) {
            self.outlets.view.send_if_modified(|view| view.canary.replace(canary.clone()) != Some(canary));
        }
        Tended::Goes(None)
    }

    /// When the trial began is stored before it gives a place.
    async fn begin_trial(&mut self, term: u32) -> Result<Tended, String> {
        let Some(trial) = &self.trial else { return Ok(Tended::Goes(None)) };
        let id = trial.canary.of.revision.clone();
        let stored = self.stored().await.map_err(|error| error.to_string())?;
        if stored.active.as_ref() == Some(&id) {
            return Ok(self.adopt_trial().await);
        }
        let goes_on = stored.canary.into_iter().chain(self.outlets.view.borrow().canary.clone());
        let goes_on = goes_on.filter(|canary| canary.revision == id).map(|canary| canary.since.0).min();
        let since = goes_on.unwrap_or_else(|| whole_second(Timestamp::now()));
        self.show_since(since);
        let mut looks = 0;
        while self
            .stored()
            .await
            .map_err(|error| error.to_string())?
            .canary
            .is_none_or(|c| c.revision != id || c.since.0 != since)
        {
            looks += 1;
            if looks > STORED.1 {
                return Err("its ProviderHealth does not show it yet".to_owned());
            }
            tokio::time::sleep(STORED.0).await;
        }
        let Some(trial) = &self.trial else { return Ok(Tended::Goes(None)) };
        trial.canary.begin(since);
        self.read_all().await?;
        let Some(trial) = &mut self.trial else { return Ok(Tended::Goes(None)) };
        trial.term = Some(term);
        let Rollout { first_proxies, within_seconds } = trial.rollout;
        info!(entry = %self.slot.entry(), revision = id, first_proxies, within_seconds, "a revision is on trial");
        if goes_on.is_none() {
            let description = trial.revision.description();
            let message = format!(
                "{} {} is on trial as revision {id}: it makes the next {first_proxies} Proxies, and gets all calls once they \
                 are ready",
                cut(&description.name, 128),
                cut(&description.version, 128)
            );
            self.tell(Notice { warning: false, reason: "OnTrial".to_owned(), message }).await;
        }
        // Whoever has no instance may have a place now.
        let _ = self.outlets.changes.send(self.slot.entry().to_string()).await;
        // At once: what was read may be the end of it.
        Ok(Tended::Goes(Some(Duration::ZERO)))
    }

    async fn stored(&self) -> Result<Shown, CallError> {
        let found = health::read(&self.site.cluster, self.slot.entry()).await?;
        Ok(Shown::of(found.and_then(|found| found.status).as_ref()))
    }

    async fn read_all(&self) -> Result<(), String> {
        let Some(trial) = &self.trial else { return Ok(()) };
        trial.canary.reread();
        let all = self.site.owners.of_entry(self.slot.entry()).await;
        trial.canary.open(
            all.map_err(|error| format!("the Proxies of {} can't be read: {}", error.of, error.cause))?,
        );
        Ok(())
    }

    fn show_trial(&self) {
        let since = self.outlets.view.borrow().canary.as_ref().map(|canary| canary.since.0);
        if let Some(since) = since.filter(|_| self.trial.is_some()) {
            self.show_since(since);
        }
    }

    fn show_since(&self, since: Timestamp) {
        let Some(trial) = &self.trial else { return };
        let (made, ready) = trial.canary.figures();
        let figure = |figure: usize| i32::try_from(figure).unwrap_or(i32::MAX);
        let Rollout { first_proxies, within_seconds } = trial.rollout;
        let description = trial.revision.description();
        let canary = CanaryStatus {
            revision: trial.canary.of.revision.clone(),
            name: cut(&description.name, 128),
            version: cut(&description.version, 128),
            since: Time(since),
            first_proxies: i32::try_from(first_proxies).unwrap_or(i32::MAX),
            within_seconds: i32::try_from(within_seconds).unwrap_or(i32::MAX),
            made: figure(made),
            ready: figure(ready),
        };
        self.outlets.view.send_if_modified(|view| view.canary.replace(canary.clone()) != Some(canary));
    }

    /// All calls go to it from now on.
    async fn adopt_trial(&mut self) -> Tended {
        let Some(trial) = self.trial.take() else { return Tended::Over };
        self.slot.adopt(&trial.revision).await;
        trial.canary.end();
        self.outlets.canary.send_replace(None);
        self.outlets.view.send_modify(|view| view.canary = None);
        let Trial { revision, source, settings, module, .. } = trial;
        self.activated(revision, source, settings, module).await;
        Tended::Over
    }

    /// It begins nothing more from here on, whether that can be stored now or not. Until it is stored, what it began is
    /// its own, so that who takes over finds what went wrong.
    async fn put_aside(&mut self, why: &str) -> Tended {
        let (Some(trial), Some(active)) = (&self.trial, self.slot.active()) else { return Tended::Over };
        trial.canary.shut();
        let candidate = trial.canary.of.revision.clone();
        let reason = cut(&format!("revision {candidate} was put aside: {why}"), LONGEST_REASON);
        let hold = Hold {
            revision: active.id().to_string(),
            instead_of: Some(candidate.clone()),
            reason: Some(reason.clone()),
        };
        let stands = |before: &Hold| matches!(choose(&candidate, Some(before)), Choice::Held(_));
        match rollback::put_aside(&self.site.cluster, self.slot.entry(), &hold, stands).await {
            Ok(true) => {
                let message = format!(
                    "{reason}; revision {} goes on, until the source offers another one; tried again by: epo provider resume {}",
                    hold.revision,
                    self.slot.entry()
                );
                warn!(entry = %self.slot.entry(), revision = candidate, held = hold.revision, why, "a revision on trial is put aside");
                self.tell(Notice { warning: true, reason: "PutAside".to_owned(), message }).await;
            }
            // Somebody holds a revision already.
            Ok(false) => {}
            Err(error) => {
                warn!(entry = %self.slot.entry(), revision = candidate, why, %error, "a revision on trial is to be put aside, and that can't be stored yet");
                return Tended::Goes(Some(AGAIN));
            }
        }
        // Or the next pass would not know of it.
        let mut holds = self.inlets.hold.clone();
        let shown = holds.wait_for(|hold| hold.as_ref().is_some_and(stands));
        if tokio::time::timeout(SHOWN, shown).await.is_err() {
            warn!(entry = %self.slot.entry(), "the watch of ProviderHealths is late");
        }
        self.end_trial();
        // The Proxies that it could not make go on by what is active.
        let _ = self.outlets.changes.send(self.slot.entry().to_string()).await;
        Tended::Over
    }
}

fn left(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default() + Duration::from_millis(50)
}

/// As statuses keep times.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
