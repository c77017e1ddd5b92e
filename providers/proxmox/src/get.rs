//! What the cluster shows of a machine: four calls of one that runs.

use provider_sdk::{Address, AddressKind, Error, Instance, State, Target, reason};
use serde_json::Map;

use crate::{
    Host, agent,
    cluster::Cluster,
    config::Config,
    id,
    machine::{self, Found, Machine, Seen},
    phrases::Meaning,
    rights,
    state::Power,
};

/// Somebody copies what it is, and it goes on all the while.
const HARMLESS: [&str; 3] = ["backup", "snapshot", "snapshot-delete"];

/// See `Provider::get`.
pub fn get<H: Host>(host: &H, config: &Config, target: &Target) -> Result<Instance, Error> {
    let id = id::machine(target)?;
    let cluster = Cluster::new(host, config);
    let Seen { found, .. } = machine::look(&cluster, target, id.as_ref())?;
    let name = &target.name;
    let machine = match found {
        Found::Ours(machine) => machine,
        Found::Foreign(machine) => return Err(machine::foreign(&cluster, &machine)),
        Found::Becoming(node, lock) => {
            return Err(Error::transient(
                reason::BUSY,
                format!(
                    "{name}: its machine on node {node} bears the lock {lock}, and says not yet whose it is"
                ),
            ));
        }
        Found::Nothing => {
            rights::must_see(&cluster)?;
            return Err(Error::not_found(format!(
                "the cluster of node {} has no {name}",
                config.node_names()
            )));
        }
    };
    let (vmid, node) = (machine.vmid, machine.node.clone());
    let of = format!("machine {vmid} ({name}) on node {node}");
    match machine.lock.as_deref() {
        Some("destroyed") => {
            return Ok(show(machine, State::Deleting, Vec::new(), "destroyed", "it is being destroyed"));
        }
        Some("suspended") => {
            let message = format!("{of} is hibernated: resume it (qm resume {vmid})");
            return Ok(show(machine, State::Stopped, Vec::new(), "hibernated", &message));
        }
        Some(lock) if !HARMLESS.contains(&lock) => {
            return Err(Error::transient(
                reason::BUSY,
                format!(
                    "{of} bears the lock {lock}; if nothing works on it any more, run qm unlock {vmid} there"
                ),
            ));
        }
        _ => {}
    }
    let about = |trouble: crate::cluster::Trouble| {
        let mut error = Error::from(trouble);
        error.message = format!("{name}: {}", error.message);
        error
    };
    let power = Power::read(&cluster.status(&node, vmid).map_err(about)?);
    let (state, word, message) = match &power {
        Power::Running => {
            return match cluster.interfaces(&node, vmid) {
                Ok(data) => Ok(addressed(machine, agent::addresses(&data), config.ipv6)),
                Err(trouble) if trouble.meaning() == Some(Meaning::AgentSilent) => {
                    let why = "it boots: its guest agent does not answer yet";
                    Ok(show(machine, State::Provisioning, Vec::new(), "no-agent", why))
                }
                Err(trouble) if trouble.meaning() == Some(Meaning::AgentOff) => {
                    let why =
                        format!("{of} is configured without a guest agent: set it (qm set {vmid} --agent 1)");
                    Ok(show(machine, State::Stopped, Vec::new(), "agent-off", &why))
                }
                // It stopped since it was looked at, or the agent takes its time.
                Err(trouble) => Err(transient(about(trouble))),
            };
        }
        Power::Begins => (State::Provisioning, "starting", "it starts".to_owned()),
        Power::Paused => (State::Stopped, "paused", format!("{of} is paused: resume it (qm resume {vmid})")),
        Power::Off => (State::Stopped, "stopped", "it is switched off".to_owned()),
        Power::Other(word) => {
            let told = format!("{of} is {word}: look at it (qm status {vmid} --verbose)");
            (State::Stopped, word.as_str(), told)
        }
    };
    Ok(show(machine, state, Vec::new(), word, &message))
}

/// Whatever the agent says, the machine runs; what the token may not do stays.
fn transient(error: Error) -> Error {
    if error.reason == reason::FORBIDDEN {
        error
    } else {
        Error::transient(&error.reason.clone(), error.message)
    }
}

fn addressed(machine: Machine, ips: Option<Vec<std::net::IpAddr>>, ipv6: bool) -> Instance {
    let Some(ips) = ips else {
        let why = "its guest agent refuses to tell addresses: allow it network-get-interfaces";
        return show(machine, State::Provisioning, Vec::new(), "agent-refuses", why);
    };
    let usable = ips.into_iter().filter(|ip| ipv6 || ip.is_ipv4());
    let addresses: Vec<Address> =
        usable.map(|ip| Address { kind: AddressKind::Internal, ip: ip.to_string() }).collect();
    match addresses.is_empty() {
        true => {
            show(machine, State::Provisioning, addresses, "no-address", "it runs, and has no address yet")
        }
        false => show(machine, State::Running, addresses, "running", ""),
    }
}

fn show(machine: Machine, state: State, addresses: Vec<Address>, reason: &str, message: &str) -> Instance {
    let mut details = Map::new();
    details.insert("node".to_owned(), machine.node.clone().into());
    details.insert("vmid".to_owned(), machine.vmid.into());
    Instance {
        id: machine.id().to_string(),
        state,
        addresses,
        mark: machine.marked.mark,
        created_ms: machine.marked.created_ms,
        reason: reason.to_owned(),
        message: message.to_owned(),
        details,
    }
}
