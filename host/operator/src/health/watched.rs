//! ProviderHealths, watched: what people ask of an entry, and what the process that leads says of it.

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, ResourceExt,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::{
    api::{COLLECT_ANNOTATION, CanaryStatus, Hold, ProviderHealth, ProviderHealthStatus},
    cluster::Cluster,
};

/// What people ask of an entry, and what the process that leads says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// The hold in its spec.
    pub hold: Option<Hold>,
    /// The sweep that may go.
    pub confirmed: Option<String>,
    /// What the process that leads says.
    pub shown: Shown,
}

/// What runs and what is on trial, as it was written last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// The active revision.
    pub active: Option<String>,
    /// What is on trial.
    pub canary: Option<CanaryStatus>,
}

impl Shown {
    /// As a status says.
    pub fn of(status: Option<&ProviderHealthStatus>) -> Self {
        let active = status.and_then(|status| status.active.as_ref());
        let canary = status.and_then(|status| status.canary.clone());
        Self { active: active.map(|active| active.revision.clone()), canary }
    }
}

/// What changed in somebody's ProviderHealth.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// What stands in it.
    Asked(String, Box<Wishes>),
    /// It was removed.
    Gone(String),
}

/// Tells holds, and removals by others, until nobody listens.
pub async fn watch(cluster: &Cluster, seen: mpsc::Sender<Seen>) {
    let api: Api<DeserializeGuard<ProviderHealth>> = Api::all(cluster.client.clone());
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    loop {
        let told = match events.try_next().await {
            Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => match found.0 {
                Ok(found) => {
                    let confirmed = found.annotations().get(COLLECT_ANNOTATION).cloned();
                    let shown = Shown::of(found.status.as_ref());
                    let name = found.name_any();
                    Seen::Asked(name, Box::new(Wishes { hold: found.spec.hold, confirmed, shown }))
                }
                Err(error) => {
                    warn!(%error, "a ProviderHealth can't be read; its hold is not seen");
                    continue;
                }
            },
            Ok(Some(watcher::Event::Delete(found))) => Seen::Gone(found.name_any()),
            Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => continue,
            Ok(None) => return,
            Err(error) => {
                debug!(%error, "the watch of ProviderHealths was interrupted");
                continue;
            }
        };
        if seen.send(told).await.is_err() {
            return;
        }
    }
}
