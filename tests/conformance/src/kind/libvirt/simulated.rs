//! The simulated hosts, behind the provider's back.
//!
//! Base images are no part of the inventory: they belong to nobody's instance and stay when the last one goes, until
//! the collector takes them. Tests of their own look at them.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use egress_runtime::capability::Libvirt;
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    clock::VirtualClock,
    libvirt::Hosts,
};

use super::{DOMAIN, SHARED, VOLUME, seed};

/// Stands in somebody else's machine.
const SECRET: &str = "vnc-password-of-somebody-else-0815";
/// Beside the pairs of a mark.
const CREATED_AT: &str = "createdAt";

/// See the module.
pub struct Simulated {
    hosts: Hosts,
    clock: VirtualClock,
    /// What was there before anybody made anything.
    furniture: BTreeSet<(String, String, String)>,
}

impl Simulated {
    /// Furnishes the hosts with a machine and a volume of somebody else's.
    pub async fn new(hosts: Hosts, clock: VirtualClock) -> Result<Self, Unable> {
        let unable = |failure: egress_runtime::capability::LibvirtFailure| Unable::Failed(failure.message);
        for host in hosts.names() {
            let connection = hosts.open(&host, false).await.map_err(unable)?;
            let domain = format!(
                "<domain type='kvm'><name>somebodys</name><description>{SECRET}</description><metadata><o:owner \
                 xmlns:o='urn:somebody'>{SECRET}</o:owner></metadata><memory unit='MiB'>256</memory></domain>"
            );
            connection.define(&domain).await.map_err(unable)?;
            if let Some(pool) = hosts.granted(&host).await.map_err(unable)?.pools.first() {
                let volume = "<volume><name>somebodys.qcow2</name><capacity unit='bytes'>1073741824</capacity><target>\
                              <format type='qcow2'/></target></volume>";
                connection.volume_create(pool, volume).await.map_err(unable)?;
            }
        }
        let mut backend = Self { hosts, clock, furniture: BTreeSet::new() };
        backend.furniture = backend.things().iter().map(key).collect();
        Ok(backend)
    }

    /// Others that are now as these are.
    pub fn copy(&self) -> Self {
        let clock = VirtualClock::at(self.clock.elapsed());
        let hosts = self.hosts.copy(std::sync::Arc::new(clock.clone()));
        Self { hosts, clock, furniture: self.furniture.clone() }
    }

    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    pub fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned()]
    }

    fn things(&self) -> Vec<Thing> {
        let domains = self.hosts.domains().into_iter().map(|(host, name, dom)| Thing {
            kind: DOMAIN.to_owned(),
            place: host,
            name,
            instance: true,
            deleting: false,
            mark: dom
                .metadata()
                .values()
                .flat_map(|element| pairs(element))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            content: format!("{} {:?}", dom.uuid, dom.metadata()),
        });
        let volumes = self.hosts.volumes().into_iter().filter(|(_, _, name, _)| !name.starts_with(SHARED));
        let volumes = volumes.map(|(host, pool, name, volume)| Thing {
            kind: VOLUME.to_owned(),
            place: host,
            name,
            instance: false,
            deleting: false,
            mark: Vec::new(),
            content: format!(
                "{pool} {} {} {:?} {:?}",
                volume.format, volume.capacity, volume.backing, volume.data
            ),
        });
        let mut things: Vec<Thing> = domains.chain(volumes).collect();
        things.sort();
        things
    }
}

fn key(thing: &Thing) -> (String, String, String) {
    (thing.place.clone(), thing.kind.clone(), thing.name.clone())
}

/// The pairs of an element `<instance><uid>..</uid>..</instance>`.
fn pairs(element: &str) -> Vec<(String, String)> {
    let inner = element.strip_prefix("<instance>").and_then(|rest| rest.strip_suffix("</instance>"));
    let mut rest = inner.unwrap_or_default();
    let mut pairs = Vec::new();
    while let Some((name, behind)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let Some((value, after)) = behind.split_once(&format!("</{name}>")) else { break };
        if name != CREATED_AT {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        rest = after;
    }
    pairs
}

#[async_trait]
impl Backend for Simulated {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        Ok(self.things().into_iter().filter(|thing| !self.furniture.contains(&key(thing))).collect())
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        let Thing { kind, place, name, .. } = on;
        let is_domain = kind == DOMAIN;
        let no_domain = |what: &str| Err(Unable::NotHere(format!("a {kind} can't be {what}")));
        let done = match action {
            Action::Remove if is_domain => self.hosts.remove_domain(place, name),
            Action::Remove => self.hosts.remove_volume(place, name),
            Action::HoldRemoval | Action::LetGo => {
                return Err(Unable::NotHere(
                    "libvirt removes at once: nothing holds a removal up".to_owned(),
                ));
            }
            Action::Finish => {
                return Err(Unable::NotHere("any domain can be started again".to_owned()));
            }
            // Volumes bear no mark.
            Action::EditMark { .. } | Action::Unmark if !is_domain => true,
            Action::EditMark { from, to } => {
                self.hosts.edit_metadata(place, name, |element| Some(element.replace(from, to)))
            }
            Action::Unmark => self.hosts.edit_metadata(place, name, |_| None),
            _ if !is_domain => return no_domain("treated so"),
            Action::Pause => self.hosts.pause(place, name, true),
            Action::Resume => self.hosts.pause(place, name, false),
            Action::Stop => self.hosts.stop(place, name),
            Action::TakeAddresses => self.hosts.silence(place, name),
            Action::Bewitch => self.hosts.bewitch(place, name),
        };
        if done { Ok(()) } else { Err(Unable::Failed(format!("there is no {on}"))) }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.hosts.never_start(true),
            Condition::Full => self.hosts.fill_up(true),
            Condition::RightsMissing => {
                return Err(Unable::NotHere(
                    "libvirt's socket lets somebody in with all rights, or not at all".to_owned(),
                ));
            }
            Condition::CursorsExpire => {
                return Err(Unable::NotHere("libvirt lists without cursors".to_owned()));
            }
        }
        Ok(())
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.hosts.never_start(false),
            Condition::Full => self.hosts.fill_up(false),
            Condition::RightsMissing | Condition::CursorsExpire => {}
        }
        Ok(())
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        let all = self.hosts.volumes().into_iter();
        let mut seeds = all.filter(|(host, _, name, _)| {
            *host == of.place && name.starts_with(&of.name) && name.ends_with("iso")
        });
        Ok(seeds.find_map(|(_, _, _, volume)| seed::file(&volume.data, "user-data")))
    }

    async fn let_time_pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}
