//! The calls, as libvirtd answers them.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use egress_runtime::capability::{
    Domain, DomainState, HostInfo, InterfaceAddress, LibvirtConnection, LibvirtFailure, PoolInfo,
};

use super::{
    answers::{self, Answer},
    domain,
    hosts::Hosts,
    pool::{Pool, RUNNING as POOL_RUNNING},
    state::{Dom, HostState, PAUSED, RUNNING, SHUTOFF},
};

/// The host's neighbours see a guest once it asked for its address.
const ARP_AFTER_MS: u64 = 12_000;
/// The agent is installed by then.
const AGENT_AFTER_MS: u64 = 20_000;
/// virDomainUndefineFlagsValues.
const NVRAM: u32 = 4;
/// libvirt 11.3.0.
const VERSION: u64 = 11_003_000;

/// A connection to one host.
pub struct Connection {
    hosts: Hosts,
    host: String,
}

impl Connection {
    pub fn new(hosts: Hosts, host: &str) -> Self {
        Self { hosts, host: host.to_owned() }
    }

    fn at<T>(&self, then: impl FnOnce(&mut HostState, u64) -> Answer<T>) -> Answer<T> {
        self.hosts.at(&self.host, then)
    }

    /// An active pool.
    fn pool<T>(&self, name: &str, then: impl FnOnce(&mut Pool) -> Answer<T>) -> Answer<T> {
        self.at(|host, _| {
            let pool = host.pools.get_mut(name).ok_or_else(|| answers::no_pool(name))?;
            if pool.state != POOL_RUNNING {
                return Err(answers::pool_inactive(name));
            }
            then(pool)
        })
    }

    fn dom<T>(&self, of: &Domain, then: impl FnOnce(&mut Dom, u64) -> Answer<T>) -> Answer<T> {
        self.at(|host, now| then(dom(host, of)?, now))
    }
}

/// libvirt goes by the UUID; the name must be its too.
fn dom<'a>(host: &'a mut HostState, of: &Domain) -> Answer<&'a mut Dom> {
    let found = host.domains.get_mut(&of.name).filter(|dom| dom.uuid == of.uuid);
    found.ok_or_else(|| answers::no_domain_of(&of.uuid, &of.name))
}

#[async_trait]
impl LibvirtConnection for Connection {
    async fn info(&self) -> Result<HostInfo, LibvirtFailure> {
        Ok(HostInfo { user: "operator".to_owned(), hostname: self.host.clone(), libvirt_version: VERSION })
    }

    async fn free_memory(&self) -> Result<u64, LibvirtFailure> {
        self.at(|host, _| Ok(host.free_memory()))
    }

    async fn capabilities(&self) -> Result<String, LibvirtFailure> {
        self.at(|host, _| {
            let kvm = if host.kvm { "<domain type='kvm'/>" } else { "" };
            Ok(format!(
                "<capabilities>\n  <host>\n    <cpu>\n      <arch>x86_64</arch>\n    </cpu>\n  </host>\n  <guest>\n    \
                 <os_type>hvm</os_type>\n    <arch name='x86_64'>\n      <domain type='qemu'/>{kvm}\n    </arch>\n  \
                 </guest>\n</capabilities>\n"
            ))
        })
    }

    async fn domains(&self) -> Result<Vec<Domain>, LibvirtFailure> {
        self.at(|host, _| {
            let named = |(name, dom): (&String, &Dom)| Domain { name: name.clone(), uuid: dom.uuid.clone() };
            Ok(host.domains.iter().map(named).collect())
        })
    }

    async fn lookup(&self, name: &str) -> Result<Domain, LibvirtFailure> {
        self.at(|host, _| {
            let dom = host.domains.get(name).ok_or_else(|| answers::no_domain(name))?;
            Ok(Domain { name: name.to_owned(), uuid: dom.uuid.clone() })
        })
    }

    async fn define(&self, xml: &str) -> Result<Domain, LibvirtFailure> {
        let definition = domain::read(xml)?;
        self.at(|host, _| {
            let name = definition.name.clone();
            if let Some((other, _)) = host
                .domains
                .iter()
                .find(|(other, dom)| **other != name && Some(&dom.uuid) == definition.uuid.as_ref())
            {
                return Err(answers::uuid_taken(other, definition.uuid.as_deref().unwrap_or_default()));
            }
            if let Some(known) = host.domains.get_mut(&name) {
                if definition.uuid.as_ref() != Some(&known.uuid) {
                    return Err(answers::name_taken(&name, &known.uuid));
                }
                known.definition = definition;
                known.persistent = true;
                xml.clone_into(&mut known.xml);
                return Ok(Domain { name, uuid: known.uuid.clone() });
            }
            host.made += 1;
            let drawn = || format!("5c1d0000-0000-4000-8000-{:012x}", host.made);
            let uuid = definition.uuid.clone().unwrap_or_else(drawn);
            let dom = Dom {
                uuid: uuid.clone(),
                state: (SHUTOFF, 0),
                autostart: false,
                definition,
                xml: xml.to_owned(),
                persistent: true,
                nvram: false,
                booted_ms: 0,
                number: host.made,
                silent: false,
                told: BTreeMap::new(),
            };
            host.domains.insert(name.clone(), dom);
            Ok(Domain { name, uuid })
        })
    }

    async fn start(&self, domain: &Domain) -> Result<(), LibvirtFailure> {
        self.at(|host, now| {
            let (free, never, bridges) = (host.free_memory(), host.never_starts, host.bridges.clone());
            let known = dom(host, domain)?.clone();
            if known.is_active() {
                return Err(answers::running_already());
            }
            let missing = known.definition.files.iter().find(|path| !host.has_file(path));
            let refusal = match missing {
                Some(path) => Some(answers::no_file(path)),
                None => known
                    .definition
                    .bridges
                    .iter()
                    .find(|bridge| !bridges.contains(bridge))
                    .map(|bridge| answers::no_bridge(bridge))
                    .or_else(|| (known.definition.memory > free).then(answers::no_memory))
                    .or_else(|| never.then(|| answers::qemu_ended(&domain.name))),
            };
            let dom = dom(host, domain)?;
            if let Some(refusal) = refusal {
                dom.state = (SHUTOFF, 6);
                return Err(refusal);
            }
            dom.state = (RUNNING, 1);
            dom.booted_ms = now;
            dom.nvram = dom.definition.efi;
            Ok(())
        })
    }

    async fn destroy(&self, domain: &Domain) -> Result<(), LibvirtFailure> {
        self.at(|host, _| {
            let dom = dom(host, domain)?;
            if !dom.is_active() {
                return Err(answers::not_running());
            }
            dom.state = (SHUTOFF, 2);
            if !dom.persistent {
                host.domains.remove(&domain.name);
            }
            Ok(())
        })
    }

    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), LibvirtFailure> {
        self.at(|host, _| {
            let dom = dom(host, domain)?;
            if dom.nvram && flags & NVRAM == 0 {
                return Err(answers::has_nvram());
            }
            dom.nvram = false;
            dom.persistent = false;
            if !dom.is_active() {
                host.domains.remove(&domain.name);
            }
            Ok(())
        })
    }

    async fn set_autostart(&self, domain: &Domain, on: bool) -> Result<(), LibvirtFailure> {
        self.dom(domain, |dom, _| {
            dom.autostart = on;
            Ok(())
        })
    }

    async fn state(&self, domain: &Domain) -> Result<DomainState, LibvirtFailure> {
        self.dom(domain, |dom, _| Ok(DomainState { state: dom.state.0, reason: dom.state.1 }))
    }

    async fn xml(&self, domain: &Domain) -> Result<String, LibvirtFailure> {
        self.dom(domain, |dom, _| Ok(dom.xml.clone()))
    }

    async fn metadata(&self, domain: &Domain, uri: &str) -> Result<String, LibvirtFailure> {
        self.dom(domain, |dom, _| dom.definition.metadata.get(uri).cloned().ok_or_else(answers::no_metadata))
    }

    async fn set_metadata(
        &self,
        domain: &Domain,
        _: &str,
        uri: &str,
        xml: &str,
    ) -> Result<(), LibvirtFailure> {
        let element = match xml {
            "" => None,
            xml => {
                let document = roxmltree::Document::parse(xml).map_err(|_| answers::domain_xml_broken())?;
                Some(domain::undeclared(document.root_element()))
            }
        };
        self.dom(domain, |dom, _| {
            match element {
                Some(element) => drop(dom.definition.metadata.insert(uri.to_owned(), element)),
                None => drop(dom.definition.metadata.remove(uri)),
            }
            Ok(())
        })
    }

    async fn addresses(&self, domain: &Domain, source: u32) -> Result<Vec<InterfaceAddress>, LibvirtFailure> {
        self.dom(domain, |dom, now| {
            if dom.state.0 == PAUSED || !dom.is_active() {
                return Err(answers::not_running());
            }
            if let Some(told) = dom.told.get(&source) {
                return told.clone();
            }
            let up = now.saturating_sub(dom.booted_ms);
            let address = |device: &str, ip: &str, prefix| InterfaceAddress {
                device: device.to_owned(),
                mac: format!("52:54:00:00:{:02x}:{:02x}", dom.number / 256 % 256, dom.number % 256),
                ip: ip.to_owned(),
                prefix,
            };
            let own = format!("10.77.{}.{}", dom.number / 250 % 250, dom.number % 250 + 2);
            match source {
                0 => Ok(Vec::new()),
                1 if !dom.definition.agent => Err(answers::agent_unconfigured()),
                1 if up < AGENT_AFTER_MS => Err(answers::agent_silent()),
                1 if dom.silent => Ok(vec![address("lo", "127.0.0.1", 8), address("ens2", "fe80::1", 64)]),
                1 => Ok(vec![
                    address("lo", "127.0.0.1", 8),
                    address("ens2", &own, 24),
                    address("ens2", "fe80::1", 64),
                ]),
                2 if up < ARP_AFTER_MS || dom.silent => Ok(Vec::new()),
                2 => Ok(vec![address("vnet0", &own, 0)]),
                other => Err(answers::bad_source(other)),
            }
        })
    }

    async fn pool_info(&self, pool: &str) -> Result<PoolInfo, LibvirtFailure> {
        self.at(|host, _| {
            let pool = host.pools.get(pool).ok_or_else(|| answers::no_pool(pool))?;
            let (capacity, allocation, available) = (pool.capacity, pool.allocated(), pool.available());
            Ok(PoolInfo { state: pool.state, capacity, allocation, available })
        })
    }

    async fn storage_capabilities(&self) -> Result<String, LibvirtFailure> {
        Ok("<storagepoolCapabilities>\n  <pool type='dir' supported='yes'/>\n</storagepoolCapabilities>\n"
            .to_owned())
    }

    async fn pool_refresh(&self, pool: &str) -> Result<(), LibvirtFailure> {
        self.pool(pool, |_| Ok(()))
    }

    async fn volumes(&self, pool: &str) -> Result<Vec<String>, LibvirtFailure> {
        self.pool(pool, |pool| Ok(pool.volumes.keys().cloned().collect()))
    }

    async fn volume_xml(&self, pool: &str, name: &str) -> Result<String, LibvirtFailure> {
        self.pool(pool, |pool| pool.xml(name))
    }

    async fn volume_create(&self, pool: &str, xml: &str) -> Result<(), LibvirtFailure> {
        self.pool(pool, |pool| {
            let files: Vec<String> = pool.volumes.keys().map(|name| pool.path(name)).collect();
            pool.create(xml, |path| files.iter().any(|file| file == path))
        })
    }

    async fn volume_delete(&self, pool: &str, name: &str) -> Result<(), LibvirtFailure> {
        self.pool(pool, |pool| pool.volumes.remove(name).map(drop).ok_or_else(|| answers::no_volume(name)))
    }

    async fn volume_upload(&self, pool: &str, name: &str, data: Vec<u8>) -> Result<(), LibvirtFailure> {
        self.pool(pool, |pool| {
            let volume = pool.volumes.get_mut(name).ok_or_else(|| answers::no_volume(name))?;
            volume.data = Arc::new(data);
            Ok(())
        })
    }

    async fn volume_download(&self, pool: &str, name: &str, max: u32) -> Result<Vec<u8>, LibvirtFailure> {
        self.pool(pool, |pool| {
            let volume = pool.volumes.get(name).ok_or_else(|| answers::no_volume(name))?;
            let length = usize::try_from(volume.capacity.min(u64::from(max))).unwrap_or_default();
            let mut data: Vec<u8> = volume.data.iter().copied().take(length).collect();
            // What nobody wrote is zero.
            data.resize(length, 0);
            Ok(data)
        })
    }
}
