//! What tells a clone from its template: its config, its disk's size, its firewall.

use provider_sdk::Error;
use serde_json::Value;

use super::{
    Making, Next, TASK_POLL_MS,
    parts::{DRIVE, GIB},
};
use crate::{
    Host,
    cluster::{self, text},
    disk, machine, mark,
    phrases::Meaning,
    progress::Stage,
    seed,
};

const TAG: &str = "egress-proxy";

impl<H: Host> Making<'_, '_, H> {
    /// In one call; with it the machine counts as made.
    pub fn settings(&mut self) -> Result<Next, Error> {
        let Some(id) = self.id.clone() else { return Ok(Next::Stage(Stage::Look)) };
        let Some(machine) = machine::again(self.cluster, self.target, &id, self.node())? else {
            return Ok(Next::Stage(Stage::Look));
        };
        if machine.lock.is_some() {
            return Ok(Next::Stage(Stage::Look));
        }
        let config = self.cluster.config;
        let (host, placed) = (self.cluster.host, self.placed);
        let created = machine.marked.created_ms.unwrap_or_else(|| host.now_ms());
        let (node, seeds) = (self.node().to_owned(), self.seeds().to_owned());
        let tags: Vec<&str> = std::iter::once(TAG).chain(config.tags.iter().map(String::as_str)).collect();
        let mut fields = cluster::pairs(&[
            ("description", &mark::write(&host.mark(), created, (&node, &seeds), true)),
            ("cores", &placed.machine.cores.to_string()),
            ("memory", &placed.machine.memory_mib.to_string()),
            ("agent", "1"),
            ("onboot", if config.autostart { "1" } else { "0" }),
            ("tags", &tags.join(";")),
            (DRIVE, &format!("{},media=cdrom", seed::volume(&seeds, &self.target.name))),
        ]);
        if self.rewrites_network() {
            let Some(net0) = text(&machine.config, "net0") else {
                let told =
                    format!("machine {} ({}) has no net0 to put on a bridge", machine.vmid, self.target.name);
                return Err(Error::permanent("template", told));
            };
            let bridge = config.node(&node).and_then(|node| node.bridge.as_deref());
            let net0 = disk::network(net0, bridge, config.vlan, config.firewall.is_some());
            fields.push(("net0".to_owned(), net0));
        }
        match self.cluster.set(&node, id.vmid, fields) {
            Ok(()) => {}
            // The seed went, or never came whole.
            Err(trouble) if trouble.meaning() == Some(Meaning::NoVolume) => {
                self.progress.cloned = true;
                return Ok(Next::Stage(Stage::Seed));
            }
            Err(trouble) => return Err(self.about(trouble)),
        }
        let disk = text(&machine.config, &placed.image.disk).and_then(disk::read);
        let size = disk.and_then(|disk| disk.bytes).unwrap_or(u64::MAX);
        let grows = config.disk_gib.is_some_and(|gib| size < gib * GIB);
        Ok(Next::Stage(if grows { Stage::Resize } else { self.after(Stage::Resize) }))
    }

    pub fn resize(&mut self) -> Result<Next, Error> {
        let gib = self.cluster.config.disk_gib.unwrap_or_default();
        let begun = self.cluster.resize(self.node(), self.vmid(), &self.placed.image.disk, gib);
        match begun.map_err(|trouble| self.about(trouble))? {
            None => Ok(Next::Stage(self.after(Stage::Resize))),
            Some(upid) => {
                self.progress.task = Some(upid.to_string());
                let message = format!("node {}: lets the disk grow to {gib} GiB", self.node());
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
            }
        }
    }

    /// Lets in the networks that may reach the proxy's port, and nobody else.
    pub fn firewall(&mut self) -> Result<Next, Error> {
        let (node, vmid) = (self.node().to_owned(), self.vmid());
        let wanted = self.cluster.config.firewall.clone().unwrap_or_default();
        let there = self.cluster.firewall(&node, vmid).map_err(|trouble| self.about(trouble))?;
        let port = self.port.to_string();
        let rules = there.as_array().map(Vec::as_slice).unwrap_or_default();
        let stands = |network: &str| {
            rules.iter().any(|rule: &Value| {
                text(rule, "source") == Some(network) && text(rule, "dport") == Some(port.as_str())
            })
        };
        for network in wanted.iter().filter(|network| !stands(network)) {
            let fields = cluster::pairs(&[
                ("type", "in"),
                ("action", "ACCEPT"),
                ("enable", "1"),
                ("proto", "tcp"),
                ("dport", &port),
                ("source", network),
                ("comment", TAG),
            ]);
            self.cluster.add_rule(&node, vmid, fields).map_err(|trouble| self.about(trouble))?;
        }
        self.cluster.arm_firewall(&node, vmid).map_err(|trouble| self.about(trouble))?;
        Ok(Next::Stage(Stage::Start))
    }
}
