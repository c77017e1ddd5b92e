//! What the suite must know of a kind of backend: how to have one.
//!
//! All else about it stands behind [`Backend`]. So the promises are the same for all kinds, and a new kind
//! brings a simulation (or a way to the real thing), an implementation of `Backend`, and one of [`Kind`].

pub mod gcp;
pub mod kubernetes;
pub mod libvirt;
pub mod proxmox;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use egress_contract::Installation;
use egress_runtime::{Lent, Module, capability::Clock, inspect};
use egress_sim::{
    backend::{Backend, Unable},
    fault::Fault,
    watched::Watch,
};

use crate::halt::Go;
use gcp::SimulatedCompute;
use kubernetes::SimulatedKubernetes;
use libvirt::SimulatedLibvirt;
use proxmox::SimulatedProxmox;
use serde_json::Value;

/// What the operator rests at most: after a permanent failure.
pub const OPERATORS_LONGEST_REST: Duration = Duration::from_secs(3_600);

/// One backend, fresh or as good as fresh, and time at it.
pub struct World {
    /// Behind the provider's back.
    pub backend: Arc<dyn Backend>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// What a host lends, seen by its watch.
    pub lend: Lend,
    /// Where Proxies live.
    pub namespaces: [String; 2],
    /// What stands at the backend, or in the host, and must not come out of a component.
    pub secrets: Vec<String>,
    /// Another one that is now as this one is, where one can be had: what made it so need not be done again.
    pub fork: Option<Fork>,
    /// What the operator's part rests at most before it tries again.
    pub longest_rest: Duration,
}

/// Makes a world that is now as another one is.
pub type Fork = Arc<dyn Fn() -> World + Send + Sync>;

/// Makes what a host of an installation lends out of the host's watch.
pub type Lend = Arc<dyn Fn(&Watch, &Installation) -> Lent + Send + Sync>;

/// A kind of backend.
#[async_trait]
pub trait Kind: Send + Sync {
    /// `kubernetes, simulated`.
    fn name(&self) -> String;

    /// Whether the interface is one that this kind lends: `egress:provider/kubernetes`.
    fn lends(&self, interface: &str) -> bool;

    /// Whether it is simulated: time is virtual, and every run begins with a backend of its own.
    fn is_simulated(&self) -> bool;

    /// Whether its calls can fail in this way.
    fn can_fail_so(&self, _: &Fault) -> bool {
        true
    }

    /// What it lends to a host that lives on with it, as time goes by that clock; none where that is not simulated.
    fn stands(&self, _: Arc<dyn Clock>) -> Option<Lent> {
        None
    }

    /// Before the first run: whether the backend can be used at all.
    async fn prepare(&self) -> Result<(), Unable> {
        Ok(())
    }

    /// After the last run: what runs left behind goes, where it does not go with the run.
    async fn clear(&self) -> Result<(), Unable> {
        Ok(())
    }

    /// A backend for one run. The seed decides whatever it draws.
    async fn world(&self, seed: u64) -> Go<World>;
}

/// Takes an entry's config and grants.
type OverHttp = fn(&Value, &Value) -> Option<Arc<dyn Kind>>;

/// What is reached over HTTP: each says whether the config is one for its kind of backend.
const OVER_HTTP: &[OverHttp] = &[
    SimulatedCompute::over_http, // one a line
    SimulatedProxmox::over_http,
];

/// There is no simulation for a component.
#[derive(Debug, thiserror::Error)]
#[error(
    "no backend that is reached by {import} and that this config could mean is simulated; try it at a real one, by an \
     entry that grants it"
)]
pub struct NoSimulation {
    import: String,
}

/// The simulation that an entry is made for, by what it grants; none where nothing of that is simulated.
pub fn granted(config: &Value, grants: &Value) -> Option<Arc<dyn Kind>> {
    if grants.get("libvirt").is_some_and(Value::is_object) {
        return Some(Arc::new(SimulatedLibvirt::new(config, grants)));
    }
    OVER_HTTP.iter().find_map(|simulation| simulation(config, grants))
}

/// The simulation that a component is made for, by what it imports; Kubernetes where that says nothing.
pub fn simulated(module: &Module, config: &Value, grants: &Value) -> Result<Arc<dyn Kind>, NoSimulation> {
    let imports = inspect(module.bytes()).map(|inspection| inspection.imports).unwrap_or_default();
    let libvirt = ["egress:provider/libvirt@", "egress:provider/transfer@"];
    if let Some(import) = imports.iter().find(|import| import.starts_with("egress:provider/http@")) {
        let found = OVER_HTTP.iter().find_map(|simulation| simulation(config, grants));
        return found.ok_or_else(|| NoSimulation { import: import.clone() });
    }
    if imports.iter().any(|import| libvirt.iter().any(|name| import.starts_with(name))) {
        Ok(Arc::new(SimulatedLibvirt::new(config, grants)))
    } else {
        Ok(Arc::new(SimulatedKubernetes::new(config, grants)))
    }
}
