//! Steps towards a running machine.
//!
//! The number is told before anything is made with it. Then the seed is uploaded, before the clone: a clone bears
//! neither name nor mark until its first disk is copied, and until then the seed, which is called as the machine,
//! shows in the cluster whose it is. The clone call writes name and mark. Whatever the server works on by itself is a
//! task, whose handle is the progress.
//!
//! A stage makes at most two calls, and after some time in one call the rest waits for the next.

mod parts;
mod settings;
mod settle;

use provider_sdk::{Created, Error, Pending, Spec, Target, reason};

use crate::{
    Host,
    cluster::Cluster,
    config::{Config, Placed},
    id::{self, Id},
    machine::{self, Found, Machine, Seen},
    phrases::{self, Meaning},
    progress::{Progress, Stage},
    seed,
    task::Outcome,
    upid::Upid,
    waiting,
};

const ENOUGH_MS: u64 = 20_000;
const POLL_MS: u32 = 100;
/// Uploads, resizes and starts take seconds; a clone may take minutes.
const TASK_POLL_MS: u32 = 1_000;
const CLONE_POLL_MS: u32 = 2_000;

/// How a stage ended.
enum Next {
    Stage(Stage),
    /// The server works on it, or has nobody who could go on.
    Wait {
        poll_ms: u32,
        message: String,
    },
    Done,
}

struct Making<'a, 'h, H> {
    cluster: &'a Cluster<'h, H>,
    target: &'a Target,
    port: u16,
    placed: &'a Placed,
    seed: &'a [u8],
    id: Option<Id>,
    progress: Progress,
}

/// See `Provider::create`.
pub fn create<H: Host>(
    host: &H,
    config: &Config,
    target: &Target,
    spec: &Spec,
    user_data: &[u8],
) -> Result<Created, Error> {
    let placed = config.placed(&spec.placement)?;
    let seed = seed::image(config, &target.name, user_data)?;
    let id = id::machine(target)?;
    let cluster = Cluster::new(host, config);
    // What was begun under an id that was not kept is found by looking.
    let kept = id.as_ref().and_then(|_| Progress::read(target.progress.as_deref()));
    let progress = kept.unwrap_or(Progress::at(Stage::Look));
    let making =
        Making { cluster: &cluster, target, port: spec.port, placed: &placed, seed: &seed, id, progress };
    making.go()
}

impl<H: Host> Making<'_, '_, H> {
    fn go(mut self) -> Result<Created, Error> {
        let began = self.cluster.host.monotonic_ms();
        loop {
            let next = self.stage().map_err(|error| self.kept(error))?;
            match next {
                Next::Done => return Ok(Created::Done(self.id_text())),
                Next::Wait { poll_ms, message } => return Ok(self.pending(poll_ms, message)),
                Next::Stage(stage) => {
                    self.progress.stage = stage;
                    self.progress.task = None;
                    if self.cluster.host.monotonic_ms().saturating_sub(began) > ENOUGH_MS {
                        let message = format!("node {} is slow; goes on", self.node());
                        return Ok(self.pending(POLL_MS, message));
                    }
                }
            }
        }
    }

    fn pending(&self, poll_ms: u32, message: String) -> Created {
        let id = self.id.as_ref().map(ToString::to_string);
        Created::Pending(Pending { id, progress: self.progress.write(), poll_ms, message })
    }

    /// What went wrong in a way that nobody foresaw is looked into from the beginning. What waits for somebody, or for
    /// a connection, is tried again where it was.
    fn kept(&self, error: Error) -> Error {
        match error.reason.as_str() {
            reason::BACKEND | "vanished" if error.progress.is_none() => error.forget_progress(),
            _ => error,
        }
    }

    fn id_text(&self) -> String {
        self.id.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn vmid(&self) -> u32 {
        self.id.as_ref().map_or(0, |id| id.vmid)
    }

    /// Where it stands, or is to stand.
    fn node(&self) -> &str {
        if self.progress.node.is_empty() { &self.placed.node.name } else { &self.progress.node }
    }

    /// The storage for seeds there.
    fn seeds(&self) -> &str {
        let node = self.cluster.config.node(self.node()).unwrap_or(&self.placed.node);
        &node.iso_storage
    }

    fn stage(&mut self) -> Result<Next, Error> {
        if let Some(upid) = self.progress.upid() {
            return self.task(&upid);
        }
        match self.progress.stage {
            Stage::Template => self.template(),
            Stage::Room => self.room(),
            Stage::Memory => self.memory(),
            Stage::Seed => self.upload(),
            Stage::Clone => self.clone(),
            Stage::Settings => self.settings(),
            Stage::Resize => self.resize(),
            Stage::Firewall => self.firewall(),
            Stage::Start => self.start(),
            Stage::Settle => self.settle(),
            Stage::Eject => self.eject(),
            // A delete's progress is none of a create's.
            Stage::Look
            | Stage::Off
            | Stage::Erase
            | Stage::Destroy
            | Stage::Gone
            | Stage::Flight
            | Stage::Sweep => self.look(),
        }
    }

    /// What follows when the task of a stage is done.
    fn after(&mut self, stage: Stage) -> Stage {
        match stage {
            Stage::Seed if self.progress.made => Stage::Start,
            Stage::Seed if self.progress.cloned => Stage::Settings,
            Stage::Seed => Stage::Clone,
            Stage::Clone => {
                self.progress.cloned = true;
                Stage::Settings
            }
            Stage::Resize if self.cluster.config.firewall.is_some() => Stage::Firewall,
            Stage::Resize => Stage::Start,
            Stage::Start => Stage::Settle,
            _ => Stage::Look,
        }
    }

    fn task(&mut self, upid: &Upid) -> Result<Next, Error> {
        let stage = self.progress.stage;
        match self.cluster.outcome(upid)? {
            Outcome::Running => {
                let poll_ms = if stage == Stage::Clone { CLONE_POLL_MS } else { TASK_POLL_MS };
                Ok(Next::Wait { poll_ms, message: format!("node {}: {}", upid.node, doing(stage)) })
            }
            Outcome::Done => Ok(Next::Stage(self.after(stage))),
            Outcome::Unknown(why) => {
                let message =
                    format!("node {}: how the task of {} ended is not known ({why})", upid.node, upid.kind);
                self.progress = Progress::at(Stage::Look);
                Ok(Next::Wait { poll_ms: POLL_MS, message: format!("{message}; looks what stands there") })
            }
            Outcome::Failed(text) => self.failed(stage, upid, &text),
        }
    }

    fn failed(&mut self, stage: Stage, upid: &Upid, text: &str) -> Result<Next, Error> {
        match (stage, phrases::meaning(text)) {
            (Stage::Start, Some(Meaning::AlreadyRunning)) => Ok(Next::Stage(Stage::Settle)),
            // The seed may be gone; what stands is kept, what is missing made again.
            (Stage::Start, Some(Meaning::NoVolume)) if !self.progress.made => {
                self.progress.cloned = true;
                self.progress.made = true;
                Ok(Next::Stage(Stage::Seed))
            }
            // Whose it is, the next look says. It is never removed for this.
            (Stage::Clone, Some(Meaning::Taken | Meaning::Contended)) => {
                let number = self.vmid();
                Ok(self.is_taken(number))
            }
            (stage, _) => {
                let error =
                    self.cluster.failed(upid, &format!("{} of {}", doing(stage), self.target.name), text);
                if stage != Stage::Start || self.progress.again {
                    return Err(error);
                }
                // What a busy node could not do a moment ago it often can now.
                (self.progress.again, self.progress.task) = (true, None);
                let message = format!("{}; is started once more", error.message);
                Ok(Next::Wait { poll_ms: TASK_POLL_MS, message })
            }
        }
    }

    /// The server says that our number is in use.
    fn is_taken(&mut self, number: u32) -> Next {
        let mut taken = std::mem::take(&mut self.progress.taken);
        taken.push(number);
        self.progress = Progress { taken, ..Progress::at(Stage::Look) };
        let message = format!("the number {number} is taken: looks by whom");
        Next::Wait { poll_ms: TASK_POLL_MS, message }
    }

    fn look(&mut self) -> Result<Next, Error> {
        let Seen { found, guests } = machine::look(self.cluster, self.target, self.id.as_ref())?;
        match found {
            Found::Foreign(machine) => Err(machine::foreign(self.cluster, &machine)),
            Found::Becoming(node, lock) => self.wait_for(&lock, &node),
            Found::Ours(machine) => self.stands(machine),
            Found::Nothing => {
                let said = std::mem::take(&mut self.progress.taken);
                let taken: Vec<u32> = guests.iter().map(|guest| guest.vmid).chain(said.clone()).collect();
                let template = self.placed.template;
                let source = guests.iter().find(|guest| guest.vmid == template && guest.is_machine);
                let source = source.map(|guest| guest.node.clone()).ok_or_else(|| self.no_template())?;
                // A token of one pool sees a clone only once it has ended, but the task at once.
                if self.id.as_ref().is_some_and(|id| said.contains(&id.vmid))
                    && self.may_be_cloning(&source)?
                {
                    self.progress.taken = said;
                    let message =
                        format!("node {source}: {} may be what is cloned just now: waits", self.vmid());
                    return Ok(Next::Wait { poll_ms: CLONE_POLL_MS, message });
                }
                let node = self.placed.node.name.clone();
                self.progress = Progress { source, node, taken: said, ..Progress::at(Stage::Template) };
                if self.id.as_ref().is_some_and(|id| !taken.contains(&id.vmid)) {
                    return Ok(Next::Stage(Stage::Template));
                }
                let vmid = self.free_number(&taken)?;
                // Kept before anything is made with it: a delete must know where to look.
                self.id = Some(Id { vmid, name: self.target.name.clone() });
                let message = format!("goes to node {} as {vmid}", self.node());
                Ok(Next::Wait { poll_ms: POLL_MS, message })
            }
        }
    }

    fn may_be_cloning(&self, source: &str) -> Result<bool, Error> {
        let active = self.cluster.active(source, Some(self.placed.template));
        Ok(active.map_err(|trouble| self.about(trouble))?.iter().any(|task| task.kind == "qmclone"))
    }

    fn free_number(&self, taken: &[u32]) -> Result<u32, Error> {
        let range = self.cluster.config.vmids;
        range.candidates(&self.target.name).find(|number| !taken.contains(number)).ok_or_else(|| {
            Error::quota(format!(
                "every number of vmids ({range}) is taken, so {} gets none; widen vmids",
                self.target.name
            ))
        })
    }

    fn no_template(&self) -> Error {
        let (key, template) = (&self.placed.image.key, self.placed.template);
        Error::permanent(
            "template-not-found",
            format!(
                "{}: template {template} of images.{key} is nowhere in the cluster, or the token may not see it (VM.Audit \
                 at /vms/{template}); make it, or name another",
                self.target.name
            ),
        )
    }

    /// Ours stands there: what its state asks for.
    fn stands(&mut self, machine: Machine) -> Result<Next, Error> {
        self.id = Some(machine.id());
        self.progress.node.clone_from(&machine.node);
        if let Some(lock) = machine.lock.clone() {
            return self.wait_for(&lock, &machine.node);
        }
        self.progress = Progress {
            node: machine.node.clone(),
            cloned: true,
            // An earlier operator's was made by that one.
            made: machine.marked.made || machine.name != self.target.name,
            ..Progress::at(Stage::Settle)
        };
        if !self.progress.made {
            return Ok(Next::Stage(Stage::Seed));
        }
        self.progress.made = false;
        self.state(&machine)
    }

    fn wait_for(&mut self, lock: &str, node: &str) -> Result<Next, Error> {
        let name = &self.target.name;
        let (vmid, of) = (self.vmid(), format!("machine {} ({name}) on node {node}", self.vmid()));
        if lock == "suspended" {
            return Err(Error::transient(
                reason::PAUSED,
                format!(
                    "{of} is hibernated: resume it (qm resume {vmid}), or delete the Proxy; it goes on by itself then"
                ),
            ));
        }
        if lock == "destroyed" {
            return Err(Error::transient(
                reason::DELETING,
                format!("{of} is being destroyed; if no task does so any more, run qm unlock {vmid} there"),
            ));
        }
        let node = node.to_owned();
        let (kept, taken) = (self.progress.lock.take(), std::mem::take(&mut self.progress.taken));
        self.progress = Progress { node, taken, ..Progress::at(Stage::Look) };
        let waited = waiting::lock(self.cluster, &mut self.progress, kept, lock, &of, vmid)?;
        Ok(Next::Wait { poll_ms: waited.poll_ms, message: waited.message })
    }
}

/// For people.
fn doing(stage: Stage) -> &'static str {
    match stage {
        Stage::Seed => "upload of the seed",
        Stage::Clone => "clone",
        Stage::Resize => "growing of the disk",
        Stage::Start => "start",
        Stage::Eject => "removal of the seed",
        _ => "task",
    }
}
