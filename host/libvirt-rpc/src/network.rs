//! Calls about the networks that libvirt keeps.

use crate::{
    connection::Connection,
    domain::AddressType,
    error::Error,
    host::{listed, one},
    procedure as p,
    types::Network,
    xdr::record,
};

/// The protocol's limit on leases in one list.
const MAX_LEASES: usize = 65_536;

record! {
    /// An address that a network's DHCP server has lent.
    pub struct DhcpLease {
        /// The host's device.
        pub interface: String,
        /// When it ends, in seconds since 1970.
        pub expiry: i64,
        /// What kind of address.
        pub kind: AddressType,
        /// The guest's hardware address.
        pub mac: Option<String>,
        /// The identity association, for IPv6.
        pub iaid: Option<String>,
        /// The address.
        pub address: String,
        /// The network's length in bits.
        pub prefix: u32,
        /// What the guest calls itself.
        pub hostname: Option<String>,
        /// The client's identifier, or DUID.
        pub client_id: Option<String>,
    }
}

/// Networks.
impl Connection {
    /// The network of this name; [`NO_NETWORK`](crate::ErrorCode::NO_NETWORK) if there is none.
    pub async fn network_lookup_by_name(&self, name: &str) -> Result<Network, Error> {
        one(self.call(p::NETWORK_LOOKUP_BY_NAME, name).await)
    }

    /// A network's document.
    pub async fn network_get_xml_desc(&self, network: &Network) -> Result<String, Error> {
        one(self.call(p::NETWORK_GET_XML_DESC, &(network, 0_u32)).await)
    }

    /// The addresses that a network has lent, or the one it lent to `mac`.
    pub async fn network_get_dhcp_leases(
        &self,
        network: &Network,
        mac: Option<&str>,
    ) -> Result<Vec<DhcpLease>, Error> {
        listed::<_, MAX_LEASES>(self.call(p::NETWORK_GET_DHCP_LEASES, &(network, mac, 1_i32, 0_u32)).await)
    }
}
