//! What there is: nodes, storages, machines, tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use egress_runtime::capability::Clock;

use super::{rights::Rights, tasks::Task};

pub const GIB: u64 = 1024 * 1024 * 1024;
/// Statistics come so often.
pub const STATISTICS_MS: u64 = 10_000;

/// Which major version answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Errors in the reason phrase alone, the agent's privilege under its old name, a resize that ends at once.
    V8,
    /// What is told everywhere else.
    V9,
}

/// A node to be made.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// As the cluster calls it.
    pub name: String,
    /// By the grant's name.
    pub endpoint: String,
    /// Bytes.
    pub memory: u64,
}

impl NodeSpec {
    /// One as a small cluster has it.
    pub fn new(name: &str, endpoint: &str) -> Self {
        Self { name: name.to_owned(), endpoint: endpoint.to_owned(), memory: 64 * GIB }
    }
}

/// A storage to be made.
#[derive(Clone, Debug)]
pub struct StorageSpec {
    /// Of which node; none for all of them, shared.
    pub node: Option<String>,
    /// `local`.
    pub name: String,
    /// `images,iso`.
    pub content: String,
    /// Bytes.
    pub total: u64,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub memory: u64,
    pub up: bool,
}

/// A file on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iso {
    pub data: Vec<u8>,
    pub at_ms: u64,
    /// Somebody removes it, and that takes its time.
    pub held: bool,
}

#[derive(Clone, Debug)]
pub struct Storage {
    pub content: String,
    pub total: u64,
    pub active: bool,
    pub full: bool,
    pub shared: bool,
    pub isos: BTreeMap<String, Iso>,
}

/// A machine that runs.
#[derive(Clone, Debug)]
pub struct Run {
    pub since_ms: u64,
    /// `running`, `paused`.
    pub inner: String,
}

/// A machine or a container.
#[derive(Clone, Debug)]
pub struct Machine {
    pub node: String,
    pub container: bool,
    /// As it stands in the file; without lock and template.
    pub config: BTreeMap<String, String>,
    pub lock: Option<String>,
    pub template: bool,
    pub run: Option<Run>,
    /// Since when its file is there.
    pub born_ms: u64,
    /// Since when the file has a name.
    pub named_ms: u64,
    /// Raised with each write.
    pub writes: u64,
    /// It runs, and its agent tells no address.
    pub silent: bool,
    /// Its removal goes on until somebody lets it.
    pub held: bool,
    pub rules: Vec<BTreeMap<String, String>>,
    pub armed: bool,
    pub pool: Option<String>,
}

impl Machine {
    pub fn new(node: &str, now: u64) -> Self {
        Self {
            node: node.to_owned(),
            container: false,
            config: BTreeMap::new(),
            lock: None,
            template: false,
            run: None,
            born_ms: now,
            named_ms: now,
            writes: 0,
            silent: false,
            held: false,
            rules: Vec::new(),
            armed: false,
            pool: None,
        }
    }

    pub fn get(&self, key: &str) -> &str {
        self.config.get(key).map(String::as_str).unwrap_or_default()
    }

    pub fn memory(&self) -> u64 {
        self.get("memory").parse().unwrap_or(512)
    }
}

/// All of it.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub line: Line,
    pub nodes: BTreeMap<String, Node>,
    /// The node that an endpoint leads to.
    pub endpoints: BTreeMap<String, String>,
    /// By node (empty where shared) and name.
    pub storages: BTreeMap<(String, String), Storage>,
    pub machines: BTreeMap<u32, Machine>,
    pub pools: BTreeSet<String>,
    pub tasks: BTreeMap<String, Task>,
    pub rights: Rights,
    /// The token does not exist.
    pub revoked: bool,
    pub never_starts: bool,
    /// Every clone fails in these words.
    pub clones_fail: Option<String>,
    /// A proxy in between answers with a page of its own.
    pub page: bool,
    pub made: u32,
}

impl World {
    pub fn now(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Whether the token has a privilege; of a machine, also by the pool that it is in.
    pub fn has(&self, path: &str, privilege: &str) -> bool {
        let vmid = path.strip_prefix("/vms/").and_then(|vmid| vmid.parse::<u32>().ok());
        let pool = vmid.and_then(|vmid| self.machines.get(&vmid)).and_then(|machine| machine.pool.as_ref());
        self.rights.has(path, privilege)
            || pool.is_some_and(|pool| self.rights.has(&format!("/pool/{pool}"), privilege))
    }

    fn key(&self, node: &str, name: &str) -> (String, String) {
        let shared = (String::new(), name.to_owned());
        if self.storages.contains_key(&shared) { shared } else { (node.to_owned(), name.to_owned()) }
    }

    pub fn storage(&self, node: &str, name: &str) -> Option<&Storage> {
        self.storages.get(&self.key(node, name))
    }

    pub fn storage_mut(&mut self, node: &str, name: &str) -> Option<&mut Storage> {
        let key = self.key(node, name);
        self.storages.get_mut(&key)
    }

    /// A volume's ISO image, if it is one that is there.
    pub fn iso(&self, node: &str, volume: &str) -> Option<&Iso> {
        let (storage, file) = volume.split_once(":iso/")?;
        self.storage(node, storage)?.isos.get(file)
    }

    pub fn free_memory(&self, node: &str) -> u64 {
        let total = self.nodes.get(node).map_or(0, |node| node.memory);
        let running = self.machines.values().filter(|machine| machine.node == node && machine.run.is_some());
        total.saturating_sub(running.map(|machine| machine.memory() * 1024 * 1024).sum())
    }

    /// What the list of all says a machine is called: statistics come later.
    pub fn shown_name(&self, vmid: u32, machine: &Machine) -> Option<String> {
        let last = self.now() / STATISTICS_MS * STATISTICS_MS;
        let up = self.nodes.get(&machine.node).is_some_and(|node| node.up);
        if !up || last < machine.born_ms {
            return None;
        }
        let named = last >= machine.named_ms && !machine.get("name").is_empty();
        Some(if named { machine.get("name").to_owned() } else { format!("VM {vmid}") })
    }

    /// Whether a clone onto this number is at work.
    pub fn clones_onto(&self, vmid: u32) -> bool {
        self.tasks.values().any(|task| task.is_running() && task.clones_onto() == Some(vmid))
    }
}
