//! What administrators, earlier operators, edited entries and half done work leave behind, and where addresses come
//! from: kvm and kvm2 on the simulated libvirt.

use std::{sync::LazyLock, time::Duration};

use egress_contract::{Deleted, ErrorClass, State};
use egress_runtime::{
    Module,
    capability::{InterfaceAddress, LibvirtFailure, LibvirtStage},
};
use egress_sim::libvirt::Served;
use serde_json::json;

use crate::{
    bench::{Bench, HOST, IMAGE_URL, POOL, config, proxy},
    support::component,
};

const GIB: u64 = 1024 * 1024 * 1024;
/// Of the earlier operator's kvm2.
const EARLIER: &str = "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2";
const OWN: &str = "https://egressproxies.dev/kvm2";
/// libvirt's numbers for who may know addresses.
const LEASES: u32 = 0;
const AGENT: u32 = 1;
const NEIGHBOURS: u32 = 2;

static KVM: LazyLock<Module> = LazyLock::new(|| component("kvm-provider"));
static KVM2: LazyLock<Module> = LazyLock::new(|| component("kvm2-provider"));

fn kvm2() -> Bench {
    Bench::new(KVM2.clone())
}

/// A machine as the earlier operator made it, for the Proxy of this UID.
async fn earlier(bench: &Bench, name: &str, uid: &str) {
    let host = bench.host().await;
    for (volume, format) in [(format!("{name}.qcow2"), "qcow2"), (format!("{name}-seed.iso"), "raw")] {
        let xml = format!(
            "<volume><name>{volume}</name><capacity unit='bytes'>1024</capacity><target><format type='{format}'/>\
             </target></volume>"
        );
        host.volume_create(POOL, &xml).await.unwrap();
    }
    let xml = format!(
        "<domain type='kvm'><name>{name}</name><metadata><instance xmlns='{EARLIER}'><managed>true</managed>\
         <uid>{uid}</uid><createdAt>2026-09-16T13:33:00Z</createdAt></instance></metadata>\
         <memory unit='MiB'>256</memory><os><type>hvm</type></os></domain>"
    );
    host.define(&xml).await.unwrap();
}

#[tokio::test]
async fn an_earlier_operators_machine_is_taken_over_by_its_id_and_marked_anew() {
    for runs in [true, false] {
        let bench = kvm2();
        let running = bench.run(config(json!({ "legacyNamespaces": [EARLIER] }))).await;
        let mut proxy = proxy(1);
        earlier(&bench, "squid-old", &proxy.uid).await;
        let host = bench.host().await;
        let old = bench.domain("squid-old").await;
        if runs {
            host.start(&old).await.unwrap();
        }
        assert_eq!(running.list().await, (vec![], vec![]), "nobody's before a Proxy names it");

        proxy.id = Some(format!("hosts/{HOST}/domains/squid-old"));
        assert_eq!(running.create(&mut proxy).await, Ok(vec![]));
        assert_eq!(proxy.id.as_deref(), Some("hosts/hv1/domains/squid-old"));
        assert_eq!(bench.domains(), ["squid-old"], "no second one is made");
        assert_eq!(bench.domain("squid-old").await, old);
        running.wait(Duration::from_secs(60));
        let instance = running.get(&proxy).await.unwrap();
        assert_eq!(instance.state, State::Running);
        let mut mark = instance.mark.clone();
        mark.sort();
        assert_eq!(mark, proxy.mark(), "it bears this installation's mark now");
        assert_eq!(instance.created_ms, Some(1_789_565_580_000), "and its age");
        assert!(host.metadata(&old, OWN).await.is_ok() && host.metadata(&old, EARLIER).await.is_err());
        // It has a name that the collector can't derive: that is told, and it is left alone.
        let (items, unread) = running.list().await;
        assert_eq!(items, []);
        assert!(unread.len() == 1 && unread[0].contains("squid-old"), "{unread:?}");

        assert_eq!(running.delete(&proxy).await, Ok(Deleted::Done));
        assert_eq!((bench.domains(), bench.volumes()), (vec![], vec![]));
    }
}

#[tokio::test]
async fn an_earlier_operators_machine_of_another_proxy_or_without_an_id_is_left_alone() {
    let bench = kvm2();
    let running = bench.run(config(json!({ "legacyNamespaces": [EARLIER] }))).await;
    let mut by_id = proxy(1);
    earlier(&bench, "squid-old", "another-proxys-uid").await;
    earlier(&bench, by_id.name().as_str(), &by_id.uid).await;
    // At its own name, and no id says so.
    let mut unnamed = proxy(1);
    let refused = running.create(&mut unnamed).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Permanent, "foreign"));
    by_id.id = Some(format!("hosts/{HOST}/domains/squid-old"));
    for refused in [
        running.create(&mut by_id).await.unwrap_err(),
        running.get(&by_id).await.unwrap_err(),
        running.delete(&by_id).await.unwrap_err(),
    ] {
        assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Permanent, "foreign"));
        assert!(refused.message.contains("another-proxys-uid"), "{}", refused.message);
    }
    // Without the namespace in the entry nobody reads its mark.
    by_id.uid = "another-proxys-uid".to_owned();
    let plain = bench.run(config(json!({}))).await;
    assert_eq!(plain.create(&mut by_id).await.unwrap_err().reason, "foreign");
    // The entry may say by legacy marks whose it is.
    let legacy = vec![vec![("managed".to_owned(), "true".to_owned())]];
    by_id.uid = "of-a-proxy-that-was-written-anew".to_owned();
    let running = bench.run_with(config(json!({ "legacyNamespaces": [EARLIER] })), legacy).await;
    assert_eq!(running.create(&mut by_id).await, Ok(vec![]));
}

#[tokio::test]
async fn an_image_that_changes_under_machines_is_refused_with_both_digests() {
    let bench = kvm2();
    let first = Served::by_default(IMAGE_URL).sha256;
    let second = "0".repeat(64);
    let of = |url: &str, sha256: Option<&str>| {
        let mut image = json!({ "url": url });
        if let Some(sha256) = sha256 {
            image["sha256"] = json!(sha256);
        }
        config(json!({ "images": { "debian": image } }))
    };
    let running = bench.run(of(IMAGE_URL, Some(&first))).await;
    let made = running.made(1).await;

    let elsewhere = "https://mirror.example.org/debian.qcow2";
    for (changed, named) in
        [(of(IMAGE_URL, Some(&second)), second.as_str()), (of(elsewhere, None), "another URL")]
    {
        let changed = bench.run(changed).await;
        let refused = changed.create(&mut proxy(2)).await.unwrap_err();
        assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Permanent, "image-changed"));
        for part in [&first, named, made.name().as_str(), "a key of its own"] {
            assert!(refused.message.contains(part), "{part}: {}", refused.message);
        }
        assert!(changed.create(&mut made.clone()).await.is_ok(), "who has a machine keeps it");
    }
    // A mirror of the same image is the same image.
    let mirrored = bench.run(of(elsewhere, Some(&first))).await;
    let other = mirrored.made(3).await;
    for gone in [&made, &other] {
        assert_eq!(mirrored.delete(gone).await, Ok(Deleted::Done));
    }
    // With the last machine gone the image is fetched anew.
    bench.hosts.serve(IMAGE_URL, Served { sha256: second.clone(), ..Served::by_default(IMAGE_URL) });
    let changed = bench.run(of(IMAGE_URL, Some(&second))).await;
    let said = changed.create(&mut proxy(2)).await.unwrap();
    assert!(said.iter().any(|said| said.starts_with("downloading debian")), "{said:?}");
}

#[tokio::test]
async fn who_was_paused_or_suspended_is_said_with_the_way_out_and_goes_on_once_resumed() {
    let bench = kvm2();
    let running = bench.run(config(json!({}))).await;
    let mut made = running.made(1).await;
    running.wait(Duration::from_secs(60));
    let name = made.name().to_string();
    let hosts = &bench.hosts;
    let ways: [(&dyn Fn(bool) -> bool, &str); 2] = [
        (&|on| hosts.pause(HOST, &name, on), "virsh resume"),
        (&|on| hosts.suspend(HOST, &name, on), "virsh dompmwakeup"),
    ];
    for (stop, way_out) in ways {
        assert!(stop(true));
        let seen = running.get(&made).await.unwrap();
        assert_eq!((seen.state, seen.reason.as_str()), (State::Stopped, "paused"));
        assert!(seen.message.contains(way_out), "{}", seen.message);
        for _ in 0..2 {
            let refused = running.create(&mut made).await.unwrap_err();
            // Transient: it is tried again, whatever the spec does.
            assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Transient, "paused"));
            assert!(refused.message.contains(way_out), "{}", refused.message);
        }
        assert!(stop(false));
        assert_eq!(running.create(&mut made).await, Ok(vec![]));
        assert_eq!(running.get(&made).await.unwrap().state, State::Running);
    }
}

#[tokio::test]
async fn a_disk_from_an_earlier_step_is_used_if_it_fits_and_made_anew_if_not() {
    let bench = kvm2();
    let running = bench.run(config(json!({}))).await;
    // So that the base is there.
    running.made(1).await;
    let host = bench.host().await;
    let (base, other) =
        bench.volumes().into_iter().partition::<Vec<_>, _>(|name| name.starts_with("proxy-base-"));
    let base = base.into_iter().find(|name| name.ends_with(".qcow2")).unwrap();
    let path = |name: &str| format!("/var/lib/libvirt/{POOL}/{name}");
    let overlay = |name: &str, capacity: u64, backing: Option<&str>, format: &str| {
        let backing = backing.map(|file| {
            format!("<backingStore><path>{}</path><format type='qcow2'/></backingStore>", path(file))
        });
        format!(
            "<volume><name>{name}</name><capacity unit='bytes'>{capacity}</capacity><target><format type='{format}'/>\
             </target>{}</volume>",
            backing.unwrap_or_default()
        )
    };
    let cases = [
        (true, 10 * GIB, Some(base.as_str()), "qcow2"),
        (false, 5 * GIB, Some(base.as_str()), "qcow2"),
        (false, 10 * GIB, None, "qcow2"),
        (false, 10 * GIB, Some(other[0].as_str()), "qcow2"),
        (false, 10 * GIB, Some(base.as_str()), "raw"),
    ];
    for (number, (fits, capacity, backing, format)) in (10..).zip(cases) {
        let mut wanted = proxy(number);
        let name = format!("{}.qcow2", wanted.name());
        host.volume_create(POOL, &overlay(&name, capacity, backing, format)).await.unwrap();
        host.volume_upload(POOL, &name, b"of an earlier step".to_vec()).await.unwrap();
        running.create(&mut wanted).await.unwrap();
        let disk = bench.volume(&name).unwrap();
        assert_eq!((disk.capacity, disk.format.as_str()), (10 * GIB, "qcow2"));
        assert_eq!(disk.backing.map(|(path, _)| path), Some(path(&base)));
        assert_eq!(!disk.data.is_empty(), fits, "{capacity} {backing:?} {format}");
    }
}

#[tokio::test]
async fn what_no_domain_uses_is_found_by_its_name_and_goes() {
    let bench = kvm2();
    let running = bench.run(config(json!({}))).await;
    let (kept, gone) = (running.made(1).await, running.made(2).await);
    assert!(bench.hosts.remove_domain(HOST, gone.name().as_str()));
    let mut seedless = running.made(3).await;
    assert!(bench.hosts.remove_domain(HOST, seedless.name().as_str()));
    assert!(bench.hosts.remove_volume(HOST, &format!("{}.qcow2", seedless.name())));
    let leftovers = async || {
        let (items, unread) = running.list().await;
        assert_eq!(unread, [""; 0]);
        let mut left: Vec<_> = items
            .into_iter()
            .filter_map(|item| item.leftover.clone().map(|kind| (item.name.clone(), kind, item)))
            .collect();
        left.sort_by(|one, other| one.0.cmp(&other.0));
        left
    };
    let found = leftovers().await;
    let names: Vec<_> = found.iter().map(|(name, kind, _)| (name.as_str(), kind.as_str())).collect();
    let (gone, lonely) = (gone.name().to_string(), seedless.name().to_string());
    assert_eq!(names, [(gone.as_str(), "volume"), (lonely.as_str(), "seed")]);
    for (_, _, item) in &found {
        assert_eq!(running.collect(item).await, Ok(Deleted::Done));
    }
    assert!(!bench.volumes().iter().any(|name| name.contains(&gone) || name.contains(&lonely)));
    assert_eq!(leftovers().await.len(), 0, "the image is in use");
    // Its Proxy may still want one.
    seedless.id = None;
    running.create(&mut seedless).await.unwrap();

    for proxy in [&kept, &seedless] {
        assert_eq!(running.delete(proxy).await, Ok(Deleted::Done));
    }
    let found = leftovers().await;
    assert_eq!(found.iter().map(|(_, kind, _)| kind.as_str()).collect::<Vec<_>>(), ["image"]);
    assert_eq!(running.collect(&found[0].2).await, Ok(Deleted::Done));
    assert_eq!(bench.volumes(), [""; 0]);
}

fn shows(ips: &[&str]) -> Result<Vec<InterfaceAddress>, LibvirtFailure> {
    let address = |ip: &&str| InterfaceAddress {
        device: "ens2".to_owned(),
        mac: "52:54:00:00:00:01".to_owned(),
        ip: (*ip).to_owned(),
        prefix: 24,
    };
    Ok(ips.iter().map(address).collect())
}

fn fails(stage: LibvirtStage, code: i32) -> Result<Vec<InterfaceAddress>, LibvirtFailure> {
    Err(LibvirtFailure { stage, code, domain: 10, errno: 0, message: "so it is".to_owned(), sent: true })
}

#[tokio::test]
async fn addresses_come_from_the_first_source_that_knows_one_in_each_providers_order() {
    for (component, order) in [(&KVM2, [AGENT, NEIGHBOURS, LEASES]), (&KVM, [NEIGHBOURS, AGENT, LEASES])] {
        let bench = Bench::new((*component).clone());
        let running = bench.run(config(json!({}))).await;
        let ipv6 = bench.run(config(json!({ "ipv6": true }))).await;
        let made = running.made(1).await;
        let tell =
            |source, told| assert!(bench.hosts.tell_addresses(HOST, made.name().as_str(), source, told));
        let of = async |running: &crate::bench::Running| -> Vec<String> {
            let seen = running.get(&made).await.unwrap();
            seen.addresses.into_iter().map(|address| address.ip).collect()
        };
        for (source, ip) in order.into_iter().zip(["10.0.0.1", "10.0.0.2", "10.0.0.3"]) {
            tell(source, shows(&["127.0.0.1", "fe80::1", "2001:db8::9", ip]));
        }
        assert_eq!(of(&running).await, ["10.0.0.1"]);
        assert_eq!(of(&ipv6).await, ["10.0.0.1", "2001:db8::9"]);
        tell(order[0], shows(&["169.254.0.7", "fe80::1"]));
        assert_eq!(of(&running).await, ["10.0.0.2"]);
        tell(order[1], fails(LibvirtStage::Libvirt, 1));
        assert_eq!(of(&running).await, ["10.0.0.3"]);
        // A guest with IPv6 alone is reached only where the entry asks for it.
        tell(order[2], shows(&["2001:db8::9"]));
        assert_eq!(running.get(&made).await.unwrap().state, State::Provisioning);
        assert_eq!(of(&ipv6).await, ["2001:db8::9"]);
    }
}

#[tokio::test]
async fn a_source_that_knows_nothing_yet_is_no_trouble_and_none_that_can_be_asked_is() {
    let bench = kvm2();
    let running = bench.run(config(json!({}))).await;
    let made = running.made(1).await;
    let tell = |source, told| assert!(bench.hosts.tell_addresses(HOST, made.name().as_str(), source, told));
    // The agent has not come up, and nobody else knows a source at all.
    for code in [86, 74] {
        tell(AGENT, fails(LibvirtStage::Libvirt, code));
        for source in [NEIGHBOURS, LEASES] {
            tell(source, fails(LibvirtStage::Libvirt, 1));
        }
        let seen = running.get(&made).await.unwrap();
        assert_eq!((seen.state, seen.reason.as_str()), (State::Provisioning, "no-address"), "{code}");
    }
    tell(AGENT, fails(LibvirtStage::Libvirt, 1));
    let refused = running.get(&made).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Transient, "backend"));
    // A connection that died says nothing of any source.
    tell(LEASES, shows(&["10.0.0.3"]));
    tell(AGENT, fails(LibvirtStage::Cut, 0));
    let refused = running.get(&made).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Transient, "unreachable"));
}

#[tokio::test]
async fn a_host_with_less_memory_than_the_machine_is_told_as_quota_and_nothing_is_defined() {
    let bench = kvm2();
    let large = json!({ "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 1_000_000 } } });
    let running = bench.run(config(large)).await;
    let refused = running.create(&mut proxy(1)).await.unwrap_err();
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::QuotaExceeded, "quota"));
    assert!(refused.message.contains("memory"), "{}", refused.message);
    assert_eq!(bench.domains(), Vec::<String>::new());
    let running = bench.run(config(json!({}))).await;
    running.create(&mut proxy(1)).await.expect("it goes on where there is enough");
    assert_eq!(bench.domains().len(), 1);
}
