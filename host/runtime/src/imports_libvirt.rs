//! libvirt as a guest sees it: the capability's types in the contract's, and back.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, Resource};

use crate::{
    bindings::egress::provider::libvirt::{self, Failure},
    capability::{
        Domain, InterfaceAddress, Libvirt, LibvirtConnection, LibvirtFailure, LibvirtStage, PoolInfo,
    },
    failure::Stop,
    limits::Limit,
    state::{HostFailure, State},
};

/// What a guest's handle stands for.
pub struct Connection {
    host: Arc<str>,
    behind: Arc<dyn LibvirtConnection>,
}

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    libvirt::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl HostFailure for LibvirtFailure {
    fn timeout(message: String) -> Self {
        Self { sent: true, ..host_failure(LibvirtStage::Timeout, message) }
    }

    fn withheld(message: String) -> Self {
        host_failure(LibvirtStage::Denied, message)
    }

    fn too_large(message: String, sent: bool) -> Self {
        Self { sent, ..host_failure(LibvirtStage::TooLarge, message) }
    }

    fn too_large_for(&self) -> Option<Limit> {
        match (self.stage, self.sent) {
            (LibvirtStage::TooLarge, true) => Some(Limit::ResponseBytes),
            (LibvirtStage::TooLarge, false) => Some(Limit::RequestBytes),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        self.stage.as_str()
    }
}

fn host_failure(stage: LibvirtStage, message: String) -> LibvirtFailure {
    LibvirtFailure { stage, code: 0, domain: 0, errno: 0, message, sent: false }
}

impl From<LibvirtFailure> for Failure {
    fn from(failure: LibvirtFailure) -> Self {
        let LibvirtFailure { stage, code, domain, errno, message, sent } = failure;
        Self { stage: stage.as_str().to_owned(), code, domain, errno, message, sent }
    }
}

impl From<libvirt::Domain> for Domain {
    fn from(domain: libvirt::Domain) -> Self {
        Self { name: domain.name, uuid: domain.uuid }
    }
}

impl From<Domain> for libvirt::Domain {
    fn from(domain: Domain) -> Self {
        Self { name: domain.name, uuid: domain.uuid }
    }
}

impl From<PoolInfo> for libvirt::PoolInfo {
    fn from(info: PoolInfo) -> Self {
        let PoolInfo { state, capacity, allocation, available } = info;
        Self { state, capacity, allocation, available }
    }
}

impl From<InterfaceAddress> for libvirt::InterfaceAddress {
    fn from(address: InterfaceAddress) -> Self {
        let InterfaceAddress { device, mac, ip, prefix } = address;
        Self { device, mac, ip, prefix }
    }
}

/// How many bytes an answer takes in the guest, about.
trait Size {
    fn size(&self) -> usize;
}

impl Size for String {
    fn size(&self) -> usize {
        self.len()
    }
}

impl Size for u8 {
    fn size(&self) -> usize {
        1
    }
}

impl Size for Domain {
    fn size(&self) -> usize {
        self.name.len() + self.uuid.len()
    }
}

impl Size for InterfaceAddress {
    fn size(&self) -> usize {
        self.device.len() + self.mac.len() + self.ip.len()
    }
}

type Answer<T> = wasmtime::Result<Result<T, Failure>>;

impl State {
    fn libvirt(&self) -> wasmtime::Result<Arc<dyn Libvirt>> {
        // It is linked only when it is lent.
        let lent = self.setup.lent.libvirt.clone();
        lent.ok_or_else(|| Stop::Violation("libvirt is not lent".to_owned()).into())
    }

    fn connection(
        &self,
        handle: &Resource<Connection>,
    ) -> wasmtime::Result<(Arc<str>, Arc<dyn LibvirtConnection>)> {
        let connection = self.table.get(handle)?;
        Ok((Arc::clone(&connection.host), Arc::clone(&connection.behind)))
    }

    fn fitting<T: Size>(
        &mut self,
        call: &str,
        outcome: Result<Vec<T>, LibvirtFailure>,
    ) -> Result<Vec<T>, Failure> {
        let items = outcome.map_err(Failure::from)?;
        self.fit::<LibvirtFailure>(call, items.iter().map(Size::size).sum())?;
        Ok(items)
    }

    fn fitting_text(
        &mut self,
        call: &str,
        outcome: Result<String, LibvirtFailure>,
    ) -> Result<String, Failure> {
        outcome.and_then(|text| self.fits::<LibvirtFailure>(call, text)).map_err(Failure::from)
    }
}

impl libvirt::Host for State {
    async fn granted(&mut self, host: String) -> Answer<libvirt::Allowed> {
        let lent = self.libvirt()?;
        let allowed = self.host_call("libvirt.granted", &host, host.len(), lent.granted(&host)).await?;
        Ok(allowed.map_err(Failure::from).map(|allowed| libvirt::Allowed {
            pools: allowed.pools,
            bridges: allowed.bridges,
            prefix: allowed.prefix,
        }))
    }
}

impl libvirt::HostConnection for State {
    async fn open(&mut self, host: String, dedicated: bool) -> Answer<Resource<Connection>> {
        let lent = self.libvirt()?;
        let opened = self.host_call("libvirt.open", &host, host.len(), lent.open(&host, dedicated)).await?;
        match opened {
            Ok(behind) => Ok(Ok(self.table.push(Connection { host: host.into(), behind })?)),
            Err(failure) => Ok(Err(failure.into())),
        }
    }

    async fn drop(&mut self, handle: Resource<Connection>) -> wasmtime::Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }

    async fn info(&mut self, handle: Resource<Connection>) -> Answer<libvirt::Info> {
        let (host, behind) = self.connection(&handle)?;
        let info = self.host_call("libvirt.info", &host, 0, behind.info()).await?;
        Ok(info.map_err(Failure::from).map(|info| libvirt::Info {
            user: info.user,
            hostname: info.hostname,
            libvirt_version: info.libvirt_version,
        }))
    }

    async fn free_memory(&mut self, handle: Resource<Connection>) -> Answer<u64> {
        let (host, behind) = self.connection(&handle)?;
        let free = self.host_call("libvirt.free-memory", &host, 0, behind.free_memory());
        Ok(free.await?.map_err(Failure::from))
    }

    async fn capabilities(&mut self, handle: Resource<Connection>) -> Answer<String> {
        let (host, behind) = self.connection(&handle)?;
        let call = "libvirt.capabilities";
        let document = self.host_call(call, &host, 0, behind.capabilities()).await?;
        Ok(self.fitting_text(call, document))
    }

    async fn domains(&mut self, handle: Resource<Connection>) -> Answer<Vec<libvirt::Domain>> {
        let (host, behind) = self.connection(&handle)?;
        let call = "libvirt.domains";
        let domains = self.host_call(call, &host, 0, behind.domains()).await?;
        Ok(self.fitting(call, domains).map(|all| all.into_iter().map(Into::into).collect()))
    }

    async fn lookup(&mut self, handle: Resource<Connection>, name: String) -> Answer<libvirt::Domain> {
        let (host, behind) = self.connection(&handle)?;
        let found = self.host_call("libvirt.lookup", &host, name.len(), behind.lookup(&name)).await?;
        Ok(found.map(Into::into).map_err(Failure::from))
    }

    async fn define(&mut self, handle: Resource<Connection>, xml: String) -> Answer<libvirt::Domain> {
        let (host, behind) = self.connection(&handle)?;
        let defined = self.write_call("libvirt.define", &host, xml.len(), behind.define(&xml)).await?;
        Ok(defined.map(Into::into).map_err(Failure::from))
    }

    async fn start(&mut self, handle: Resource<Connection>, domain: libvirt::Domain) -> Answer<()> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain);
        Ok(self
            .write_call("libvirt.start", &host, bytes, behind.start(&domain))
            .await?
            .map_err(Failure::from))
    }

    async fn destroy(&mut self, handle: Resource<Connection>, domain: libvirt::Domain) -> Answer<()> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain);
        let destroyed = self.write_call("libvirt.destroy", &host, bytes, behind.destroy(&domain));
        Ok(destroyed.await?.map_err(Failure::from))
    }

    async fn undefine(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
        flags: u32,
    ) -> Answer<()> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain);
        let undefined = self.write_call("libvirt.undefine", &host, bytes, behind.undefine(&domain, flags));
        Ok(undefined.await?.map_err(Failure::from))
    }

    async fn set_autostart(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
        on: bool,
    ) -> Answer<()> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain);
        let set = self.write_call("libvirt.set-autostart", &host, bytes, behind.set_autostart(&domain, on));
        Ok(set.await?.map_err(Failure::from))
    }

    async fn state(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
    ) -> Answer<libvirt::DomainState> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain);
        let state = self.host_call("libvirt.state", &host, bytes, behind.state(&domain)).await?;
        let state = state.map_err(Failure::from);
        Ok(state.map(|now| libvirt::DomainState { state: now.state, reason: now.reason }))
    }

    async fn xml(&mut self, handle: Resource<Connection>, domain: libvirt::Domain) -> Answer<String> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let (call, bytes) = ("libvirt.xml", Size::size(&domain));
        let document = self.host_call(call, &host, bytes, behind.xml(&domain)).await?;
        Ok(self.fitting_text(call, document))
    }

    async fn metadata(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
        uri: String,
    ) -> Answer<String> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let (call, bytes) = ("libvirt.metadata", Size::size(&domain) + uri.len());
        let element = self.host_call(call, &host, bytes, behind.metadata(&domain, &uri)).await?;
        Ok(self.fitting_text(call, element))
    }

    async fn set_metadata(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
        key: String,
        uri: String,
        xml: String,
    ) -> Answer<()> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let bytes = Size::size(&domain) + key.len() + uri.len() + xml.len();
        let set = behind.set_metadata(&domain, &key, &uri, &xml);
        Ok(self.write_call("libvirt.set-metadata", &host, bytes, set).await?.map_err(Failure::from))
    }

    async fn addresses(
        &mut self,
        handle: Resource<Connection>,
        domain: libvirt::Domain,
        source: u32,
    ) -> Answer<Vec<libvirt::InterfaceAddress>> {
        let ((host, behind), domain) = (self.connection(&handle)?, domain.into());
        let (call, bytes) = ("libvirt.addresses", Size::size(&domain));
        let addresses = self.host_call(call, &host, bytes, behind.addresses(&domain, source)).await?;
        Ok(self.fitting(call, addresses).map(|all| all.into_iter().map(Into::into).collect()))
    }

    async fn pool_info(&mut self, handle: Resource<Connection>, pool: String) -> Answer<libvirt::PoolInfo> {
        let (host, behind) = self.connection(&handle)?;
        let info = self.host_call("libvirt.pool-info", &host, pool.len(), behind.pool_info(&pool)).await?;
        Ok(info.map(Into::into).map_err(Failure::from))
    }

    async fn storage_capabilities(&mut self, handle: Resource<Connection>) -> Answer<String> {
        let (host, behind) = self.connection(&handle)?;
        let call = "libvirt.storage-capabilities";
        let document = self.host_call(call, &host, 0, behind.storage_capabilities()).await?;
        Ok(self.fitting_text(call, document))
    }

    async fn pool_refresh(&mut self, handle: Resource<Connection>, pool: String) -> Answer<()> {
        let (host, behind) = self.connection(&handle)?;
        let refreshed = self.host_call("libvirt.pool-refresh", &host, pool.len(), behind.pool_refresh(&pool));
        Ok(refreshed.await?.map_err(Failure::from))
    }

    async fn volumes(&mut self, handle: Resource<Connection>, pool: String) -> Answer<Vec<String>> {
        let (host, behind) = self.connection(&handle)?;
        let call = "libvirt.volumes";
        let names = self.host_call(call, &host, pool.len(), behind.volumes(&pool)).await?;
        Ok(self.fitting(call, names))
    }

    async fn volume_xml(
        &mut self,
        handle: Resource<Connection>,
        pool: String,
        name: String,
    ) -> Answer<String> {
        let (host, behind) = self.connection(&handle)?;
        let (call, bytes) = ("libvirt.volume-xml", pool.len() + name.len());
        let document = self.host_call(call, &host, bytes, behind.volume_xml(&pool, &name)).await?;
        Ok(self.fitting_text(call, document))
    }

    async fn volume_create(&mut self, handle: Resource<Connection>, pool: String, xml: String) -> Answer<()> {
        let (host, behind) = self.connection(&handle)?;
        let (bytes, made) = (pool.len() + xml.len(), behind.volume_create(&pool, &xml));
        Ok(self.write_call("libvirt.volume-create", &host, bytes, made).await?.map_err(Failure::from))
    }

    async fn volume_delete(
        &mut self,
        handle: Resource<Connection>,
        pool: String,
        name: String,
    ) -> Answer<()> {
        let (host, behind) = self.connection(&handle)?;
        let (bytes, gone) = (pool.len() + name.len(), behind.volume_delete(&pool, &name));
        Ok(self.write_call("libvirt.volume-delete", &host, bytes, gone).await?.map_err(Failure::from))
    }

    async fn volume_upload(
        &mut self,
        handle: Resource<Connection>,
        pool: String,
        name: String,
        data: Vec<u8>,
    ) -> Answer<()> {
        let (host, behind) = self.connection(&handle)?;
        let bytes = pool.len() + name.len() + data.len();
        let written = behind.volume_upload(&pool, &name, data);
        Ok(self.write_call("libvirt.volume-upload", &host, bytes, written).await?.map_err(Failure::from))
    }

    async fn volume_download(
        &mut self,
        handle: Resource<Connection>,
        pool: String,
        name: String,
        max: u32,
    ) -> Answer<Vec<u8>> {
        let (host, behind) = self.connection(&handle)?;
        let (call, bytes) = ("libvirt.volume-download", pool.len() + name.len());
        let data = self.host_call(call, &host, bytes, behind.volume_download(&pool, &name, max)).await?;
        Ok(self.fitting(call, data))
    }
}
