//! Proxmox VE, simulated: a cluster of the nodes, storages, templates and pools that the config names.

mod simulated;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use egress_runtime::{
    Lent,
    capability::{Clock, Http, HttpResponse},
};
use egress_sim::{
    clock::VirtualClock,
    fault::{Fault, When},
    proxmox::{self, NodeSpec, Pve, StorageSpec},
    watched::{Watch, Watched, WatchedHttp},
};
use serde_json::Value;

use super::{Kind, OPERATORS_LONGEST_REST, World};
use crate::halt::Go;
use simulated::Simulated;

/// Where Proxies live.
const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
const TERABYTE: u64 = 1 << 40;
/// Of a template's disk, in GiB.
const DISK: u64 = 2;
/// Where templates are.
const LOCAL: &str = "local";

/// See the module.
#[derive(Clone, Debug)]
pub struct SimulatedProxmox {
    nodes: Vec<NodeSpec>,
    storages: Vec<StorageSpec>,
    /// By number; the node.
    templates: BTreeMap<u32, String>,
    pools: Vec<String>,
}

impl SimulatedProxmox {
    /// The cluster that a config is for; none where it is not one for Proxmox VE.
    pub fn for_config(config: &Value) -> Option<Self> {
        let listed = config.get("nodes")?.as_array()?;
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut nodes = Vec::new();
        let mut storages = Vec::new();
        for node in listed {
            let name = text(node, "name")?;
            let endpoint = text(node, "endpoint").unwrap_or_else(|| name.clone());
            nodes.push(NodeSpec::new(&name, &endpoint));
            let named = ["isoStorage", "storage"].map(|key| text(node, key).or_else(|| text(config, key)));
            let mut names: Vec<String> =
                std::iter::once(LOCAL.to_owned()).chain(named.into_iter().flatten()).collect();
            names.sort();
            names.dedup();
            storages.extend(names.into_iter().map(|storage| StorageSpec {
                node: Some(name.clone()),
                name: storage,
                content: "images,iso,vztmpl".to_owned(),
                total: TERABYTE,
            }));
        }
        let first = nodes.first().map(|node| node.name.clone())?;
        let mut templates = BTreeMap::new();
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        for image in config.get("images")?.as_object()?.values() {
            if let Some(vmid) = image.get("template").and_then(number) {
                templates.insert(vmid, first.clone());
            }
            for (node, vmid) in image.get("templates").and_then(Value::as_object).into_iter().flatten() {
                if let Some(vmid) = number(vmid) {
                    templates.insert(vmid, node.clone());
                }
            }
        }
        Some(Self { nodes, storages, templates, pools: text(config, "pool").into_iter().collect() })
    }

    /// The same as a kind.
    pub fn over_http(config: &Value, _: &Value) -> Option<Arc<dyn Kind>> {
        let kind = Self::for_config(config)?;
        Some(Arc::new(kind))
    }

    /// A world with all that, and the cluster in it.
    pub fn furnished(&self) -> (World, Pve) {
        let clock = VirtualClock::default();
        let pve = self.cluster(Arc::new(clock.clone()));
        let nodes = self.nodes.iter().map(|node| node.name.clone());
        (around(Arc::new(Simulated::new(pve.clone(), clock, nodes))), pve)
    }

    /// With every template and pool.
    fn cluster(&self, clock: Arc<dyn Clock>) -> Pve {
        let pve = Pve::new(clock, &self.nodes, &self.storages);
        self.templates.iter().for_each(|(vmid, node)| pve.put_template(*vmid, node, LOCAL, DISK));
        self.pools.iter().for_each(|pool| pve.put_pool(pool));
        pve
    }
}

#[async_trait]
impl Kind for SimulatedProxmox {
    fn name(&self) -> String {
        "Proxmox VE, simulated".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        interface == "egress:provider/http"
    }

    fn is_simulated(&self) -> bool {
        true
    }

    /// Proxmox VE asks nobody to come back later.
    fn can_fail_so(&self, fault: &Fault) -> bool {
        !matches!(fault, Fault::RateLimited(_))
    }

    fn stands(&self, clock: Arc<dyn Clock>) -> Option<Lent> {
        let http: Arc<dyn Http> = Arc::new(self.cluster(Arc::clone(&clock)));
        Some(Lent { http: Some(http), clock: Some(clock), ..Lent::default() })
    }

    async fn world(&self, _: u64) -> Go<World> {
        Ok(self.furnished().0)
    }
}

/// Where a fault is no failure of the way there: what the server, or something before it, says.
fn answers(fault: &Fault, when: When) -> Option<HttpResponse> {
    match (fault, when) {
        (Fault::Garbage, _) => Some(proxmox::garbage()),
        (Fault::WrongContentType, _) => Some(proxmox::page(404, "Not Found")),
        (Fault::Refused, When::After) => Some(proxmox::page(502, "Bad Gateway")),
        (Fault::NoCredentials, When::After) => Some(proxmox::unauthorized()),
        _ => None,
    }
}

fn around(backend: Arc<Simulated>) -> World {
    let clock: Arc<dyn Clock> = Arc::new(backend.clock().clone());
    let (pve, time) = (backend.pve().clone(), Arc::clone(&clock));
    let lend = move |watch: &Watch, _: &egress_contract::Installation| {
        let http: Arc<dyn Http> = Arc::new(pve.clone());
        Lent {
            http: Some(Arc::new(WatchedHttp::new(
                watch.clone(),
                http,
                |asked| asked.endpoint.clone(),
                answers,
            ))),
            clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&time)))),
            ..Lent::default()
        }
    };
    let original = Arc::clone(&backend);
    World {
        secrets: backend.secrets(),
        backend,
        clock,
        lend: Arc::new(lend),
        namespaces: NAMESPACES.map(str::to_owned),
        fork: Some(Arc::new(move || around(Arc::new(original.copy())))),
        longest_rest: OPERATORS_LONGEST_REST,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_of_another_kind_is_none_and_its_own_names_the_cluster() {
        for other in [json!({}), json!({ "hosts": ["hv1"] }), json!({ "project": "p", "zones": ["a"] })] {
            assert!(SimulatedProxmox::for_config(&other).is_none(), "{other}");
        }
        let config = json!({
            "nodes": [{ "name": "pve1" }, { "name": "pve2", "endpoint": "two", "isoStorage": "nfs" }],
            "isoStorage": "local",
            "images": { "a": { "template": 9000 }, "b": { "templates": { "pve2": 9001 } } },
            "pool": "proxies",
        });
        let kind = SimulatedProxmox::for_config(&config).unwrap();
        let endpoints: Vec<&str> = kind.nodes.iter().map(|node| node.endpoint.as_str()).collect();
        assert_eq!(endpoints, ["pve1", "two"]);
        assert_eq!(kind.templates, BTreeMap::from([(9000, "pve1".to_owned()), (9001, "pve2".to_owned())]));
        assert!(kind.storages.iter().any(|storage| storage.name == "nfs"));
    }
}
