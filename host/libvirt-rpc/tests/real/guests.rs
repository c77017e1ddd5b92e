//! A guest that really boots, and who knows its address.

use std::time::Duration;

use libvirt_remote::{
    AddressSource, AgentTimeout, Connection, ConsoleFlags, Domain, DomainCreateFlags, DomainDefineFlags,
    ErrorCode, ErrorDomain, Network, Procedure, StorageVol,
};
use tokio::time::{sleep, timeout};

use crate::lab::*;

/// Starts the guest with this network device, and its disk.
async fn start(libvirt: &Connection, name: &str, interface: &str) -> (Domain, StorageVol) {
    let image = std::fs::read(variable("LIBVIRT_REMOTE_GUEST")).unwrap();
    forget(libvirt, name).await;
    let pool = active_pool(libvirt).await;
    let bytes = image.len() as u64;
    let vol = volume(libvirt, &pool, &format!("{name}.qcow2"), "raw", bytes).await;
    let mut upload = libvirt.storage_vol_upload(&vol, 0, Some(bytes)).await.unwrap();
    upload.write_bytes(image.into()).await.unwrap();
    upload.finish().await.unwrap();
    libvirt.storage_pool_refresh(&pool).await.unwrap();
    let path = libvirt.storage_vol_get_path(&vol).await.unwrap();
    let xml = format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>192</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>\
         <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{path}'/>\
         <target dev='vda' bus='virtio'/></disk>{interface}\
         <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\
         <console type='pty'/></devices></domain>"
    );
    let domain = libvirt.domain_define_xml(&xml, DomainDefineFlags::VALIDATE).await.unwrap();
    libvirt.domain_create(&domain, DomainCreateFlags::NONE).await.unwrap();
    (domain, vol)
}

/// The first address of the first device but the loopback, once this source knows one.
async fn address(libvirt: &Connection, domain: &Domain, source: AddressSource) -> String {
    for _ in 0..480 {
        match libvirt.domain_interface_addresses(domain, source).await {
            Ok(interfaces) => {
                let outside = interfaces.iter().filter(|interface| interface.name != "lo");
                if let Some(found) = outside.flat_map(|interface| &interface.addresses).next() {
                    return found.address.clone();
                }
            }
            Err(error) => assert_eq!(error.code(), Some(ErrorCode::AGENT_UNRESPONSIVE), "{error}"),
        }
        sleep(Duration::from_millis(250)).await;
    }
    panic!("no address within two minutes");
}

#[tokio::test]
#[ignore = "needs a libvirt daemon, a guest and a bridge: LIBVIRT_REMOTE_SOCKET, _GUEST, _BRIDGE"]
async fn a_guest_boots_and_its_agent_tells_its_address() {
    const NAME: &str = "libvirt-remote-guest";
    let bridge = variable("LIBVIRT_REMOTE_BRIDGE");
    let libvirt = open().await;
    let interface =
        format!("<interface type='bridge'><source bridge='{bridge}'/><model type='virtio'/></interface>");
    let (domain, vol) = start(&libvirt, NAME, &interface).await;
    // Until it boots, its agent does not answer.
    let early = libvirt.domain_interface_addresses(&domain, AddressSource::Agent).await;
    assert_eq!(refused(early), (ErrorCode::AGENT_UNRESPONSIVE, ErrorDomain::QEMU));
    let console = libvirt.domain_open_console(&domain, None, ConsoleFlags::FORCE).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(10).any(|window| window == b"TINY-READY") {
        let read = timeout(Duration::from_secs(120), console.read()).await.expect("it boots");
        seen.extend_from_slice(&read.unwrap().expect("it runs"));
    }
    console.close().await;
    println!("the guest is at {}", address(&libvirt, &domain, AddressSource::Agent).await);
    let ping = r#"{"execute":"guest-ping"}"#;
    let pong = libvirt.domain_qemu_agent_command(&domain, ping, AgentTimeout::Default).await.unwrap();
    assert_eq!(pong.as_deref(), Some(r#"{"return":{}}"#));
    forget(&libvirt, NAME).await;
    libvirt.storage_vol_delete(&vol).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a libvirt daemon and a guest: LIBVIRT_REMOTE_SOCKET, _GUEST"]
async fn a_network_of_libvirts_own_tells_to_whom_it_lent_which_address() {
    const NAME: &str = "libvirt-remote-leased";
    const NETWORK: &str = "libvirt-remote-net";
    const MAC: &str = "52:54:00:4c:56:01";
    // Not wrapped, and called all the same.
    const DEFINE: Procedure = Procedure::remote(41, "virNetworkDefineXML");
    const CREATE: Procedure = Procedure::remote(39, "virNetworkCreate");
    const DESTROY: Procedure = Procedure::remote(42, "virNetworkDestroy");
    const UNDEFINE: Procedure = Procedure::remote(49, "virNetworkUndefine");
    let libvirt = open().await;
    if let Ok(old) = libvirt.network_lookup_by_name(NETWORK).await {
        let _: Result<(), _> = libvirt.call(DESTROY, &old).await;
        let () = libvirt.call(UNDEFINE, &old).await.unwrap();
    }
    // Open: libvirt writes no rule of a firewall for it.
    let xml = format!(
        "<network><name>{NETWORK}</name><forward mode='open'/><bridge name='virbr-lr'/><dns enable='no'/>\
         <ip address='10.78.90.1' netmask='255.255.255.0'>\
         <dhcp><range start='10.78.90.10' end='10.78.90.20'/></dhcp></ip></network>"
    );
    let (network,): (Network,) = libvirt.call(DEFINE, xml.as_str()).await.unwrap();
    let () = libvirt.call(CREATE, &network).await.unwrap();
    assert_eq!(libvirt.network_lookup_by_name(NETWORK).await.unwrap(), network);
    assert!(libvirt.connect_list_all_networks().await.unwrap().contains(&network));
    assert!(libvirt.network_get_xml_desc(&network).await.unwrap().contains("10.78.90.1"));
    assert!(libvirt.network_get_dhcp_leases(&network, None).await.unwrap().is_empty());
    let interface = format!(
        "<interface type='network'><mac address='{MAC}'/><source network='{NETWORK}'/><model type='virtio'/></interface>"
    );
    let (domain, vol) = start(&libvirt, NAME, &interface).await;
    let address = address(&libvirt, &domain, AddressSource::Lease).await;
    let leases = libvirt.network_get_dhcp_leases(&network, Some(MAC)).await.unwrap();
    let [lease] = &leases[..] else { panic!("{leases:?}") };
    assert_eq!((&lease.address, lease.mac.as_deref(), lease.prefix), (&address, Some(MAC), 24));
    assert!(address.starts_with("10.78.90.") && lease.expiry > 1_700_000_000, "{lease:?}");
    forget(&libvirt, NAME).await;
    libvirt.storage_vol_delete(&vol).await.unwrap();
    let () = libvirt.call(DESTROY, &network).await.unwrap();
    let () = libvirt.call(UNDEFINE, &network).await.unwrap();
}
