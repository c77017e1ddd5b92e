//! libvirt at named hosts, as it is lent.

use std::sync::Arc;

use async_trait::async_trait;

/// Why a call of libvirt has no answer, or a refusing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibvirtFailure {
    /// Where.
    pub stage: LibvirtStage,
    /// virErrorNumber; 0 unless libvirt answered.
    pub code: i32,
    /// virErrorDomain; 0 unless libvirt answered.
    pub domain: i32,
    /// The system's error number where the code is 38 and libvirt gave it; 2 where credentials are not there; else 0.
    pub errno: i32,
    /// For people; no credential.
    pub message: String,
    /// Whether the call may have reached libvirt without its outcome being known.
    pub sent: bool,
}

/// See `wit/libvirt.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LibvirtStage {
    /// The grant does not reach there.
    Denied,
    /// Key or known hosts are missing or can't be used.
    Credentials,
    /// The host's name does not resolve.
    Name,
    /// No connection.
    Connect,
    /// Whoever answers does not speak SSH, or not ours.
    Handshake,
    /// It is not the host that is known.
    HostKey,
    /// The host does not take the key for this user.
    Authentication,
    /// The host opens no way to libvirt's socket.
    Channel,
    /// libvirt answered so.
    Libvirt,
    /// The deadline passed.
    Timeout,
    /// The connection broke.
    Cut,
    /// The answer, or the request, exceeds the limit.
    TooLarge,
    /// No call could be made of what was given.
    Invalid,
}

impl LibvirtStage {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Credentials => "credentials",
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::HostKey => "host-key",
            Self::Authentication => "authentication",
            Self::Channel => "channel",
            Self::Libvirt => "libvirt",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::TooLarge => "too-large",
            Self::Invalid => "invalid",
        }
    }
}

/// What a grant allows at a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// By libvirt's name.
    pub pools: Vec<String>,
    /// By the host's name for them.
    pub bridges: Vec<String>,
    /// With which every name begins that is written.
    pub prefix: String,
}

/// A domain by both of its names. libvirt goes by the UUID alone, so an implementation looks the name up
/// before each call, and answers code 42 where the UUID is another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// As text.
    pub uuid: String,
}

/// Who answers, and as whom one is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    /// The SSH user.
    pub user: String,
    /// The host's own name for itself.
    pub hostname: String,
    /// major * 1000000 + minor * 1000 + micro.
    pub libvirt_version: u64,
}

/// How full a pool is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    /// virStoragePoolState.
    pub state: i32,
    /// All of it.
    pub capacity: u64,
    /// What is taken.
    pub allocation: u64,
    /// What is left.
    pub available: u64,
}

/// What a domain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainState {
    /// virDomainState.
    pub state: i32,
    /// Its number for that state.
    pub reason: i32,
}

/// One address of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The device's name in the guest or on the host.
    pub device: String,
    /// Its hardware address, or empty.
    pub mac: String,
    /// The address.
    pub ip: String,
    /// Its prefix's length.
    pub prefix: u32,
}

/// libvirt at named hosts, within one entry's grant.
#[async_trait]
pub trait Libvirt: Send + Sync {
    /// What the grant allows at a host.
    async fn granted(&self, host: &str) -> Result<Allowed, LibvirtFailure>;
    /// The pooled connection of a host, or one of the caller's own.
    async fn open(&self, host: &str, dedicated: bool) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure>;
}

/// A connection to one host. One that broke stays broken.
#[async_trait]
pub trait LibvirtConnection: Send + Sync {
    /// Versions and names.
    async fn info(&self) -> Result<HostInfo, LibvirtFailure>;
    /// Bytes of memory that are free.
    async fn free_memory(&self) -> Result<u64, LibvirtFailure>;
    /// The capabilities document.
    async fn capabilities(&self) -> Result<String, LibvirtFailure>;
    /// All domains, running or not.
    async fn domains(&self) -> Result<Vec<Domain>, LibvirtFailure>;
    /// By name.
    async fn lookup(&self, name: &str) -> Result<Domain, LibvirtFailure>;
    /// Makes a domain, or changes it.
    async fn define(&self, xml: &str) -> Result<Domain, LibvirtFailure>;
    /// Boots it.
    async fn start(&self, domain: &Domain) -> Result<(), LibvirtFailure>;
    /// Switches it off.
    async fn destroy(&self, domain: &Domain) -> Result<(), LibvirtFailure>;
    /// Forgets it; the flags are virDomainUndefineFlagsValues.
    async fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), LibvirtFailure>;
    /// Whether it starts with its host.
    async fn set_autostart(&self, domain: &Domain, on: bool) -> Result<(), LibvirtFailure>;
    /// What it does now.
    async fn state(&self, domain: &Domain) -> Result<DomainState, LibvirtFailure>;
    /// Its definition, without secrets.
    async fn xml(&self, domain: &Domain) -> Result<String, LibvirtFailure>;
    /// The metadata element of one namespace.
    async fn metadata(&self, domain: &Domain, uri: &str) -> Result<String, LibvirtFailure>;
    /// Sets it, or removes it where the XML is empty.
    async fn set_metadata(
        &self,
        domain: &Domain,
        key: &str,
        uri: &str,
        xml: &str,
    ) -> Result<(), LibvirtFailure>;
    /// As one source knows them: virDomainInterfaceAddressesSource.
    async fn addresses(&self, domain: &Domain, source: u32) -> Result<Vec<InterfaceAddress>, LibvirtFailure>;
    /// How full a pool is.
    async fn pool_info(&self, pool: &str) -> Result<PoolInfo, LibvirtFailure>;
    /// Which formats the storage drivers can make.
    async fn storage_capabilities(&self) -> Result<String, LibvirtFailure>;
    /// Reads the pool's folder again.
    async fn pool_refresh(&self, pool: &str) -> Result<(), LibvirtFailure>;
    /// Names of the pool's volumes.
    async fn volumes(&self, pool: &str) -> Result<Vec<String>, LibvirtFailure>;
    /// The volume's document.
    async fn volume_xml(&self, pool: &str, name: &str) -> Result<String, LibvirtFailure>;
    /// Makes a volume.
    async fn volume_create(&self, pool: &str, xml: &str) -> Result<(), LibvirtFailure>;
    /// Removes one, in use or not.
    async fn volume_delete(&self, pool: &str, name: &str) -> Result<(), LibvirtFailure>;
    /// All of it.
    async fn volume_upload(&self, pool: &str, name: &str, data: Vec<u8>) -> Result<(), LibvirtFailure>;
    /// The first bytes, at most so many.
    async fn volume_download(&self, pool: &str, name: &str, max: u32) -> Result<Vec<u8>, LibvirtFailure>;
}
