//! What a machine is made of: room, its seed, the clone.

use provider_sdk::Error;

use super::{CLONE_POLL_MS, Making, Next, TASK_POLL_MS};
use crate::{
    Host,
    cluster::{Clone, Trouble, number, text},
    disk, mark,
    phrases::Meaning,
    progress::Stage,
    seed,
};

pub const GIB: u64 = 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// Where the seed is: a drive that every kind of machine has.
pub const DRIVE: &str = "ide2";

impl<H: Host> Making<'_, '_, H> {
    /// Whether the template can become such a machine; nothing is made before that is known.
    pub fn template(&mut self) -> Result<Next, Error> {
        let (template, key) = (self.placed.template, &self.placed.image.key);
        let source = self.progress.source.clone();
        let config = match self.cluster.machine_config(&source, template) {
            Ok(config) => config,
            Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => return Err(self.no_template()),
            Err(trouble) => return Err(self.about(trouble)),
        };
        let unfit = |why: String| {
            let name = &self.target.name;
            let told =
                format!("node {source}: template {template} of images.{key} {why}; {name} is not made");
            Error::permanent("template", told)
        };
        if number(config.get("template")) != Some(1) {
            return Err(unfit(format!("is no template: convert it (qm template {template})")));
        }
        let is_cloudinit =
            |value: &serde_json::Value| value.as_str().is_some_and(|value| value.contains("cloudinit"));
        let mut drives = config.as_object().into_iter().flatten();
        if let Some((drive, _)) = drives.find(|(_, value)| is_cloudinit(value)) {
            return Err(unfit(format!(
                "has a cloud-init drive ({drive}), which would hide the seed: remove it"
            )));
        }
        if text(&config, DRIVE).is_some_and(|drive| !drive.contains("media=cdrom")) {
            return Err(unfit(format!("has a disk at {DRIVE}, where the seed goes: move it")));
        }
        if self.rewrites_network() && text(&config, "net0").is_none() {
            return Err(unfit("has no net0, which bridge, vlan and firewall are about: add it".to_owned()));
        }
        let drive = &self.placed.image.disk;
        let Some(disk) = text(&config, drive).and_then(disk::read) else {
            return Err(unfit(format!("has no disk {drive}: name its disk as images.{key}.disk")));
        };
        let wanted = self.cluster.config.disk_gib.unwrap_or_default();
        let size = match disk.bytes {
            Some(bytes) => bytes.div_ceil(GIB),
            None if wanted > 0 => {
                let why = format!("does not say how large {drive} is, so it can't grow to {wanted} GiB");
                return Err(unfit(why));
            }
            None => 0,
        };
        let full = self.cluster.config.full_clones;
        self.progress.gib = if full { size.max(wanted) } else { wanted.saturating_sub(size).max(1) };
        let own = self.cluster.config.node(self.node()).and_then(|node| node.storage.clone());
        self.progress.storage = own.filter(|_| full).unwrap_or(disk.storage);
        Ok(Next::Stage(Stage::Room))
    }

    /// Whether the storage holds the disk when it has grown.
    pub fn room(&mut self) -> Result<Next, Error> {
        let (node, storage, needed) = (self.node(), &self.progress.storage, self.progress.gib);
        let name = &self.target.name;
        let state = match self.cluster.storage(node, storage) {
            Ok(state) => state,
            Err(trouble) if trouble.lacks_storage() => {
                let told = format!("{name}: node {node} has no storage {storage}; name one that it has");
                return Err(Error::permanent("storage-not-found", told));
            }
            Err(trouble) => return Err(self.about(trouble)),
        };
        if number(state.get("active")) != Some(1) {
            let told = format!("{name}: node {node}: storage {storage} is not active; mount or enable it");
            return Err(Error::transient("storage-not-active", told));
        }
        let free = number(state.get("avail")).unwrap_or_default() / GIB;
        if free < needed {
            return Err(Error::quota(format!(
                "node {node}: storage {storage} has {free} GiB left, and {name} needs {needed} GiB; make room, or lower \
                 diskSizeGb"
            ))
            .detail("availableGiB", free)
            .detail("neededGiB", needed));
        }
        Ok(Next::Stage(Stage::Memory))
    }

    /// Whether the node has the memory.
    pub fn memory(&mut self) -> Result<Next, Error> {
        let node = self.node();
        let state = self.cluster.node_status(node).map_err(|trouble| self.about(trouble))?;
        let memory = state.get("memory");
        let said = |key: &str| number(memory.and_then(|memory| memory.get(key)));
        let needed = self.placed.machine.memory_mib;
        // Older servers say only what nothing at all uses.
        if let Some(free) = said("available").or_else(|| said("free")).map(|bytes| bytes / MIB)
            && free < needed
        {
            return Err(Error::quota(format!(
                "node {node} has {free} MiB of memory free, and {} needs {needed} MiB; choose a smaller machineType or \
                 another node",
                self.target.name
            ))
            .detail("freeMiB", free)
            .detail("neededMiB", needed));
        }
        Ok(Next::Stage(Stage::Seed))
    }

    /// The seed. It is overwritten: the same Proxy gives the same bytes.
    pub fn upload(&mut self) -> Result<Next, Error> {
        let file = seed::file(&self.target.name);
        let begun = self.cluster.upload(self.node(), self.seeds(), &file, self.seed.to_vec());
        let upid = begun.map_err(|trouble| self.about(trouble))?;
        self.progress.task = Some(upid.to_string());
        let message = format!("node {}: uploads the seed", self.node());
        Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
    }

    pub fn clone(&mut self) -> Result<Next, Error> {
        let (source, template) = (self.progress.source.clone(), self.placed.template);
        let active = self.cluster.active(&source, Some(template)).map_err(|trouble| self.about(trouble))?;
        let clones = active.iter().filter(|task| task.kind == "qmclone").count();
        let most = self.cluster.config.clones_at_once;
        if clones >= most {
            let message =
                format!("node {source}: {clones} clones of template {template} run, and {most} may: waits");
            return Ok(Next::Wait { poll_ms: CLONE_POLL_MS, message });
        }
        let host = self.cluster.host;
        let description = mark::write(&host.mark(), host.now_ms(), (self.node(), self.seeds()), false);
        let own = self.cluster.config.node(self.node()).and_then(|node| node.storage.as_deref());
        let clone = Clone {
            source: &source,
            template,
            vmid: self.vmid(),
            node: self.node(),
            name: &self.target.name,
            description: &description,
            storage: own,
        };
        match self.cluster.clone(&clone) {
            Ok(upid) => {
                self.progress.task = Some(upid.to_string());
                let message = format!("node {source}: clones template {template} as {}", self.vmid());
                Ok(Next::Wait { poll_ms: CLONE_POLL_MS, message })
            }
            Err(trouble) if trouble.meaning() == Some(Meaning::Taken) => Ok(self.is_taken(self.vmid())),
            Err(trouble) => Err(self.about(trouble)),
        }
    }

    pub fn rewrites_network(&self) -> bool {
        let bridge = self.cluster.config.node(self.node()).is_some_and(|node| node.bridge.is_some());
        bridge || self.cluster.config.vlan.is_some() || self.cluster.config.firewall.is_some()
    }

    /// A call's failure, with the machine's name.
    pub fn about(&self, trouble: Trouble) -> Error {
        let vanished = trouble.meaning() == Some(Meaning::Missing);
        let mut error = Error::from(trouble);
        if vanished {
            error.reason = "vanished".to_owned();
        }
        if !error.message.contains(&self.target.name) {
            error.message = format!("{}: {}", self.target.name, error.message);
        }
        error
    }
}
