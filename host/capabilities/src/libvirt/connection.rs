//! The calls of one connection: checked against the grant, then libvirt's own, each within its time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use egress_runtime::capability::{
    Domain, DomainState, HostInfo, InterfaceAddress, LibvirtConnection, LibvirtFailure,
    LibvirtStage as Stage, PoolInfo,
};
use libvirt_remote::{
    self as rpc, AddressSource, AffectFlags, DomainCreateFlags, DomainDefineFlags, DomainDestroyFlags,
    DomainUndefineFlags, DomainXmlFlags, ErrorCode, ErrorDomain, ListDomainsFlags, MetadataType, Namespace,
    StoragePool, StorageVol, StorageVolCreateFlags,
};
use tokio::sync::OnceCell;

use super::{
    dial::Line,
    documents::{self, Scope},
    failure,
    host::{Host, Purpose},
};

/// What a guest uploads or downloads itself.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How an image of QEMU's own begins: such a header may name other files of the host.
pub(crate) const QCOW2: &[u8] = b"QFI\xfb";
/// Of `<source>`, in KiB, what a new domain could take.
const FREE: [&str; 3] = ["free", "buffers", "cached"];

type Answer<T> = Result<T, LibvirtFailure>;

/// See the module.
pub(super) struct Open {
    pub(super) host: Arc<Host>,
    pub(super) dedicated: bool,
    pub(super) reads: Arc<Line>,
    pub(super) changes: OnceCell<Arc<Line>>,
}

impl Open {
    async fn changes(&self) -> Answer<&rpc::Connection> {
        let dial = || async {
            match self.dedicated {
                true => self.host.dial(Purpose::Change).await.map(Arc::new),
                false => self.host.pooled(Purpose::Change).await,
            }
        };
        Ok(&self.changes.get_or_try_init(dial).await?.libvirt)
    }

    fn reads(&self) -> &rpc::Connection {
        &self.reads.libvirt
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, rpc::Error>>) -> Answer<T> {
        self.within(self.host.grant.timeouts.call_ms, call).await
    }

    async fn within<T>(&self, ms: u64, call: impl Future<Output = Result<T, rpc::Error>>) -> Answer<T> {
        self.host.within(ms, call).await
    }

    /// The domain of this name, if it is the one that is meant.
    async fn domain(&self, on: &rpc::Connection, domain: &Domain) -> Answer<rpc::Domain> {
        let found = self.call(on.domain_lookup_by_name(&domain.name)).await?;
        let meant = domain.uuid.parse() == Ok(found.uuid);
        if meant {
            return Ok(found);
        }
        let message = format!(
            "host {}: the domain {} has the UUID {} now, not {}: it is another one",
            self.host.name, domain.name, found.uuid, domain.uuid
        );
        Err(failure::coded(ErrorCode::NO_DOMAIN, ErrorDomain(10), message))
    }

    async fn ours(&self, domain: &Domain) -> Answer<(&rpc::Connection, rpc::Domain)> {
        self.host.may_touch(&domain.name)?;
        let on = self.changes().await?;
        Ok((on, self.domain(on, domain).await?))
    }

    async fn pool(&self, on: &rpc::Connection, pool: &str) -> Answer<StoragePool> {
        self.host.may_use_pool(pool)?;
        self.call(on.storage_pool_lookup_by_name(pool)).await
    }

    async fn volume(&self, on: &rpc::Connection, pool: &str, name: &str) -> Answer<StorageVol> {
        let pool = self.pool(on, pool).await?;
        self.call(on.storage_vol_lookup_by_name(&pool, name)).await
    }

    /// Where the granted pools are that are there.
    async fn folders(&self) -> Answer<Vec<String>> {
        let mut folders = self.host.folders.lock().await;
        for pool in &self.host.grant.pools {
            if folders.contains_key(pool) {
                continue;
            }
            let found = match self.call(self.reads().storage_pool_lookup_by_name(pool)).await {
                Err(failure) if failure.code == ErrorCode::NO_STORAGE_POOL.0 => continue,
                found => found?,
            };
            let document = self.call(self.reads().storage_pool_get_xml_desc(&found)).await?;
            folders.extend(folder(&document).map(|folder| (pool.clone(), folder)));
        }
        Ok(folders.values().cloned().collect())
    }

    fn refused(&self, what: &str, why: &str) -> LibvirtFailure {
        let (entry, host) = (&self.host.entry, &self.host.name);
        let message = format!("entry {entry} may not make this {what} at host {host}: {why}");
        failure::plain(Stage::Denied, message)
    }

    async fn checked(
        &self,
        what: &str,
        check: impl FnOnce(&Scope<'_>) -> Result<String, String>,
    ) -> Answer<String> {
        let folders = self.folders().await?;
        let scope = Scope {
            bridges: &self.host.grant.bridges,
            folders: &folders,
            logs: &self.host.grant.logs,
            may_touch: &|name| self.host.may_touch(name).is_ok(),
        };
        check(&scope).map_err(|why| self.refused(what, &why))
    }
}

/// Of a pool that is a folder.
fn folder(document: &str) -> Option<String> {
    let document = roxmltree::Document::parse(document).ok()?;
    let pool = document.root_element();
    let below = |node: roxmltree::Node<'_, '_>, name: &str| {
        node.children().find(|child| child.has_tag_name(name)).map(|child| child.id())
    };
    let target = document.get_node(below(pool, "target")?)?;
    let path = document.get_node(below(target, "path")?)?.text()?;
    Some(path.trim_end_matches('/').to_owned())
}

impl Host {
    pub(super) async fn within<T>(
        &self,
        ms: u64,
        call: impl Future<Output = Result<T, rpc::Error>>,
    ) -> Answer<T> {
        match tokio::time::timeout(Duration::from_millis(ms), call).await {
            Ok(answer) => answer.map_err(|error| failure::of_call(&self.name, &error)),
            Err(_) => Err(failure::late(&self.name, ms)),
        }
    }
}

#[async_trait]
impl LibvirtConnection for Open {
    async fn info(&self) -> Answer<HostInfo> {
        let version = self.call(self.reads().connect_get_lib_version()).await?;
        let hostname = self.call(self.reads().connect_get_hostname()).await?;
        Ok(HostInfo { user: self.host.grant.user.clone(), hostname, libvirt_version: version.0 })
    }

    async fn free_memory(&self) -> Answer<u64> {
        let stats = self.call(self.reads().node_get_memory_stats()).await?;
        let kib = stats.iter().filter(|stat| FREE.contains(&stat.field.as_str()));
        Ok(kib.fold(0_u64, |sum, stat| sum.saturating_add(stat.value)).saturating_mul(1024))
    }

    async fn capabilities(&self) -> Answer<String> {
        self.call(self.reads().connect_get_capabilities()).await
    }

    async fn domains(&self) -> Answer<Vec<Domain>> {
        let all = self.call(self.reads().connect_list_all_domains(ListDomainsFlags::NONE)).await?;
        Ok(all.into_iter().map(domain).collect())
    }

    async fn lookup(&self, name: &str) -> Answer<Domain> {
        self.call(self.reads().domain_lookup_by_name(name)).await.map(domain)
    }

    async fn define(&self, xml: &str) -> Answer<Domain> {
        self.checked("domain", |scope| scope.domain(xml)).await?;
        let on = self.changes().await?;
        self.call(on.domain_define_xml(xml, DomainDefineFlags::NONE)).await.map(domain)
    }

    async fn start(&self, domain: &Domain) -> Answer<()> {
        let (on, domain) = self.ours(domain).await?;
        let started = on.domain_create(&domain, DomainCreateFlags::NONE);
        self.within(self.host.grant.timeouts.start_ms, started).await.map(|_| ())
    }

    async fn destroy(&self, domain: &Domain) -> Answer<()> {
        let (on, domain) = self.ours(domain).await?;
        self.call(on.domain_destroy(&domain, DomainDestroyFlags::NONE)).await
    }

    async fn undefine(&self, domain: &Domain, flags: u32) -> Answer<()> {
        let (on, domain) = self.ours(domain).await?;
        self.call(on.domain_undefine(&domain, DomainUndefineFlags::from_bits(flags))).await
    }

    async fn set_autostart(&self, domain: &Domain, on: bool) -> Answer<()> {
        let (line, domain) = self.ours(domain).await?;
        self.call(line.domain_set_autostart(&domain, on)).await
    }

    async fn state(&self, domain: &Domain) -> Answer<DomainState> {
        let found = self.domain(self.reads(), domain).await?;
        let (state, reason) = self.call(self.reads().domain_get_state(&found)).await?;
        Ok(DomainState { state: state.number(), reason })
    }

    async fn xml(&self, domain: &Domain) -> Answer<String> {
        let found = self.domain(self.reads(), domain).await?;
        self.call(self.reads().domain_get_xml_desc(&found, DomainXmlFlags::NONE)).await
    }

    async fn metadata(&self, domain: &Domain, uri: &str) -> Answer<String> {
        let found = self.domain(self.reads(), domain).await?;
        let (kind, flags) = (MetadataType::Element, AffectFlags::NONE);
        self.call(self.reads().domain_get_metadata(&found, kind, Some(uri), flags)).await
    }

    async fn set_metadata(&self, domain: &Domain, key: &str, uri: &str, xml: &str) -> Answer<()> {
        let element = Some(xml).filter(|xml| !xml.is_empty());
        if let Some(element) = element {
            documents::metadata(element).map_err(|why| self.refused("metadata element", &why))?;
        }
        let (on, found) = self.ours(domain).await?;
        let running = self.call(on.domain_is_active(&found)).await?;
        let flags = if running { AffectFlags::CONFIG | AffectFlags::LIVE } else { AffectFlags::CONFIG };
        let namespace = Some(Namespace { key, uri });
        self.call(on.domain_set_metadata(&found, MetadataType::Element, element, namespace, flags)).await
    }

    async fn addresses(&self, domain: &Domain, source: u32) -> Answer<Vec<InterfaceAddress>> {
        let source = match source {
            0 => AddressSource::Lease,
            1 => AddressSource::Agent,
            2 => AddressSource::Arp,
            other => {
                let message = format!("{other} is no source of addresses; there are 0, 1 and 2");
                return Err(failure::plain(Stage::Invalid, message));
            }
        };
        let found = self.domain(self.reads(), domain).await?;
        let devices = self.call(self.reads().domain_interface_addresses(&found, source)).await?;
        Ok(devices.into_iter().flat_map(addresses).collect())
    }

    async fn pool_info(&self, pool: &str) -> Answer<PoolInfo> {
        let pool = self.pool(self.reads(), pool).await?;
        let info = self.call(self.reads().storage_pool_get_info(&pool)).await?;
        let rpc::StoragePoolInfo { state, capacity, allocation, available } = info;
        Ok(PoolInfo { state: state.number(), capacity, allocation, available })
    }

    async fn storage_capabilities(&self) -> Answer<String> {
        self.call(self.reads().connect_get_storage_pool_capabilities()).await
    }

    async fn pool_refresh(&self, pool: &str) -> Answer<()> {
        let pool = self.pool(self.reads(), pool).await?;
        self.call(self.reads().storage_pool_refresh(&pool)).await
    }

    async fn volumes(&self, pool: &str) -> Answer<Vec<String>> {
        let pool = self.pool(self.reads(), pool).await?;
        let all = self.call(self.reads().storage_pool_list_all_volumes(&pool)).await?;
        Ok(all.into_iter().map(|volume| volume.name).collect())
    }

    async fn volume_xml(&self, pool: &str, name: &str) -> Answer<String> {
        let volume = self.volume(self.reads(), pool, name).await?;
        self.call(self.reads().storage_vol_get_xml_desc(&volume)).await
    }

    async fn volume_create(&self, pool: &str, xml: &str) -> Answer<()> {
        self.host.may_use_pool(pool)?;
        self.checked("volume", |scope| scope.volume(xml)).await?;
        let on = self.changes().await?;
        let pool = self.pool(on, pool).await?;
        self.call(on.storage_vol_create_xml(&pool, xml, StorageVolCreateFlags::NONE)).await.map(|_| ())
    }

    async fn volume_delete(&self, pool: &str, name: &str) -> Answer<()> {
        self.host.may_use_pool(pool)?;
        self.host.may_touch(name)?;
        let on = self.changes().await?;
        let volume = self.volume(on, pool, name).await?;
        self.call(on.storage_vol_delete(&volume)).await
    }

    async fn volume_upload(&self, pool: &str, name: &str, data: Vec<u8>) -> Answer<()> {
        self.host.may_use_pool(pool)?;
        self.host.may_touch(name)?;
        if data.len() > MOST_BYTES {
            let message =
                format!("{} bytes are no upload; up to {MOST_BYTES} are, more is a transfer", data.len());
            return Err(failure::plain(Stage::Invalid, message));
        }
        if data.starts_with(QCOW2) {
            return Err(
                self.refused("content", "an image of QEMU's own may name any file of the host; transfer it")
            );
        }
        let on = self.changes().await?;
        let volume = self.volume(on, pool, name).await?;
        let written = async {
            let mut upload = on.storage_vol_upload(&volume, 0, Some(data.len() as u64)).await?;
            upload.write_bytes(data.into()).await?;
            upload.finish().await
        };
        self.within(self.host.grant.timeouts.upload_ms, written).await.map(|_| ())
    }

    async fn volume_download(&self, pool: &str, name: &str, max: u32) -> Answer<Vec<u8>> {
        self.host.may_touch(name)?;
        let most = usize::try_from(max).unwrap_or(usize::MAX);
        if most > MOST_BYTES || most == 0 {
            let message = format!("{max} bytes can't be downloaded; 1 to {MOST_BYTES} can");
            return Err(failure::plain(Stage::Invalid, message));
        }
        let volume = self.volume(self.reads(), pool, name).await?;
        let read = async {
            let mut download = self.reads().storage_vol_download(&volume, 0, Some(max.into())).await?;
            let mut data = Vec::new();
            while let Some(chunk) = download.chunk().await? {
                data.extend_from_slice(&chunk);
            }
            Ok(data)
        };
        self.within(self.host.grant.timeouts.upload_ms, read).await
    }
}

fn domain(found: rpc::Domain) -> Domain {
    Domain { name: found.name, uuid: found.uuid.to_string() }
}

fn addresses(device: rpc::Interface) -> Vec<InterfaceAddress> {
    let rpc::Interface { name, hardware_address, addresses } = device;
    let mac = hardware_address.unwrap_or_default();
    let address = |address: rpc::InterfaceAddress| InterfaceAddress {
        device: name.clone(),
        mac: mac.clone(),
        ip: address.address,
        prefix: address.prefix,
    };
    addresses.into_iter().map(address).collect()
}
