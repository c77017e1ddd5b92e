//! A component beside the one that an entry runs, before anybody commits to it.
//!
//! What the operator would find at the stages `check` and `shadow`, found from somebody's own machine: the entry
//! comes from the providers ConfigMap, what is active from the kept revisions. Both only look.

use std::{collections::BTreeMap, sync::Arc};

use egress_capabilities::{Beside, HomeCluster};
use egress_contract::{EntryName, Fault, Installation, InvalidName};
use egress_runtime::{Candidate, Comparison, Module, Refusal, Runtime, Slot, capability::Always};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::{
    cluster::{CallError, Cluster, call},
    config::{InvalidEntry, Settings, read_entries},
    health,
    identity::{self, IdentityError},
    lend::{HomeSecrets, Lender},
    revisions::{Kept, Revisions},
};

/// What is compared, and where.
pub struct Trial {
    entry: EntryName,
    installation: Installation,
    settings: Settings,
    active: Kept,
    cluster: Cluster,
    /// Whether a grant means the cluster that was asked.
    pub needs_home: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What the candidate's revision would be called.
    pub revision: String,
    /// The places that it would have.
    pub places: Vec<String>,
    /// Beside what is active.
    pub comparison: Comparison,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An object can't be read.
    #[error("can't read {what}: {cause}")]
    Call {
        /// `ConfigMap egress-system/egress-providers`.
        what: String,
        /// Why.
        cause: CallError,
    },
    /// No such entry.
    #[error("ConfigMap {config_map} has no entry {entry}; it has: {entries}")]
    NoEntry {
        /// Where it was looked for.
        config_map: String,
        /// Which.
        entry: EntryName,
        /// What there is.
        entries: String,
    },
    /// The entry can't be read.
    #[error("{}{}", .0.message, .0.faults.iter().map(|fault| format!("\n  {fault}")).collect::<String>())]
    Entry(InvalidEntry),
    /// Nothing runs there.
    #[error(
        "entry {0} has no active revision, so there is nothing to compare with; see epo provider validate"
    )]
    NothingActive(EntryName),
    /// What runs can't be run here, or the component can't.
    #[error("{who} is refused at the stage {}: {}", .refusal.stage, .refusal.message)]
    Refused {
        /// `the active revision`, `the component`.
        who: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// What an entry's grants name can't be lent here.
    #[error("{who} can't be lent what it is granted:{}", .faults.iter().map(|fault| format!("\n  {fault}")).collect::<String>())]
    Grants {
        /// `the active revision`, `the component`.
        who: &'static str,
        /// What is wrong.
        faults: Vec<Fault>,
    },
    /// The installation is not known.
    #[error("{0}; or give --installation HASH: every instance's name is proxy-NAME-HASH-...")]
    Identity(IdentityError),
    /// What was given is no hash.
    #[error("--installation: {0}")]
    Hash(InvalidName),
}

impl TrialError {
    /// Whether the API server was not reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Call { cause, .. } if cause.is_unreachable())
    }
}

const ACTIVE: &str = "the active revision";
const COMPONENT: &str = "the component";

/// Reads what is to be compared; `most` bounds a component, unpacked.
pub async fn read(
    cluster: &Cluster,
    config_map: &str,
    entry: &EntryName,
    installation: Option<&str>,
    most: u64,
) -> Result<Trial, TrialError> {
    let settings = settings(cluster, config_map, entry).await?;
    let what = || format!("ProviderHealth {entry}");
    let health =
        health::read(cluster, entry).await.map_err(|cause| TrialError::Call { what: what(), cause })?;
    let active = health.and_then(|health| health.status?.active);
    let active = active.ok_or_else(|| TrialError::NothingActive(entry.clone()))?.revision;
    let restored = Revisions::new(cluster, entry.clone()).restore(&active, most).await;
    let active = restored.map_err(|refusal| TrialError::Refused { who: ACTIVE, refusal })?;
    let installation = match installation {
        Some(hash) => Installation::known_by(hash).map_err(TrialError::Hash)?,
        None => identity::find(cluster).await.map_err(TrialError::Identity)?.installation,
    };
    let needs_home = [&settings, &active.settings].iter().any(|settings| reaches_home(settings));
    Ok(Trial { entry: entry.clone(), installation, settings, active, cluster: cluster.clone(), needs_home })
}

async fn settings(cluster: &Cluster, config_map: &str, entry: &EntryName) -> Result<Settings, TrialError> {
    let whole = format!("{}/{config_map}", cluster.namespace);
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let failed = |cause| TrialError::Call { what: format!("ConfigMap {whole}"), cause };
    let data: BTreeMap<String, String> =
        call(api.get(config_map)).await.map_err(failed)?.data.unwrap_or_default();
    let mut found = read_entries(&data).entries;
    match found.remove(entry) {
        Some(Ok(read)) => Ok(read.settings),
        Some(Err(invalid)) => Err(TrialError::Entry(invalid)),
        None => Err(TrialError::NoEntry {
            config_map: whole,
            entry: entry.clone(),
            entries: found.keys().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn reaches_home(settings: &Settings) -> bool {
    let clusters = settings.grants.kubernetes.iter().flat_map(|grant| grant.clusters.values());
    clusters.into_iter().any(|cluster| cluster.operator)
}

impl Trial {
    /// What runs now.
    pub fn active(&self) -> &str {
        &self.active.about.revision
    }

    /// Compares; `home` is what `operator: true` in a grant stands for.
    pub async fn run(
        self,
        runtime: &Runtime,
        home: Option<HomeCluster>,
        module: Module,
    ) -> Result<Tried, TrialError> {
        let Self { entry, installation, settings, active, cluster, .. } = self;
        let beside = Beside {
            installation: installation.clone(),
            secrets: Some(Arc::new(HomeSecrets(cluster))),
            // The runtime denies both every write already.
            writes: Arc::new(Always),
        };
        let slot = Slot::new(runtime.clone(), entry.clone(), installation);
        // Of its own each: the grants may differ.
        let lend = |who, settings: &Settings| {
            let lent = Lender::new(entry.clone(), home.clone(), beside.clone()).lend(settings);
            lent.map_err(|faults| TrialError::Grants { who, faults })
        };
        let refused = |who| move |refusal| TrialError::Refused { who, refusal };
        let candidate = |module, settings: &Settings, lent| Candidate {
            module,
            pinned: None,
            config: settings.config.clone(),
            lent,
            grants: settings.lent_by(),
            limits: settings.limits.clone(),
            legacy: settings.legacy(),
        };
        let runs = candidate(active.module, &active.settings, lend(ACTIVE, &active.settings)?);
        let runs = slot.look_at(runs).await.map_err(refused(ACTIVE))?;
        let offered = candidate(module, &settings, lend(COMPONENT, &settings)?);
        let (revision, comparison) = slot.shadow(&runs, offered).await.map_err(refused(COMPONENT))?;
        Ok(Tried { revision: revision.id().to_string(), places: revision.places().to_vec(), comparison })
    }
}
