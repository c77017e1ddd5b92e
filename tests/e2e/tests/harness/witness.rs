//! What was seen by watching, while a test ran.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use egress_operator::api::Proxy;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};

use super::Site;

/// See the module.
#[derive(Default)]
pub struct Witness {
    /// Failures that a status ever showed.
    failures: Mutex<Vec<String>>,
    /// Pods by the name that their Proxy's incarnation gives: more than one UID is one too many.
    pods: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Witness {
    /// Until the test ends.
    pub fn watch(self: &Arc<Self>, site: &Site) {
        for team in &site.teams {
            let (witness, proxies): (_, Api<Proxy>) = (self.clone(), team.api());
            tokio::spawn(async move {
                let events = watcher(proxies, watcher::Config::default()).default_backoff().applied_objects();
                // One that the API server ended begins anew, with everything that stands there.
                events.for_each(async |seen| seen.iter().for_each(|proxy| witness.see_proxy(proxy))).await;
            });
            let (witness, pods): (_, Api<Pod>) = (self.clone(), team.api());
            tokio::spawn(async move {
                let events = watcher(pods, watcher::Config::default()).default_backoff().applied_objects();
                events.for_each(async |seen| seen.iter().for_each(|pod| witness.see_pod(pod))).await;
            });
        }
    }

    fn see_proxy(&self, proxy: &Proxy) {
        if let Some(failure) = proxy.status.as_ref().and_then(|status| status.failure.as_ref()) {
            self.failures.lock().unwrap().push(format!("{}: {failure:?}", proxy.name_any()));
        }
    }

    fn see_pod(&self, pod: &Pod) {
        let mut pods = self.pods.lock().unwrap();
        let uids = pods.entry(pod.name_any()).or_default();
        let uid = pod.uid().unwrap();
        if !uids.contains(&uid) {
            uids.push(uid);
        }
    }

    /// Failures that a status ever showed.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    /// Pods that were made more than once.
    pub fn twice(&self) -> Vec<(String, Vec<String>)> {
        self.pods.lock().unwrap().clone().into_iter().filter(|(_, uids)| uids.len() > 1).collect()
    }

    /// How many Pods there ever were.
    pub fn pods(&self) -> usize {
        self.pods.lock().unwrap().len()
    }
}
