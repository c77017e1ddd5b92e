//! What libvirtd 11.3.0 answered, case by case, and what the simulation answers.

use std::{sync::Arc, time::Duration};

use egress_runtime::capability::{
    Clock, Domain, Fill, Libvirt, LibvirtConnection, LibvirtFailure, Transfer, TransferFailureKind,
};

use super::*;
use crate::clock::VirtualClock;

const VOLUME: &str = "<volume><name>v</name><capacity unit='bytes'>4096</capacity><target><format type='qcow2'/></target></volume>";

fn domain_xml(name: &str, extra: &str) -> String {
    format!(
        "<domain type='kvm'><name>{name}</name><metadata><o:m xmlns:o='urn:o' id='1'><o:uid>u</o:uid></o:m></metadata>\
         <memory unit='MiB'>64</memory><os firmware='efi'><type>hvm</type></os><devices>{extra}<channel type='unix'>\
         <target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>"
    )
}

struct Lab {
    hosts: Hosts,
    clock: VirtualClock,
    connection: Arc<dyn LibvirtConnection>,
}

async fn lab() -> Lab {
    let clock = VirtualClock::default();
    let hosts = Hosts::new(Arc::new(clock.clone()), &[HostSpec::new("hv1")]);
    let connection = hosts.open("hv1", false).await.unwrap();
    Lab { hosts, clock, connection }
}

fn refused<T>(answer: Result<T, LibvirtFailure>, code: i32, domain: i32, message: &str) {
    let failure = answer.err().unwrap();
    assert_eq!((failure.code, failure.domain), (code, domain), "{}", failure.message);
    assert!(failure.message.starts_with(message), "{} is not {message}", failure.message);
}

#[tokio::test]
async fn volumes_are_refused_as_measured() {
    let Lab { connection, hosts, .. } = lab().await;
    refused(
        connection.pool_info("nopool").await,
        49,
        18,
        "Storage pool not found: no storage pool with matching name 'nopool'",
    );
    connection.volume_create("default", VOLUME).await.unwrap();
    refused(connection.volume_create("default", VOLUME).await, 90, 18, "storage volume 'v' exists already");
    refused(
        connection.volume_create("default", "<volume><name>x").await,
        35,
        18,
        "at line 1: Premature end of data",
    );
    refused(
        connection.volume_create("default", "<volume/>").await,
        27,
        18,
        "XML error: missing volume name element",
    );
    let strange = VOLUME.replace("qcow2", "nosuch").replace(">v<", ">w<");
    refused(
        connection.volume_create("default", &strange).await,
        67,
        18,
        "unsupported configuration: unknown volume format type nosuch",
    );
    let over = VOLUME.replace(">v<", ">w<").replace(
        "</volume>",
        "<backingStore><path>/nope</path><format type='qcow2'/></backingStore></volume>",
    );
    refused(
        connection.volume_create("default", &over).await,
        38,
        18,
        "inaccessible backing store volume /nope: No such file or directory",
    );
    connection.volume_delete("default", "v").await.unwrap();
    let gone = "Storage volume not found: no storage vol with matching name 'v'";
    refused(connection.volume_delete("default", "v").await, 50, 18, gone);
    refused(connection.volume_xml("default", "v").await, 50, 18, gone);
    refused(connection.volume_upload("default", "v", vec![1]).await, 50, 18, gone);
    hosts.activate_pools(false);
    let inactive = "Requested operation is not valid: storage pool 'default' is not active";
    refused(connection.volumes("default").await, 55, 18, inactive);
    refused(connection.pool_refresh("default").await, 55, 18, inactive);
    assert_eq!(connection.pool_info("default").await.unwrap().state, 0);
}

#[tokio::test]
async fn definitions_are_refused_as_measured() {
    let Lab { connection, .. } = lab().await;
    refused(connection.lookup("no").await, 42, 10, "Domain not found: no domain with matching name 'no'");
    refused(
        connection.define("<domain>").await,
        35,
        20,
        "at line 1: Premature end of data in tag domain line 1",
    );
    refused(connection.define("<domain type='kvm'/>").await, 21, 20, "missing name information");
    let strange = domain_xml("a", "").replace("'kvm'", "'foo'");
    refused(connection.define(&strange).await, 67, 20, "unsupported configuration: invalid domain type foo");
    let known = connection.define(&domain_xml("a", "")).await.unwrap();
    refused(
        connection.define(&domain_xml("a", "")).await,
        9,
        20,
        &format!("operation failed: domain 'a' already exists with uuid {}", known.uuid),
    );
    let other = domain_xml("b", "").replace("<name>", &format!("<uuid>{}</uuid><name>", known.uuid));
    refused(
        connection.define(&other).await,
        9,
        20,
        &format!("operation failed: domain 'a' is already defined with uuid {}", known.uuid),
    );
}

#[tokio::test]
async fn a_domain_lives_and_goes_as_measured() {
    let Lab { connection, .. } = lab().await;
    let a = connection.define(&domain_xml("a", "")).await.unwrap();
    assert_eq!(connection.metadata(&a, "urn:o").await.unwrap(), "<m id=\"1\"><uid>u</uid></m>");
    refused(
        connection.metadata(&a, "urn:p").await,
        80,
        20,
        "metadata not found: Requested metadata element is not",
    );
    let off = "Requested operation is not valid: domain is not running";
    refused(connection.destroy(&a).await, 55, 20, off);
    refused(connection.addresses(&a, 1).await, 55, 20, off);
    connection.start(&a).await.unwrap();
    assert_eq!(connection.state(&a).await.unwrap().state, 1);
    refused(
        connection.start(&a).await,
        55,
        10,
        "Requested operation is not valid: domain is already running",
    );
    // Undefined while it runs, it goes with its end.
    refused(
        connection.undefine(&a, 0).await,
        55,
        10,
        "Requested operation is not valid: cannot undefine domain with nvram",
    );
    connection.undefine(&a, 7).await.unwrap();
    assert_eq!(connection.state(&a).await.unwrap().state, 1);
    connection.destroy(&a).await.unwrap();
    let stale = format!("Domain not found: no domain with matching uuid '{}' (a)", a.uuid);
    refused(connection.undefine(&a, 7).await, 42, 10, &stale);
    refused(connection.start(&a).await, 42, 10, &stale);
}

#[tokio::test]
async fn what_does_not_start_says_why_as_measured() {
    let Lab { connection, hosts, .. } = lab().await;
    let disk = "<disk type='file'><source file='/absent.qcow2'/></disk>";
    let a = connection.define(&domain_xml("a", disk)).await.unwrap();
    let answer = connection.start(&a).await;
    assert_eq!(answer.as_ref().err().unwrap().errno, 2);
    refused(
        answer,
        38,
        18,
        "Cannot access storage file '/absent.qcow2' (as uid:0, gid:0): No such file or directory",
    );
    assert_eq!(
        (connection.state(&a).await.unwrap().state, connection.state(&a).await.unwrap().reason),
        (5, 6)
    );
    let card = "<interface type='bridge'><source bridge='nobr'/></interface>";
    let b = connection.define(&domain_xml("b", card)).await.unwrap();
    refused(connection.start(&b).await, 38, 0, "Cannot get interface MTU on 'nobr': No such device");
    let c = connection.define(&domain_xml("c", "")).await.unwrap();
    hosts.never_start(true);
    refused(
        connection.start(&c).await,
        1,
        10,
        "internal error: QEMU unexpectedly closed the monitor (vm='c')",
    );
}

#[tokio::test]
async fn addresses_come_up_after_the_boot() {
    let Lab { connection, clock, hosts } = lab().await;
    let a = connection.define(&domain_xml("a", "")).await.unwrap();
    connection.start(&a).await.unwrap();
    refused(
        connection.addresses(&a, 1).await,
        86,
        10,
        "Guest agent is not responding: QEMU guest agent is not connected",
    );
    assert_eq!(connection.addresses(&a, 0).await, Ok(Vec::new()));
    assert_eq!(connection.addresses(&a, 2).await, Ok(Vec::new()));
    refused(
        connection.addresses(&a, 9).await,
        74,
        10,
        "argument unsupported: Unknown IP address data source 9",
    );
    clock.advance(Duration::from_secs(15));
    let arp = connection.addresses(&a, 2).await.unwrap();
    assert_eq!((arp.len(), arp[0].prefix), (1, 0));
    clock.advance(Duration::from_secs(15));
    assert!(connection.addresses(&a, 1).await.unwrap().iter().any(|found| found.ip == arp[0].ip));
    hosts.pause("hv1", "a", true);
    refused(
        connection.start(&a).await,
        55,
        10,
        "Requested operation is not valid: domain is already running",
    );
    assert_eq!(connection.state(&a).await.unwrap().state, 3);
}

#[tokio::test]
async fn an_image_arrives_as_the_clock_says_and_is_known_to_its_process_alone() {
    let Lab { hosts, clock, connection } = lab().await;
    let transfers = Transfers::new(hosts.clone());
    let fill = Fill {
        host: "hv1".to_owned(),
        pool: "default".to_owned(),
        volume: "base".to_owned(),
        url: "https://images.example.org/a".to_owned(),
        format: "qcow2".to_owned(),
        sha256: None,
    };
    let begun = transfers.ensure(&fill).await.unwrap();
    assert_eq!((begun.bytes, begun.sha256), (0, None));
    clock.advance(Duration::from_secs(1));
    let on_its_way = transfers.status("hv1", "default", "base").await.unwrap().unwrap();
    assert!(on_its_way.bytes > 0 && on_its_way.sha256.is_none());
    let other = Transfers::new(hosts.clone());
    assert_eq!(other.status("hv1", "default", "base").await, Ok(None));
    assert_eq!(other.ensure(&fill).await.unwrap_err().kind, TransferFailureKind::Exists);
    clock.advance(Duration::from_secs(60));
    let whole = transfers.ensure(&fill).await.unwrap();
    assert_eq!(whole.sha256, Some(Served::by_default(&fill.url).sha256));
    assert!(connection.volume_xml("default", "base").await.is_ok());
    // What was filled and is gone is filled anew.
    assert!(hosts.remove_volume("hv1", "base"));
    assert_eq!(transfers.ensure(&fill).await.unwrap().sha256, None);
    // With another digest than was asked for, nothing stays.
    let wrong = Fill { volume: "wrong".to_owned(), sha256: Some("0".repeat(64)), ..fill };
    transfers.ensure(&wrong).await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(transfers.ensure(&wrong).await.unwrap_err().kind, TransferFailureKind::DigestMismatch);
    refused(connection.volume_xml("default", "wrong").await, 50, 18, "Storage volume not found");
}

#[tokio::test]
async fn a_uuid_that_is_anothers_is_no_domain() {
    let Lab { connection, .. } = lab().await;
    let a = connection.define(&domain_xml("a", "")).await.unwrap();
    let other = Domain { uuid: "12345678-1234-1234-1234-123456789abc".to_owned(), ..a };
    refused(connection.start(&other).await, 42, 10, "Domain not found: no domain with matching uuid");
}

#[tokio::test]
async fn a_copy_goes_its_own_way() {
    let Lab { hosts, clock, connection } = lab().await;
    connection.volume_create("default", VOLUME).await.unwrap();
    let copy = hosts.copy(Arc::new(clock) as Arc<dyn Clock>);
    assert!(copy.remove_volume("hv1", "v"));
    assert_eq!((hosts.volumes().len(), copy.volumes().len()), (1, 0));
}
