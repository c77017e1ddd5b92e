//! libvirt, as it is lent. `wit/libvirt.wit` says what each call promises.

/// Where a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The grant does not reach there.
    Denied,
    /// Key or known hosts are missing or can't be used.
    Credentials,
    /// The host's name does not resolve.
    Name,
    /// No connection.
    Connect,
    /// Whoever answers does not speak SSH.
    Handshake,
    /// It is not the host that is known.
    HostKey,
    /// The host does not take the key.
    Authentication,
    /// The host opens no way to libvirt's socket.
    Channel,
    /// libvirt answered so.
    Libvirt,
    /// The deadline passed.
    Timeout,
    /// The connection broke.
    Cut,
    /// Request or answer exceeds a limit.
    TooLarge,
    /// No call could be made of what was given.
    Invalid,
    /// A stage that this provider doesn't know.
    Unknown(String),
}

impl Stage {
    /// From the contract's word.
    pub fn read(word: &str) -> Self {
        match word {
            "denied" => Self::Denied,
            "credentials" => Self::Credentials,
            "name" => Self::Name,
            "connect" => Self::Connect,
            "handshake" => Self::Handshake,
            "host-key" => Self::HostKey,
            "authentication" => Self::Authentication,
            "channel" => Self::Channel,
            "libvirt" => Self::Libvirt,
            "timeout" => Self::Timeout,
            "cut" => Self::Cut,
            "too-large" => Self::TooLarge,
            "invalid" => Self::Invalid,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// Why a call has no answer, or a refusing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub stage: Stage,
    /// virErrorNumber where libvirt answered; else 0.
    pub code: i32,
    /// virErrorDomain where libvirt answered; else 0.
    pub domain: i32,
    /// The system's error number where the code is 38 and libvirt gave it; else 0.
    pub errno: i32,
    /// For people.
    pub message: String,
    /// Whether the call may have reached libvirt.
    pub sent: bool,
}

impl Failure {
    /// Whether libvirt itself answered with this code.
    pub fn is(&self, code: i32) -> bool {
        self.stage == Stage::Libvirt && self.code == code
    }
}

/// virErrorNumber, as far as a provider tells them apart.
pub mod code {
    /// Not supported.
    pub const NO_SUPPORT: i32 = 3;
    /// A bad argument.
    pub const INVALID_ARG: i32 = 8;
    /// Failed; also: name or UUID are taken.
    pub const OPERATION_FAILED: i32 = 9;
    /// The document lacks something.
    pub const XML_ERROR: i32 = 27;
    /// A read-only connection.
    pub const OPERATION_DENIED: i32 = 29;
    /// The document is no XML.
    pub const XML_DETAIL: i32 = 35;
    /// The system said so: see errno.
    pub const SYSTEM_ERROR: i32 = 38;
    /// No such domain.
    pub const NO_DOMAIN: i32 = 42;
    /// Not let in.
    pub const AUTH_FAILED: i32 = 45;
    /// No such pool.
    pub const NO_STORAGE_POOL: i32 = 49;
    /// No such volume.
    pub const NO_STORAGE_VOL: i32 = 50;
    /// Not in this state.
    pub const OPERATION_INVALID: i32 = 55;
    /// The host can't do what the document asks.
    pub const CONFIG_UNSUPPORTED: i32 = 67;
    /// An argument that is not supported here.
    pub const ARGUMENT_UNSUPPORTED: i32 = 74;
    /// No such metadata.
    pub const NO_DOMAIN_METADATA: i32 = 80;
    /// The guest's agent does not answer.
    pub const AGENT_UNRESPONSIVE: i32 = 86;
    /// Refused by rule.
    pub const ACCESS_DENIED: i32 = 88;
    /// The volume is there already.
    pub const STORAGE_VOL_EXIST: i32 = 90;
    /// The document breaks the schema.
    pub const XML_INVALID_SCHEMA: i32 = 92;
}

/// What a grant allows at a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// By libvirt's name.
    pub pools: Vec<String>,
    /// By the host's name.
    pub bridges: Vec<String>,
    /// With which every name begins that is written.
    pub prefix: String,
}

/// A domain by both of its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// As text.
    pub uuid: String,
}

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The SSH user.
    pub user: String,
    /// The host's own name.
    pub hostname: String,
    /// major * 1000000 + minor * 1000 + micro.
    pub libvirt_version: u64,
}

/// How full a pool is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The device's name.
    pub device: String,
    /// Its hardware address, or empty.
    pub mac: String,
    /// The address.
    pub ip: String,
    /// Its prefix's length.
    pub prefix: u32,
}

/// Who is asked for a domain's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// libvirt's own DHCP server.
    Lease,
    /// The agent in the guest.
    Agent,
    /// The host's neighbours.
    Arp,
}

impl Source {
    /// virDomainInterfaceAddressesSource.
    pub fn number(self) -> u32 {
        match self {
            Self::Lease => 0,
            Self::Agent => 1,
            Self::Arp => 2,
        }
    }
}

/// libvirt at named hosts, within the entry's grant.
pub trait Libvirt {
    /// What the grant allows.
    fn granted(&self, host: &str) -> Result<Allowed, Failure>;
    /// The pooled connection, or one of the caller's own.
    fn open(&self, host: &str, dedicated: bool) -> Result<Box<dyn Connection + '_>, Failure>;
}

/// A connection to one host.
pub trait Connection {
    /// Versions and names.
    fn info(&self) -> Result<Info, Failure>;
    /// Bytes of memory that are free.
    fn free_memory(&self) -> Result<u64, Failure>;
    /// The capabilities document.
    fn capabilities(&self) -> Result<String, Failure>;
    /// All domains.
    fn domains(&self) -> Result<Vec<Domain>, Failure>;
    /// By name.
    fn lookup(&self, name: &str) -> Result<Domain, Failure>;
    /// Makes a domain.
    fn define(&self, xml: &str) -> Result<Domain, Failure>;
    /// Boots it.
    fn start(&self, domain: &Domain) -> Result<(), Failure>;
    /// Switches it off.
    fn destroy(&self, domain: &Domain) -> Result<(), Failure>;
    /// Forgets it.
    fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Failure>;
    /// Whether it starts with its host.
    fn set_autostart(&self, domain: &Domain, on: bool) -> Result<(), Failure>;
    /// What it does now.
    fn state(&self, domain: &Domain) -> Result<DomainState, Failure>;
    /// Its definition.
    fn xml(&self, domain: &Domain) -> Result<String, Failure>;
    /// The metadata element of one namespace.
    fn metadata(&self, domain: &Domain, uri: &str) -> Result<String, Failure>;
    /// Sets it, or removes it where the XML is empty.
    fn set_metadata(&self, domain: &Domain, key: &str, uri: &str, xml: &str) -> Result<(), Failure>;
    /// As one source knows them.
    fn addresses(&self, domain: &Domain, source: Source) -> Result<Vec<InterfaceAddress>, Failure>;
    /// How full a pool is.
    fn pool_info(&self, pool: &str) -> Result<PoolInfo, Failure>;
    /// Which formats the storage drivers can make.
    fn storage_capabilities(&self) -> Result<String, Failure>;
    /// Reads the pool's folder again.
    fn pool_refresh(&self, pool: &str) -> Result<(), Failure>;
    /// Names of the pool's volumes.
    fn volumes(&self, pool: &str) -> Result<Vec<String>, Failure>;
    /// The volume's document.
    fn volume_xml(&self, pool: &str, name: &str) -> Result<String, Failure>;
    /// Makes a volume.
    fn volume_create(&self, pool: &str, xml: &str) -> Result<(), Failure>;
    /// Removes one.
    fn volume_delete(&self, pool: &str, name: &str) -> Result<(), Failure>;
    /// All of it.
    fn volume_upload(&self, pool: &str, name: &str, data: &[u8]) -> Result<(), Failure>;
    /// The first bytes.
    fn volume_download(&self, pool: &str, name: &str, max: u32) -> Result<Vec<u8>, Failure>;
}

impl<T: Libvirt + ?Sized> Libvirt for &T {
    fn granted(&self, host: &str) -> Result<Allowed, Failure> {
        (**self).granted(host)
    }
    fn open(&self, host: &str, dedicated: bool) -> Result<Box<dyn Connection + '_>, Failure> {
        (**self).open(host, dedicated)
    }
}
