//! What an administrator sees and does at the cluster.

use std::collections::BTreeMap;

use super::{
    rights::Rights,
    routes::Pve,
    state::{GIB, Iso, Line, Machine, Run, Storage, World},
    tasks::Work,
};

/// A machine, as somebody sees it who knows what every task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub vmid: u32,
    /// Where it stands.
    pub node: String,
    /// Of one that is cloned yet, the name that it gets.
    pub name: String,
    /// The same of its description.
    pub description: String,
    /// Its other options.
    pub config: BTreeMap<String, String>,
    /// What it is locked by.
    pub lock: Option<String>,
    /// Whether it runs.
    pub running: bool,
    /// Whether others are cloned from it.
    pub template: bool,
    /// The firewall's rules, if it is armed.
    pub firewall: Option<Vec<BTreeMap<String, String>>>,
}

/// An ISO image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where; empty where all nodes share it.
    pub node: String,
    /// On which storage.
    pub storage: String,
    /// Its name.
    pub file: String,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Whether somebody is removing it.
    pub held: bool,
}

fn seen(world: &World, vmid: u32, machine: &Machine) -> Seen {
    let clones = world.tasks.values().filter(|task| task.is_running()).filter_map(|task| task.clone_of());
    let becoming = clones.into_iter().find(|clone| clone.newid == vmid && machine.get("name").is_empty());
    let said = |key: &str| machine.get(key).to_owned();
    Seen {
        vmid,
        node: machine.node.clone(),
        name: becoming.map_or_else(|| said("name"), |clone| clone.name.clone()),
        description: becoming.map_or_else(|| said("description"), |clone| clone.description.clone()),
        config: machine.config.clone(),
        lock: machine.lock.clone(),
        running: machine.run.is_some(),
        template: machine.template,
        firewall: machine.armed.then(|| machine.rules.clone()),
    }
}

impl Pve {
    /// Every machine.
    pub fn machines(&self) -> Vec<Seen> {
        let world = self.lock();
        let machines = world.machines.iter().filter(|(_, machine)| !machine.container);
        machines.map(|(vmid, machine)| seen(&world, *vmid, machine)).collect()
    }

    /// Every ISO image.
    pub fn images(&self) -> Vec<Image> {
        let world = self.lock();
        let mut images = Vec::new();
        for ((node, storage), of) in &world.storages {
            images.extend(of.isos.iter().map(|(file, iso)| Image {
                node: node.clone(),
                storage: storage.clone(),
                file: file.clone(),
                data: iso.data.clone(),
                held: iso.held,
            }));
        }
        images
    }

    /// Tasks that run, by kind and what they are about.
    pub fn running(&self) -> Vec<(String, String)> {
        let world = self.lock();
        let running = world.tasks.values().filter(|task| task.is_running());
        running.map(|task| (task.kind.clone(), task.id.clone())).collect()
    }

    /// Puts a machine there, or changes it.
    pub fn put(&self, vmid: u32, node: &str, config: &[(&str, &str)]) {
        let mut world = self.lock();
        let now = world.now();
        let machine = world.machines.entry(vmid).or_insert_with(|| Machine::new(node, now));
        for (key, value) in config {
            machine.config.insert((*key).to_owned(), (*value).to_owned());
        }
        machine.writes += 1;
    }

    /// A template, with a disk of so many GiB on a storage.
    pub fn put_template(&self, vmid: u32, node: &str, storage: &str, gib: u64) {
        let disk = format!("{storage}:{vmid}/base-{vmid}-disk-0.qcow2,size={gib}G");
        let net = "virtio=BC:24:11:00:00:00,bridge=vmbr0";
        let name = format!("template-{vmid}");
        let config = [
            ("name", name.as_str()),
            ("scsi0", &disk),
            ("net0", net),
            ("cores", "1"),
            ("memory", "512"),
            ("tags", "golden"),
            ("scsihw", "virtio-scsi-single"),
        ];
        self.put(vmid, node, &config);
        self.edit(vmid, |machine| machine.template = true);
    }

    /// A container with this number.
    pub fn put_container(&self, vmid: u32, node: &str) {
        self.put(vmid, node, &[("name", "somebodys-container")]);
        self.edit(vmid, |machine| machine.container = true);
    }

    fn edit(&self, vmid: u32, change: impl FnOnce(&mut Machine)) -> bool {
        self.lock().machines.get_mut(&vmid).map(change).is_some()
    }

    /// Rewrites its description and tags.
    pub fn rewrite(&self, vmid: u32, change: impl Fn(&str) -> String) -> bool {
        self.edit(vmid, |machine| {
            for key in ["description", "tags"] {
                let text = change(machine.get(key));
                machine.config.insert(key.to_owned(), text);
            }
            machine.writes += 1;
        })
    }

    /// Removes a machine at once, and nothing beside it; a clone that makes it ends.
    pub fn remove(&self, vmid: u32) -> bool {
        let mut world = self.lock();
        world.machines.remove(&vmid).is_some()
    }

    /// Removes an image, or puts one there.
    pub fn put_image(&self, node: &str, storage: &str, file: &str, data: Option<&[u8]>) -> bool {
        let mut world = self.lock();
        let now = world.now();
        let Some(storage) = world.storage_mut(node, storage) else { return false };
        match data {
            Some(data) => {
                let iso = Iso { data: data.to_vec(), at_ms: now, held: false };
                storage.isos.insert(file.to_owned(), iso).is_none()
            }
            None => storage.isos.remove(file).is_some(),
        }
    }

    /// Somebody removes a machine, and that goes on until [`Self::let_go`].
    pub fn hold(&self, vmid: u32) -> bool {
        let mut world = self.lock();
        let Some(machine) = world.machines.get_mut(&vmid) else { return false };
        (machine.held, machine.run) = (true, None);
        machine.lock = Some("destroyed".to_owned());
        let node = machine.node.clone();
        world.begin(&node, "qmdestroy", &vmid.to_string(), Work::Destroy { vmid, waited: 0 });
        true
    }

    /// It ends.
    pub fn let_go(&self, vmid: u32) -> bool {
        self.edit(vmid, |machine| machine.held = false)
    }

    /// The same of an image.
    pub fn hold_image(&self, node: &str, storage: &str, file: &str, held: bool) -> bool {
        let mut world = self.lock();
        let Some(of) = world.storage_mut(node, storage) else { return false };
        let Some(iso) = of.isos.get_mut(file) else { return false };
        iso.held = held;
        if held {
            let node = if node.is_empty() {
                world.nodes.keys().next().cloned().unwrap_or_default()
            } else {
                node.to_owned()
            };
            world.begin(
                &node,
                "imgdel",
                storage,
                Work::Erase { storage: storage.to_owned(), file: file.to_owned() },
            );
        }
        true
    }

    /// `qm stop`.
    pub fn stop(&self, vmid: u32) -> bool {
        self.edit(vmid, |machine| machine.run = None)
    }

    /// It runs in this state, as QEMU calls it.
    pub fn run_as(&self, vmid: u32, inner: &str) -> bool {
        let now = self.lock().now();
        self.edit(vmid, |machine| {
            let since_ms = machine.run.as_ref().map_or(now, |run| run.since_ms);
            machine.run = Some(Run { since_ms, inner: inner.to_owned() });
        })
    }

    /// Locks it, or unlocks it (`qm unlock`).
    pub fn set_lock(&self, vmid: u32, lock: Option<&str>) -> bool {
        self.edit(vmid, |machine| machine.lock = lock.map(str::to_owned))
    }

    /// `qm suspend --todisk`.
    pub fn hibernate(&self, vmid: u32) -> bool {
        self.edit(vmid, |machine| {
            machine.run = None;
            machine.lock = Some("suspended".to_owned());
        })
    }

    /// It runs, and tells no address.
    pub fn silence(&self, vmid: u32) -> bool {
        self.edit(vmid, |machine| machine.silent = true)
    }

    /// It stands on another node from now on.
    pub fn migrate(&self, vmid: u32, node: &str) -> bool {
        self.edit(vmid, |machine| node.clone_into(&mut machine.node))
    }

    /// Whether storages have room.
    pub fn fill_up(&self, full: bool) {
        self.lock().storages.values_mut().for_each(|storage| storage.full = full);
    }

    /// One more storage of a node, or (where it is empty) of all, for these kinds of content.
    pub fn put_storage(&self, node: &str, name: &str, content: &str) {
        let storage = Storage {
            content: content.to_owned(),
            total: 100 * GIB,
            active: true,
            full: false,
            shared: node.is_empty(),
            isos: BTreeMap::new(),
        };
        self.lock().storages.insert((node.to_owned(), name.to_owned()), storage);
    }

    /// Whether a storage can be used.
    pub fn activate(&self, node: &str, storage: &str, active: bool) {
        if let Some(storage) = self.lock().storage_mut(node, storage) {
            storage.active = active;
        }
    }

    /// Whether what is started ends at once.
    pub fn never_start(&self, never: bool) {
        self.lock().never_starts = never;
    }

    /// Clones fail in these words.
    pub fn fail_clones(&self, text: Option<&str>) {
        self.lock().clones_fail = text.map(str::to_owned);
    }

    /// The token may look, and no more; or everything.
    pub fn only_look(&self, only: bool) {
        self.lock().rights = if only { Rights::looking() } else { Rights::all() };
    }

    /// The token has all privileges but this one.
    pub fn take_privilege(&self, privilege: &str) {
        self.lock().rights = Rights::without(privilege);
    }

    /// The token may do this at these paths, and nothing else; no privilege named is all of them.
    pub fn allow(&self, paths: &[(&str, &[&str])]) {
        self.lock().rights = Rights::at(paths);
    }

    /// The token may do nothing, as one with privilege separation and no permissions.
    pub fn take_all(&self) {
        self.lock().rights = Rights::default();
    }

    /// The token is gone, or there again.
    pub fn revoke(&self, revoked: bool) {
        self.lock().revoked = revoked;
    }

    /// Something in between answers with a page of its own.
    pub fn interpose(&self, page: bool) {
        self.lock().page = page;
    }

    /// A node is there or not.
    pub fn set_up(&self, node: &str, up: bool) {
        if let Some(node) = self.lock().nodes.get_mut(node) {
            node.up = up;
        }
    }

    /// A node has so much memory.
    pub fn set_memory(&self, node: &str, bytes: u64) {
        if let Some(node) = self.lock().nodes.get_mut(node) {
            node.memory = bytes;
        }
    }

    /// Which version answers.
    pub fn set_line(&self, line: Line) {
        self.lock().line = line;
    }

    /// A resource pool.
    pub fn put_pool(&self, name: &str) {
        self.lock().pools.insert(name.to_owned());
    }
}
