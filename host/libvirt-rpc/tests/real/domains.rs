//! A domain from its definition to its end, without a guest in it.

use libvirt_remote::{
    AffectFlags, Connection, Domain, DomainCreateFlags, DomainDefineFlags, DomainDestroyFlags, DomainState,
    DomainUndefineFlags, DomainXmlFlags, ErrorCode, ErrorDomain, ListDomainsFlags, MetadataType, Namespace,
    SaveFlags,
};

use crate::lab::*;

#[tokio::test]
#[ignore = "needs a libvirt daemon: LIBVIRT_REMOTE_SOCKET"]
async fn a_domain_lives_its_whole_life() {
    const NAME: &str = "libvirt-remote-life";
    const UUID: &str = "6c1f0b0e-5a6b-4d7c-8e9f-0a1b2c3d4e01";
    let libvirt = open().await;
    forget(&libvirt, NAME).await;
    let xml = minimal(NAME, UUID);
    let domain = libvirt.domain_define_xml(&xml, DomainDefineFlags::VALIDATE).await.unwrap();
    assert_eq!((domain.name.as_str(), domain.uuid.to_string().as_str(), domain.id), (NAME, UUID, None));
    assert_eq!(
        libvirt.domain_define_xml(&xml, DomainDefineFlags::NONE).await.unwrap(),
        domain,
        "the same again"
    );
    assert_eq!(libvirt.domain_lookup_by_name(NAME).await.unwrap(), domain);
    assert_eq!(libvirt.domain_lookup_by_uuid(domain.uuid).await.unwrap(), domain);
    assert_eq!(libvirt.domain_get_state(&domain).await.unwrap().0, DomainState::Shutoff);
    assert!(libvirt.connect_list_all_domains(ListDomainsFlags::INACTIVE).await.unwrap().contains(&domain));

    let element = |libvirt: &Connection, domain: &Domain| {
        let (libvirt, domain) = (libvirt.clone(), domain.clone());
        async move {
            let uri = Some("urn:libvirt-remote");
            libvirt.domain_get_metadata(&domain, MetadataType::Element, uri, AffectFlags::NONE).await
        }
    };
    let mark = element(&libvirt, &domain).await.unwrap();
    assert!(mark.contains("<owner>tests</owner>") && !mark.contains("xmlns"), "{mark}");
    let namespace = Namespace { key: "m", uri: "urn:libvirt-remote" };
    libvirt
        .domain_set_metadata(
            &domain,
            MetadataType::Element,
            Some("<mark><owner>others</owner></mark>"),
            Some(namespace),
            AffectFlags::CONFIG,
        )
        .await
        .unwrap();
    assert!(element(&libvirt, &domain).await.unwrap().contains("others"));
    libvirt
        .domain_set_metadata(&domain, MetadataType::Element, None, Some(namespace), AffectFlags::CONFIG)
        .await
        .unwrap();
    assert_eq!(
        refused(element(&libvirt, &domain).await),
        (ErrorCode::NO_DOMAIN_METADATA, ErrorDomain::DOMAIN)
    );
    libvirt
        .domain_set_metadata(&domain, MetadataType::Title, Some("a title"), None, AffectFlags::CONFIG)
        .await
        .unwrap();
    let title = libvirt.domain_get_metadata(&domain, MetadataType::Title, None, AffectFlags::NONE).await;
    assert_eq!(title.unwrap(), "a title");

    assert!(!libvirt.domain_get_autostart(&domain).await.unwrap());
    libvirt.domain_set_autostart(&domain, true).await.unwrap();
    assert!(libvirt.domain_get_autostart(&domain).await.unwrap());
    libvirt.domain_set_autostart(&domain, false).await.unwrap();

    let running = libvirt.domain_create(&domain, DomainCreateFlags::NONE).await.unwrap();
    assert!(running.id.is_some());
    assert_eq!(libvirt.domain_get_state(&domain).await.unwrap(), (DomainState::Running, 1));
    assert!(libvirt.domain_is_active(&domain).await.unwrap());
    assert!(libvirt.domain_is_persistent(&domain).await.unwrap());
    let info = libvirt.domain_get_info(&domain).await.unwrap();
    assert_eq!((info.state, info.max_memory, info.vcpus), (DomainState::Running, 32 * 1024, 1));
    let xml = libvirt.domain_get_xml_desc(&domain, DomainXmlFlags::NONE).await.unwrap();
    assert!(xml.contains(UUID) && xml.contains("<title>a title</title>"));
    libvirt.domain_suspend(&domain).await.unwrap();
    assert_eq!(libvirt.domain_get_state(&domain).await.unwrap().0, DomainState::Paused);
    libvirt.domain_resume(&domain).await.unwrap();
    libvirt.domain_reset(&domain).await.unwrap();
    let console =
        libvirt.domain_open_console(&domain, None, libvirt_remote::ConsoleFlags::FORCE).await.unwrap();
    console.write(b"x").await.unwrap();
    console.close().await;

    libvirt.domain_managed_save(&domain, SaveFlags::NONE).await.unwrap();
    assert!(libvirt.domain_has_managed_save_image(&domain).await.unwrap());
    assert_eq!(
        refused(libvirt.domain_undefine(&domain, DomainUndefineFlags::NONE).await),
        (ErrorCode::OPERATION_INVALID, ErrorDomain::QEMU)
    );
    libvirt.domain_managed_save_remove(&domain).await.unwrap();
    libvirt.domain_create(&domain, DomainCreateFlags::NONE).await.unwrap();
    libvirt.domain_destroy(&domain, DomainDestroyFlags::NONE).await.unwrap();
    libvirt.domain_undefine(&domain, DomainUndefineFlags::NVRAM).await.unwrap();
    assert_eq!(refused(libvirt.domain_lookup_by_name(NAME).await), (ErrorCode::NO_DOMAIN, ErrorDomain::QEMU));
}
