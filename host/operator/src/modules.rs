//! Where components come from: `binaryData` of ConfigMaps, images in registries, and files below one directory.
//!
//! A ConfigMap is watched by its metadata alone and read when that changes: fifty modules of a megabyte
//! would else be held in memory, and listed at every start. Each is watched by its name, so the right to
//! watch can be granted by name, too. A directory is looked at twice a second, since notifications don't
//! reach across the links that a mounted volume is swapped by; a file counts once it stopped changing.

mod oci;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use egress_runtime::{Module, Refusal, Stage};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{io::AsyncReadExt, sync::watch};
use tracing::debug;

use crate::{
    cluster::{CallError, Cluster, call},
    config::ModuleRef,
    lend::HomeSecrets,
};
use oci::Registries;

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A source that failed is tried again after this, doubled each time.
pub const RETRY: Pace = (Duration::from_secs(1), Duration::from_secs(30));

/// The first pause and the longest.
pub type Pace = (Duration, Duration);

/// Something that differs when the source's content may differ; none while there is none.
pub type Version = Option<String>;

/// A component as its source offers it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The component.
    pub module: Module,
    /// Where it was, for people.
    pub source: String,
    /// What it was read at.
    pub version: Version,
}

/// Why there is no component.
#[derive(Clone, Debug)]
pub struct NotFetched {
    /// For the status.
    pub refusal: Refusal,
    /// When to look again, where the content may be another one without a change being seen.
    pub retry: Option<Pace>,
    /// What it was read at, if so much was seen.
    pub version: Version,
}

/// All sources.
#[derive(Clone)]
pub struct Modules {
    cluster: Cluster,
    directory: Option<PathBuf>,
    registries: Registries,
    /// The size of an unpacked component.
    most: u64,
}

impl Modules {
    /// `most` bounds an unpacked component.
    pub fn new(cluster: Cluster, directory: Option<PathBuf>, most: u64) -> Self {
        let registries = Registries::new(Arc::new(HomeSecrets(cluster.clone())));
        Self { cluster, directory, registries, most }
    }

    /// Tells each change of a source, until nobody listens.
    pub async fn watch(&self, module: &ModuleRef, changes: watch::Sender<Version>) {
        match module {
            ModuleRef::ConfigMap { namespace, name, .. } => {
                let namespace = namespace.as_ref().unwrap_or(&self.cluster.namespace);
                let api = Api::namespaced(self.cluster.client.clone(), namespace);
                tokio::select! {
                    () = watch_config_map(api, name, &changes) => {}
                    () = changes.closed() => {}
                }
            }
            ModuleRef::Oci(image) => tokio::select! {
                () = self.registries.watch(image, &changes) => {}
                () = changes.closed() => {}
            },
            ModuleRef::File(file) => match &self.directory {
                Some(directory) => {
                    let path = directory.join(file);
                    tokio::select! {
                        () = watch_file(&path, &changes) => {}
                        () = changes.closed() => {}
                    }
                }
                None => changes.closed().await,
            },
        }
    }

    /// Reads and unpacks.
    pub async fn fetch(&self, module: &ModuleRef) -> Result<Fetched, NotFetched> {
        let (raw, source, version) = match module {
            ModuleRef::ConfigMap { namespace, name, key } => {
                let namespace = namespace.as_ref().unwrap_or(&self.cluster.namespace);
                self.read_config_map(namespace, name, key.as_deref()).await?
            }
            ModuleRef::File(file) => self.read_file(file).await?,
            ModuleRef::Oci(image) => self.registries.read(image, self.most).await?,
        };
        let most = self.most;
        let unpacked = tokio::task::spawn_blocking(move || Module::unpack(&raw, most)).await;
        let unpacked = unpacked.unwrap_or_else(|error| {
            Err(refusal("UnpackFailed", format!("unpacking the module of {source} failed: {error}")))
        });
        match unpacked {
            Ok(module) => Ok(Fetched { module, source, version }),
            Err(mut refusal) => {
                refusal.message = format!("{source}: {}", refusal.message);
                Err(NotFetched { refusal, retry: None, version })
            }
        }
    }

    async fn read_config_map(
        &self,
        namespace: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<Raw, NotFetched> {
        let api: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), namespace);
        let found = call(api.get(name)).await.map_err(|error| not_read(namespace, name, &error))?;
        let version = found.metadata.resource_version.clone();
        pick(found, namespace, name, key).map_err(|refusal| NotFetched { refusal, retry: None, version })
    }

    async fn read_file(&self, file: &Path) -> Result<Raw, NotFetched> {
        let Some(directory) = &self.directory else {
            let message = format!(
                "the entry names the file {}, but the operator has no directory of modules; start it with \
                 --modules-dir, or put the module into a ConfigMap",
                file.display()
            );
            return Err(NotFetched { refusal: refusal("NoDirectory", message), retry: None, version: None });
        };
        let path = directory.join(file);
        let source = format!("file {}", file.display());
        let version = stamp(&path).await;
        let raw = read_at_most(&path, self.most).await.map_err(|refusal| NotFetched {
            retry: Some(RETRY),
            version: version.clone(),
            refusal,
        })?;
        Ok((raw, source, version))
    }
}

type Raw = (Vec<u8>, String, Version);

fn pick(found: ConfigMap, namespace: &str, name: &str, key: Option<&str>) -> Result<Raw, Refusal> {
    let what = format!("ConfigMap {namespace}/{name}");
    let version = found.metadata.resource_version;
    let mut binary = found.binary_data.unwrap_or_default();
    let text = found.data.unwrap_or_default();
    let keys = binary.keys().cloned().collect::<Vec<_>>().join(", ");
    let key = match (key, binary.len()) {
        (Some(key), _) => key.to_owned(),
        (None, 1) => keys.clone(),
        (None, 0) => {
            let message = format!(
                "{what} has nothing under binaryData; put the component there: epo provider configmap writes it"
            );
            return Err(refusal("KeyMissing", message));
        }
        (None, _) => {
            let message = format!("{what} has several keys ({keys}); name one in module.configMap.key");
            return Err(refusal("KeyAmbiguous", message));
        }
    };
    if let Some(raw) = binary.remove(&key) {
        return Ok((raw.0, format!("{what}, key {key}"), version));
    }
    if text.contains_key(&key) {
        let message = format!("{what} has {key} under data, as text; a component belongs under binaryData");
        return Err(refusal("KeyIsText", message));
    }
    let message = format!(
        "{what} has no key {key} under binaryData; it has: {keys}; change module.configMap.key in the entry, or add it there"
    );
    Err(refusal("KeyMissing", message))
}

fn not_read(namespace: &str, name: &str, error: &CallError) -> NotFetched {
    let what = format!("ConfigMap {namespace}/{name}");
    let refusal = if error.is_not_found() {
        refusal("ConfigMapMissing", format!("{what} does not exist; create it, or change the entry's module"))
    } else if error.is_forbidden() {
        refusal("Forbidden", format!("{what}: {error}; grant the operator get and watch on it"))
    } else {
        refusal("ApiServer", format!("{what} was not read: {error}; it is tried again"))
    };
    NotFetched { refusal, retry: Some(RETRY), version: None }
}

fn refusal(reason: &'static str, message: String) -> Refusal {
    Refusal { stage: Stage::Fetch, reason, message, faults: Vec::new() }
}

/// Ends never: kube's watcher begins again by itself, with a growing pause.
async fn watch_config_map(
    api: Api<PartialObjectMeta<ConfigMap>>,
    name: &str,
    changes: &watch::Sender<Version>,
) {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(api, only).default_backoff().boxed();
    // Between Init and InitDone an object is told only if it is there.
    let mut listed = None;
    loop {
        let version = match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => {
                listed = None;
                continue;
            }
            Ok(Some(watcher::Event::InitApply(found))) => {
                listed = found.metadata.resource_version;
                continue;
            }
            Ok(Some(watcher::Event::InitDone)) => listed.take(),
            Ok(Some(watcher::Event::Apply(found))) => found.metadata.resource_version,
            Ok(Some(watcher::Event::Delete(_))) => None,
            Ok(None) => return,
            Err(error) => {
                debug!(config_map = name, %error, "the watch of a module was interrupted");
                continue;
            }
        };
        tell(changes, version);
    }
}

async fn watch_file(path: &Path, changes: &watch::Sender<Version>) {
    let mut before = stamp(path).await;
    tell(changes, before.clone());
    loop {
        tokio::time::sleep(LOOK).await;
        let now = stamp(path).await;
        if now == before {
            tell(changes, now);
        } else {
            before = now;
        }
    }
}

fn tell(changes: &watch::Sender<Version>, version: Version) {
    changes.send_if_modified(|known| {
        let changed = *known != version;
        *known = version;
        changed
    });
}

/// Time, size and file behind all links.
async fn stamp(path: &Path) -> Version {
    let found = tokio::fs::metadata(path).await.ok().filter(|found| found.is_file())?;
    let changed = found.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let inode = std::os::unix::fs::MetadataExt::ino(&found);
    Some(format!("{}.{:09} {} {inode}", changed.as_secs(), changed.subsec_nanos(), found.len()))
}

async fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, Refusal> {
    let told = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            refusal("FileMissing", format!("file {} does not exist; put the module there", path.display()))
        }
        _ => refusal("FileUnreadable", format!("file {}: {error}", path.display())),
    };
    let file = tokio::fs::File::open(path).await.map_err(told)?;
    let mut raw = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut raw).await.map_err(told)?;
    if raw.len() as u64 > most {
        let message =
            format!("file {} has more than {most} bytes, the most that a module may have", path.display());
        return Err(refusal("TooLarge", message));
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn config_map(binary: &[&str], text: &[&str]) -> ConfigMap {
        ConfigMap {
            binary_data: Some(
                binary.iter().map(|k| ((*k).to_owned(), ByteString(k.as_bytes().to_vec()))).collect(),
            ),
            data: Some(text.iter().map(|k| ((*k).to_owned(), String::new())).collect()),
            ..ConfigMap::default()
        }
    }

    fn picked(found: ConfigMap, key: Option<&str>) -> Result<Vec<u8>, &'static str> {
        pick(found, "ns", "modules", key).map(|(raw, ..)| raw).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn the_only_key_need_not_be_named() {
        assert_eq!(picked(config_map(&["a.wasm"], &[]), None), Ok(b"a.wasm".to_vec()));
        assert_eq!(picked(config_map(&["a", "b"], &[]), Some("b")), Ok(b"b".to_vec()));
        assert_eq!(picked(config_map(&["a", "b"], &[]), None), Err("KeyAmbiguous"));
    }

    #[test]
    fn a_key_that_is_missing_or_text_is_told_apart() {
        assert_eq!(picked(config_map(&["a"], &[]), Some("b")), Err("KeyMissing"));
        assert_eq!(picked(config_map(&[], &["b"]), Some("b")), Err("KeyIsText"));
        assert_eq!(picked(config_map(&[], &["b"]), None), Err("KeyMissing"));
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_is_told_once_it_stopped_changing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        let (changes, mut seen) = watch::channel(None);
        let watched = path.clone();
        let task = tokio::spawn(async move { watch_file(&watched, &changes).await });
        tokio::fs::write(&path, b"one").await.unwrap();
        seen.changed().await.unwrap();
        let first = seen.borrow_and_update().clone();
        tokio::fs::write(dir.path().join("new"), b"two").await.unwrap();
        tokio::fs::rename(dir.path().join("new"), &path).await.unwrap();
        seen.changed().await.unwrap();
        let second = seen.borrow_and_update().clone();
        assert!(first.is_some() && second.is_some() && first != second);
        tokio::fs::remove_file(&path).await.unwrap();
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow(), None);
        task.abort();
    }

    #[tokio::test]
    async fn a_file_larger_than_a_module_may_be_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        tokio::fs::write(&path, [0; 100]).await.unwrap();
        assert_eq!(read_at_most(&path, 99).await.unwrap_err().reason, "TooLarge");
        assert_eq!(read_at_most(&path, 100).await.unwrap().len(), 100);
        assert_eq!(read_at_most(&dir.path().join("none"), 1).await.unwrap_err().reason, "FileMissing");
    }
}
