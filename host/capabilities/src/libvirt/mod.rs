//! libvirt at granted hosts, over SSH.
//!
//! Of a host an entry gets the pools and bridges that its grant names, and the names that are this installation's.
//! What can't be undone by that is checked before it is sent: documents by an allow-list of their elements, and
//! content that would name other files of the host.

mod connection;
mod dial;
mod documents;
mod failure;
mod filling;
mod grant;
mod host;
mod known_hosts;
mod xml;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use egress_contract::{EntryName, Fault, Installation};
use egress_runtime::capability::{
    Allowed, Always, Libvirt, LibvirtConnection, LibvirtFailure, LibvirtStage as Stage, Writes,
};
use tokio::sync::OnceCell;

pub use self::grant::{HostGrant, LibvirtGrant, Timeouts};
use self::{
    connection::Open,
    host::{PREFIX, Purpose},
};
pub(crate) use self::{connection::QCOW2, filling::Filling, host::Host};
use crate::credentials::Secrets;

/// What one entry's grant lends of libvirt.
pub struct LibvirtCapability {
    entry: EntryName,
    hosts: BTreeMap<String, Arc<Host>>,
}

/// What is beside the grant.
#[derive(Clone)]
pub struct Beside {
    /// Whose names may be touched.
    pub installation: Installation,
    /// For `secretRef`, where there is a cluster.
    pub secrets: Option<Arc<dyn Secrets>>,
    /// Nothing leaves for a host that would change it, unless it may.
    pub writes: Arc<dyn Writes>,
}

impl Beside {
    /// Without a cluster, and never withheld.
    pub fn alone(installation: Installation) -> Self {
        Self { installation, secrets: None, writes: Arc::new(Always) }
    }
}

impl LibvirtCapability {
    /// Or everything that is wrong with the grant; paths begin at the grant.
    pub fn new(entry: &EntryName, grant: LibvirtGrant, beside: &Beside) -> Result<Self, Vec<Fault>> {
        let faults = grant.faults();
        if !faults.is_empty() {
            return Err(faults);
        }
        let host = |(name, grant): (String, HostGrant)| {
            let host = Host {
                entry: entry.clone(),
                name: name.clone(),
                grant,
                installation: beside.installation.clone(),
                secrets: beside.secrets.clone(),
                writes: Arc::clone(&beside.writes),
                reads: Default::default(),
                changes: Default::default(),
                folders: Default::default(),
            };
            (name, Arc::new(host))
        };
        Ok(Self { entry: entry.clone(), hosts: grant.hosts.into_iter().map(host).collect() })
    }

    pub(crate) fn host(&self, name: &str) -> Result<&Arc<Host>, LibvirtFailure> {
        self.hosts.get(name).ok_or_else(|| {
            let granted: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
            let (entry, granted) = (&self.entry, granted.join(", "));
            let message = format!("entry {entry} has no host {name:?}; its grant names {granted}");
            failure::plain(Stage::Denied, message)
        })
    }
}

#[async_trait]
impl Libvirt for LibvirtCapability {
    async fn granted(&self, host: &str) -> Result<Allowed, LibvirtFailure> {
        let HostGrant { pools, bridges, .. } = &self.host(host)?.grant;
        Ok(Allowed { pools: pools.clone(), bridges: bridges.clone(), prefix: PREFIX.to_owned() })
    }

    async fn open(&self, host: &str, dedicated: bool) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure> {
        let host = Arc::clone(self.host(host)?);
        let reads = match dedicated {
            true => Arc::new(host.dial(Purpose::Read).await?),
            false => host.pooled(Purpose::Read).await?,
        };
        Ok(Arc::new(Open { host, dedicated, reads, changes: OnceCell::new() }))
    }
}
