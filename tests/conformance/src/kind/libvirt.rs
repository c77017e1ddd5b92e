//! libvirt: simulated, with hosts of the names that the entry, or else the config, could mean; and real hosts.

mod administrator;
mod document;
mod real;
pub(super) mod seed;
mod simulated;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use egress_contract::Installation;
use egress_runtime::{
    Lent,
    capability::{Clock, Libvirt, Transfer},
};
use egress_sim::{
    clock::VirtualClock,
    fault::Fault,
    libvirt::{HostSpec, Hosts, Transfers},
    watched::{Watch, Watched, WatchedLibvirt},
};
use serde_json::Value;

use super::{Kind, OPERATORS_LONGEST_REST, World};
use crate::halt::Go;
pub use administrator::{Administrator, Nobody};
pub use real::RealLibvirt;
use simulated::Simulated;

const DOMAIN: &str = "domain";
const VOLUME: &str = "volume";
/// What several instances share.
const SHARED: &str = "proxy-base-";

/// Where Proxies live.
const NAMESPACES: [&str; 2] = ["team-a", "team-b"];

/// See the module.
#[derive(Clone, Debug)]
pub struct SimulatedLibvirt {
    hosts: Vec<HostSpec>,
}

impl SimulatedLibvirt {
    /// For an entry's config and grants; without grants the hosts are those that the config names.
    pub fn new(config: &Value, grants: &Value) -> Self {
        let granted = grants.pointer("/libvirt/hosts").and_then(Value::as_object);
        let hosts = match granted {
            Some(granted) => granted.iter().map(|(name, host)| spec(name, host)).collect(),
            None => {
                let mut named = Vec::new();
                collect(config, &mut named);
                named
            }
        };
        Self { hosts }
    }
}

/// `{name: hv1, pool: .., bridge: ..}`, or a name alone, under a key `hosts`.
fn collect(config: &Value, named: &mut Vec<HostSpec>) {
    match config {
        Value::Array(values) => values.iter().for_each(|value| collect(value, named)),
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_array().filter(|_| key == "hosts") {
                    Some(hosts) => {
                        for host in hosts {
                            let name = host.as_str().or_else(|| host.get("name").and_then(Value::as_str));
                            let known = |name: &str| named.iter().any(|host| host.name == name);
                            if let Some(name) = name.filter(|name| !known(name)) {
                                named.push(spec(name, host));
                            }
                        }
                    }
                    None => collect(value, named),
                }
            }
        }
        _ => {}
    }
}

fn spec(name: &str, host: &Value) -> HostSpec {
    let texts = |keys: [&str; 2]| -> Vec<String> {
        let found: BTreeSet<String> = keys
            .iter()
            .filter_map(|key| host.get(*key))
            .flat_map(|value| match value {
                Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                Value::String(one) => vec![one.clone()],
                _ => Vec::new(),
            })
            .collect();
        found.into_iter().collect()
    };
    let plain = HostSpec::new(name);
    let or = |found: Vec<String>, plain: Vec<String>| if found.is_empty() { plain } else { found };
    HostSpec {
        pools: or(texts(["pools", "pool"]), plain.pools.clone()),
        bridges: or(texts(["bridges", "bridge"]), plain.bridges.clone()),
        ..plain
    }
}

#[async_trait]
impl Kind for SimulatedLibvirt {
    fn name(&self) -> String {
        "libvirt, simulated".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        ["egress:provider/libvirt", "egress:provider/transfer"].contains(&interface)
    }

    fn is_simulated(&self) -> bool {
        true
    }

    /// libvirt asks nobody to come back later.
    fn can_fail_so(&self, fault: &Fault) -> bool {
        !matches!(fault, Fault::RateLimited(_))
    }

    fn stands(&self, clock: Arc<dyn Clock>) -> Option<Lent> {
        let hosts = Hosts::new(Arc::clone(&clock), &self.hosts);
        let transfer: Arc<dyn Transfer> = Arc::new(Transfers::new(hosts.clone()));
        let libvirt: Arc<dyn Libvirt> = Arc::new(hosts);
        Some(Lent { libvirt: Some(libvirt), transfer: Some(transfer), clock: Some(clock), ..Lent::default() })
    }

    async fn world(&self, _: u64) -> Go<World> {
        let clock = VirtualClock::default();
        let hosts = Hosts::new(Arc::new(clock.clone()), &self.hosts);
        Ok(around(Arc::new(Simulated::new(hosts, clock).await?)))
    }
}

fn around(backend: Arc<Simulated>) -> World {
    let clock: Arc<dyn Clock> = Arc::new(backend.clock().clone());
    let (hosts, time) = (backend.hosts().clone(), Arc::clone(&clock));
    let lend = move |watch: &Watch, _: &Installation| {
        let libvirt: Arc<dyn Libvirt> = Arc::new(hosts.clone());
        // Of each process its own: what another one fills is not known to it.
        let transfer: Arc<dyn Transfer> = Arc::new(Transfers::new(hosts.clone()));
        Lent {
            libvirt: Some(Arc::new(WatchedLibvirt::new(watch.clone(), libvirt))),
            transfer: Some(Arc::new(Watched::new(watch.clone(), transfer))),
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

    fn hosts(config: &Value, grants: &Value) -> Vec<(String, Vec<String>)> {
        let kind = SimulatedLibvirt::new(config, grants);
        kind.hosts.into_iter().map(|host| (host.name, host.pools)).collect()
    }

    #[test]
    fn hosts_are_those_of_the_grants_or_else_of_the_config() {
        let config = json!({ "hosts": [{ "name": "hv1", "pool": "fast" }, { "name": "hv2" }] });
        let own = |name: &str, pool: &str| (name.to_owned(), vec![pool.to_owned()]);
        assert_eq!(hosts(&config, &Value::Null), [own("hv1", "fast"), own("hv2", "default")]);
        let grants = json!({ "libvirt": { "hosts": { "hv3": { "pools": ["slow"], "bridges": ["br1"] } } } });
        assert_eq!(hosts(&config, &grants), [own("hv3", "slow")]);
    }
}
