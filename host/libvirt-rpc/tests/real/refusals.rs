//! Each refusal, with the code and domain that libvirt gives it.

use libvirt_remote::{
    AddressSource, AgentTimeout, Connection, DomainCreateFlags, DomainDefineFlags, DomainDestroyFlags,
    ErrorCode, ErrorDomain, Options, StorageVolCreateFlags, StorageVolResizeFlags, Uuid,
};

use crate::lab::*;

#[tokio::test]
#[ignore = "needs a libvirt daemon: LIBVIRT_REMOTE_SOCKET"]
async fn every_refusal_has_its_measured_code_and_domain() {
    const NAME: &str = "libvirt-remote-refused";
    const UUID: &str = "6c1f0b0e-5a6b-4d7c-8e9f-0a1b2c3d4e02";
    let libvirt = open().await;
    forget(&libvirt, NAME).await;
    let pool = active_pool(&libvirt).await;
    let none = DomainDefineFlags::NONE;
    let define = async |xml: &str, flags| refused(libvirt.domain_define_xml(xml, flags).await);
    let create_vol = async |xml: &str| {
        refused(libvirt.storage_vol_create_xml(&pool, xml, StorageVolCreateFlags::NONE).await)
    };
    let (code, domain) = (ErrorCode::NO_STORAGE_POOL, ErrorDomain::STORAGE);
    assert_eq!(refused(libvirt.storage_pool_lookup_by_name("libvirt-remote-none").await), (code, domain));
    let none_of_it = libvirt.storage_vol_lookup_by_name(&pool, "libvirt-remote-none").await;
    assert_eq!(refused(none_of_it), (ErrorCode::NO_STORAGE_VOL, ErrorDomain::STORAGE));
    let none_there = libvirt.storage_vol_lookup_by_path("/var/lib/libvirt/images/libvirt-remote-none").await;
    assert_eq!(refused(none_there), (ErrorCode::NO_STORAGE_VOL, ErrorDomain::STORAGE));
    assert_eq!(
        refused(libvirt.network_lookup_by_name("libvirt-remote-none").await),
        (ErrorCode::NO_NETWORK, ErrorDomain::NETWORK)
    );
    let unknown: Uuid = "12345678-1234-1234-1234-123456789abc".parse().unwrap();
    assert_eq!(
        refused(libvirt.domain_lookup_by_uuid(unknown).await),
        (ErrorCode::NO_DOMAIN, ErrorDomain::QEMU)
    );

    assert_eq!(define("<domain>", none).await, (ErrorCode::XML_DETAIL, ErrorDomain::DOMAIN));
    let nameless = minimal(NAME, UUID).replace(&format!("<name>{NAME}</name>"), "");
    assert_eq!(define(&nameless, none).await, (ErrorCode::NO_NAME, ErrorDomain::DOMAIN));
    let odd = minimal(NAME, UUID).replace("type='qemu'", "type='nosuch'");
    assert_eq!(define(&odd, none).await, (ErrorCode::CONFIG_UNSUPPORTED, ErrorDomain::DOMAIN));
    let no_memory = minimal(NAME, UUID).replace("<memory unit='MiB'>32</memory>", "");
    assert_eq!(define(&no_memory, none).await, (ErrorCode::XML_ERROR, ErrorDomain::DOMAIN));
    let invalid = minimal(NAME, UUID).replace("<devices>", "<nosuch/><devices>");
    assert_eq!(
        define(&invalid, DomainDefineFlags::VALIDATE).await,
        (ErrorCode::XML_INVALID_SCHEMA, ErrorDomain::XML)
    );

    let domain = libvirt.domain_define_xml(&minimal(NAME, UUID), none).await.unwrap();
    let other_uuid = minimal(NAME, "6c1f0b0e-5a6b-4d7c-8e9f-0a1b2c3d4eff");
    assert_eq!(define(&other_uuid, none).await, (ErrorCode::OPERATION_FAILED, ErrorDomain::DOMAIN));
    let other_name = minimal("libvirt-remote-other", UUID);
    assert_eq!(define(&other_name, none).await, (ErrorCode::OPERATION_FAILED, ErrorDomain::DOMAIN));
    let off = (ErrorCode::OPERATION_INVALID, ErrorDomain::DOMAIN);
    assert_eq!(refused(libvirt.domain_destroy(&domain, DomainDestroyFlags::NONE).await), off);
    assert_eq!(refused(libvirt.domain_suspend(&domain).await), off);
    assert_eq!(refused(libvirt.domain_interface_addresses(&domain, AddressSource::Arp).await), off);
    libvirt.domain_create(&domain, DomainCreateFlags::NONE).await.unwrap();
    assert_eq!(
        refused(libvirt.domain_create(&domain, DomainCreateFlags::NONE).await),
        (ErrorCode::OPERATION_INVALID, ErrorDomain::QEMU)
    );
    let no_agent = (ErrorCode::ARGUMENT_UNSUPPORTED, ErrorDomain::QEMU);
    let addresses = libvirt.domain_interface_addresses(&domain, AddressSource::Agent).await;
    assert_eq!(refused(addresses), no_agent);
    let ping = r#"{"execute":"guest-ping"}"#;
    assert_eq!(
        refused(libvirt.domain_qemu_agent_command(&domain, ping, AgentTimeout::Seconds(1)).await),
        no_agent
    );
    assert!(libvirt.domain_interface_addresses(&domain, AddressSource::Lease).await.unwrap().is_empty());
    forget(&libvirt, NAME).await;
    assert_eq!(
        refused(libvirt.domain_create(&domain, DomainCreateFlags::NONE).await),
        (ErrorCode::NO_DOMAIN, ErrorDomain::QEMU)
    );

    let vol = volume(&libvirt, &pool, "libvirt-remote-refused", "raw", 4096).await;
    let again = "<volume><name>libvirt-remote-refused</name><capacity>4096</capacity></volume>";
    assert_eq!(create_vol(again).await, (ErrorCode::STORAGE_VOL_EXIST, ErrorDomain::STORAGE));
    assert_eq!(create_vol("<volume><name>x").await, (ErrorCode::XML_DETAIL, ErrorDomain::STORAGE));
    let nameless = "<volume><capacity>1</capacity></volume>";
    assert_eq!(create_vol(nameless).await, (ErrorCode::XML_ERROR, ErrorDomain::STORAGE));
    let smaller = libvirt.storage_vol_resize(&vol, 1024, StorageVolResizeFlags::NONE).await;
    assert_eq!(refused(smaller), (ErrorCode::INVALID_ARG, ErrorDomain::STORAGE));
    libvirt.storage_vol_delete(&vol).await.unwrap();
    let gone = (ErrorCode::NO_STORAGE_VOL, ErrorDomain::STORAGE);
    assert_eq!(refused(libvirt.storage_vol_delete(&vol).await), gone);
    assert_eq!(refused(libvirt.storage_vol_upload(&vol, 0, Some(1)).await.map(|_| ())), gone);

    let read_only = Options { read_only: true, ..Options::default() };
    let reader = Connection::open_with(socket().await, "qemu:///system", read_only).await.unwrap();
    assert_eq!(
        refused(reader.domain_define_xml(&minimal(NAME, UUID), none).await),
        (ErrorCode::OPERATION_DENIED, ErrorDomain::DOMAIN)
    );
    let unknown = Connection::open(socket().await, "qemu:///nosuch").await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::INTERNAL_ERROR), "{unknown}");
}
