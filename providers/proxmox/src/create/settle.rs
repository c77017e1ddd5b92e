//! The machine's state: what it asks for, and when a create is done.

use provider_sdk::{Error, reason};

use super::{Making, Next, TASK_POLL_MS, parts::DRIVE};
use crate::{
    Host, agent,
    cluster::{self, text},
    machine::{self, Machine},
    mark,
    phrases::Meaning,
    progress::Stage,
    seed,
    state::Power,
};

const BOOT_POLL_MS: u32 = 5_000;

impl<H: Host> Making<'_, '_, H> {
    /// Ours and whole stands there.
    pub fn state(&mut self, machine: &Machine) -> Result<Next, Error> {
        match self.power()? {
            Power::Running if !machine.marked.is_ours() => {
                self.remark(machine)?;
                Ok(Next::Done)
            }
            Power::Running => {
                let drive = text(&machine.config, DRIVE).unwrap_or_default();
                Ok(self.runs(drive.contains(&seed::file(&self.target.name))))
            }
            Power::Begins => Ok(self.begins()),
            Power::Off => Ok(Next::Stage(Stage::Start)),
            other => Err(self.stuck(&other)),
        }
    }

    fn power(&self) -> Result<Power, Error> {
        let status = self.cluster.status(self.node(), self.vmid()).map_err(|trouble| self.about(trouble))?;
        Ok(Power::read(&status))
    }

    fn begins(&self) -> Next {
        Next::Wait { poll_ms: TASK_POLL_MS, message: format!("node {}: it starts", self.node()) }
    }

    fn runs(&self, has_seed: bool) -> Next {
        if self.cluster.config.eject_seed && has_seed { Next::Stage(Stage::Eject) } else { Next::Done }
    }

    fn stuck(&self, power: &Power) -> Error {
        let (vmid, node) = (self.vmid(), self.node());
        let of = format!("machine {vmid} ({}) on node {node}", self.target.name);
        match power {
            Power::Paused => Error::transient(
                reason::PAUSED,
                format!(
                    "{of} is paused: resume it (qm resume {vmid}), or delete the Proxy; it goes on by itself then"
                ),
            ),
            other => Error::transient(
                reason::BACKEND,
                format!("{of} is {}, and not running: look at it (qm status {vmid} --verbose)", other.show()),
            )
            .forget_progress(),
        }
    }

    /// An earlier operator's machine bears our mark from now on.
    fn remark(&self, machine: &Machine) -> Result<(), Error> {
        let host = self.cluster.host;
        let created = machine.marked.created_ms.unwrap_or_else(|| host.now_ms());
        let description = mark::write(&host.mark(), created, (&machine.node, self.seeds()), true);
        let fields = cluster::pairs(&[("description", &description)]);
        self.cluster.set(&machine.node, machine.vmid, fields).map_err(|trouble| self.about(trouble))
    }

    pub fn start(&mut self) -> Result<Next, Error> {
        let upid = self.cluster.start(self.node(), self.vmid()).map_err(|trouble| self.about(trouble))?;
        self.progress.task = Some(upid.to_string());
        Ok(self.begins())
    }

    /// After a start the state is running at once; anything else does not come up by waiting.
    pub fn settle(&mut self) -> Result<Next, Error> {
        match self.power()? {
            Power::Running => Ok(self.runs(true)),
            Power::Begins => Ok(self.begins()),
            other => Err(self.stuck(&other)),
        }
    }

    /// The first boot is over once the agent tells an address: cloud-init has read the seed by then.
    pub fn eject(&mut self) -> Result<Next, Error> {
        let Some(id) = self.id.clone() else { return Ok(Next::Stage(Stage::Look)) };
        match self.cluster.interfaces(self.node(), id.vmid) {
            Ok(data) if agent::addresses(&data).is_some_and(|ips| !ips.is_empty()) => {}
            Ok(_) => return Ok(self.boots()),
            Err(trouble) if trouble.meaning() == Some(Meaning::AgentSilent) => return Ok(self.boots()),
            Err(trouble) => return Err(self.about(trouble)),
        }
        let Some(machine) = machine::again(self.cluster, self.target, &id, self.node())? else {
            return Ok(Next::Stage(Stage::Look));
        };
        let fields = cluster::pairs(&[(DRIVE, "none,media=cdrom")]);
        self.cluster.set(&machine.node, id.vmid, fields).map_err(|trouble| self.about(trouble))?;
        let (node, storage) = machine.marked.seed.unwrap_or((machine.node, self.seeds().to_owned()));
        let volume = seed::volume(&storage, &self.target.name);
        match self.cluster.erase(&node, &storage, &volume).map_err(|trouble| self.about(trouble))? {
            None => Ok(Next::Done),
            Some(upid) => {
                self.progress.task = Some(upid.to_string());
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message: format!("node {node}: removes the seed") })
            }
        }
    }

    fn boots(&self) -> Next {
        let message = format!("node {}: boots; its seed goes after that", self.node());
        Next::Wait { poll_ms: BOOT_POLL_MS, message }
    }
}
