//! Steps towards nothing: the machine stopped, its seed, the machine itself.
//!
//! The seed goes before the machine does, which bears the mark: what is left of a delete that was cut off still says
//! whose it is. Where nothing stands there, something may be on its way: a clone shows no name until its first disk is
//! copied, and an upload nothing at all. So what runs then is waited for, and looked for once more.

mod sweep;

use provider_sdk::{Deleted, Error, Pending, Target, reason};

use crate::{
    Host,
    cluster::{Cluster, Trouble},
    config::Config,
    id::{self, Id},
    machine::{self, Found, Machine, Seen},
    phrases::Meaning,
    progress::{Progress, Stage},
    seed,
    state::Power,
    task::Outcome,
    upid::Upid,
    waiting,
};

const ENOUGH_MS: u64 = 20_000;
const POLL_MS: u32 = 100;
const TASK_POLL_MS: u32 = 1_000;

enum Next {
    Stage(Stage),
    Wait { poll_ms: u32, message: String },
    Done,
}

struct Removal<'a, 'h, H> {
    cluster: &'a Cluster<'h, H>,
    target: &'a Target,
    id: Option<Id>,
    /// Without a machine's id every node is swept.
    everywhere: bool,
    progress: Progress,
    began: u64,
}

/// See `Provider::delete`.
pub fn delete<H: Host>(host: &H, config: &Config, target: &Target) -> Result<Deleted, Error> {
    let leftover = target.id.as_deref().is_some_and(|id| id::is_seed(id, &target.name));
    let id = if leftover { None } else { id::machine(target)? };
    let cluster = Cluster::new(host, config);
    let kept = Progress::read(target.progress.as_deref());
    let progress = kept.unwrap_or(Progress::at(Stage::Look));
    let everywhere = id.is_none();
    let id = id.or_else(|| progress.id.as_deref().and_then(Id::read));
    Removal { cluster: &cluster, target, everywhere, id, progress, began: host.monotonic_ms() }.go()
}

impl<H: Host> Removal<'_, '_, H> {
    fn go(mut self) -> Result<Deleted, Error> {
        loop {
            match self.stage()? {
                Next::Done => return Ok(Deleted::Done),
                Next::Wait { poll_ms, message } => return Ok(self.pending(poll_ms, message)),
                Next::Stage(stage) => {
                    self.progress.stage = stage;
                    self.progress.task = None;
                    if self.is_enough() {
                        let message = format!("{}: the cluster is slow; goes on", self.target.name);
                        return Ok(self.pending(POLL_MS, message));
                    }
                }
            }
        }
    }

    /// Whether the rest of the work is the next call's.
    fn is_enough(&self) -> bool {
        self.cluster.host.monotonic_ms().saturating_sub(self.began) > ENOUGH_MS
    }

    fn pending(&self, poll_ms: u32, message: String) -> Deleted {
        Deleted::Pending(Pending { id: None, progress: self.progress.write(), poll_ms, message })
    }

    fn stage(&mut self) -> Result<Next, Error> {
        if let Some(upid) = self.progress.upid() {
            return self.task(&upid);
        }
        match self.progress.stage {
            Stage::Off => self.off(),
            Stage::Erase => self.erase(),
            Stage::Destroy => self.destroy(),
            Stage::Flight => self.flight(),
            Stage::Sweep => self.sweep(),
            // A create's progress has nothing that a look does not show.
            _ => self.look(),
        }
    }

    /// A task of ours, or one that a create left behind: it is waited for in any case.
    fn task(&mut self, upid: &Upid) -> Result<Next, Error> {
        let stage = self.progress.stage;
        let next = match stage {
            Stage::Off => Stage::Erase,
            Stage::Erase => Stage::Destroy,
            Stage::Destroy => Stage::Gone,
            Stage::Sweep => {
                self.progress.swept += 1;
                Stage::Sweep
            }
            _ => Stage::Look,
        };
        match self.cluster.outcome(upid)? {
            Outcome::Running => {
                let message =
                    format!("node {}: waits for the task {} of {}", upid.node, upid.kind, self.target.name);
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
            }
            Outcome::Done => Ok(Next::Stage(next)),
            // What it left, the next look shows.
            Outcome::Unknown(_) => {
                self.progress = Progress::at(Stage::Look);
                Ok(Next::Stage(Stage::Look))
            }
            Outcome::Failed(text) => match (stage, crate::phrases::meaning(&text)) {
                (Stage::Off | Stage::Destroy, Some(Meaning::Missing | Meaning::NotRunning)) => {
                    Ok(Next::Stage(next))
                }
                (Stage::Off | Stage::Erase | Stage::Destroy | Stage::Sweep, _) => {
                    Err(self.cluster.failed(upid, &format!("delete of {}", self.target.name), &text))
                }
                // A create's: it failed, and nothing is left to wait for.
                _ => Ok(Next::Stage(Stage::Look)),
            },
        }
    }

    fn look(&mut self) -> Result<Next, Error> {
        let destroyed = self.progress.stage == Stage::Gone;
        let landed = self.progress.stage == Stage::Flight;
        let Seen { found, .. } = machine::look(self.cluster, self.target, self.id.as_ref())?;
        match found {
            Found::Foreign(machine) => Err(machine::foreign(self.cluster, &machine)),
            Found::Becoming(node, lock) => {
                let vmid = self.id.as_ref().map_or(0, |id| id.vmid);
                self.wait_for(&lock, &node, vmid)
            }
            Found::Ours(machine) => self.stands(&machine),
            Found::Nothing if destroyed && !self.everywhere => Ok(Next::Done),
            Found::Nothing if destroyed || landed => Ok(self.then_sweeps()),
            Found::Nothing => {
                crate::rights::must_see(self.cluster)?;
                self.progress = Progress::at(Stage::Flight);
                Ok(Next::Stage(Stage::Flight))
            }
        }
    }

    fn then_sweeps(&mut self) -> Next {
        self.progress = Progress::at(Stage::Sweep);
        Next::Stage(Stage::Sweep)
    }

    fn wait_for(&mut self, lock: &str, node: &str, vmid: u32) -> Result<Next, Error> {
        let of = format!("machine {vmid} ({}) on node {node}", self.target.name);
        let kept = self.progress.lock.take();
        self.progress = Progress::at(Stage::Look);
        let waited = waiting::lock(self.cluster, &mut self.progress, kept, lock, &of, vmid)?;
        Ok(Next::Wait { poll_ms: waited.poll_ms, message: waited.message })
    }

    fn stands(&mut self, machine: &Machine) -> Result<Next, Error> {
        self.id = Some(machine.id());
        self.progress.node.clone_from(&machine.node);
        match machine.lock.as_deref() {
            // Its destroy is refused while it sleeps, and only a start ends that.
            Some("suspended") => self.wake(machine),
            Some(lock) => self.wait_for(lock, &machine.node, machine.vmid),
            None => {
                let id = Some(machine.id().to_string());
                self.progress = Progress { node: machine.node.clone(), id, ..Progress::at(Stage::Off) };
                if self.is_enough() { Ok(Next::Stage(Stage::Off)) } else { self.stop(machine) }
            }
        }
    }

    fn wake(&mut self, machine: &Machine) -> Result<Next, Error> {
        let upid = self.cluster.start(&machine.node, machine.vmid).map_err(|trouble| self.about(trouble))?;
        self.progress = Progress { task: Some(upid.to_string()), ..Progress::at(Stage::Look) };
        let message =
            format!("node {}: {} is hibernated, and wakes to be stopped", machine.node, self.target.name);
        Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
    }

    /// The machine, read again: nothing is done to one that is not ours any more.
    fn ours(&mut self) -> Result<Option<Machine>, Error> {
        let Some(id) = self.id.clone() else { return Ok(None) };
        let node = self.progress.node.clone();
        if node.is_empty() {
            return Ok(None);
        }
        Ok(machine::again(self.cluster, self.target, &id, &node)?.filter(|machine| machine.lock.is_none()))
    }

    fn off(&mut self) -> Result<Next, Error> {
        match self.ours()? {
            Some(machine) => self.stop(&machine),
            None => Ok(self.anew()),
        }
    }

    fn anew(&mut self) -> Next {
        self.progress = Progress::at(Stage::Look);
        Next::Stage(Stage::Look)
    }

    fn stop(&mut self, machine: &Machine) -> Result<Next, Error> {
        let (node, vmid) = (&machine.node, machine.vmid);
        let status = match self.cluster.status(node, vmid) {
            Ok(status) => status,
            Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => return Ok(self.anew()),
            Err(trouble) => return Err(self.about(trouble)),
        };
        if Power::read(&status) == Power::Off {
            return self.erase_of(machine);
        }
        let upid = self.cluster.stop(node, vmid).map_err(|trouble| self.about(trouble))?;
        self.progress.task = Some(upid.to_string());
        let message = format!("node {node}: stops {}", self.target.name);
        Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
    }

    fn erase(&mut self) -> Result<Next, Error> {
        match self.ours()? {
            Some(machine) => self.erase_of(&machine),
            None => Ok(self.anew()),
        }
    }

    /// Its seed, where it was uploaded to: the machine may have moved since.
    fn erase_of(&mut self, machine: &Machine) -> Result<Next, Error> {
        self.progress.stage = Stage::Erase;
        let (node, storage) = match &machine.marked.seed {
            Some((node, storage)) => (node.clone(), storage.clone()),
            None => {
                let config = self.cluster.config;
                let Some(known) = config.node(&machine.node).or_else(|| config.nodes.first()) else {
                    return Ok(self.anew());
                };
                (machine.node.clone(), known.iso_storage.clone())
            }
        };
        let volume = seed::volume(&storage, &machine.name);
        match self.cluster.erase(&node, &storage, &volume) {
            Ok(None) => self.erased(machine),
            Ok(Some(upid)) => {
                self.progress.task = Some(upid.to_string());
                let message = format!("node {node}: removes the seed of {}", self.target.name);
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
            }
            // Where there is no storage, nothing is left on it.
            Err(trouble) if trouble.lacks_storage() => self.erased(machine),
            Err(trouble) => Err(self.about(trouble)),
        }
    }

    /// Its seed is gone. What was read of it a moment ago still holds; in the next call it is read again.
    fn erased(&mut self, machine: &Machine) -> Result<Next, Error> {
        if self.is_enough() {
            return Ok(Next::Stage(Stage::Destroy));
        }
        self.progress.stage = Stage::Destroy;
        self.destroy_of(machine)
    }

    fn destroy(&mut self) -> Result<Next, Error> {
        match self.ours()? {
            Some(machine) => self.destroy_of(&machine),
            None => Ok(self.anew()),
        }
    }

    fn destroy_of(&mut self, machine: &Machine) -> Result<Next, Error> {
        match self.cluster.destroy(&machine.node, machine.vmid) {
            Ok(upid) => {
                self.progress.task = Some(upid.to_string());
                let message = format!("node {}: destroys {}", machine.node, self.target.name);
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
            }
            Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => Ok(Next::Stage(Stage::Gone)),
            // Somebody started it meanwhile.
            Err(trouble) if trouble.meaning() == Some(Meaning::Running) => Ok(self.anew()),
            Err(trouble) => Err(self.about(trouble)),
        }
    }

    /// A call's failure, with the machine's name.
    fn about(&self, trouble: Trouble) -> Error {
        let mut error = Error::from(trouble);
        if !error.message.contains(&self.target.name) {
            error.message = format!("{}: {}", self.target.name, error.message);
        }
        // What stood there when it was last looked at may not do so any more.
        match error.reason.as_str() {
            reason::BACKEND => error.forget_progress(),
            _ => error,
        }
    }
}
