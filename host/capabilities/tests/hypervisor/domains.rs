//! A machine's life through the capability, and what it does not let through.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use egress_capabilities::{Beside, LibvirtCapability};
use egress_runtime::capability::{Domain, Libvirt, LibvirtStage as Stage, Withheld, Writes};
use serde_json::json;

use crate::lab::{BRIDGE, FOLDER, POOL, entry, grant, installation, name, open};

const URI: &str = "https://egressproxies.dev/test";

fn volume(name: &str) -> String {
    format!(
        "<volume><name>{name}</name><capacity unit='MiB'>8</capacity><target><format type='qcow2'/></target></volume>"
    )
}

fn domain(name: &str) -> String {
    format!(
        "<domain type='qemu'><name>{name}</name><metadata><t:vm xmlns:t='{URI}'><t:uid>1</t:uid></t:vm></metadata>
         <memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>
         <devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
         <source file='{FOLDER}/{name}.qcow2'/><target dev='vda' bus='virtio'/></disk>
         <interface type='bridge'><source bridge='{BRIDGE}'/><model type='virtio'/></interface>
         <serial type='pty'><log file='/var/log/libvirt/qemu/{name}.console.log' append='off'/><target port='0'/></serial>
         <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
         <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng></devices></domain>"
    )
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_machine_is_made_started_ended_and_forgotten() {
    // The lab's hosts have no folder of libvirt's own for logs.
    let (name, host) = (name("life"), open(json!({ "logs": "/var/log" })).await.unwrap());
    assert!(host.free_memory().await.unwrap() > 0);
    assert!(host.capabilities().await.unwrap().contains("<capabilities>"));
    assert!(host.storage_capabilities().await.unwrap().contains("qcow2"));
    assert!(host.pool_info(POOL).await.unwrap().available > 0);
    host.volume_create(POOL, &volume(&format!("{name}.qcow2"))).await.unwrap();
    let again = host.volume_create(POOL, &volume(&format!("{name}.qcow2"))).await.unwrap_err();
    assert_eq!((again.stage, again.code, again.sent), (Stage::Libvirt, 90, false), "{}", again.message);
    let seed = format!("{name}-seed.iso");
    host.volume_create(POOL, &volume(&seed).replace("qcow2", "raw").replace("MiB", "KiB")).await.unwrap();
    let data: Vec<u8> = (0..8192_u32).map(|byte| byte.to_le_bytes()[0]).collect();
    host.volume_upload(POOL, &seed, data.clone()).await.unwrap();
    assert_eq!(host.volume_download(POOL, &seed, 4 << 20).await.unwrap(), data);
    assert_eq!(host.volume_download(POOL, &seed, 16).await.unwrap(), data[..16]);
    let logged = domain(&name).replace("/var/log/libvirt/qemu/", "/var/log/");
    let defined = host.define(&logged).await.unwrap();
    assert_eq!(host.lookup(&name).await.unwrap(), defined);
    assert!(host.domains().await.unwrap().contains(&defined));
    assert!(host.metadata(&defined, URI).await.unwrap().contains("<uid>1</uid>"));
    host.start(&defined).await.unwrap();
    assert_eq!(host.state(&defined).await.unwrap().state, 1);
    assert_eq!(host.start(&defined).await.unwrap_err().code, 55);
    host.set_metadata(&defined, "t", URI, "<vm><uid>2</uid></vm>").await.unwrap();
    assert!(host.metadata(&defined, URI).await.unwrap().contains("2"));
    assert!(host.xml(&defined).await.unwrap().contains(&name));
    assert_eq!(host.addresses(&defined, 1).await.unwrap_err().code, 86, "its agent is not up");
    assert_eq!(host.addresses(&defined, 0).await.unwrap(), []);
    host.set_autostart(&defined, true).await.unwrap();
    host.destroy(&defined).await.unwrap();
    host.undefine(&defined, 4).await.unwrap();
    assert_eq!(host.state(&defined).await.unwrap_err().code, 42);
    for volume in [format!("{name}.qcow2"), seed] {
        host.volume_delete(POOL, &volume).await.unwrap();
        assert_eq!(host.volume_delete(POOL, &volume).await.unwrap_err().code, 50);
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn another_domain_of_that_name_is_not_touched() {
    let (name, host) = (name("other"), open(json!({})).await.unwrap());
    let defined = host.define(&domain(&name)).await.unwrap();
    let stale = Domain { uuid: "512b8c35-0d1c-4f2a-9e77-00c0ffee0001".to_owned(), ..defined.clone() };
    for refused in [
        host.start(&stale).await.unwrap_err(),
        host.undefine(&stale, 0).await.unwrap_err(),
        host.state(&stale).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!((refused.stage, refused.code), (Stage::Libvirt, 42), "{}", refused.message);
    }
    host.undefine(&defined, 0).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a host"]
async fn what_the_grant_does_not_reach_never_arrives() {
    let (name, host) = (name("denied"), open(json!({})).await.unwrap());
    let theirs = egress_contract::Installation::new("theirs").instance_name("a", "b", 1).as_str().to_owned();
    let denied = |outcome: Result<(), egress_runtime::capability::LibvirtFailure>| {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.stage, failure.sent), (Stage::Denied, false), "{}", failure.message);
    };
    for document in [
        domain("somebody-elses"),
        domain(&theirs),
        domain(&name).replace("<devices>", "<devices><hostdev/>"),
        domain(&name).replace(BRIDGE, "br9"),
        domain(&name).replace(&format!("{FOLDER}/{name}.qcow2"), "/etc/shadow"),
    ] {
        denied(host.define(&document).await.map(|_| ()));
    }
    let foreign = Domain { name: theirs.clone(), uuid: String::new() };
    denied(host.destroy(&foreign).await);
    denied(host.volume_create("other", &volume(&name)).await);
    denied(host.volume_create(POOL, &volume(&theirs)).await);
    denied(host.volume_delete(POOL, "guest.qcow2").await);
    denied(host.volume_download(POOL, "guest.qcow2", 16).await.map(|_| ()));
    denied(host.volume_upload(POOL, &format!("{name}-seed.iso"), b"QFI\xfb".to_vec()).await);
    denied(host.pool_info("other").await.map(|_| ()));
    assert_eq!(host.lookup(&name).await.unwrap_err().code, 42, "nothing was made");
}

/// Shut, it withholds.
#[derive(Default)]
struct Door(AtomicBool);

impl Writes for Door {
    fn may_begin(&self) -> Result<(), Withheld> {
        if self.0.load(Ordering::SeqCst) { Err(Withheld("shut".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn while_writes_are_withheld_none_arrives_and_reads_go_on() {
    let door = Arc::new(Door::default());
    let beside = Beside { writes: Arc::clone(&door) as Arc<dyn Writes>, ..Beside::alone(installation()) };
    let capability = LibvirtCapability::new(&entry(), grant(json!({})), &beside).unwrap();
    let (name, host) = (name("door"), capability.open("hv", false).await.unwrap());
    let defined = host.define(&domain(&name)).await.unwrap();
    door.0.store(true, Ordering::SeqCst);
    assert_eq!(host.undefine(&defined, 0).await.unwrap_err().stage, Stage::Cut);
    assert!(capability.open("hv", false).await.unwrap().undefine(&defined, 0).await.is_err());
    assert_eq!(host.lookup(&name).await.unwrap(), defined, "it is still there, and reads go on");
    door.0.store(false, Ordering::SeqCst);
    capability.open("hv", false).await.unwrap().undefine(&defined, 0).await.unwrap();
}
