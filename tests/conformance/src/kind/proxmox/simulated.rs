//! The simulated cluster, behind the provider's back.
//!
//! A clone whose first disk is on its way is counted as what it becomes: the API shows neither its name nor its mark,
//! but its task knows both.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    clock::VirtualClock,
    proxmox::Pve,
};

use super::super::libvirt::seed;

const MACHINE: &str = "machine";
const SEED: &str = "seed";
/// Stands in somebody else's machine.
const SECRET: &str = "vnc-password-of-somebody-else-0815";
/// Before the pairs of a mark, and beside them.
const PREFIX: &str = "egressproxies.dev/";
const BESIDE: [&str; 3] = ["created-at", "seed", "made"];

/// See the module.
pub struct Simulated {
    pve: Pve,
    clock: VirtualClock,
    /// What was there before anybody made anything.
    furniture: BTreeSet<(String, String, String)>,
}

impl Simulated {
    /// Furnishes each node with a machine and an image of somebody else's.
    pub fn new(pve: Pve, clock: VirtualClock, nodes: impl Iterator<Item = String>) -> Self {
        for (number, node) in (200..).zip(nodes) {
            pve.put(number, &node, &[("name", "somebodys"), ("description", &format!("password={SECRET}"))]);
            pve.put_image(&node, "local", "somebodys.iso", Some(SECRET.as_bytes()));
        }
        let mut backend = Self { pve, clock, furniture: BTreeSet::new() };
        backend.furniture = backend.things().iter().map(key).collect();
        backend
    }

    /// Another one that is now as this one is.
    pub fn copy(&self) -> Self {
        let clock = VirtualClock::at(self.clock.elapsed());
        let pve = self.pve.copy(Arc::new(clock.clone()));
        Self { pve, clock, furniture: self.furniture.clone() }
    }

    pub fn pve(&self) -> &Pve {
        &self.pve
    }

    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    pub fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned()]
    }

    fn things(&self) -> Vec<Thing> {
        let machines = self.pve.machines().into_iter().map(|machine| Thing {
            kind: MACHINE.to_owned(),
            place: machine.node,
            name: machine.name,
            instance: true,
            deleting: machine.lock.as_deref() == Some("destroyed"),
            mark: pairs(&machine.description),
            content: format!("{} {} {:?}", machine.vmid, machine.description, machine.config),
        });
        let images = self.pve.images().into_iter().map(|image| Thing {
            kind: SEED.to_owned(),
            place: image.node,
            name: image.file,
            instance: false,
            deleting: image.held,
            mark: Vec::new(),
            content: format!("{} {:?}", image.storage, image.data),
        });
        let mut things: Vec<Thing> = machines.chain(images).collect();
        things.sort();
        things
    }

    /// Its number, by what tells it here.
    fn vmid(&self, of: &Thing) -> Option<u32> {
        let number = of.content.split(' ').next().and_then(|number| number.parse().ok());
        number.filter(|_| of.kind == MACHINE)
    }

    fn storage(&self, of: &Thing) -> String {
        of.content.split(' ').next().unwrap_or_default().to_owned()
    }
}

fn key(thing: &Thing) -> (String, String, String) {
    (thing.place.clone(), thing.kind.clone(), thing.name.clone())
}

/// The pairs of a description's lines.
fn pairs(description: &str) -> Vec<(String, String)> {
    let lines = description.lines().filter_map(|line| line.strip_prefix(PREFIX)?.split_once('='));
    let mut pairs: Vec<(String, String)> = lines
        .filter(|(key, _)| !BESIDE.contains(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    pairs.sort();
    pairs
}

#[async_trait]
impl Backend for Simulated {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        Ok(self.things().into_iter().filter(|thing| !self.furniture.contains(&key(thing))).collect())
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        let pve = &self.pve;
        let done = match (self.vmid(on), action) {
            (_, Action::Finish) => {
                return Err(Unable::NotHere("any machine can be started again".to_owned()));
            }
            (Some(vmid), Action::Remove) => pve.remove(vmid),
            (Some(vmid), Action::HoldRemoval) => pve.hold(vmid),
            (Some(vmid), Action::LetGo) => pve.let_go(vmid),
            (Some(vmid), Action::Pause) => pve.run_as(vmid, "paused"),
            (Some(vmid), Action::Resume) => pve.run_as(vmid, "running"),
            (Some(vmid), Action::Stop) => pve.stop(vmid),
            (Some(vmid), Action::TakeAddresses) => pve.silence(vmid),
            (Some(vmid), Action::Bewitch) => pve.run_as(vmid, "melted"),
            (Some(vmid), Action::EditMark { from, to }) => pve.rewrite(vmid, |text| text.replace(from, to)),
            (Some(vmid), Action::Unmark) => pve.rewrite(vmid, |_| String::new()),
            (None, Action::Remove) => pve.put_image(&on.place, &self.storage(on), &on.name, None),
            (None, Action::HoldRemoval) => pve.hold_image(&on.place, &self.storage(on), &on.name, true),
            (None, Action::LetGo) => pve.hold_image(&on.place, &self.storage(on), &on.name, false),
            // Images bear no mark.
            (None, Action::EditMark { .. } | Action::Unmark) => true,
            (None, _) => return Err(Unable::NotHere("an image can't be treated so".to_owned())),
        };
        if done { Ok(()) } else { Err(Unable::Failed(format!("there is no {on}"))) }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.pve.never_start(true),
            Condition::Full => self.pve.fill_up(true),
            Condition::RightsMissing => self.pve.only_look(true),
            Condition::CursorsExpire => {
                return Err(Unable::NotHere("Proxmox VE lists without cursors".to_owned()));
            }
        }
        Ok(())
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.pve.never_start(false),
            Condition::Full => self.pve.fill_up(false),
            Condition::RightsMissing => self.pve.only_look(false),
            Condition::CursorsExpire => {}
        }
        Ok(())
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        let file = format!("{}.iso", of.name);
        let image = self.pve.images().into_iter().find(|image| image.file == file);
        Ok(image.and_then(|image| seed::file(&image.data, "user-data")))
    }

    async fn let_time_pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}
