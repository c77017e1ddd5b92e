//! Calls about the host and the daemon.

use std::fmt;

use crate::{
    connection::Connection,
    error::Error,
    procedure as p,
    types::{Domain, Listed, Network, StoragePool},
    xdr::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, code, flags, record},
};

/// The protocol's limit on domains, pools, volumes and networks in one list.
pub(crate) const MAX_LIST: usize = 16_384;

/// The length of the text in [`NodeInfo::model`], each of whose bytes takes four.
const MODEL: usize = 32;

/// What a node's memory is counted in, at most so many of them.
const MAX_MEMORY_STATS: usize = 16;

code! {
    /// A way to authenticate.
    pub enum AuthMethod {
        /// None is needed.
        None = 0,
        /// Names and passwords, or Kerberos.
        Sasl = 1,
        /// The local policy daemon.
        Polkit = 2,
    }
}

impl fmt::Display for AuthMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Sasl => f.write_str("SASL"),
            Self::Polkit => f.write_str("polkit"),
            Self::Unknown(number) => write!(f, "number {number}"),
        }
    }
}

/// A version, as libvirt counts it: 11003000 is 11.3.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The three numbers.
    pub fn parts(self) -> (u64, u64, u64) {
        (self.0 / 1_000_000, self.0 / 1_000 % 1_000, self.0 % 1_000)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, micro) = self.parts();
        write!(f, "{major}.{minor}.{micro}")
    }
}

impl Decode for Version {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        u64::decode(from).map(Self)
    }
}

/// The host's processors and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The processor's architecture.
    pub model: String,
    /// KiB of memory.
    pub memory: u64,
    /// Processors that are active.
    pub cpus: i32,
    /// Their frequency; 0 if unknown.
    pub mhz: i32,
    /// NUMA cells.
    pub nodes: i32,
    /// Sockets in a cell.
    pub sockets: i32,
    /// Cores in a socket.
    pub cores: i32,
    /// Threads in a core.
    pub threads: i32,
}

impl Encode for NodeInfo {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        let mut model = self.model.bytes();
        for _ in 0..MODEL {
            i32::from(model.next().unwrap_or(0)).encode(to)?;
        }
        (self.memory, self.cpus, self.mhz, self.nodes).encode(to)?;
        (self.sockets, self.cores, self.threads).encode(to)
    }
}

impl Decode for NodeInfo {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut model = Vec::with_capacity(MODEL);
        for _ in 0..MODEL {
            // A C char: only its low byte means something.
            model.push(i32::decode(from)?.to_le_bytes()[0]);
        }
        let text = model.split(|&byte| byte == 0).next().unwrap_or_default();
        let (memory, cpus, mhz, nodes) = Decode::decode(from)?;
        let (sockets, cores, threads) = Decode::decode(from)?;
        // An architecture's name is ASCII; anything else is shown byte by byte, so that its length stays.
        let model = text.iter().map(|&byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect();
        Ok(Self { model, memory, cpus, mhz, nodes, sockets, cores, threads })
    }
}

record! {
    /// One figure of a host's memory.
    pub struct MemoryStat {
        /// `total`, `free`, `buffers` or `cached`.
        pub field: String,
        /// KiB.
        pub value: u64,
    }
}

flags! {
    /// Which domains to list; none of them means all.
    pub struct ListDomainsFlags {
        /// Those that run or are paused.
        ACTIVE = 1,
        /// Those that are off.
        INACTIVE = 2,
        /// Those that stay when they are off.
        PERSISTENT = 4,
        /// Those that go when they are off.
        TRANSIENT = 8,
        /// Those that run.
        RUNNING = 16,
        /// Those that are paused.
        PAUSED = 32,
        /// Those that are off.
        SHUTOFF = 64,
        /// Those in any other state.
        OTHER = 128,
        /// Those with a saved state.
        MANAGED_SAVE = 256,
        /// Those without.
        NO_MANAGED_SAVE = 512,
        /// Those that start with the host.
        AUTOSTART = 1024,
        /// Those that do not.
        NO_AUTOSTART = 2048,
    }
}

flags! {
    /// Which pools to list; none of them means all.
    pub struct ListPoolsFlags {
        /// Those that are not active.
        INACTIVE = 1,
        /// Those that are.
        ACTIVE = 2,
    }
}

/// What a domain would run on, to ask [`Connection::connect_get_domain_capabilities`] about; `None` is the
/// host's own choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Platform<'a> {
    /// The emulator's path.
    pub emulator: Option<&'a str>,
    /// The architecture, such as `x86_64`.
    pub arch: Option<&'a str>,
    /// The machine type, such as `q35`.
    pub machine: Option<&'a str>,
    /// The domain type, such as `kvm` or `qemu`.
    pub virt_type: Option<&'a str>,
}

/// The daemon and its host.
impl Connection {
    /// The driver's name, such as `QEMU`.
    pub async fn connect_get_type(&self) -> Result<String, Error> {
        one(self.call(p::CONNECT_GET_TYPE, &()).await)
    }

    /// The hypervisor's version.
    pub async fn connect_get_version(&self) -> Result<Version, Error> {
        one(self.call(p::CONNECT_GET_VERSION, &()).await)
    }

    /// The daemon's version.
    pub async fn connect_get_lib_version(&self) -> Result<Version, Error> {
        one(self.call(p::CONNECT_GET_LIB_VERSION, &()).await)
    }

    /// The host's name.
    pub async fn connect_get_hostname(&self) -> Result<String, Error> {
        one(self.call(p::CONNECT_GET_HOSTNAME, &()).await)
    }

    /// The URI under which the daemon knows the driver.
    pub async fn connect_get_uri(&self) -> Result<String, Error> {
        one(self.call(p::CONNECT_GET_URI, &()).await)
    }

    /// The capabilities document: processors, and which domain types the host offers.
    pub async fn connect_get_capabilities(&self) -> Result<String, Error> {
        one(self.call(p::CONNECT_GET_CAPABILITIES, &()).await)
    }

    /// The domain capabilities document: devices, firmware and limits for domains on one platform.
    pub async fn connect_get_domain_capabilities(&self, platform: Platform<'_>) -> Result<String, Error> {
        let Platform { emulator, arch, machine, virt_type } = platform;
        let arguments = (emulator, arch, machine, virt_type, 0_u32);
        one(self.call(p::CONNECT_GET_DOMAIN_CAPABILITIES, &arguments).await)
    }

    /// The storage pool capabilities document: kinds of pools, and the formats of each.
    pub async fn connect_get_storage_pool_capabilities(&self) -> Result<String, Error> {
        one(self.call(p::CONNECT_GET_STORAGE_POOL_CAPABILITIES, &0_u32).await)
    }

    /// Whether the daemon or its driver has a feature, by its number in the protocol.
    ///
    /// To ask for 10, the keepalive, makes the server ping this client, which answers.
    pub async fn connect_supports_feature(&self, feature: i32) -> Result<bool, Error> {
        one(self.call::<(i32,)>(p::CONNECT_SUPPORTS_FEATURE, &feature).await).map(|supported| supported != 0)
    }

    /// All domains, or those that the flags choose.
    pub async fn connect_list_all_domains(&self, flags: ListDomainsFlags) -> Result<Vec<Domain>, Error> {
        listed::<_, MAX_LIST>(self.call(p::CONNECT_LIST_ALL_DOMAINS, &(1_i32, flags)).await)
    }

    /// All storage pools, or those that the flags choose.
    pub async fn connect_list_all_storage_pools(
        &self,
        flags: ListPoolsFlags,
    ) -> Result<Vec<StoragePool>, Error> {
        listed::<_, MAX_LIST>(self.call(p::CONNECT_LIST_ALL_STORAGE_POOLS, &(1_i32, flags)).await)
    }

    /// All networks that libvirt keeps.
    pub async fn connect_list_all_networks(&self) -> Result<Vec<Network>, Error> {
        listed::<_, MAX_LIST>(self.call(p::CONNECT_LIST_ALL_NETWORKS, &(1_i32, 0_u32)).await)
    }

    /// The host's processors and memory.
    pub async fn node_get_info(&self) -> Result<NodeInfo, Error> {
        self.call(p::NODE_GET_INFO, &()).await
    }

    /// Bytes of memory that are free at the host.
    pub async fn node_get_free_memory(&self) -> Result<u64, Error> {
        one(self.call(p::NODE_GET_FREE_MEMORY, &()).await)
    }

    /// The host's memory in figures, over all NUMA cells.
    pub async fn node_get_memory_stats(&self) -> Result<Vec<MemoryStat>, Error> {
        const ALL_CELLS: i32 = -1;
        struct Count(i32);
        impl Decode for Count {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let _none: Vec<MemoryStat> = from.list(MAX_MEMORY_STATS)?;
                i32::decode(from).map(Self)
            }
        }
        let Count(count) = self.call(p::NODE_GET_MEMORY_STATS, &(0_i32, ALL_CELLS, 0_u32)).await?;
        listed::<_, MAX_MEMORY_STATS>(self.call(p::NODE_GET_MEMORY_STATS, &(count, ALL_CELLS, 0_u32)).await)
    }
}

/// An answer of one value.
pub(crate) fn one<T>(answer: Result<(T,), Error>) -> Result<T, Error> {
    answer.map(|(value,)| value)
}

/// An answer that is a list.
pub(crate) fn listed<T, const MAX: usize>(answer: Result<Listed<T, MAX>, Error>) -> Result<Vec<T>, Error> {
    answer.map(|Listed(items)| items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_160_bytes_on_the_wire_and_read_back_as_it_was() {
        let node = NodeInfo {
            model: "x86_64".into(),
            memory: 24_000_000,
            cpus: 2,
            mhz: 2_100,
            nodes: 1,
            sockets: 1,
            cores: 2,
            threads: 1,
        };
        let mut to = Encoder::new();
        node.encode(&mut to).unwrap();
        let bytes = to.finish();
        assert_eq!(bytes.len(), 160);
        assert_eq!(Decoder::whole::<NodeInfo>(&bytes).unwrap(), node);
    }

    #[test]
    fn a_version_is_three_numbers() {
        assert_eq!(Version(11_003_000).to_string(), "11.3.0");
        assert_eq!(Version(9_000_012).parts(), (9, 0, 12));
    }
}
