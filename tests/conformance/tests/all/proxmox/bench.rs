//! One host, one Proxy, one simulated cluster that a test can reach into.

use std::{
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use egress_conformance::{
    host::{Host, Patience},
    kind::proxmox::SimulatedProxmox,
    proxy::Proxy,
    stage::{Stage, Subject},
};
use egress_contract::{Created, Deleted, Error, Instance};
use egress_runtime::{Limits, Module, Revision};
use egress_sim::proxmox::{Pve, Seen};
use serde_json::{Value, json};

use crate::support::{component, runtime};

static MODULE: LazyLock<Module> = LazyLock::new(|| component("proxmox-provider"));
/// Keeps what was compiled.
static COMPILED: OnceLock<Arc<Revision>> = OnceLock::new();

/// See the module.
pub struct Bench {
    pub stage: Stage,
    pub pve: Pve,
    pub host: Host,
    pub proxy: Proxy,
}

/// A config for two nodes with a template each.
pub fn config() -> Value {
    json!({
        "nodes": [{ "name": "pve1" }, { "name": "pve2" }],
        "isoStorage": "local",
        "images": { "debian-13": { "templates": { "pve1": 9000, "pve2": 9001 } } },
        "machineTypes": { "small": { "cores": 1, "memoryMiB": 512 } },
        "defaults": { "zone": "pve1" },
        "diskSizeGb": 8,
    })
}

/// The same with one more key.
pub fn with(key: &str, value: Value) -> Value {
    let mut config = config();
    config[key] = value;
    config
}

impl Bench {
    /// A provider of this config at the cluster of two nodes.
    pub async fn new(config: Value) -> Self {
        let (world, pve) = SimulatedProxmox::for_config(&self::config()).unwrap().furnished();
        let subject = Subject {
            entry: "conformance".parse().unwrap(),
            module: MODULE.clone(),
            config,
            grants: json!({}),
            limits: Limits::default(),
            legacy: vec![vec![("proxy-operator-managed".to_owned(), "true".to_owned())]],
        };
        let stage = Stage::new(runtime(), subject, world);
        let host = stage.host("a").await.unwrap();
        COMPILED.get_or_init(|| Arc::clone(host.revision()));
        Self { proxy: stage.proxy(1), stage, pve, host }
    }

    /// One step of create.
    pub async fn step(&mut self) -> Result<Created, Error> {
        self.host.create_step(&mut self.proxy).await.unwrap().answer
    }

    /// Create until it is done or says something else than pending.
    pub async fn make(&mut self) -> Result<(), Error> {
        for _ in 0..100 {
            match self.step().await? {
                Created::Done(_) => return Ok(()),
                Created::Pending(pending) => self.stage.wait(pending.poll).await,
            }
        }
        panic!("create is not done after 100 calls")
    }

    /// Delete in the same way.
    pub async fn unmake(&mut self) -> Result<(), Error> {
        for _ in 0..100 {
            match self.host.delete_step(&mut self.proxy).await.unwrap().answer? {
                Deleted::Done => return Ok(()),
                Deleted::Pending(pending) => self.stage.wait(pending.poll).await,
            }
        }
        panic!("delete is not done after 100 calls")
    }

    /// The operator's way: failures that pass are got over.
    pub async fn make_in_the_end(&mut self) {
        self.host.create(&mut self.proxy, Patience::default()).await.unwrap().unwrap();
    }

    pub async fn get(&self) -> Result<Instance, Error> {
        self.host.get(&self.proxy).await.unwrap().answer
    }

    /// After the guest has booted.
    pub async fn booted(&self) {
        self.stage.wait(Duration::from_secs(30)).await;
    }

    /// The Proxy's machine, if there is one.
    pub fn machine(&self) -> Option<Seen> {
        let name = self.proxy.name();
        self.pve.machines().into_iter().find(|machine| machine.name == name.as_str())
    }

    pub fn vmid(&self) -> u32 {
        self.machine().unwrap().vmid
    }

    /// Where its seed is.
    pub fn seeds(&self) -> Vec<String> {
        let file = format!("{}.iso", self.proxy.name());
        self.pve.images().into_iter().filter(|image| image.file == file).map(|image| image.node).collect()
    }

    /// The requests since a call of the journal, as `GET /nodes/pve1/status`.
    pub fn asked_since(&self, number: u64) -> Vec<String> {
        let lines = self.stage.journal().lines();
        let calls = lines.iter().filter(|line| line.number > number && line.is_host_call());
        calls.filter(|line| !line.call.starts_with("clock")).map(|line| line.about.clone()).collect()
    }

    pub fn last(&self) -> u64 {
        self.stage.journal().last()
    }
}

/// An executor for one test.
pub fn block<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)
}
