//! Revisions that were active, kept so that they can run again: after a restart whose source is broken, or
//! because somebody rolls back.
//!
//! Each is an immutable ConfigMap with the component and everything else that made it. What a list needs
//! stands in annotations, so that listing reads no component; they may change on an immutable ConfigMap, and
//! so tell when the revision was last taken up.
//!
//! A label is anybody's to set, and the oldest beyond ten are deleted: one counts only if it bears all that the
//! operator writes, under the name that follows from it.

use std::collections::BTreeMap;

use egress_contract::EntryName;
use egress_runtime::{Digest, Module, Refusal, Stage};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use serde_json::json;
use tracing::debug;

use crate::{
    api::ActiveRevision,
    cluster::{CallError, Cluster, FIELD_MANAGER, MANAGED_BY, call},
    config::Settings,
    core::names,
};

/// How many revisions of an entry are kept.
const KEPT: usize = 10;
const ENTRY: &str = "egressproxies.dev/entry";
const REVISION: &str = "egressproxies.dev/revision";
const LAST_ACTIVE: &str = "egressproxies.dev/last-active";
const MODULE: &str = "module.wasm.zst";
const SETTINGS: &str = "settings.json";
/// What an API server takes, less what the settings may need.
const MOST: usize = 1_000_000;
const ZSTD_LEVEL: i32 = 12;

/// One entry's revisions.
#[derive(Clone)]
pub struct Revisions {
    whole: Api<ConfigMap>,
    meta: Api<PartialObjectMeta<ConfigMap>>,
    entry: EntryName,
}

/// A revision as it was kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Who it is.
    pub about: ActiveRevision,
    /// Its component.
    pub module: Module,
    /// What the component must hash to.
    pub digest: Digest,
    /// What else made it.
    pub settings: Settings,
}

/// A revision that is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// It will never fit.
    #[error(
        "revision {revision} of entry {entry} is not kept: its component has {size} bytes compressed, more \
         than the {MOST} that fit into a ConfigMap; it can't be rolled back to, so keep the module itself"
    )]
    TooLarge {
        /// Which entry's.
        entry: EntryName,
        /// Which.
        revision: String,
        /// Compressed.
        size: usize,
    },
    /// May succeed later.
    #[error("revision {revision} of entry {entry} is not kept yet: {cause}")]
    Failed {
        /// Which entry's.
        entry: EntryName,
        /// Which.
        revision: String,
        /// Why.
        cause: String,
    },
}

impl Revisions {
    /// Of this entry.
    pub fn new(cluster: &Cluster, entry: EntryName) -> Self {
        let (client, namespace) = (&cluster.client, &cluster.namespace);
        Self {
            whole: Api::namespaced(client.clone(), namespace),
            meta: Api::namespaced(client.clone(), namespace),
            entry,
        }
    }

    /// Keeps a revision that became active, and drops the oldest beyond ten.
    pub async fn keep(
        &self,
        about: &ActiveRevision,
        settings: &Settings,
        module: &Module,
        needed: &[String],
    ) -> Result<(), KeepError> {
        let failed = |cause: String| KeepError::Failed {
            entry: self.entry.clone(),
            revision: about.revision.clone(),
            cause,
        };
        let name = self.name(&about.revision);
        let annotations = annotations(about);
        let again = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match call(self.whole.patch_metadata(&name, &params, &again)).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                let packed = pack(module.clone()).await.map_err(failed)?;
                let (entry, revision, size) = (self.entry.clone(), about.revision.clone(), packed.len());
                if size > MOST {
                    return Err(KeepError::TooLarge { entry, revision, size });
                }
                let made = self.config_map(&name, about, annotations, settings, packed).map_err(failed)?;
                match call(self.whole.create(&PostParams::default(), &made)).await {
                    Ok(_) => {}
                    Err(error) if error.is_already_exists() => {}
                    Err(error) if error.is_invalid() => {
                        return Err(KeepError::TooLarge { entry, revision, size });
                    }
                    Err(error) => return Err(failed(error.to_string())),
                }
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        self.prune(&about.revision, needed).await.map_err(|error| failed(error.to_string()))
    }

    /// Newest first.
    pub async fn history(&self) -> Result<Vec<ActiveRevision>, CallError> {
        let found = self.list().await?;
        Ok(found.iter().filter_map(|kept| told(&kept.metadata)).collect())
    }

    /// Reads one back.
    pub async fn restore(&self, revision: &str, most: u64) -> Result<Kept, Refusal> {
        if !names::is_revision(revision) {
            let message = format!(
                "spec.hold.revision of ProviderHealth {} is {revision:?}, but {}; see epo provider history {}",
                self.entry,
                names::REVISION,
                self.entry
            );
            return Err(refusal("RevisionInvalid", message));
        }
        let name = self.name(revision);
        let found = call(self.whole.get(&name)).await.map_err(|error| {
            let reason = if error.is_not_found() { "RevisionMissing" } else { "ApiServer" };
            refusal(reason, format!("revision {revision} was kept in ConfigMap {name}: {error}"))
        })?;
        let about = told(&found.metadata).ok_or_else(|| broken(&name, "its annotations"))?;
        let settings =
            found.data.as_ref().and_then(|data| data.get(SETTINGS)).ok_or_else(|| broken(&name, SETTINGS))?;
        let settings = serde_json::from_str(settings).map_err(|_| broken(&name, "readable settings"))?;
        let digest = about.digest.parse().map_err(|_| broken(&name, "a digest"))?;
        let raw = found
            .binary_data
            .and_then(|mut data| data.remove(MODULE))
            .ok_or_else(|| broken(&name, MODULE))?;
        let unpacked = tokio::task::spawn_blocking(move || Module::unpack(&raw.0, most)).await;
        let module = unpacked.map_err(|_| broken(&name, "a component that can be unpacked"))??;
        Ok(Kept { about, module, digest, settings })
    }

    async fn prune(&self, active: &str, needed: &[String]) -> Result<(), CallError> {
        for old in self.list().await?.into_iter().skip(KEPT) {
            let labels = old.metadata.labels.unwrap_or_default();
            let stays = |revision: &String| revision == active || needed.contains(revision);
            if labels.get(REVISION).is_some_and(stays) {
                continue;
            }
            // As it was seen: whoever changes it meanwhile may be making it his own.
            let (uid, resource_version) = (old.metadata.uid, old.metadata.resource_version);
            let only_this = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
            let name = old.metadata.name.unwrap_or_default();
            if let Err(error) = call(self.whole.delete(&name, &only_this)).await {
                debug!(entry = %self.entry, config_map = name, %error, "an old revision was not removed");
            }
        }
        Ok(())
    }

    /// Newest first.
    async fn list(&self) -> Result<Vec<PartialObjectMeta<ConfigMap>>, CallError> {
        let (key, value) = MANAGED_BY;
        let of_this_entry = ListParams::default().labels(&format!("{ENTRY}={},{key}={value}", self.entry));
        let mut found = call(self.meta.list(&of_this_entry)).await?.items;
        found.retain(|kept| self.is_ours(&kept.metadata));
        found.sort_by_cached_key(|kept| std::cmp::Reverse(last_active(&kept.metadata)));
        Ok(found)
    }

    /// Made by [`Self::config_map`], as far as that can be told without reading it whole.
    fn is_ours(&self, metadata: &ObjectMeta) -> bool {
        let label = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        let Some(about) = told(metadata).filter(|about| about.since.is_some()) else { return false };
        label(MANAGED_BY.0) == Some(MANAGED_BY.1)
            && label(ENTRY) == Some(self.entry.as_str())
            && label(REVISION) == Some(about.revision.as_str())
            && metadata.name == Some(self.name(&about.revision))
    }

    fn name(&self, revision: &str) -> String {
        format!("egress-revision-{}-{revision}", self.entry)
    }

    fn config_map(
        &self,
        name: &str,
        about: &ActiveRevision,
        annotations: BTreeMap<String, String>,
        settings: &Settings,
        packed: Vec<u8>,
    ) -> Result<ConfigMap, String> {
        let labels =
            [(ENTRY, self.entry.as_str()), (REVISION, about.revision.as_str()), (MANAGED_BY.0, MANAGED_BY.1)];
        let settings = serde_json::to_string_pretty(settings).map_err(|error| error.to_string())?;
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            data: Some([(SETTINGS.to_owned(), settings)].into()),
            binary_data: Some([(MODULE.to_owned(), ByteString(packed))].into()),
        })
    }
}

async fn pack(module: Module) -> Result<Vec<u8>, String> {
    let packed = tokio::task::spawn_blocking(move || {
        zstd::stream::encode_all(module.bytes().as_ref(), ZSTD_LEVEL).map_err(|error| error.to_string())
    });
    packed.await.map_err(|error| error.to_string())?
}

const ABOUT: &str = "egressproxies.dev/about";

fn annotations(about: &ActiveRevision) -> BTreeMap<String, String> {
    let since = about.since.as_ref().map_or_else(Timestamp::now, |since| since.0);
    let about = serde_json::to_string(&ActiveRevision { since: None, ..about.clone() });
    [(ABOUT.to_owned(), about.unwrap_or_default()), (LAST_ACTIVE.to_owned(), format!("{since:.6}"))].into()
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn last_active(metadata: &ObjectMeta) -> Option<Timestamp> {
    annotation(metadata, LAST_ACTIVE)?.parse().ok()
}

fn told(metadata: &ObjectMeta) -> Option<ActiveRevision> {
    let about: ActiveRevision = serde_json::from_str(annotation(metadata, ABOUT)?).ok()?;
    Some(ActiveRevision { since: last_active(metadata).map(Time), ..about })
}

fn broken(config_map: &str, what: &str) -> Refusal {
    refusal("RevisionBroken", format!("ConfigMap {config_map} lacks {what}; roll back to another revision"))
}

fn refusal(reason: &'static str, message: String) -> Refusal {
    Refusal { stage: Stage::Fetch, reason, message, faults: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_annotation_tells_reads_back() {
        let about = ActiveRevision {
            revision: "0123456789ab".to_owned(),
            version: "0.1.0".to_owned(),
            since: Some(Time("2026-01-02T03:04:05.123456Z".parse().unwrap())),
            ..ActiveRevision::default()
        };
        let metadata = ObjectMeta { annotations: Some(annotations(&about)), ..ObjectMeta::default() };
        assert_eq!(told(&metadata), Some(about));
        assert_eq!(told(&ObjectMeta::default()), None);
    }
}
