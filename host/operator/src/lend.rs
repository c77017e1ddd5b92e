//! What an entry's grants become.
//!
//! A capability holds connections, so it is made anew only when its grant or a limit on it changes: a swap of
//! the component costs no reconnect.

use std::sync::Arc;

use async_trait::async_trait;
use egress_capabilities::{
    Beside, HomeCluster, HttpCapability, KubernetesCapability, LibvirtCapability, SecretRef, SecretUnread,
    Secrets, TransferCapability,
};
use egress_contract::{EntryName, Fault};
use egress_runtime::{
    Lent,
    capability::{Http, Kubernetes, Libvirt, Transfer},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;

use crate::{
    cluster::{ApiServer, Cluster, call},
    config::{Grants, Settings},
    identity::{self, IdentityError},
};

/// What `operator: true` in a grant means: the cluster that this reaches.
pub async fn home(config: kube::Config) -> Result<HomeCluster, IdentityError> {
    let failed = |cause| IdentityError::Call { what: "use the cluster's configuration".to_owned(), cause };
    let cluster =
        Cluster::new(ApiServer::Cluster(Box::new(config.clone())), String::new()).map_err(failed)?;
    Ok(HomeCluster { config, uid: identity::kube_system(&cluster).await? })
}

/// Of the operator's namespace. Which of them it may read, its role says.
pub struct HomeSecrets(pub Cluster);

#[async_trait]
impl Secrets for HomeSecrets {
    async fn read(&self, secret: &SecretRef) -> Result<Vec<u8>, SecretUnread> {
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), &self.0.namespace);
        match call(api.get_opt(&secret.name)).await {
            Ok(found) => {
                let value = found.and_then(|found| found.data?.remove(&secret.key));
                value.map(|value| value.0).ok_or(SecretUnread::Missing)
            }
            Err(error) => Err(SecretUnread::Unreadable(error.to_string())),
        }
    }
}

/// What stands in for backends: for whoever wants to try the operator without having any.
pub trait Simulations: Send + Sync {
    /// What such an entry is lent, the same at each call as far as its backend is the same; or what is wrong with it.
    fn lend(&self, entry: &EntryName, config: &Value, grants: &Value) -> Result<Lent, Fault>;
}

/// Makes capabilities for one entry, and keeps the last ones.
pub struct Lender {
    entry: EntryName,
    home: Option<HomeCluster>,
    beside: Beside,
    simulations: Option<Arc<dyn Simulations>>,
    last: Option<Made>,
}

struct Made {
    grants: Grants,
    request_bytes: u64,
    response_bytes: u64,
    http: Option<Arc<dyn Http>>,
    kubernetes: Option<Arc<dyn Kubernetes>>,
    libvirt: Option<Arc<dyn Libvirt>>,
    transfer: Option<Arc<dyn Transfer>>,
}

impl Lender {
    /// For this entry; `home` is the cluster that holds the Proxies, where there is one. Nothing is written
    /// unless it may be.
    pub fn new(entry: EntryName, home: Option<HomeCluster>, beside: Beside) -> Self {
        Self { entry, home, beside, simulations: None, last: None }
    }

    /// Where entries may be simulated.
    pub fn with_simulations(self, simulations: Option<Arc<dyn Simulations>>) -> Self {
        Self { simulations, ..self }
    }

    /// For the same entry, with nothing made yet.
    pub fn another(&self) -> Self {
        Self::new(self.entry.clone(), self.home.clone(), self.beside.clone())
            .with_simulations(self.simulations.clone())
    }

    /// Or everything that is wrong with the grants, with paths from the entry's top.
    pub fn lend(&mut self, settings: &Settings) -> Result<Lent, Vec<Fault>> {
        if settings.simulated {
            return self.simulate(settings).map_err(|fault| vec![fault]);
        }
        if let Some(made) = self.last.as_ref().filter(|made| made.serves(settings)) {
            return Ok(made.lent());
        }
        let made = self.make(settings)?;
        let lent = made.lent();
        self.last = Some(made);
        Ok(lent)
    }

    fn simulate(&self, settings: &Settings) -> Result<Lent, Fault> {
        let Some(simulations) = &self.simulations else {
            return Err(Fault {
                path: "simulated".to_owned(),
                message: "is for epo run --dir alone; take it out, and the entry's grants are used"
                    .to_owned(),
            });
        };
        let grants = serde_json::to_value(&settings.grants).unwrap_or_default();
        simulations.lend(&self.entry, &settings.config, &grants)
    }

    fn make(&self, settings: &Settings) -> Result<Made, Vec<Fault>> {
        let (request_bytes, response_bytes) = (settings.limits.request_bytes, settings.limits.response_bytes);
        let http = match settings.grants.http.clone() {
            None => None,
            Some(grant) => {
                let made = HttpCapability::new(&self.entry, grant).map_err(|faults| below("http", faults))?;
                let made = made.guarded(&self.beside.writes).with_secrets(self.beside.secrets.clone());
                Some(Arc::new(made.with_limits(size(request_bytes), size(response_bytes))) as Arc<dyn Http>)
            }
        };
        let kubernetes = match settings.grants.kubernetes.clone() {
            None => None,
            Some(grant) => {
                let made = KubernetesCapability::new(&self.entry, grant, self.home.clone());
                let made = made.map_err(|faults| below("kubernetes", faults))?.guarded(&self.beside.writes);
                let made = made.with_limits(size(request_bytes), size(response_bytes));
                Some(Arc::new(made) as Arc<dyn Kubernetes>)
            }
        };
        let libvirt = settings.grants.libvirt.clone().map(|grant| {
            LibvirtCapability::new(&self.entry, grant, &self.beside)
                .map(Arc::new)
                .map_err(|faults| below("libvirt", faults))
        });
        let libvirt = libvirt.transpose()?;
        let transfer = settings.grants.transfer.clone().zip(libvirt.clone()).map(|(grant, libvirt)| {
            TransferCapability::new(grant, libvirt)
                .map(|made| Arc::new(made) as Arc<dyn Transfer>)
                .map_err(|faults| below("transfer", faults))
        });
        Ok(Made {
            grants: settings.grants.clone(),
            request_bytes,
            response_bytes,
            http,
            kubernetes,
            libvirt: libvirt.map(|made| made as Arc<dyn Libvirt>),
            transfer: transfer.transpose()?,
        })
    }
}

impl Made {
    fn serves(&self, settings: &Settings) -> bool {
        self.grants == settings.grants
            && self.request_bytes == settings.limits.request_bytes
            && self.response_bytes == settings.limits.response_bytes
    }

    fn lent(&self) -> Lent {
        Lent {
            http: self.http.clone(),
            kubernetes: self.kubernetes.clone(),
            libvirt: self.libvirt.clone(),
            transfer: self.transfer.clone(),
            clock: None,
        }
    }
}

fn below(grant: &str, faults: Vec<Fault>) -> Vec<Fault> {
    let below = |fault: Fault| Fault { path: format!("grants.{grant}.{}", fault.path), ..fault };
    faults.into_iter().map(below).collect()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use egress_contract::Installation;

    use super::*;

    #[test]
    fn a_simulated_entry_is_refused_where_nothing_is_simulated() {
        let beside = Beside::alone(Installation::new("installation"));
        let mut lender = Lender::new("kvm2".parse().unwrap(), None, beside);
        let simulated = Settings { simulated: true, ..Settings::default() };
        let faults = lender.lend(&simulated).map(drop).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(), ["simulated"]);
        assert!(lender.lend(&Settings::default()).is_ok());
        assert_ne!(simulated.lent_by(), Settings::default().lent_by(), "taking it out is a new revision");
    }
}
