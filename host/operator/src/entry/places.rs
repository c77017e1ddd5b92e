//! Places that a candidate left out, while instances may stand there.
//!
//! Who had which places stands beside each kept revision, and who may have something there is read from the Proxies; so a
//! start and another replica find the same. Only then is a kept revision loaded again, to look at and remove what is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use egress_runtime::{Candidate, Shadow, Slot};
use tokio::time::Instant;
use tracing::{info, warn};

use super::EntryLoop;
use crate::{
    api::ActiveRevision,
    core::former::{Former, Was},
    lend::Lender,
};

/// Between two looks at who may still have something at a removed place.
const LOOK: Duration = Duration::from_secs(60);
/// The same, where the last one failed.
const AGAIN: Duration = Duration::from_secs(5);

/// What was found of the places that are no longer.
#[derive(Default)]
pub(super) struct Places {
    /// None where nothing is to be looked at again.
    due: Option<Instant>,
    /// Loaded again, by their ids.
    loaded: BTreeMap<String, Was>,
}

impl EntryLoop {
    /// Finds out what of the removed places is still needed; answers when to look again.
    pub(super) async fn see_to_places(&mut self) -> Option<Duration> {
        let active = self.slot.active()?;
        let id = active.id().to_string();
        let known = self.outlets.former.borrow().as_ref().is_some_and(|former| former.beside == id);
        let now = Instant::now();
        match self.places.due {
            Some(due) if known && due > now => return Some(due - now),
            None if known => return None,
            Some(_) | None => {}
        }
        let (former, look_again) = match self.find_former(&id, active.places()).await {
            Ok(former) => {
                let look_again =
                    (!former.is_nothing()).then_some(if former.unknown.is_some() { AGAIN } else { LOOK });
                (former, look_again)
            }
            Err(why) => {
                warn!(entry = %self.slot.entry(), why, "what stands at removed places is not known yet");
                (Former::new(id, Vec::new(), BTreeSet::new(), Some(why)), Some(AGAIN))
            }
        };
        let former = former.with_places(active.places());
        self.places.due = look_again.map(|wait| now + wait);
        let names = |former: &Former| former.had.iter().map(|was| was.revision.clone()).collect::<Vec<_>>();
        let told = self.outlets.former.send_if_modified(|before| {
            let same = before.as_ref().is_some_and(|before| {
                before.beside == former.beside
                    && before.unknown == former.unknown
                    && names(before) == names(&former)
                    && before.harmless == former.harmless
            });
            if !same {
                *before = Some(Arc::new(former));
            }
            !same
        });
        if told {
            // Those wait for it whose instance may stand there.
            let _ = self.outlets.changes.send(self.slot.entry().to_string()).await;
        }
        look_again
    }

    /// Kept revisions that must stay.
    pub(super) fn needed(&self) -> Vec<String> {
        self.places.loaded.keys().cloned().collect()
    }

    async fn find_former(&mut self, id: &str, places: &[String]) -> Result<Former, String> {
        let history = self
            .site
            .revisions
            .history()
            .await
            .map_err(|error| format!("the kept revisions can't be read: {error}"))?;
        let removed = |kept: &ActiveRevision| -> BTreeSet<String> {
            kept.places.iter().filter(|place| !places.contains(place)).cloned().collect()
        };
        let (harmless, harmful): (Vec<_>, Vec<_>) = history.iter().partition(|kept| removed(kept).is_empty());
        let harmless: BTreeSet<String> = harmless.into_iter().map(|kept| kept.revision.clone()).collect();
        if harmful.is_empty() {
            self.places.loaded.clear();
            return Ok(Former::new(id.to_owned(), Vec::new(), harmless, None));
        }
        let all = self.site.owners.of_entry(self.slot.entry()).await;
        let all =
            all.map_err(|error| format!("the Proxies of {} can't be read: {}", error.of, error.cause))?;
        // With all of them, to ask it whom they concern.
        let any = Former::new(id.to_owned(), Vec::new(), harmless.clone(), Some(String::new()));
        let instances = all.iter().filter_map(|(_, status, _)| status.instance.as_ref());
        let makers: BTreeSet<Option<String>> = instances
            .filter(|instance| any.concerns(instance))
            .map(|instance| instance.created_by.clone())
            .collect();
        let kept: BTreeMap<&str, BTreeSet<String>> =
            harmful.iter().map(|kept| (kept.revision.as_str(), removed(kept))).collect();
        // One that is not kept may have had any of them.
        let mut needed: BTreeSet<String> = makers
            .iter()
            .flat_map(|maker| match maker.as_ref().and_then(|maker| kept.get(maker.as_str())) {
                Some(places) => places.clone(),
                None => kept.values().flatten().cloned().collect(),
            })
            .collect();
        let mut had = Vec::new();
        let mut unknown = None;
        for revision in harmful {
            let its: Vec<String> = removed(revision).intersection(&needed).cloned().collect();
            if its.is_empty() {
                continue;
            }
            match self.former(revision, &its).await {
                Ok(was) => {
                    needed.retain(|place| !its.contains(place));
                    had.push(was);
                }
                Err(why) => unknown = Some(why),
            }
        }
        // An older one may have done instead.
        let unknown = unknown.filter(|_| !needed.is_empty());
        self.places.loaded = had.iter().map(|was| (was.revision.clone(), was.clone())).collect();
        Ok(Former::new(id.to_owned(), had, harmless, unknown))
    }

    async fn former(&self, kept: &ActiveRevision, places: &[String]) -> Result<Was, String> {
        let revision = &kept.revision;
        if let Some(loaded) = self.places.loaded.get(revision) {
            return Ok(Was { places: places.to_vec(), ..loaded.clone() });
        }
        let cant = |why: String| {
            format!("revision {revision}, which had {}, can't be run: {why}", places.join(", "))
        };
        let restored = self.site.revisions.restore(revision, self.most).await;
        let restored = restored.map_err(|refusal| cant(refusal.message))?;
        // With capabilities of its own: the active revision's are another grant's.
        let mut lender: Lender = self.lender.another();
        let settings = &restored.settings;
        let lent = lender
            .lend(settings)
            .map_err(|faults| cant(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
        let candidate = Candidate {
            lent,
            module: restored.module,
            pinned: Some(restored.digest),
            config: settings.config.clone(),
            grants: settings.lent_by(),
            limits: settings.limits.clone(),
            legacy: settings.legacy(),
        };
        let slot: &Slot = &self.slot;
        let provider =
            slot.prepare(candidate, Shadow::Skip).await.map_err(|refusal| cant(refusal.message))?;
        info!(entry = %self.slot.entry(), revision, ?places, "an earlier revision looks after what stands at removed places");
        Ok(Was { revision: revision.clone(), places: places.to_vec(), provider })
    }
}
