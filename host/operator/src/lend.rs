//! What an entry's grants become.
//!
//! A capability holds connections, so it is made anew only when its grant or a limit on it changes: a swap of
//! the component costs no reconnect.

use std::sync::Arc;

use egress_capabilities::{HomeCluster, HttpCapability, KubernetesCapability};
use egress_contract::{EntryName, Fault};
use egress_runtime::{
    Lent,
    capability::{Http, Kubernetes, Writes},
};

use crate::{
    cluster::Cluster,
    config::{Grants, Settings},
    identity::{self, IdentityError},
};

/// What `operator: true` in a grant means: the cluster that this reaches.
pub async fn home(config: kube::Config) -> Result<HomeCluster, IdentityError> {
    let failed = |cause| IdentityError::Call { what: "use the cluster's configuration".to_owned(), cause };
    let cluster = Cluster::new(config.clone(), String::new()).map_err(failed)?;
    Ok(HomeCluster { config, uid: identity::kube_system(&cluster).await? })
}

/// Makes capabilities for one entry, and keeps the last ones.
pub struct Lender {
    entry: EntryName,
    home: Option<HomeCluster>,
    writes: Arc<dyn Writes>,
    last: Option<Made>,
}

struct Made {
    grants: Grants,
    request_bytes: u64,
    response_bytes: u64,
    http: Option<Arc<dyn Http>>,
    kubernetes: Option<Arc<dyn Kubernetes>>,
}

impl Lender {
    /// For this entry; `home` is the cluster that holds the Proxies, where there is one. Nothing is written
    /// unless it may be.
    pub fn new(entry: EntryName, home: Option<HomeCluster>, writes: Arc<dyn Writes>) -> Self {
        Self { entry, home, writes, last: None }
    }

    /// For the same entry, with nothing made yet.
    pub fn another(&self) -> Self {
        Self::new(self.entry.clone(), self.home.clone(), Arc::clone(&self.writes))
    }

    /// Or everything that is wrong with the grants, with paths from the entry's top.
    pub fn lend(&mut self, settings: &Settings) -> Result<Lent, Vec<Fault>> {
        if let Some(made) = self.last.as_ref().filter(|made| made.serves(settings)) {
            return Ok(made.lent());
        }
        let made = self.make(settings)?;
        let lent = made.lent();
        self.last = Some(made);
        Ok(lent)
    }

    fn make(&self, settings: &Settings) -> Result<Made, Vec<Fault>> {
        let (request_bytes, response_bytes) = (settings.limits.request_bytes, settings.limits.response_bytes);
        let http = match settings.grants.http.clone() {
            None => None,
            Some(grant) => {
                let made = HttpCapability::new(&self.entry, grant).map_err(|faults| below("http", faults))?;
                let made = made.guarded(&self.writes);
                Some(Arc::new(made.with_limits(size(request_bytes), size(response_bytes))) as Arc<dyn Http>)
            }
        };
        let kubernetes = match settings.grants.kubernetes.clone() {
            None => None,
            Some(grant) => {
                let made = KubernetesCapability::new(&self.entry, grant, self.home.clone());
                let made = made.map_err(|faults| below("kubernetes", faults))?.guarded(&self.writes);
                let made = made.with_limits(size(request_bytes), size(response_bytes));
                Some(Arc::new(made) as Arc<dyn Kubernetes>)
            }
        };
        Ok(Made { grants: settings.grants.clone(), request_bytes, response_bytes, http, kubernetes })
    }
}

impl Made {
    fn serves(&self, settings: &Settings) -> bool {
        self.grants == settings.grants
            && self.request_bytes == settings.limits.request_bytes
            && self.response_bytes == settings.limits.response_bytes
    }

    fn lent(&self) -> Lent {
        Lent { http: self.http.clone(), kubernetes: self.kubernetes.clone(), ..Lent::default() }
    }
}

fn below(grant: &str, faults: Vec<Fault>) -> Vec<Fault> {
    let below = |fault: Fault| Fault { path: format!("grants.{grant}.{}", fault.path), ..fault };
    faults.into_iter().map(below).collect()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
