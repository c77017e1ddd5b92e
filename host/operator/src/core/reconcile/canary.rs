//! Which revision a Proxy's calls go to, while a canary is out.
//!
//! Steps of create alone go to the candidate, of the Proxies that have a place. It makes what it began, and everything
//! else stays where it was: a look, a delete and a list by the revision that is active.

use std::{borrow::Cow, time::Duration};

use egress_contract::{Error, ErrorClass};

use super::Active;
use crate::core::{
    canary::{Canary, Place},
    store::{ActiveProvider, ProxyKey, ProxyRecord},
};

/// A create waits so long while it is found out who has a place.
pub(super) const OPENING: Duration = Duration::from_secs(1);

impl Active {
    /// What a Proxy has come to, for the canaries that may be about it.
    pub(super) fn note(&self, record: &ProxyRecord) {
        for canary in self.canaries() {
            canary.note(&record.key, &record.status, record.deleting);
        }
    }

    /// It is not ours any more.
    pub(super) fn leave(&self, key: &ProxyKey) {
        for canary in self.canaries() {
            canary.leave(key);
        }
    }

    fn canaries(&self) -> impl Iterator<Item = &Canary> {
        self.0.iter().filter_map(|(_, active)| active.as_ref().ok()?.canary.as_deref())
    }
}

/// Who takes a step of create; None while it is not known whether the candidate does.
pub(super) fn route<'a>(record: &ProxyRecord, active: &'a ActiveProvider) -> Option<Cow<'a, ActiveProvider>> {
    let Some(canary) = &active.canary else { return Some(Cow::Borrowed(active)) };
    let its = match &record.status.instance {
        None => canary.take(&record.key),
        Some(_) if canary.makes(&record.key, &record.status) => Place::Taken,
        Some(_) => Place::None,
    };
    match its {
        Place::None => Some(Cow::Borrowed(active)),
        Place::Unknown => None,
        Place::Taken => {
            let (provider, revision) = (canary.provider.clone()?, canary.of.revision.clone());
            Some(Cow::Owned(ActiveProvider { provider, revision, ..active.clone() }))
        }
    }
}

/// Whether the active revision is to say what it makes of a Proxy that the candidate refused, and at once.
pub(super) fn is_doubted(looks: &ActiveProvider, makes: &ActiveProvider, error: &Error) -> bool {
    let refused = matches!(error.class, ErrorClass::Permanent | ErrorClass::QuotaExceeded);
    refused && looks.revision != makes.revision
}

/// The revision that goes on with what was begun for a Proxy.
pub(super) fn maker<'a>(active: &'a ActiveProvider, record: &ProxyRecord) -> &'a str {
    let unmade = record.status.instance.as_ref().is_some_and(|instance| !instance.created);
    match &active.canary {
        Some(canary) if unmade && canary.makes(&record.key, &record.status) => &canary.of.revision,
        Some(_) | None => &active.revision,
    }
}
