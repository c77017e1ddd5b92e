//! A component on the simulated libvirt, called as the operator calls it, for what the suite does not try.

use std::{sync::Arc, time::Duration};

use egress_conformance::proxy::{OURS, Proxy, target_of};
use egress_contract::{Created, Deleted, Error, Installation, Instance, Item, Placement, Provider};
use egress_runtime::{
    Candidate, Lent, Limits, Module, Revision, Slot,
    capability::{Domain, Libvirt, LibvirtConnection},
};
use egress_sim::{
    clock::VirtualClock,
    libvirt::{HostSpec, Hosts, Transfers, Volume},
};
use serde_json::{Value, json};

use crate::support::runtime;

pub const HOST: &str = "hv1";
pub const POOL: &str = "default";
pub const IMAGE_URL: &str = "https://images.example.org/debian-13.qcow2";
/// More than anything takes.
const MOST_STEPS: usize = 200;

/// See the module.
pub struct Bench {
    pub hosts: Hosts,
    clock: VirtualClock,
    slot: Slot,
    module: Module,
    transfers: Transfers,
}

/// An entry as it stands at some time.
pub struct Running {
    pub revision: Revision,
    clock: VirtualClock,
}

/// With one image, one machine type and these changes.
pub fn config(changes: Value) -> Value {
    let mut config = json!({
        "hosts": [{ "name": HOST }],
        "images": { "debian": { "url": IMAGE_URL } },
        "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 512 } },
    });
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config
}

/// The number tells Proxies apart.
pub fn proxy(number: u32) -> Proxy {
    let placement = Placement { image: Some("debian".to_owned()), ..Placement::default() };
    let mut proxy = Proxy::new(OURS, "team-a", &format!("web-{number}"), number);
    proxy.spec.placement = placement;
    proxy
}

impl Bench {
    pub fn new(module: Module) -> Self {
        let clock = VirtualClock::default();
        let hosts = Hosts::new(Arc::new(clock.clone()), &[HostSpec::new(HOST)]);
        let slot = Slot::new(runtime(), "home".parse().unwrap(), Installation::new(OURS));
        let transfers = Transfers::new(hosts.clone());
        Self { hosts, clock, slot, module, transfers }
    }

    pub async fn run(&self, config: Value) -> Running {
        self.run_with(config, Vec::new()).await
    }

    pub async fn run_with(&self, config: Value, legacy: Vec<egress_contract::Mark>) -> Running {
        let lent = Lent {
            libvirt: Some(Arc::new(self.hosts.clone())),
            transfer: Some(Arc::new(self.transfers.clone())),
            clock: Some(Arc::new(self.clock.clone())),
            ..Lent::default()
        };
        let candidate = Candidate {
            module: self.module.clone(),
            pinned: None,
            config,
            lent,
            grants: Value::Null,
            limits: Limits::default(),
            legacy,
        };
        let revision = self.slot.configured(candidate).await.unwrap();
        Running { revision, clock: self.clock.clone() }
    }

    /// As an administrator has it.
    pub async fn host(&self) -> Arc<dyn LibvirtConnection> {
        self.hosts.open(HOST, false).await.unwrap()
    }

    pub async fn domain(&self, name: &str) -> Domain {
        self.host().await.lookup(name).await.unwrap()
    }

    pub fn volume(&self, name: &str) -> Option<Volume> {
        self.hosts
            .volumes()
            .into_iter()
            .find(|(_, _, known, _)| known == name)
            .map(|(_, _, _, volume)| volume)
    }

    pub fn volumes(&self) -> Vec<String> {
        self.hosts.volumes().into_iter().map(|(_, _, name, _)| name).collect()
    }

    pub fn domains(&self) -> Vec<String> {
        self.hosts.domains().into_iter().map(|(_, name, _)| name).collect()
    }
}

impl Running {
    pub fn wait(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Until it is done, or fails: what was said on the way, and the end.
    pub async fn create(&self, proxy: &mut Proxy) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for _ in 0..MOST_STEPS {
            match self.revision.create(&proxy.target(), &proxy.spec, &proxy.user_data).await {
                Ok(Created::Done(id)) => {
                    proxy.id = Some(id);
                    proxy.progress = None;
                    return Ok(said);
                }
                Ok(Created::Pending(step)) => {
                    proxy.id = step.id.or(proxy.id.take());
                    proxy.progress = Some(step.progress);
                    said.push(step.message);
                    self.clock.advance(step.poll);
                }
                Err(error) => {
                    proxy.progress = None;
                    return Err(error);
                }
            }
        }
        panic!("create is not done after {MOST_STEPS} steps: {said:?}");
    }

    pub async fn made(&self, number: u32) -> Proxy {
        let mut proxy = proxy(number);
        self.create(&mut proxy).await.unwrap();
        proxy
    }

    pub async fn get(&self, proxy: &Proxy) -> Result<Instance, Error> {
        self.revision.get(&proxy.target()).await
    }

    pub async fn delete(&self, proxy: &Proxy) -> Result<Deleted, Error> {
        self.revision.delete(&proxy.target()).await
    }

    /// All items, and what could not be read.
    pub async fn list(&self) -> (Vec<Item>, Vec<String>) {
        let (mut items, mut unread, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let page = self.revision.list(HOST, cursor.as_deref()).await.unwrap();
            items.extend(page.items);
            unread.extend(page.unread);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return (items, unread),
            }
        }
    }

    /// As the collector does.
    pub async fn collect(&self, item: &Item) -> Result<Deleted, Error> {
        self.revision.delete(&target_of(item).unwrap()).await
    }
}
