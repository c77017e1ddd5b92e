//! What stands at a machine's number and name, and whose it is.

use provider_sdk::{Error, Mark, Target, Verdict, mark::show, reason};
use serde_json::Value;

use crate::{
    Host,
    cluster::{Cluster, Guest, Trouble, text},
    id::Id,
    mark::{self, Marked},
    phrases::Meaning,
};

/// A clone that was begun bears no name yet.
const CLONE: &str = "clone";

/// What stands there.
#[derive(Clone, Debug)]
pub enum Found {
    Nothing,
    Ours(Machine),
    Foreign(Machine),
    /// At our number, and nobody can say yet whose it is: its node and its lock.
    Becoming(String, String),
}

/// What was seen on the way.
#[derive(Clone, Debug)]
pub struct Seen {
    pub found: Found,
    pub guests: Vec<Guest>,
}

/// A machine whose config was read.
#[derive(Clone, Debug)]
pub struct Machine {
    pub vmid: u32,
    pub node: String,
    pub name: String,
    pub lock: Option<String>,
    pub marked: Marked,
    pub config: Value,
}

impl Machine {
    pub fn id(&self) -> Id {
        Id { vmid: self.vmid, name: self.name.clone() }
    }
}

/// What a machine's config says of a target.
enum Judged {
    Ours(Machine),
    Foreign(Machine),
    Another,
    Becoming(String),
    Gone,
}

/// Looks for the target's machine in the whole cluster: at its id's number first, then by its name.
pub fn look<H: Host>(cluster: &Cluster<'_, H>, target: &Target, id: Option<&Id>) -> Result<Seen, Error> {
    let guests = cluster.guests()?;
    let mut becoming = None;
    let at_id = |guest: &&Guest| guest.is_machine && id.is_some_and(|id| id.vmid == guest.vmid);
    if let Some(guest) = guests.iter().find(at_id) {
        match judge(cluster, target, id, &guest.node, guest.vmid)? {
            Judged::Ours(machine) => return Ok(Seen { found: Found::Ours(machine), guests }),
            Judged::Foreign(machine) => return Ok(Seen { found: Found::Foreign(machine), guests }),
            Judged::Becoming(lock) => becoming = Some(Found::Becoming(guest.node.clone(), lock)),
            Judged::Another | Judged::Gone => {}
        }
    }
    if let Some(found) = becoming {
        return Ok(Seen { found, guests });
    }
    // Names are not unique in a cluster; and a machine has none until its node's statistics come.
    let mut ours: Vec<Machine> = Vec::new();
    let mut foreign = None;
    for guest in guests.iter().filter(|guest| guest.is_machine && !guest.is_template && !at_id(guest)) {
        if guest.name.as_ref().is_some_and(|name| *name != target.name) && !is_unnamed(guest) {
            continue;
        }
        match judge(cluster, target, None, &guest.node, guest.vmid)? {
            Judged::Ours(machine) => ours.push(machine),
            Judged::Foreign(machine) => foreign = foreign.or(Some(machine)),
            Judged::Another | Judged::Becoming(_) | Judged::Gone => {}
        }
    }
    let found = match (ours.pop(), ours.pop(), foreign) {
        (Some(machine), None, _) => Found::Ours(machine),
        // Somebody copied one with all that tells whose it is.
        (Some(machine), Some(_), _) | (None, _, Some(machine)) => Found::Foreign(machine),
        (None, _, None) => Found::Nothing,
    };
    Ok(Seen { found, guests })
}

/// A clone that was begun is shown as `VM <number>`.
fn is_unnamed(guest: &Guest) -> bool {
    guest.name.as_ref().is_none_or(|name| *name == format!("VM {}", guest.vmid))
}

/// The machine at a number, if it is still the target's: before anything is done to it.
pub fn again<H: Host>(
    cluster: &Cluster<'_, H>,
    target: &Target,
    id: &Id,
    node: &str,
) -> Result<Option<Machine>, Error> {
    match judge(cluster, target, Some(id), node, id.vmid)? {
        Judged::Ours(machine) => Ok(Some(machine)),
        Judged::Foreign(machine) => Err(foreign(cluster, &machine)),
        Judged::Another | Judged::Becoming(_) | Judged::Gone => Ok(None),
    }
}

fn judge<H: Host>(
    cluster: &Cluster<'_, H>,
    target: &Target,
    id: Option<&Id>,
    node: &str,
    vmid: u32,
) -> Result<Judged, Error> {
    let config = match cluster.machine_config(node, vmid) {
        Ok(config) => config,
        // Gone meanwhile, or moved: whoever looks again finds it.
        Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => return Ok(Judged::Gone),
        Err(trouble) => return Err(about(trouble, target)),
    };
    let lock = text(&config, "lock").map(str::to_owned);
    let Some(name) = text(&config, "name") else {
        return Ok(match lock {
            Some(lock) => Judged::Becoming(lock),
            None => Judged::Another,
        });
    };
    let by_id = id.is_some_and(|id| id.name == name);
    if name != target.name && !by_id {
        return Ok(Judged::Another);
    }
    let marked = mark::read(text(&config, "description").unwrap_or_default(), &cluster.host.mark());
    // Of what the collector hands back without a mark the name says whose it is, and its mark must not say otherwise.
    let lonely = target.uid.is_empty() && name == target.name;
    let ours = match cluster.host.verify(&marked.mark) {
        Verdict::ThisTarget => true,
        Verdict::Legacy => by_id,
        Verdict::ThisInstallation => lonely,
        Verdict::Foreign => false,
    };
    let machine =
        Machine { vmid, node: node.to_owned(), name: name.to_owned(), lock, marked, config: config.clone() };
    // A clone bears the template's description until its first disk is copied.
    if !ours && machine.lock.as_deref() == Some(CLONE) {
        return Ok(Judged::Becoming(CLONE.to_owned()));
    }
    Ok(if ours { Judged::Ours(machine) } else { Judged::Foreign(machine) })
}

fn about(trouble: Trouble, target: &Target) -> Error {
    let mut error = Error::from(trouble);
    error.message = format!("{}: {}", target.name, error.message);
    error
}

/// Our name with another's mark, or none.
pub fn foreign<H: Host>(cluster: &Cluster<'_, H>, machine: &Machine) -> Error {
    let ours: Mark = cluster.host.mark();
    Error::permanent(
        reason::FOREIGN,
        format!(
            "machine {} ({}) on node {} bears {}, not {}; remove it, or give it back its description if it is this \
             Proxy's",
            machine.vmid,
            machine.name,
            machine.node,
            machine.marked.show(),
            show(&ours)
        ),
    )
}
