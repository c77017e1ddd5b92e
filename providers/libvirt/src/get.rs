//! What a machine shows: its state, and where it can be reached.

use std::net::IpAddr;

use provider_sdk::{
    Address, AddressKind, Error, Instance, State, Target,
    libvirt::{Failure, InterfaceAddress, Source, Stage, code},
    reason,
};
use serde_json::Map;

use crate::{
    Host, Ways,
    config::Config,
    domain,
    id::Location,
    machine::{self, Found, Machine},
    site::Site,
};

/// See `Provider::get`.
pub fn get<H: Host>(host: &H, ways: &Ways, config: &Config, target: &Target) -> Result<Instance, Error> {
    let Some(at) = Location::of(target, config)? else {
        return Err(Error::not_found(format!("{} was never made: it has no id", target.name)));
    };
    let site = Site::open(host, config.host(&at.host, &at.id())?)?;
    let machine = match machine::find(host, ways, config, &site, &at, target)? {
        Found::Ours(machine) => machine,
        Found::Foreign(mark) => return Err(machine::foreign(&at, &mark, &host.mark())),
        Found::Nothing => return Err(gone(&at)),
    };
    let seen = match site.connection().state(machine.domain()) {
        Ok(seen) => seen,
        Err(failure) if failure.is(code::NO_DOMAIN) => return Err(gone(&at)),
        Err(failure) => return Err(site.asked(format!("ask for the state of {}", at.name)).error(&failure)),
    };
    let (state, reason, message) = match domain::State::read(seen.state) {
        domain::State::Running => {
            let addresses = addresses(&site, ways, config, &machine)?;
            if !addresses.is_empty() {
                return Ok(instance(&at, machine, State::Running, addresses, "", ""));
            }
            (State::Provisioning, "no-address", "it runs, and shows no address yet")
        }
        domain::State::None => (State::Provisioning, "nostate", "libvirt does not know its state yet"),
        domain::State::Paused => {
            (State::Stopped, reason::PAUSED, "paused at the host: resume it there (virsh resume)")
        }
        domain::State::Suspended => (
            State::Stopped,
            reason::PAUSED,
            "suspended by its guest: wake it at the host (virsh dompmwakeup)",
        ),
        domain::State::Shutdown => (State::Stopped, "shutdown", "it is shutting down"),
        domain::State::Shutoff => (State::Stopped, "shutoff", "it is switched off"),
        domain::State::Crashed => (State::Stopped, "crashed", "it crashed"),
        domain::State::Unknown(_) => {
            (State::Stopped, "unknown", "libvirt says a state that is not known here")
        }
    };
    Ok(instance(&at, machine, state, Vec::new(), reason, message))
}

fn gone(at: &Location) -> Error {
    Error::not_found(format!("host {} has no domain {}", at.host, at.name))
}

fn instance(
    at: &Location,
    machine: Machine,
    state: State,
    addresses: Vec<Address>,
    reason: &str,
    message: &str,
) -> Instance {
    let mut details = Map::new();
    details.insert("host".to_owned(), at.host.clone().into());
    details.insert("uuid".to_owned(), machine.domain().uuid.clone().into());
    let marked = machine.marked().clone();
    Instance {
        id: at.id(),
        state,
        addresses,
        mark: marked.mark,
        created_ms: marked.created_ms,
        reason: reason.to_owned(),
        message: message.to_owned(),
        details,
    }
}

/// From the first source that knows one. A source that can't say is "not yet", as an agent is that has not come
/// up; only where none of them could be asked at all, nothing is known.
fn addresses<H: Host>(
    site: &Site<'_, H>,
    ways: &Ways,
    config: &Config,
    machine: &Machine,
) -> Result<Vec<Address>, Error> {
    let mut failed: Option<Failure> = None;
    let mut answered = false;
    for source in ways.sources {
        match site.connection().addresses(machine.domain(), source) {
            Ok(found) => {
                answered = true;
                let usable = usable(&found, config.ipv6);
                if !usable.is_empty() {
                    return Ok(usable);
                }
            }
            Err(failure) if is_not_yet(source, &failure) => answered = true,
            // libvirt said something else of this source: the next one may know.
            Err(failure) if failure.stage == Stage::Libvirt => failed = Some(failure),
            Err(failure) => return Err(unasked(site, machine, &failure)),
        }
    }
    match failed.filter(|_| !answered) {
        Some(failure) => Err(unasked(site, machine, &failure)),
        None => Ok(Vec::new()),
    }
}

fn unasked<H: Host>(site: &Site<'_, H>, machine: &Machine, failure: &Failure) -> Error {
    let error = site.asked(format!("ask for the addresses of {}", machine.domain().name)).error(failure);
    // Whatever libvirt says of it, the machine runs.
    match failure.stage {
        Stage::Libvirt => Error::transient(reason::BACKEND, error.message),
        _ => error,
    }
}

fn is_not_yet(source: Source, failure: &Failure) -> bool {
    match source {
        Source::Agent => failure.is(code::AGENT_UNRESPONSIVE) || failure.is(code::ARGUMENT_UNSUPPORTED),
        Source::Lease | Source::Arp => failure.is(code::NO_SUPPORT),
    }
}

/// What others can reach: IPv4 first.
fn usable(found: &[InterfaceAddress], ipv6: bool) -> Vec<Address> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for address in found {
        if let Ok(ip) = address.ip.parse::<IpAddr>()
            && is_reachable(&ip)
            && (ipv6 || ip.is_ipv4())
            && !ips.contains(&ip)
        {
            ips.push(ip);
        }
    }
    ips.sort_by_key(IpAddr::is_ipv6);
    ips.into_iter().map(|ip| Address { kind: AddressKind::Internal, ip: ip.to_string() }).collect()
}

fn is_reachable(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified() && !ip.is_multicast()
        }
        IpAddr::V6(ip) => {
            let link_local = ip.segments().first().is_some_and(|first| first & 0xffc0 == 0xfe80);
            !ip.is_loopback() && !link_local && !ip.is_unspecified() && !ip.is_multicast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_reach_is_no_address() {
        let found: Vec<InterfaceAddress> =
            ["127.0.0.1", "169.254.1.1", "0.0.0.0", "fe80::1", "2001:db8::7", "10.0.0.5", "10.0.0.5", "x"]
                .map(|ip| InterfaceAddress {
                    device: "eth0".to_owned(),
                    mac: String::new(),
                    ip: ip.to_owned(),
                    prefix: 24,
                })
                .to_vec();
        let ips = |ipv6| -> Vec<String> { usable(&found, ipv6).into_iter().map(|a| a.ip).collect() };
        assert_eq!(ips(false), ["10.0.0.5"]);
        assert_eq!(ips(true), ["10.0.0.5", "2001:db8::7"]);
    }
}
