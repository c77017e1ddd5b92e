//! Proxies, watched by their metadata alone: the loop reads each one live, and one that can't be read blinds
//! nobody but itself.
//!
//! A change of generation, annotations, finalizers or the request to delete is a reason to look; the loop's
//! own writes of a status are none.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::{api::Proxy, core::store::ProxyKey};

type Seen = PartialObjectMeta<Proxy>;

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is a reason to look.
    Due(ProxyKey),
    /// It is gone.
    Gone(ProxyKey),
    /// All that were there at the start have been told.
    Listed,
}

/// Tells changes, until nobody listens. `namespace` is none for all.
pub async fn watch(client: Client, namespace: Option<String>, changes: mpsc::Sender<Change>) {
    let api: Api<Seen> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut known = Known::default();
    loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                for change in known.learn(event) {
                    if changes.send(change).await.is_err() {
                        return;
                    }
                }
            }
            Ok(None) => return,
            Err(error @ (watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_))) => {
                // It goes on from where it was.
                debug!(%error, "the watch of Proxies was interrupted");
            }
            Err(error) => warn!(%error, "Proxies can't be listed; it is tried again"),
        }
    }
}

/// What was seen of each Proxy.
#[derive(Default)]
struct Known {
    seen: HashMap<ProxyKey, u64>,
    /// What a list that is going on has not told yet: at its end, those are gone.
    unlisted: HashSet<ProxyKey>,
    listed: bool,
}

impl Known {
    fn learn(&mut self, event: watcher::Event<Seen>) -> Vec<Change> {
        match event {
            watcher::Event::Init => {
                self.unlisted = self.seen.keys().cloned().collect();
                Vec::new()
            }
            watcher::Event::InitApply(seen) | watcher::Event::Apply(seen) => {
                let key = key(&seen);
                self.unlisted.remove(&key);
                let now = worth_a_look(&seen);
                let before = self.seen.insert(key.clone(), now);
                if before == Some(now) { Vec::new() } else { vec![Change::Due(key)] }
            }
            watcher::Event::Delete(seen) => {
                let key = key(&seen);
                self.seen.remove(&key);
                vec![Change::Gone(key)]
            }
            watcher::Event::InitDone => {
                let mut changes: Vec<_> = self.unlisted.drain().map(Change::Gone).collect();
                for change in &changes {
                    if let Change::Gone(key) = change {
                        self.seen.remove(key);
                    }
                }
                if !std::mem::replace(&mut self.listed, true) {
                    changes.push(Change::Listed);
                }
                changes
            }
        }
    }
}

fn key(seen: &Seen) -> ProxyKey {
    ProxyKey { namespace: seen.namespace().unwrap_or_default(), name: seen.name_any() }
}

fn worth_a_look(seen: &Seen) -> u64 {
    let metadata = &seen.metadata;
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    metadata.generation.hash(&mut hasher);
    metadata.annotations.hash(&mut hasher);
    metadata.finalizers.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use kube::{api::ObjectMeta, core::PartialObjectMetaExt};
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};

    use super::*;

    fn seen(name: &str, generation: i64, version: &str) -> Seen {
        let metadata = ObjectMeta {
            namespace: Some("a".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid of {name}")),
            generation: Some(generation),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        metadata.into_response_partial()
    }

    fn due(name: &str) -> Change {
        Change::Due(ProxyKey { namespace: "a".to_owned(), name: name.to_owned() })
    }

    fn gone(name: &str) -> Change {
        Change::Gone(ProxyKey { namespace: "a".to_owned(), name: name.to_owned() })
    }

    #[test]
    fn a_write_of_a_status_is_no_reason_to_look() {
        let mut known = Known::default();
        assert_eq!(known.learn(Apply(seen("web", 1, "1"))), [due("web")]);
        assert_eq!(known.learn(Apply(seen("web", 1, "2"))), []);
        assert_eq!(known.learn(Apply(seen("web", 2, "3"))), [due("web")]);
    }

    #[test]
    fn annotations_finalizers_and_a_request_to_delete_are_reasons_to_look() {
        let mut known = Known::default();
        let mut web = seen("web", 1, "1");
        assert_eq!(known.learn(Apply(web.clone())), [due("web")]);
        web.annotations_mut().insert("egressproxies.dev/retry".to_owned(), "1".to_owned());
        assert_eq!(known.learn(Apply(web.clone())), [due("web")]);
        web.finalizers_mut().push("example.com/other".to_owned());
        assert_eq!(known.learn(Apply(web.clone())), [due("web")]);
        web.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(known.learn(Apply(web.clone())), [due("web")]);
        web.metadata.uid = Some("a successor".to_owned());
        assert_eq!(known.learn(Apply(web)), [due("web")]);
    }

    #[test]
    fn what_vanished_between_two_lists_is_gone() {
        let mut known = Known::default();
        let told: Vec<_> = [Init, InitApply(seen("a", 1, "1")), InitApply(seen("b", 1, "2")), InitDone]
            .into_iter()
            .flat_map(|event| known.learn(event))
            .collect();
        assert_eq!(told, [due("a"), due("b"), Change::Listed]);
        let told: Vec<_> = [Init, InitApply(seen("b", 1, "9")), InitDone]
            .into_iter()
            .flat_map(|event| known.learn(event))
            .collect();
        assert_eq!(told, [gone("a")], "and b is as it was");
        assert_eq!(known.learn(Delete(seen("b", 1, "10"))), [gone("b")]);
        assert_eq!(known.learn(Apply(seen("b", 1, "11"))), [due("b")], "a successor");
    }
}
