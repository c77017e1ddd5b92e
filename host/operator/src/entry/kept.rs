//! Revisions that were active before: taken up where a hold says so, or where the source has nothing to run.

use std::time::Duration;

use egress_runtime::{Candidate, Refusal, Shadow, Stage};
use tracing::warn;

use super::{EntryLoop, FALLBACKS, Pass, RECHECK, RETRY};
use crate::{api::Hold, core::store::Notice, revisions::KeepError, view};

impl EntryLoop {
    /// Runs the held revision, whatever the source offers.
    pub(super) async fn take_held(&mut self, revision: &str, hold: Option<&Hold>) -> Pass {
        self.end_trial();
        if self.is_active(revision) {
            self.outlets.view.send_if_modified(|view| view.refusal.take().is_some());
            return Pass::Settled;
        }
        match self.take_kept(revision).await {
            Ok(()) => {
                self.outlets.view.send_if_modified(|view| view.refusal.take().is_some());
                Pass::Settled
            }
            Err(refusal) => {
                self.refuse(view::refusal(&refusal, None), hold).await;
                self.fall_back(None).await;
                Pass::Again(RETRY)
            }
        }
    }

    pub(super) async fn take_kept(&mut self, revision: &str) -> Result<(), Refusal> {
        let kept = self.site.revisions.restore(revision, self.most).await?;
        let candidate = self.candidate(kept.module.clone(), &kept.settings).map_err(|faults| Refusal {
            stage: Stage::Link,
            reason: "GrantsInvalid",
            message: format!("the grants of revision {revision} can't be lent any more"),
            faults,
        })?;
        // It ran before, and somebody wants it back: what is active now is no measure for it.
        let candidate = Candidate { pinned: Some(kept.digest), ..candidate };
        let loaded = self.slot.load_with(candidate, Shadow::Skip).await?;
        self.activated(loaded, kept.about.source, kept.settings, kept.module).await;
        Ok(())
    }

    /// Where nothing is active, what was active last: a start must not depend on its sources.
    pub(super) async fn fall_back(&mut self, hold: Option<&Hold>) -> Pass {
        if let Some(hold) = hold.filter(|hold| !self.is_active(&hold.revision)) {
            return match self.take_kept(&hold.revision).await {
                Ok(()) => Pass::Settled,
                Err(_) => Pass::Again(RETRY),
            };
        }
        if self.slot.active().is_some() || self.fell_back {
            return Pass::Settled;
        }
        let Ok(history) = self.site.revisions.history().await else {
            return Pass::Again(RETRY);
        };
        self.fell_back = true;
        let offered = self.offered.clone();
        let earlier = history.into_iter().filter(|kept| Some(&kept.revision) != offered.as_ref());
        for kept in earlier.take(FALLBACKS) {
            match self.take_kept(&kept.revision).await {
                Ok(()) => break,
                Err(refusal) => {
                    warn!(entry = %self.slot.entry(), revision = kept.revision, %refusal, "a kept revision is not taken up");
                }
            }
        }
        Pass::Settled
    }

    /// On the last revision that there was: there is no source any more.
    pub(super) async fn leave(&mut self, hold: Option<&Hold>) -> Pass {
        self.end_trial();
        self.source = None;
        self.outlets.view.send_if_modified(|view| view.offered.take().is_some());
        self.offered = None;
        match (self.fall_back(hold).await, self.slot.active()) {
            (pass, Some(_)) => pass,
            (_, None) => {
                self.fell_back = false;
                Pass::Again(RECHECK)
            }
        }
    }

    /// Keeps what became active; answers when to try again.
    pub(super) async fn keep(&mut self) -> Option<Duration> {
        if self.inlets.leadership.borrow_and_update().is_none() {
            return None;
        }
        let (about, settings, module) = self.unkept.take()?;
        match self.site.revisions.keep(&about, &settings, &module, &self.needed()).await {
            Ok(()) => {}
            Err(error @ KeepError::TooLarge { .. }) => {
                let (reason, message) = ("RevisionNotKept".to_owned(), error.to_string());
                self.tell(Notice { warning: true, reason, message }).await;
            }
            Err(error @ KeepError::Failed { .. }) => {
                warn!(%error, "a revision can't be rolled back to yet");
                self.unkept = Some((about, settings, module));
                return Some(RETRY.1);
            }
        }
        if let Ok(history) = self.site.revisions.history().await {
            let earlier: Vec<_> =
                history.into_iter().filter(|kept| kept.revision != about.revision).collect();
            self.outlets.view.send_modify(|view| view.history = earlier);
        }
        None
    }
}
