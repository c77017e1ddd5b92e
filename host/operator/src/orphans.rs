//! What collectors found and nobody owns, as people ask for it, and their word that it may go.

use egress_contract::EntryName;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::DeserializeGuard,
};
use serde_json::json;

use crate::{
    api::{COLLECT_ANNOTATION, CollectorStatus, ProviderHealth},
    cluster::{CallError, call},
};

/// One that can't be read hides no other.
type Health = DeserializeGuard<ProviderHealth>;

/// What the collector of one entry found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The entry.
    pub entry: String,
    /// What its last sweep said.
    pub collector: CollectorStatus,
}

/// Why nothing is shown, or nothing was confirmed.
#[derive(Debug, thiserror::Error)]
pub enum OrphansError {
    /// No such entry.
    #[error("there is no ProviderHealth {0}: either no such entry, or the operator does not run")]
    NoEntry(EntryName),
    /// There is nothing to say yes to.
    #[error(
        "the collector of entry {0} asks nothing: what has no owner is removed by itself after two sweeps and its \
         grace; see what it found: epo orphans {0}"
    )]
    AsksNothing(EntryName),
    /// The API server did not do it.
    #[error("can't {what}: {cause}")]
    Call {
        /// `list ProviderHealths`.
        what: String,
        /// Why.
        cause: CallError,
    },
}

impl OrphansError {
    /// Whether the API server was not reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Call { cause, .. } if cause.is_unreachable())
    }
}

/// Of one entry, or of all.
pub async fn find(client: Client, entry: Option<&EntryName>) -> Result<Vec<Found>, OrphansError> {
    let listed = call(Api::<Health>::all(client).list(&ListParams::default())).await;
    let listed = listed.map_err(|cause| OrphansError::Call { what: "list ProviderHealths".into(), cause })?;
    let found: Vec<Found> = listed
        .into_iter()
        .filter(|health| entry.is_none_or(|entry| entry.as_str() == health.name_any()))
        .map(|health| Found {
            entry: health.name_any(),
            collector: health.0.ok().and_then(|health| health.status).unwrap_or_default().collector,
        })
        .collect();
    match entry {
        Some(entry) if found.is_empty() => Err(OrphansError::NoEntry(entry.clone())),
        _ => Ok(found),
    }
}

/// Says yes to what the collector of an entry asks now; answers the sweep and how many instances it is about.
pub async fn confirm(client: Client, entry: &EntryName) -> Result<Found, OrphansError> {
    let mut found = find(client.clone(), Some(entry)).await?;
    let found = found.pop().ok_or_else(|| OrphansError::NoEntry(entry.clone()))?;
    let Some(asks) = &found.collector.asks else { return Err(OrphansError::AsksNothing(entry.clone())) };
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { (COLLECT_ANNOTATION): asks.sweep } } }));
    let patched =
        call(Api::<Health>::all(client).patch(entry.as_str(), &PatchParams::default(), &patch)).await;
    let what = || format!("annotate ProviderHealth {entry}");
    patched.map_err(|cause| OrphansError::Call { what: what(), cause })?;
    Ok(found)
}
