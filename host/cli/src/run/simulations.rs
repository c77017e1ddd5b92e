//! Backends that are made up, for whoever tries the operator without having any: the same that providers are tested
//! against, as time really goes by.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use egress_conformance::kind;
use egress_contract::{EntryName, Fault};
use egress_operator::Simulations;
use egress_runtime::{Lent, capability::SystemClock};
use serde_json::Value;
use tracing::warn;

/// Each entry's, as long as the process lives.
#[derive(Default)]
pub struct Simulated(Mutex<BTreeMap<EntryName, (String, Lent)>>);

impl Simulated {
    /// None yet.
    pub fn shared() -> Arc<dyn Simulations> {
        Arc::new(Self::default())
    }
}

impl Simulations for Simulated {
    fn lend(&self, entry: &EntryName, config: &Value, grants: &Value) -> Result<Lent, Fault> {
        let refused = || {
            Fault {
            path: "simulated".to_owned(),
            message: "there is no simulation of what this entry's config and grants mean; there are those of libvirt, \
                      Proxmox VE and Compute Engine"
                .to_owned(),
        }
        };
        let kind = kind::granted(config, grants).ok_or_else(refused)?;
        // Machines stay over a change of anything that is not their backend.
        let backend = format!("{} {}", kind.name(), grants);
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lent)) = made.get(entry).filter(|(of, _)| *of == backend) {
            return Ok(lent.clone());
        }
        let lent = kind.stands(Arc::new(SystemClock::default())).ok_or_else(refused)?;
        warn!(
            %entry,
            "SIMULATED ({}): no machine is made for real; what Proxies of this entry show lives in this process and ends \
             with it. For real ones take `simulated: true` out of the entry",
            kind.name()
        );
        made.insert(entry.clone(), (backend, lent.clone()));
        Ok(lent)
    }
}
