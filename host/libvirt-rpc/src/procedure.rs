//! Which number is which procedure.
//!
//! Numbers are facts of the protocol and never change; a server that lacks one answers with the code
//! [`RPC`](crate::ErrorCode::RPC). Names are those of libvirt's API, since that is what people look up.

/// One procedure of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure {
    program: u32,
    number: i32,
    name: &'static str,
}

impl Procedure {
    /// Of the main program.
    pub const fn remote(number: i32, name: &'static str) -> Self {
        Self { program: 0x2000_8086, number, name }
    }

    /// Of the program for what only QEMU has.
    pub const fn qemu(number: i32, name: &'static str) -> Self {
        Self { program: 0x2000_8087, number, name }
    }

    /// The program's number.
    pub const fn program(&self) -> u32 {
        self.program
    }

    /// The procedure's number.
    pub const fn number(&self) -> i32 {
        self.number
    }

    /// What libvirt's API calls it.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

macro_rules! procedures {
    ($($program:ident { $($constant:ident = $number:literal $name:literal,)* })*) => {
        $($(pub(crate) const $constant: Procedure = Procedure::$program($number, $name);)*)*

        #[cfg(test)]
        const ALL: &[Procedure] = &[$($($constant,)*)*];
    };
}

procedures! {
    remote {
        CONNECT_OPEN = 1 "virConnectOpen",
        CONNECT_CLOSE = 2 "virConnectClose",
        CONNECT_GET_TYPE = 3 "virConnectGetType",
        CONNECT_GET_VERSION = 4 "virConnectGetVersion",
        NODE_GET_INFO = 6 "virNodeGetInfo",
        CONNECT_GET_CAPABILITIES = 7 "virConnectGetCapabilities",
        DOMAIN_CREATE_XML = 10 "virDomainCreateXML",
        DOMAIN_GET_XML_DESC = 14 "virDomainGetXMLDesc",
        DOMAIN_GET_AUTOSTART = 15 "virDomainGetAutostart",
        DOMAIN_GET_INFO = 16 "virDomainGetInfo",
        DOMAIN_LOOKUP_BY_NAME = 23 "virDomainLookupByName",
        DOMAIN_LOOKUP_BY_UUID = 24 "virDomainLookupByUUID",
        DOMAIN_RESUME = 28 "virDomainResume",
        DOMAIN_SET_AUTOSTART = 29 "virDomainSetAutostart",
        DOMAIN_SHUTDOWN = 33 "virDomainShutdown",
        DOMAIN_SUSPEND = 34 "virDomainSuspend",
        NETWORK_GET_XML_DESC = 43 "virNetworkGetXMLDesc",
        NETWORK_LOOKUP_BY_NAME = 46 "virNetworkLookupByName",
        CONNECT_GET_HOSTNAME = 59 "virConnectGetHostname",
        CONNECT_SUPPORTS_FEATURE = 60 "virConnectSupportsFeature",
        AUTH_LIST = 66 "authentication list",
        STORAGE_POOL_DEFINE_XML = 77 "virStoragePoolDefineXML",
        STORAGE_POOL_CREATE = 78 "virStoragePoolCreate",
        STORAGE_POOL_BUILD = 79 "virStoragePoolBuild",
        STORAGE_POOL_DESTROY = 80 "virStoragePoolDestroy",
        STORAGE_POOL_UNDEFINE = 82 "virStoragePoolUndefine",
        STORAGE_POOL_REFRESH = 83 "virStoragePoolRefresh",
        STORAGE_POOL_LOOKUP_BY_NAME = 84 "virStoragePoolLookupByName",
        STORAGE_POOL_GET_INFO = 87 "virStoragePoolGetInfo",
        STORAGE_POOL_GET_XML_DESC = 88 "virStoragePoolGetXMLDesc",
        STORAGE_POOL_SET_AUTOSTART = 90 "virStoragePoolSetAutostart",
        STORAGE_VOL_CREATE_XML = 93 "virStorageVolCreateXML",
        STORAGE_VOL_DELETE = 94 "virStorageVolDelete",
        STORAGE_VOL_LOOKUP_BY_NAME = 95 "virStorageVolLookupByName",
        STORAGE_VOL_LOOKUP_BY_KEY = 96 "virStorageVolLookupByKey",
        STORAGE_VOL_LOOKUP_BY_PATH = 97 "virStorageVolLookupByPath",
        STORAGE_VOL_GET_INFO = 98 "virStorageVolGetInfo",
        STORAGE_VOL_GET_XML_DESC = 99 "virStorageVolGetXMLDesc",
        STORAGE_VOL_GET_PATH = 100 "virStorageVolGetPath",
        NODE_GET_FREE_MEMORY = 102 "virNodeGetFreeMemory",
        CONNECT_GET_URI = 110 "virConnectGetURI",
        STORAGE_VOL_CREATE_XML_FROM = 125 "virStorageVolCreateXMLFrom",
        DOMAIN_IS_ACTIVE = 150 "virDomainIsActive",
        DOMAIN_IS_PERSISTENT = 151 "virDomainIsPersistent",
        CONNECT_GET_LIB_VERSION = 157 "virConnectGetLibVersion",
        DOMAIN_MANAGED_SAVE = 182 "virDomainManagedSave",
        DOMAIN_HAS_MANAGED_SAVE_IMAGE = 183 "virDomainHasManagedSaveImage",
        DOMAIN_MANAGED_SAVE_REMOVE = 184 "virDomainManagedSaveRemove",
        DOMAIN_CREATE_WITH_FLAGS = 196 "virDomainCreateWithFlags",
        DOMAIN_OPEN_CONSOLE = 201 "virDomainOpenConsole",
        STORAGE_VOL_UPLOAD = 208 "virStorageVolUpload",
        STORAGE_VOL_DOWNLOAD = 209 "virStorageVolDownload",
        DOMAIN_GET_STATE = 212 "virDomainGetState",
        NODE_GET_MEMORY_STATS = 228 "virNodeGetMemoryStats",
        DOMAIN_UNDEFINE_FLAGS = 231 "virDomainUndefineFlags",
        DOMAIN_DESTROY_FLAGS = 234 "virDomainDestroyFlags",
        DOMAIN_RESET = 245 "virDomainReset",
        STORAGE_VOL_RESIZE = 260 "virStorageVolResize",
        DOMAIN_SET_METADATA = 264 "virDomainSetMetadata",
        DOMAIN_GET_METADATA = 265 "virDomainGetMetadata",
        CONNECT_LIST_ALL_DOMAINS = 273 "virConnectListAllDomains",
        CONNECT_LIST_ALL_STORAGE_POOLS = 281 "virConnectListAllStoragePools",
        STORAGE_POOL_LIST_ALL_VOLUMES = 282 "virStoragePoolListAllVolumes",
        CONNECT_LIST_ALL_NETWORKS = 283 "virConnectListAllNetworks",
        NETWORK_GET_DHCP_LEASES = 341 "virNetworkGetDHCPLeases",
        CONNECT_GET_DOMAIN_CAPABILITIES = 342 "virConnectGetDomainCapabilities",
        DOMAIN_DEFINE_XML_FLAGS = 350 "virDomainDefineXMLFlags",
        DOMAIN_INTERFACE_ADDRESSES = 353 "virDomainInterfaceAddresses",
        CONNECT_GET_STORAGE_POOL_CAPABILITIES = 403 "virConnectGetStoragePoolCapabilities",
    }
    qemu {
        DOMAIN_AGENT_COMMAND = 3 "virDomainQemuAgentCommand",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_procedures_share_a_number() {
        let numbers: HashSet<_> = ALL.iter().map(|one| (one.program, one.number)).collect();
        assert_eq!(numbers.len(), ALL.len());
    }
}
