//! Calls about domains.

use crate::{
    connection::Connection,
    error::Error,
    flow::Direction,
    host::one,
    procedure as p,
    stream::Console,
    types::{Domain, Uuid},
    xdr::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, code, flags, record},
};

/// The protocol's limit on devices of a domain, and on addresses of a device.
const MAX_INTERFACES: usize = 2048;

code! {
    /// What a domain is doing: `virDomainState`.
    pub enum DomainState {
        /// libvirt can't tell.
        NoState = 0,
        /// It runs.
        Running = 1,
        /// It runs, and waits for something.
        Blocked = 2,
        /// An administrator, or an error, made it stand still.
        Paused = 3,
        /// It is about to be off.
        Shutdown = 4,
        /// It is off.
        Shutoff = 5,
        /// It is off after a crash.
        Crashed = 6,
        /// The guest sleeps.
        PmSuspended = 7,
    }
}

flags! {
    /// How a domain is defined.
    pub struct DomainDefineFlags {
        /// Check the document against libvirt's schema.
        VALIDATE = 1,
    }
}

flags! {
    /// How a domain is started.
    pub struct DomainCreateFlags {
        /// Leave it paused.
        PAUSED = 1,
        /// Destroy it when this connection ends.
        AUTODESTROY = 2,
        /// Drop a saved state and boot.
        FORCE_BOOT = 8,
        /// Check the document against libvirt's schema.
        VALIDATE = 16,
    }
}

flags! {
    /// How a domain is switched off.
    pub struct DomainDestroyFlags {
        /// Only if the process ends by itself when asked.
        GRACEFUL = 1,
    }
}

flags! {
    /// What goes with a domain's definition. libvirt refuses to undefine a domain that has one of these,
    /// unless its flag is set.
    pub struct DomainUndefineFlags {
        /// A saved state.
        MANAGED_SAVE = 1,
        /// What libvirt knows of its snapshots.
        SNAPSHOTS_METADATA = 2,
        /// The firmware's variables.
        NVRAM = 4,
        /// Keep the firmware's variables.
        KEEP_NVRAM = 8,
        /// What libvirt knows of its checkpoints.
        CHECKPOINTS_METADATA = 16,
        /// The TPM's state; since libvirt 8.9.
        TPM = 32,
        /// Keep the TPM's state; since libvirt 8.9.
        KEEP_TPM = 64,
    }
}

flags! {
    /// What a domain's document shall show.
    pub struct DomainXmlFlags {
        /// Passwords too.
        SECURE = 1,
        /// The definition, not what runs.
        INACTIVE = 2,
        /// The host's processor in detail.
        UPDATE_CPU = 4,
    }
}

flags! {
    /// Which of a domain's two documents is meant; none of them means the one in use.
    pub struct AffectFlags {
        /// What runs.
        LIVE = 1,
        /// The definition.
        CONFIG = 2,
    }
}

flags! {
    /// How a domain's state is saved.
    pub struct SaveFlags {
        /// Past the host's cache.
        BYPASS_CACHE = 1,
        /// Run when it is restored.
        RUNNING = 2,
        /// Stay paused when it is restored.
        PAUSED = 4,
    }
}

flags! {
    /// How a console is opened.
    pub struct ConsoleFlags {
        /// Throw out who has it open.
        FORCE = 1,
        /// Only if it can't be had by two at once.
        SAFE = 2,
    }
}

code! {
    /// Which text about a domain is meant: `virDomainMetadataType`.
    pub enum MetadataType {
        /// The description.
        Description = 0,
        /// The title.
        Title = 1,
        /// The element of one namespace.
        Element = 2,
    }
}

/// Who is asked for a domain's addresses: `virDomainInterfaceAddressesSource`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// The DHCP server of a network that libvirt keeps.
    Lease,
    /// The guest's agent.
    Agent,
    /// The host's ARP table.
    Arp,
}

impl AddressSource {
    /// libvirt's number.
    pub fn number(self) -> u32 {
        match self {
            Self::Lease => 0,
            Self::Agent => 1,
            Self::Arp => 2,
        }
    }
}

code! {
    /// What kind of address.
    pub enum AddressType {
        /// IPv4.
        Ipv4 = 0,
        /// IPv6.
        Ipv6 = 1,
    }
}

record! {
    /// An address of a guest.
    pub struct InterfaceAddress {
        /// Its kind.
        pub kind: AddressType,
        /// The address as text.
        pub address: String,
        /// The network's length in bits; 0 where the source does not know it.
        pub prefix: u32,
    }
}

/// A network device of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// What the guest, or else the host, calls it.
    pub name: String,
    /// Its hardware address.
    pub hardware_address: Option<String>,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
}

impl Encode for Interface {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        (&self.name, &self.hardware_address).encode(to)?;
        to.list(&self.addresses, MAX_INTERFACES)
    }
}

impl Decode for Interface {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (name, hardware_address) = Decode::decode(from)?;
        Ok(Self { name, hardware_address, addresses: from.list(MAX_INTERFACES)? })
    }
}

record! {
    /// A domain's size and use.
    pub struct DomainInfo {
        /// What it is doing.
        pub state: DomainState,
        /// KiB it may have.
        pub max_memory: u64,
        /// KiB it has.
        pub memory: u64,
        /// Its virtual processors.
        pub vcpus: u32,
        /// Nanoseconds of processor time it has used.
        pub cpu_time: u64,
    }
}

/// How long to wait for a guest's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentTimeout {
    /// Until it answers.
    Block,
    /// As long as libvirt thinks right.
    Default,
    /// Not at all.
    NoWait,
    /// So many seconds.
    Seconds(u32),
}

impl Encode for AgentTimeout {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        let number = match self {
            Self::Block => -2,
            Self::Default => -1,
            Self::NoWait => 0,
            Self::Seconds(seconds) => i32::try_from(*seconds).unwrap_or(i32::MAX),
        };
        number.encode(to)
    }
}

/// Domains.
impl Connection {
    /// The domain of this name; [`NO_DOMAIN`](crate::ErrorCode::NO_DOMAIN) if there is none.
    pub async fn domain_lookup_by_name(&self, name: &str) -> Result<Domain, Error> {
        one(self.call(p::DOMAIN_LOOKUP_BY_NAME, name).await)
    }

    /// The domain of this UUID; [`NO_DOMAIN`](crate::ErrorCode::NO_DOMAIN) if there is none.
    pub async fn domain_lookup_by_uuid(&self, uuid: Uuid) -> Result<Domain, Error> {
        one(self.call(p::DOMAIN_LOOKUP_BY_UUID, &uuid).await)
    }

    /// Makes a domain, or changes the definition of the one with this name and UUID;
    /// [`OPERATION_FAILED`](crate::ErrorCode::OPERATION_FAILED) if one of them is another's.
    pub async fn domain_define_xml(&self, xml: &str, flags: DomainDefineFlags) -> Result<Domain, Error> {
        one(self.call(p::DOMAIN_DEFINE_XML_FLAGS, &(xml, flags)).await)
    }

    /// Makes a domain that goes when it is off, and starts it.
    pub async fn domain_create_xml(&self, xml: &str, flags: DomainCreateFlags) -> Result<Domain, Error> {
        one(self.call(p::DOMAIN_CREATE_XML, &(xml, flags)).await)
    }

    /// Starts a domain; [`OPERATION_INVALID`](crate::ErrorCode::OPERATION_INVALID) if it runs.
    pub async fn domain_create(&self, domain: &Domain, flags: DomainCreateFlags) -> Result<Domain, Error> {
        one(self.call(p::DOMAIN_CREATE_WITH_FLAGS, &(domain, flags)).await)
    }

    /// Switches a domain off at once; [`OPERATION_INVALID`](crate::ErrorCode::OPERATION_INVALID) if it does
    /// not run.
    pub async fn domain_destroy(&self, domain: &Domain, flags: DomainDestroyFlags) -> Result<(), Error> {
        self.call(p::DOMAIN_DESTROY_FLAGS, &(domain, flags)).await
    }

    /// Asks the guest to switch itself off.
    pub async fn domain_shutdown(&self, domain: &Domain) -> Result<(), Error> {
        self.call(p::DOMAIN_SHUTDOWN, domain).await
    }

    /// Presses the reset button.
    pub async fn domain_reset(&self, domain: &Domain) -> Result<(), Error> {
        self.call(p::DOMAIN_RESET, &(domain, 0_u32)).await
    }

    /// Makes a domain stand still.
    pub async fn domain_suspend(&self, domain: &Domain) -> Result<(), Error> {
        self.call(p::DOMAIN_SUSPEND, domain).await
    }

    /// Lets a paused domain go on.
    pub async fn domain_resume(&self, domain: &Domain) -> Result<(), Error> {
        self.call(p::DOMAIN_RESUME, domain).await
    }

    /// Forgets a domain's definition. One that runs goes on until it is off.
    pub async fn domain_undefine(&self, domain: &Domain, flags: DomainUndefineFlags) -> Result<(), Error> {
        self.call(p::DOMAIN_UNDEFINE_FLAGS, &(domain, flags)).await
    }

    /// What a domain is doing, and the number of the reason, which is of that state.
    pub async fn domain_get_state(&self, domain: &Domain) -> Result<(DomainState, i32), Error> {
        self.call(p::DOMAIN_GET_STATE, &(domain, 0_u32)).await
    }

    /// A domain's size and use.
    pub async fn domain_get_info(&self, domain: &Domain) -> Result<DomainInfo, Error> {
        self.call(p::DOMAIN_GET_INFO, domain).await
    }

    /// Whether a domain runs, or is paused.
    pub async fn domain_is_active(&self, domain: &Domain) -> Result<bool, Error> {
        one(self.call::<(i32,)>(p::DOMAIN_IS_ACTIVE, domain).await).map(|active| active != 0)
    }

    /// Whether a domain stays when it is off.
    pub async fn domain_is_persistent(&self, domain: &Domain) -> Result<bool, Error> {
        one(self.call::<(i32,)>(p::DOMAIN_IS_PERSISTENT, domain).await).map(|persistent| persistent != 0)
    }

    /// A domain's document.
    pub async fn domain_get_xml_desc(&self, domain: &Domain, flags: DomainXmlFlags) -> Result<String, Error> {
        one(self.call(p::DOMAIN_GET_XML_DESC, &(domain, flags)).await)
    }

    /// A text about a domain; [`NO_DOMAIN_METADATA`](crate::ErrorCode::NO_DOMAIN_METADATA) if there is none.
    ///
    /// `uri` names the namespace of an element. libvirt answers the element without its prefix and the
    /// declaration of its namespace.
    pub async fn domain_get_metadata(
        &self,
        domain: &Domain,
        kind: MetadataType,
        uri: Option<&str>,
        flags: AffectFlags,
    ) -> Result<String, Error> {
        one(self.call(p::DOMAIN_GET_METADATA, &(domain, kind, uri, flags)).await)
    }

    /// Sets a text about a domain, or removes it. An element also has a namespace.
    pub async fn domain_set_metadata(
        &self,
        domain: &Domain,
        kind: MetadataType,
        metadata: Option<&str>,
        namespace: Option<Namespace<'_>>,
        flags: AffectFlags,
    ) -> Result<(), Error> {
        let (key, uri) = (namespace.map(|one| one.key), namespace.map(|one| one.uri));
        self.call(p::DOMAIN_SET_METADATA, &(domain, kind, metadata, (key, uri), flags)).await
    }

    /// Whether a domain starts with its host.
    pub async fn domain_get_autostart(&self, domain: &Domain) -> Result<bool, Error> {
        one(self.call::<(i32,)>(p::DOMAIN_GET_AUTOSTART, domain).await).map(|on| on != 0)
    }

    /// Sets whether a domain starts with its host.
    pub async fn domain_set_autostart(&self, domain: &Domain, on: bool) -> Result<(), Error> {
        self.call(p::DOMAIN_SET_AUTOSTART, &(domain, i32::from(on))).await
    }

    /// Saves a domain's state to disk and switches it off; its next start goes on from there.
    pub async fn domain_managed_save(&self, domain: &Domain, flags: SaveFlags) -> Result<(), Error> {
        self.call(p::DOMAIN_MANAGED_SAVE, &(domain, flags)).await
    }

    /// Whether a domain has a saved state.
    pub async fn domain_has_managed_save_image(&self, domain: &Domain) -> Result<bool, Error> {
        one(self.call::<(i32,)>(p::DOMAIN_HAS_MANAGED_SAVE_IMAGE, &(domain, 0_u32)).await).map(|has| has != 0)
    }

    /// Drops a domain's saved state.
    pub async fn domain_managed_save_remove(&self, domain: &Domain) -> Result<(), Error> {
        self.call(p::DOMAIN_MANAGED_SAVE_REMOVE, &(domain, 0_u32)).await
    }

    /// A guest's addresses, as one source knows them.
    pub async fn domain_interface_addresses(
        &self,
        domain: &Domain,
        source: AddressSource,
    ) -> Result<Vec<Interface>, Error> {
        struct Interfaces(Vec<Interface>);
        impl Decode for Interfaces {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                from.list(MAX_INTERFACES).map(Self)
            }
        }
        let arguments = (domain, source.number(), 0_u32);
        self.call(p::DOMAIN_INTERFACE_ADDRESSES, &arguments).await.map(|Interfaces(interfaces)| interfaces)
    }

    /// Sends a command, as JSON, to the agent in a QEMU guest, and answers its answer.
    pub async fn domain_qemu_agent_command(
        &self,
        domain: &Domain,
        command: &str,
        timeout: AgentTimeout,
    ) -> Result<Option<String>, Error> {
        one(self.call(p::DOMAIN_AGENT_COMMAND, &(domain, command, timeout, 0_u32)).await)
    }

    /// Opens a guest's console: the device of this alias, or its first.
    pub async fn domain_open_console(
        &self,
        domain: &Domain,
        device: Option<&str>,
        flags: ConsoleFlags,
    ) -> Result<Console, Error> {
        let arguments = (domain, device, flags);
        self.open_stream(p::DOMAIN_OPEN_CONSOLE, &arguments, Direction::Both).await.map(Console::new)
    }
}

/// The namespace of a metadata element.
#[derive(Debug, Clone, Copy)]
pub struct Namespace<'a> {
    /// The prefix that the document uses for it.
    pub key: &'a str,
    /// Its name.
    pub uri: &'a str,
}
