//! Kubernetes, simulated: clusters of the names that the entry, or else the config, could mean.

mod ground;
mod objects;
mod real;
mod simulated;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use egress_capabilities::{Granted, KubernetesGrant};
use egress_contract::{EntryName, Installation};
use egress_runtime::{
    Lent,
    capability::{Clock, Kubernetes, Resource},
};
use egress_sim::{
    clock::VirtualClock,
    kubernetes::{Cluster, Clusters},
    watched::{Watch, Watched},
};
use serde_json::Value;

use super::{Kind, OPERATORS_LONGEST_REST, World};
use crate::halt::{Go, Halt};
pub use real::RealKubernetes;
use simulated::Simulated;

/// Where Proxies live unless the entry says otherwise.
const NAMESPACES: [&str; 2] = ["team-a", "team-b"];

/// See the module.
#[derive(Clone, Debug)]
pub struct SimulatedKubernetes {
    /// The first holds the Proxies.
    clusters: Vec<String>,
    namespaces: BTreeSet<String>,
    proxies: [String; 2],
    grant: Option<KubernetesGrant>,
}

impl SimulatedKubernetes {
    /// For an entry's config and grants; without grants every word of the config may name a cluster.
    pub fn new(config: &Value, grants: &Value) -> Self {
        let mut words = BTreeSet::new();
        collect(config, &mut words);
        let granted = grants.pointer("/kubernetes/clusters").and_then(Value::as_object);
        let mut clusters: Vec<String> = match granted {
            Some(granted) => granted.keys().cloned().collect(),
            None => words.iter().cloned().collect(),
        };
        let holds_proxies = |name: &String| {
            let operator =
                granted.and_then(|granted| granted.get(name)).and_then(|cluster| cluster.get("operator"));
            operator == Some(&Value::Bool(true))
        };
        clusters.sort_by_key(|name| !holds_proxies(name));
        let mut named = BTreeSet::new();
        collect_namespaces(grants, &mut named);
        let mut proxies = NAMESPACES.map(str::to_owned);
        for (proxy, named) in proxies.iter_mut().zip(&named) {
            proxy.clone_from(named);
        }
        if let (1, Some(only)) = (named.len(), named.first()) {
            proxies = [only.clone(), only.clone()];
        }
        let namespaces =
            words.into_iter().chain(named).chain(proxies.clone()).filter(|word| is_label(word)).collect();
        // One that can't be read is refused where the entry is.
        let grant = grants.get("kubernetes").and_then(|grant| serde_json::from_value(grant.clone()).ok());
        Self { clusters, namespaces, proxies, grant }
    }
}

fn resource_of(api_version: &str, plural: &str) -> Resource {
    Resource { api_version: api_version.to_owned(), plural: plural.to_owned() }
}

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if is_label(text) => {
            words.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, words)),
        Value::Object(object) => object.values().for_each(|value| collect(value, words)),
        _ => {}
    }
}

/// Those that the rules of a grant name.
fn collect_namespaces(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_namespaces(value, named)),
        Value::Object(object) => {
            for (key, value) in object {
                if key == "namespaces" {
                    collect(value, named);
                } else {
                    collect_namespaces(value, named);
                }
            }
        }
        _ => {}
    }
}

fn is_label(word: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&word.len())
        && word.bytes().all(legal)
        && !word.starts_with('-')
        && !word.ends_with('-')
}

/// For what a denial says.
fn entry() -> Go<EntryName> {
    "conformance".parse().map_err(|error: egress_contract::InvalidName| Halt::Failed(error.to_string()))
}

#[async_trait]
impl Kind for SimulatedKubernetes {
    fn name(&self) -> String {
        "kubernetes, simulated".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        interface == "egress:provider/kubernetes"
    }

    fn is_simulated(&self) -> bool {
        true
    }

    async fn world(&self, seed: u64) -> Go<World> {
        let virtual_clock = VirtualClock::default();
        let clock: Arc<dyn Clock> = Arc::new(virtual_clock.clone());
        let mut clusters = Vec::new();
        for (number, name) in self.clusters.iter().enumerate() {
            let seed = seed.wrapping_add(number as u64);
            let cluster = Cluster::with_seed(Arc::clone(&clock), seed).at_home(number == 0);
            self.namespaces.iter().for_each(|namespace| cluster.add_namespace(namespace));
            clusters.push((name.clone(), cluster));
        }
        let backend = Arc::new(Simulated::new(clusters, virtual_clock, &self.namespaces));
        Ok(self.around(backend, entry()?))
    }
}

impl SimulatedKubernetes {
    fn around(&self, backend: Arc<Simulated>, entry: EntryName) -> World {
        let clusters = backend.clusters().iter().fold(Clusters::default(), |clusters, (name, cluster)| {
            clusters.with(name, Arc::new(cluster.clone()))
        });
        let api: Arc<dyn Kubernetes> = match &self.grant {
            Some(grant) => Arc::new(Granted::new(entry.clone(), grant.clone(), clusters)),
            None => Arc::new(clusters),
        };
        let clock: Arc<dyn Clock> = Arc::new(backend.clock().clone());
        let time = Arc::clone(&clock);
        let lend = move |watch: &Watch, _: &Installation| Lent {
            kubernetes: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&api)))),
            clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&time)))),
            ..Lent::default()
        };
        let (kind, original) = (self.clone(), Arc::clone(&backend));
        let fork = move || kind.around(Arc::new(original.copy()), entry.clone());
        World {
            secrets: backend.secrets(),
            backend,
            clock,
            lend: Arc::new(lend),
            namespaces: self.proxies.clone(),
            fork: Some(Arc::new(fork)),
            longest_rest: OPERATORS_LONGEST_REST,
        }
    }
}
