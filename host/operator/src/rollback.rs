//! History, rollback and hold of an entry, as people ask for them.
//!
//! A rollback is a hold in the entry's ProviderHealth: the running operator takes it up, it lasts over
//! restarts, and it ends by itself when the source offers something that is not the revision held back. A hold
//! by hand is the same without an end: it stands until it is resumed.

use egress_contract::EntryName;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    api::{ActiveRevision, CanaryStatus, Hold, ProviderHealth},
    cluster::{CallError, Cluster, call},
    revisions::Revisions,
};

/// A revision that is kept, or active.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// Who it is; `since` is when it last became active.
    pub about: ActiveRevision,
    /// Calls go to it.
    pub active: bool,
    /// A hold keeps it active.
    pub held: bool,
    /// The hold stands until somebody resumes.
    pub until_resumed: bool,
    /// Why the operator holds it.
    pub why_held: Option<String>,
    /// It makes the next few Proxies, and gets no other calls yet.
    pub on_trial: bool,
    /// The source offers it.
    pub offered: bool,
    /// It can be rolled back to. What became active a moment ago is not kept yet, and what is too large never.
    pub kept: bool,
}

/// What a rollback did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// What is to run.
    pub to: String,
    /// What ran when it was asked for.
    pub from: Option<String>,
    /// The hold that was set; none when the source offers that very revision, so that no hold is needed.
    pub hold: Option<Hold>,
}

/// Why nothing was rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// No such entry.
    #[error("there is no ProviderHealth {0}: either no such entry, or the operator does not run")]
    NoEntry(EntryName),
    /// Nothing to hold.
    #[error("entry {0} has no active revision to hold; name one of epo provider history {0}")]
    NothingActive(EntryName),
    /// Nothing to go back to.
    #[error("entry {0} has no earlier revision that is kept")]
    NoEarlier(EntryName),
    /// Not kept.
    #[error("entry {entry} has no revision {revision}; there are: {kept}")]
    NoRevision {
        /// Which entry.
        entry: EntryName,
        /// What was asked for.
        revision: String,
        /// What there is.
        kept: String,
    },
    /// Several begin so.
    #[error("revision {revision} of entry {entry} could be any of {kept}; give more of it")]
    Ambiguous {
        /// Which entry.
        entry: EntryName,
        /// What was asked for.
        revision: String,
        /// What it could be.
        kept: String,
    },
    /// The API server did not do it.
    #[error("entry {entry}: {cause}")]
    Call {
        /// Which entry.
        entry: EntryName,
        /// Why.
        cause: CallError,
    },
}

impl RollbackError {
    /// Whether the API server was not reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Call { cause, .. } if cause.is_unreachable())
    }
}

/// Newest first.
pub async fn history(client: Client, namespace: &str, entry: &EntryName) -> Result<Vec<Past>, RollbackError> {
    let (health, kept) = look(client, namespace, entry).await?;
    Ok(past(health, kept))
}

fn past(health: ProviderHealth, kept: Vec<ActiveRevision>) -> Vec<Past> {
    let status = health.status.unwrap_or_default();
    let hold = health.spec.hold;
    let holds = |about: &ActiveRevision| hold.as_ref().filter(|hold| hold.revision == about.revision);
    let is_active = |about: &ActiveRevision| {
        status.active.as_ref().is_some_and(|active| active.revision == about.revision)
    };
    let past = |about: ActiveRevision, kept: bool| Past {
        active: is_active(&about),
        held: holds(&about).is_some(),
        until_resumed: holds(&about).is_some_and(|hold| hold.instead_of.is_none()),
        why_held: holds(&about).and_then(|hold| hold.reason.clone()),
        on_trial: status.canary.as_ref().is_some_and(|canary| canary.revision == about.revision),
        offered: status.offered.as_ref() == Some(&about.revision),
        kept,
        about,
    };
    // It may have been active before, and be kept since.
    let on_trial = status.canary.clone();
    let on_trial = on_trial.filter(|canary| kept.iter().all(|kept| kept.revision != canary.revision));
    let on_trial = on_trial.map(|canary| {
        let CanaryStatus { revision, name, version, since, .. } = canary;
        ActiveRevision { revision, name, version, since: Some(since), ..ActiveRevision::default() }
    });
    // It is kept only after calls go to it.
    let unkept = status.active.clone().filter(|_| !kept.iter().any(&is_active));
    let unkept = on_trial.into_iter().chain(unkept).map(|about| past(about, false));
    unkept.chain(kept.into_iter().map(|about| past(about, true))).collect()
}

/// Goes back to `revision` (or what it begins with), or to the one before the newest that gets calls: while one is on
/// trial, that is the active one.
pub async fn rollback(
    client: Client,
    namespace: &str,
    entry: &EntryName,
    revision: Option<&str>,
) -> Result<RolledBack, RollbackError> {
    let (health, kept) = look(client.clone(), namespace, entry).await?;
    let status = health.status.clone().unwrap_or_default();
    let from = status.active.as_ref().map(|active| active.revision.clone());
    let on_trial = status.canary.is_some();
    let to = match (revision, &from) {
        // It may be too new, or too large, to be kept: that it runs is enough.
        (None, Some(active)) if on_trial => active.clone(),
        (revision, from) => target(entry, &kept, from.as_deref(), revision)?,
    };
    let hold = hold(&to, status.offered.as_deref(), from.as_deref(), health.spec.hold.as_ref());
    put(client, entry, &health, hold.as_ref()).await?;
    Ok(RolledBack { to, from, hold })
}

/// Keeps `revision` (or what it begins with), or the active one, until it is resumed.
pub async fn hold_on(
    client: Client,
    namespace: &str,
    entry: &EntryName,
    revision: Option<&str>,
) -> Result<Hold, RollbackError> {
    let (health, kept) = look(client.clone(), namespace, entry).await?;
    let active = health.status.as_ref().and_then(|status| status.active.as_ref());
    let revision = match (revision, active) {
        (Some(revision), _) => revision,
        (None, Some(active)) => active.revision.as_str(),
        (None, None) => return Err(RollbackError::NothingActive(entry.clone())),
    };
    let revision = target(entry, &kept, None, Some(revision))?;
    let hold = Hold { revision, instead_of: None, reason: None };
    put(client, entry, &health, Some(&hold)).await?;
    Ok(hold)
}

/// Ends a hold, whoever set it; answers which.
pub async fn resume(
    client: Client,
    namespace: &str,
    entry: &EntryName,
) -> Result<Option<Hold>, RollbackError> {
    let (health, _) = look(client.clone(), namespace, entry).await?;
    let Some(hold) = health.spec.hold.clone() else { return Ok(None) };
    put(client, entry, &health, None).await?;
    Ok(Some(hold))
}

/// Holds what runs against a candidate that failed; false if a hold stands already, as `stands` sees it.
pub(crate) async fn put_aside(
    cluster: &Cluster,
    entry: &EntryName,
    hold: &Hold,
    stands: impl Fn(&Hold) -> bool,
) -> Result<bool, CallError> {
    let api: Api<ProviderHealth> = Api::all(cluster.client.clone());
    for tried in 1.. {
        let found = call(api.get(entry.as_str())).await?;
        if found.spec.hold.as_ref().is_some_and(&stands) {
            return Ok(false);
        }
        let patch =
            json!({ "metadata": { "resourceVersion": found.resource_version() }, "spec": { "hold": hold } });
        match call(api.patch(entry.as_str(), &PatchParams::default(), &Patch::Merge(patch))).await {
            Ok(_) => break,
            Err(cause) if cause.is_conflict() && tried < TRIES => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(true)
}

/// How often a hold is tried again that a write of the status came before.
const TRIES: usize = 10;

/// Unless somebody changed the hold meanwhile.
async fn put(
    client: Client,
    entry: &EntryName,
    seen: &ProviderHealth,
    hold: Option<&Hold>,
) -> Result<(), RollbackError> {
    // A merge keeps what is not named: a hold without an end says so.
    let hold = hold.map(
        |hold| json!({ "revision": hold.revision, "insteadOf": hold.instead_of, "reason": hold.reason }),
    );
    let api: Api<ProviderHealth> = Api::all(client);
    let failed = |cause| RollbackError::Call { entry: entry.clone(), cause };
    let mut version = seen.resource_version();
    for tried in 1.. {
        let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "hold": hold } });
        let patched = call(api.patch(entry.as_str(), &PatchParams::default(), &Patch::Merge(patch))).await;
        let cause = match patched {
            Ok(_) => break,
            Err(cause) if cause.is_conflict() && tried < TRIES => cause,
            Err(cause) => return Err(failed(cause)),
        };
        let newer = call(api.get(entry.as_str())).await.map_err(failed)?;
        if newer.spec.hold != seen.spec.hold {
            return Err(failed(cause));
        }
        version = newer.resource_version();
    }
    Ok(())
}

async fn look(
    client: Client,
    namespace: &str,
    entry: &EntryName,
) -> Result<(ProviderHealth, Vec<ActiveRevision>), RollbackError> {
    let failed = |cause| RollbackError::Call { entry: entry.clone(), cause };
    let api: Api<ProviderHealth> = Api::all(client.clone());
    let health = call(api.get_opt(entry.as_str())).await.map_err(failed)?;
    let health = health.ok_or_else(|| RollbackError::NoEntry(entry.clone()))?;
    let cluster = Cluster { client, namespace: namespace.to_owned() };
    let kept = Revisions::new(&cluster, entry.clone()).history().await.map_err(failed)?;
    Ok((health, kept))
}

fn target(
    entry: &EntryName,
    kept: &[ActiveRevision],
    active: Option<&str>,
    asked: Option<&str>,
) -> Result<String, RollbackError> {
    let names = |found: &[&ActiveRevision]| {
        found.iter().map(|kept| kept.revision.as_str()).collect::<Vec<_>>().join(", ")
    };
    let Some(asked) = asked else {
        let earlier = kept.iter().find(|kept| Some(kept.revision.as_str()) != active);
        return earlier
            .map(|kept| kept.revision.clone())
            .ok_or_else(|| RollbackError::NoEarlier(entry.clone()));
    };
    let found: Vec<_> =
        kept.iter().filter(|kept| !asked.is_empty() && kept.revision.starts_with(asked)).collect();
    match found.as_slice() {
        [only] => Ok(only.revision.clone()),
        [] => Err(RollbackError::NoRevision {
            entry: entry.clone(),
            revision: asked.to_owned(),
            kept: names(&kept.iter().collect::<Vec<_>>()),
        }),
        several => Err(RollbackError::Ambiguous {
            entry: entry.clone(),
            revision: asked.to_owned(),
            kept: names(several),
        }),
    }
}

/// Against what the source offers now; where that is not known, against what it offered when it was held
/// back before, or what runs. What stands until it is resumed goes on standing.
fn hold(to: &str, offered: Option<&str>, active: Option<&str>, before: Option<&Hold>) -> Option<Hold> {
    let revision = to.to_owned();
    if before.is_some_and(|hold| hold.instead_of.is_none()) {
        return Some(Hold { revision, instead_of: None, reason: None });
    }
    let before = before.and_then(|hold| hold.instead_of.as_deref());
    let instead_of = offered.or(before).or(active).unwrap_or_default();
    (instead_of != to).then(|| Hold { revision, instead_of: Some(instead_of.to_owned()), reason: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ProviderHealthStatus;

    fn kept(revisions: &[&str]) -> Vec<ActiveRevision> {
        revisions
            .iter()
            .map(|r| ActiveRevision { revision: (*r).to_owned(), ..ActiveRevision::default() })
            .collect()
    }

    #[test]
    fn what_is_active_is_shown_before_it_is_kept() {
        let status = ProviderHealthStatus {
            active: Some(ActiveRevision { revision: "ddd".to_owned(), ..ActiveRevision::default() }),
            offered: Some("ddd".to_owned()),
            ..ProviderHealthStatus::default()
        };
        let spec = crate::api::ProviderHealthSpec::default();
        let health = ProviderHealth { status: Some(status), ..ProviderHealth::new("kubernetes", spec) };
        let shown = |revisions: &[&str]| {
            let past = past(health.clone(), kept(revisions));
            past.into_iter().map(|past| (past.about.revision, past.active, past.kept)).collect::<Vec<_>>()
        };
        let of = |revision: &str, active, kept| (revision.to_owned(), active, kept);
        assert_eq!(shown(&["ccc"]), [of("ddd", true, false), of("ccc", false, true)]);
        assert_eq!(shown(&["ddd", "ccc"]), [of("ddd", true, true), of("ccc", false, true)]);
    }

    fn to(active: Option<&str>, asked: Option<&str>) -> Result<String, String> {
        let entry = "kubernetes".parse().unwrap();
        target(&entry, &kept(&["ccc", "abc", "abd"]), active, asked).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_name_it_goes_to_the_newest_that_is_not_active() {
        assert_eq!(to(Some("ccc"), None).unwrap(), "abc");
        assert_eq!(to(Some("abc"), None).unwrap(), "ccc");
        let entry: EntryName = "kubernetes".parse().unwrap();
        assert!(target(&entry, &kept(&["ccc"]), Some("ccc"), None).is_err());
    }

    #[test]
    fn a_beginning_that_fits_one_is_enough() {
        assert_eq!(to(None, Some("abd")).unwrap(), "abd");
        assert_eq!(to(None, Some("c")).unwrap(), "ccc");
        assert!(to(None, Some("ab")).unwrap_err().contains("abc, abd"));
        assert!(to(None, Some("x")).unwrap_err().contains("ccc, abc, abd"));
        assert!(to(None, Some("")).is_err());
    }

    #[test]
    fn the_hold_is_against_what_the_source_offers_even_if_that_was_refused() {
        let held = hold("old", Some("refused"), Some("running"), None).unwrap();
        assert_eq!(held.instead_of.as_deref(), Some("refused"));
        assert_eq!(hold("old", None, Some("running"), None).unwrap().instead_of.as_deref(), Some("running"));
    }

    #[test]
    fn going_back_to_what_the_source_offers_ends_the_hold() {
        let before = Hold { revision: "old".to_owned(), instead_of: Some("new".to_owned()), reason: None };
        assert_eq!(hold("new", Some("new"), Some("old"), Some(&before)), None);
    }

    #[test]
    fn a_rollback_of_what_is_held_by_hand_is_held_by_hand() {
        let before = Hold { revision: "old".to_owned(), instead_of: None, reason: None };
        for to in ["older", "new"] {
            let hold = hold(to, Some("new"), Some("old"), Some(&before));
            assert_eq!(hold, Some(Hold { revision: to.to_owned(), instead_of: None, reason: None }));
        }
    }
}
