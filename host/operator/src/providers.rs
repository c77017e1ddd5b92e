//! The providers ConfigMap, watched.
//!
//! Its absence is no statement about entries: what runs goes on, so that whoever replaces it by deleting and
//! creating removes nothing. It is told, by an Event and in every ProviderHealth.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
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

/// What that means, for people.
pub const MISSING: &str =
    "what ran goes on, and nothing is removed; create it, with every entry that is wanted";

/// What the watch tells.
#[derive(Debug)]
pub enum Told {
    /// The ConfigMap is there, and says this.
    Entries(ProviderEntries),
    /// There is none.
    Missing,
}

/// Tells what the ConfigMap says, at the start and at each change. `listed` is told once it is known whether
/// there is one.
pub async fn watch(
    cluster: &Cluster,
    name: &str,
    events: &Events,
    tell: impl Fn(Told),
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
                tell(Told::Entries(read(&found, events).await));
            }
            Ok(Some(watcher::Event::Delete(_))) => {
                there = false;
                missing(cluster, name, events).await;
                tell(Told::Missing);
            }
            Ok(Some(watcher::Event::Init)) => there = false,
            Ok(Some(watcher::Event::InitDone)) => {
                if !there {
                    missing(cluster, name, events).await;
                    tell(Told::Missing);
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

async fn missing(cluster: &Cluster, name: &str, events: &Events) {
    let namespace = &cluster.namespace;
    let message = format!("there is no ConfigMap {namespace}/{name}: {MISSING}");
    warn!(config_map = name, namespace, message, "the providers ConfigMap is missing");
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("ConfigMap".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    let notice = Notice { warning: true, reason: "ProvidersMissing".to_owned(), message };
    events.publish(&about, "ReadEntries", &notice).await;
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
