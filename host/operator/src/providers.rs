//! The providers ConfigMap, watched.
//!
//! Its absence is no statement about entries: what runs goes on, so that whoever replaces it by deleting and
//! creating removes nothing.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use tracing::{debug, warn};

use crate::{
    cluster::Cluster,
    config::{ProviderEntries, read_entries},
    core::store::Notice,
    events::Events,
};

/// Tells what the ConfigMap says, at the start and at each change. `listed` is told once it is known whether
/// there is one.
pub async fn watch(
    cluster: &Cluster,
    name: &str,
    events: &Events,
    apply: impl Fn(ProviderEntries),
    listed: impl FnOnce(),
) {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(api, only).default_backoff().boxed();
    let mut listed = Some(listed);
    let mut there = false;
    loop {
        match changes.try_next().await {
            Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => {
                there = true;
                apply(read(&found, events).await);
            }
            Ok(Some(watcher::Event::Delete(_))) => {
                there = false;
                warn!(
                    config_map = name,
                    "the providers ConfigMap was deleted; its entries go on as they are"
                );
            }
            Ok(Some(watcher::Event::Init)) => there = false,
            Ok(Some(watcher::Event::InitDone)) => {
                if !there {
                    let namespace = &cluster.namespace;
                    warn!(config_map = name, namespace, "there is no providers ConfigMap yet; create it");
                }
                if let Some(listed) = listed.take() {
                    listed();
                }
            }
            Ok(None) => return,
            Err(error) => {
                debug!(config_map = name, %error, "the watch of the providers ConfigMap was interrupted")
            }
        }
    }
}

async fn read(found: &ConfigMap, events: &Events) -> ProviderEntries {
    let mut entries = read_entries(found.data.iter().flatten());
    for key in found.binary_data.iter().flatten().map(|(key, _)| key) {
        entries.unnamed.push(format!("key {key:?} is under binaryData; an entry is text, under data"));
    }
    for message in &entries.unnamed {
        let reason = "KeyIgnored".to_owned();
        let notice = Notice { warning: true, reason, message: message.clone() };
        let mut about = found.object_ref(&());
        about.resource_version = None;
        events.publish(&about, "ReadEntries", &notice).await;
    }
    entries
}
