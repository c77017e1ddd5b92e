//! Probes for real: over the network, with news to the controller and to people.

mod answer;
mod network;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Resource};
use tokio::sync::mpsc;

pub use network::Network;

use crate::{
    api::ProviderHealth,
    cluster::{Cluster, call},
    core::{
        probe::Teller,
        store::{Notice, ProxyKey},
    },
    events::Events,
    proxies::Change,
};

/// Tells the controller of Proxies and people of entries.
pub struct ToController {
    pub cluster: Cluster,
    pub events: Events,
    pub changes: mpsc::Sender<Change>,
}

impl Teller for ToController {
    async fn changed(&self, keys: BTreeSet<ProxyKey>) {
        for key in keys {
            // Its listener is gone only when the process ends.
            let _ = self.changes.send(Change::Due(key)).await;
        }
    }

    async fn tell(&self, entry: &str, notice: Notice) {
        let api: Api<ProviderHealth> = Api::all(self.cluster.client.clone());
        let (events, entry) = (self.events.clone(), entry.to_owned());
        // Probes go on meanwhile.
        tokio::spawn(async move {
            if let Ok(found) = call(api.get(&entry)).await {
                let about = ObjectReference { resource_version: None, ..found.object_ref(&()) };
                events.publish(&about, "Probe", &notice).await;
            }
        });
    }
}
