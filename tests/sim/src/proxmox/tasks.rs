//! What the cluster works on by itself: each task moves on when its time has come.

use super::{
    answers,
    routes::PRINCIPAL,
    state::{Iso, Machine, Run, World},
};

/// The file of a clone is not there at once.
const APPEARS_MS: u64 = 200;
const CLONE_MS: u64 = 900;
const SHORT_MS: u64 = 200;
const START_MS: u64 = 500;
/// Whoever wants a machine's file waits for so long.
const FILE_LOCK_MS: u64 = 10_000;
const AGAIN_MS: u64 = 500;

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    pub node: String,
    pub kind: String,
    pub id: String,
    pub start_ms: u64,
    /// When it moves on.
    due_ms: u64,
    pub log: Vec<String>,
    /// How it ended.
    pub end: Option<String>,
    work: Work,
}

/// A clone on its way.
#[derive(Clone, Debug)]
pub struct Clone {
    pub source: u32,
    pub newid: u32,
    pub name: String,
    pub description: String,
    pub target: String,
    pub storage: Option<String>,
    pub pool: Option<String>,
    pub full: bool,
    pub step: u8,
}

/// What a task does.
#[derive(Clone, Debug)]
pub enum Work {
    Nothing,
    Clone(Clone),
    Upload {
        storage: String,
        file: String,
        data: Vec<u8>,
    },
    Erase {
        storage: String,
        file: String,
    },
    Resize {
        vmid: u32,
        disk: String,
        size: String,
    },
    Start {
        vmid: u32,
    },
    Stop {
        vmid: u32,
    },
    /// How long it waited for the machine's file.
    Destroy {
        vmid: u32,
        waited: u64,
    },
}

impl Task {
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }

    pub fn clones_onto(&self) -> Option<u32> {
        match &self.work {
            Work::Clone(clone) => Some(clone.newid),
            _ => None,
        }
    }

    /// What is cloned, for whoever looks from outside.
    pub fn clone_of(&self) -> Option<&Clone> {
        match &self.work {
            Work::Clone(clone) => Some(clone),
            _ => None,
        }
    }
}

/// Goes on after so long, or has ended so.
enum Step {
    After(u64),
    End(String),
}

fn ok() -> Step {
    Step::End("OK".to_owned())
}

impl World {
    /// Begins a task; its handle.
    pub fn begin(&mut self, node: &str, kind: &str, id: &str, work: Work) -> String {
        self.made += 1;
        let now = self.now();
        let upid = format!(
            "UPID:{node}:{:08X}:{:08X}:{:08X}:{kind}:{id}:{PRINCIPAL}:",
            1000 + self.made,
            118_312 + now / 10,
            1_767_225_600 + now / 1000
        );
        let due = match &work {
            Work::Clone(_) => APPEARS_MS,
            Work::Start { .. } | Work::Stop { .. } => START_MS,
            _ => SHORT_MS,
        };
        let task = Task {
            node: node.to_owned(),
            kind: kind.to_owned(),
            id: id.to_owned(),
            start_ms: now,
            due_ms: now + due,
            log: Vec::new(),
            end: None,
            work,
        };
        self.tasks.insert(upid.clone(), task);
        upid
    }

    /// Lets everything happen that is due.
    pub fn advance(&mut self) {
        let now = self.now();
        loop {
            let due = self.tasks.iter().filter(|(_, task)| task.is_running() && task.due_ms <= now);
            let Some((upid, at)) =
                due.map(|(upid, task)| (upid.clone(), task.due_ms)).min_by_key(|due| due.1)
            else {
                return;
            };
            self.step(&upid, at);
        }
    }

    /// Lets one task come to its end at once.
    pub fn finish(&mut self, upid: &str) {
        while self.tasks.get(upid).is_some_and(Task::is_running) {
            let now = self.now();
            self.step(upid, now);
        }
    }

    fn step(&mut self, upid: &str, at: u64) {
        let Some(mut task) = self.tasks.remove(upid) else { return };
        let node = task.node.clone();
        let up = self.nodes.get(&node).is_some_and(|node| node.up);
        let step = match (&mut task.work, up) {
            // A node that is down does nothing.
            (_, false) => Step::After(1_000),
            (Work::Nothing, _) => ok(),
            (Work::Clone(clone), _) => self.clone_step(&node, clone, &mut task.log, at),
            (Work::Upload { storage, file, data }, _) => {
                task.log.push(format!("starting file import from: /var/tmp/pveupload-{:x}", data.len()));
                task.log.push(format!("finished file import successfully: {storage}:iso/{file}"));
                if let Some(storage) = self.storage_mut(&node, storage) {
                    let iso = Iso { data: std::mem::take(data), at_ms: at, held: false };
                    storage.isos.insert(file.clone(), iso);
                }
                ok()
            }
            (Work::Erase { storage, file }, _) => match self.storage_mut(&node, storage) {
                Some(storage) if storage.isos.get(file).is_some_and(|iso| iso.held) => Step::After(AGAIN_MS),
                Some(storage) => {
                    if storage.isos.remove(file).is_none() {
                        task.log.push(format!("disk image '{file}' does not exist"));
                    }
                    ok()
                }
                None => Step::End(answers::no_storage(storage)),
            },
            (Work::Resize { vmid, disk, size }, _) => self.resize_step(&node, *vmid, disk, size),
            (Work::Start { vmid }, _) => self.start_step(&node, *vmid, &mut task.log, at),
            (Work::Stop { vmid }, _) => match self.machines.get_mut(vmid).filter(|it| it.node == node) {
                None => Step::End(answers::no_config_text(&node, *vmid)),
                Some(machine) => match (&machine.lock, &machine.run) {
                    (Some(lock), Some(_)) => Step::End(answers::locked(lock)),
                    _ => {
                        machine.run = None;
                        ok()
                    }
                },
            },
            (Work::Destroy { vmid, waited }, _) => self.destroy_step(&node, *vmid, waited),
        };
        match step {
            Step::After(time) => task.due_ms = at + time,
            Step::End(text) => task.end = Some(text),
        }
        self.tasks.insert(upid.to_owned(), task);
    }

    fn clone_step(&mut self, node: &str, clone: &mut Clone, log: &mut Vec<String>, at: u64) -> Step {
        let Clone { source, newid, .. } = *clone;
        let Some(template) = self.machines.get(&source).cloned() else {
            return Step::End(answers::no_config_text(node, source));
        };
        clone.step += 1;
        if clone.step == 1 {
            // Two workers on one number: the second waits for a second only.
            if self.machines.contains_key(&newid) {
                let on_node = self.machines.get(&newid).is_some_and(|machine| machine.node == node);
                return Step::End(if on_node && self.clones_onto(newid) {
                    answers::lock_timeout(newid)
                } else {
                    let path = format!("/etc/pve/nodes/{node}/qemu-server/{newid}.conf");
                    format!("close (rename) atomic file '{path}' failed: File exists")
                });
            }
            let mut machine = Machine::new(node, at);
            machine.lock = Some("clone".to_owned());
            machine.config.insert("description".to_owned(), " qmclone temporary file".to_owned());
            machine.named_ms = u64::MAX;
            self.machines.insert(newid, machine);
            log.push(format!("create full clone of drive scsi0 ({})", template.get("scsi0")));
            return Step::After(CLONE_MS);
        }
        if !self.machines.contains_key(&newid) {
            return Step::End("clone failed: interrupted by signal".to_owned());
        }
        if let Some(text) = &self.clones_fail {
            let text = text.clone();
            self.machines.remove(&newid);
            log.push("transferred 0.0 B of 2.0 GiB (0.00%)".to_owned());
            return Step::End(text);
        }
        if clone.step == 2 {
            let Some(machine) = self.machines.get_mut(&newid) else { return ok() };
            machine.config = template.config.clone();
            machine.config.insert("name".to_owned(), clone.name.clone());
            machine.config.insert("description".to_owned(), clone.description.trim_end().to_owned());
            let disk = template.get("scsi0");
            let size = disk.split(',').find(|part| part.starts_with("size=")).unwrap_or("size=2G");
            let own = disk.split(':').next().unwrap_or("local").to_owned();
            let on = clone.storage.as_ref().unwrap_or(&own);
            let base = if clone.full { String::new() } else { format!("base-{source}-disk-0.qcow2/") };
            machine.config.insert("scsi0".to_owned(), format!("{on}:{base}vm-{newid}-disk-0.qcow2,{size}"));
            let net = template.get("net0").replace("BC:24:11:00:00:00", &mac(newid));
            machine.config.insert("net0".to_owned(), net);
            machine.named_ms = at;
            machine.writes += 1;
            log.push("transferred 2.0 GiB of 2.0 GiB (100.00%)".to_owned());
            return Step::After(CLONE_MS);
        }
        if let Some(machine) = self.machines.get_mut(&newid) {
            machine.lock = None;
            machine.node.clone_from(&clone.target);
            // Not before. From memory.
            machine.pool.clone_from(&clone.pool);
            machine.writes += 1;
        }
        ok()
    }

    fn resize_step(&mut self, node: &str, vmid: u32, disk: &str, size: &str) -> Step {
        let Some(machine) = self.machines.get_mut(&vmid).filter(|machine| machine.node == node) else {
            return Step::End(answers::no_config_text(node, vmid));
        };
        if let Some(lock) = &machine.lock {
            return Step::End(answers::locked(lock));
        }
        let Some(value) = machine.config.get(disk).cloned() else {
            return Step::End(format!("disk '{disk}' does not exist"));
        };
        let gib = |text: &str| text.trim_end_matches('G').parse::<u64>().unwrap_or_default();
        let was = value.split(',').find_map(|part| part.strip_prefix("size=")).unwrap_or_default();
        if gib(size) < gib(was) {
            return Step::End("shrinking disks is not supported".to_owned());
        }
        machine
            .config
            .insert(disk.to_owned(), value.replace(&format!("size={was}"), &format!("size={size}")));
        machine.writes += 1;
        ok()
    }

    fn start_step(&mut self, node: &str, vmid: u32, log: &mut Vec<String>, at: u64) -> Step {
        let Some(machine) = self.machines.get(&vmid).filter(|machine| machine.node == node) else {
            return Step::End(answers::no_config_text(node, vmid));
        };
        // A hibernated machine is started, and wakes.
        if let Some(lock) = machine.lock.as_deref().filter(|lock| *lock != "suspended") {
            return Step::End(answers::locked(lock));
        }
        if machine.run.is_some() {
            return Step::End(format!("VM {vmid} already running"));
        }
        if machine.template {
            return Step::End("you can't start a vm if it's a template".to_owned());
        }
        let drive = machine.get("ide2").split(',').next().unwrap_or_default();
        if drive.contains(":iso/") && self.iso(node, drive).is_none() {
            return Step::End(answers::no_volume(drive));
        }
        if self.never_starts {
            log.push("kvm: could not initialise the guest".to_owned());
            return Step::End("start failed: QEMU exited with code 1".to_owned());
        }
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.lock = None;
            machine.run = Some(Run { since_ms: at, inner: "running".to_owned() });
        }
        ok()
    }

    fn destroy_step(&mut self, node: &str, vmid: u32, waited: &mut u64) -> Step {
        // Whoever clones onto it holds its file.
        if self.clones_onto(vmid) {
            *waited += AGAIN_MS;
            if *waited > FILE_LOCK_MS {
                return Step::End(answers::lock_timeout(vmid));
            }
            return Step::After(AGAIN_MS);
        }
        let linked = format!("base-{vmid}-disk-0.qcow2/");
        let base = self.machines.values().any(|machine| machine.get("scsi0").contains(&linked));
        let Some(machine) = self.machines.get_mut(&vmid).filter(|machine| machine.node == node) else {
            return Step::End(answers::no_config_text(node, vmid));
        };
        if base {
            let volume = format!("local:{vmid}/base-{vmid}-disk-0.qcow2");
            return Step::End(format!("base volume '{volume}' is still in use by linked cloned"));
        }
        match machine.lock.as_deref() {
            Some("destroyed") if machine.held => return Step::After(AGAIN_MS),
            Some("destroyed") => {}
            Some(lock) => return Step::End(answers::locked(lock)),
            None => {
                machine.lock = Some("destroyed".to_owned());
                return Step::After(AGAIN_MS);
            }
        }
        self.machines.remove(&vmid);
        ok()
    }
}

fn mac(vmid: u32) -> String {
    let [_, a, b, c] = vmid.to_be_bytes();
    format!("BC:24:11:{a:02X}:{b:02X}:{c:02X}")
}
