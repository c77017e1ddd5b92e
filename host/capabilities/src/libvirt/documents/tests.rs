//! What a provider makes is let through; what would reach further is refused by its name.

use super::*;

const NAME: &str = "proxy-web-abcdef-12345678";

fn scope<T>(with: impl FnOnce(&Scope<'_>) -> T) -> T {
    with(&Scope {
        bridges: &["br0".to_owned()],
        folders: &["/var/lib/libvirt/images".to_owned()],
        logs: "/var/log/libvirt/qemu",
        may_touch: &|name| name.starts_with("proxy-") && !name.contains('/'),
    })
}

fn domain(devices: &str) -> String {
    format!(
        "<domain type='kvm'><name>{NAME}</name><uuid>512b8c35-0d1c-4f2a-9e77-00c0ffee0001</uuid>
         <metadata><m:vm xmlns:m='urn:x'><m:any deep='yes'><m:thing/></m:any></m:vm></metadata>
         <memory unit='MiB'>512</memory><vcpu placement='static'>1</vcpu>
         <cpu mode='host-passthrough' check='none' migratable='on'/>
         <os firmware='efi'><type arch='x86_64' machine='q35'>hvm</type>
           <firmware><feature enabled='yes' name='secure-boot'/></firmware>
           <loader readonly='yes' secure='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.ms.fd</loader>
           <nvram template='/usr/share/OVMF/OVMF_VARS_4M.ms.fd'/><boot dev='hd'/></os>
         <features><acpi/><apic/><smm state='on'/></features>
         <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/></clock>
         <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
         <devices>
           <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none' discard='unmap'/>
             <source file='/var/lib/libvirt/images/{NAME}.qcow2'/><target dev='vda' bus='virtio'/></disk>
           <disk type='file' device='cdrom'><driver name='qemu' type='raw'/>
             <source file='/var/lib/libvirt/images/{NAME}-seed.iso'/><target dev='sda' bus='sata'/><readonly/></disk>
           <interface type='bridge'><source bridge='br0'/><mac address='52:54:00:00:00:01'/><model type='virtio'/></interface>
           <serial type='pty'><log file='/var/log/libvirt/qemu/{NAME}.console.log' append='off'/><target port='0'/></serial>
           <console type='pty'><target type='serial' port='0'/></console>
           <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
           <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
           <memballoon model='virtio'/>{devices}</devices></domain>"
    )
}

#[track_caller]
fn refused(document: &str, named: &str) {
    let why = scope(|scope| scope.domain(document)).unwrap_err();
    assert!(why.contains(named), "{why}");
}

#[test]
fn a_machine_as_providers_make_it_is_let_through() {
    assert_eq!(scope(|scope| scope.domain(&domain(""))), Ok(NAME.to_owned()));
}

#[test]
fn a_machine_s_end_writes_no_memory_to_the_host() {
    for action in ["coredump-destroy", "coredump-restart", "rename-restart", ""] {
        let document =
            domain("").replace("<on_crash>destroy</on_crash>", &format!("<on_crash>{action}</on_crash>"));
        refused(&document, "domain/on_crash");
    }
}

#[test]
fn what_reaches_the_host_is_refused_by_its_name() {
    for (devices, named) in [
        ("<hostdev mode='subsystem' type='pci'/>", "domain/devices/hostdev"),
        ("<filesystem type='mount'><source dir='/'/></filesystem>", "domain/devices/filesystem"),
        ("<emulator>/bin/sh</emulator>", "domain/devices/emulator"),
        ("<watchdog model='i6300esb' action='dump'/>", "domain/devices/watchdog"),
        ("<disk type='block' device='disk'/>", "domain/devices/disk has type \"block\""),
        ("<disk type='file' device='lun'/>", "device \"lun\""),
        ("<disk type='file' device='disk'><source file='/etc/shadow'/></disk>", "/etc/shadow"),
        (
            "<disk type='file' device='disk'><source file='/var/lib/libvirt/images/../proxy-x'/></disk>",
            "/../",
        ),
        (
            "<disk type='file' device='disk'><source file='/var/lib/libvirt/images/other.qcow2'/></disk>",
            "other",
        ),
        (
            "<disk type='file' device='disk'><source file='/var/lib/libvirt/images/a/proxy-x'/></disk>",
            "/a/proxy-x",
        ),
        ("<disk type='file' device='disk'><source/></disk>", "domain/devices/disk/source"),
        ("<disk type='file' device='disk'><source dev='/dev/sda'/></disk>", "attribute dev"),
        ("<disk type='file' device='disk'><backingStore type='file'/></disk>", "disk/backingStore"),
        ("<disk type='file' device='disk'><driver name='qemu' type='vmdk'/></disk>", "vmdk"),
        ("<interface type='bridge'><source bridge='br1'/></interface>", "bridge \"br1\""),
        ("<interface type='network'><source network='default'/></interface>", "interface has type"),
        (
            "<interface type='bridge'><source bridge='br0'/><script path='/x'/></interface>",
            "interface/script",
        ),
        ("<serial type='file'><source path='/etc/cron.d/x'/></serial>", "serial has type"),
        ("<serial type='pty'><source path='/etc/cron.d/x'/></serial>", "serial/source"),
        ("<serial type='pty'><log file='/etc/cron.d/x'/></serial>", "serial/log"),
        ("<serial type='pty'><log file='/var/log/libvirt/qemu/other.log'/></serial>", "serial/log"),
        (
            "<serial type='pty'><log file='/var/log/libvirt/qemu/proxy-web-abcdef-12345678./../../x'/></serial>",
            "log",
        ),
        ("<channel type='unix'><source mode='bind' path='/run/x'/></channel>", "channel/source"),
        ("<channel type='unix'><target type='virtio' name='org.other'/></channel>", "org.other"),
        ("<rng model='virtio'><backend model='random'>/etc/shadow</backend></rng>", "/etc/shadow"),
        ("<rng model='virtio'><backend model='egd' type='tcp'/></rng>", "rng/backend"),
        ("<graphics type='vnc' listen='0.0.0.0'/>", "domain/devices/graphics"),
        ("<redirdev bus='usb' type='tcp'/>", "domain/devices/redirdev"),
        ("<shmem name='x'/>", "domain/devices/shmem"),
        ("<tpm/>", "domain/devices/tpm"),
    ] {
        refused(&domain(devices), named);
    }
    let whole = domain("");
    for (from, to, named) in [
        ("<domain type='kvm'>", "<domain type='lxc'>", "domain has type \"lxc\""),
        ("/usr/share/OVMF/OVMF_CODE_4M.ms.fd", "/tmp/evil.fd", "loader"),
        ("/usr/share/OVMF/OVMF_CODE_4M.ms.fd", "/usr/share/../../tmp/evil.fd", "loader"),
        ("template='/usr/share", "template='/etc", "nvram"),
        ("OVMF_VARS_4M.ms.fd'/>", "OVMF_VARS_4M.ms.fd'>/etc/shadow</nvram>", "nvram"),
        ("<os firmware='efi'>", "<os><kernel>/etc/shadow</kernel>", "domain/os/kernel"),
        ("<memory unit", "<memoryBacking/><memory unit", "domain/memoryBacking"),
        (
            "<features>",
            "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'/><features>",
            "commandline",
        ),
        ("<features>", "<seclabel type='none'/><features>", "domain/seclabel"),
        (NAME, "somebody-elses", "somebody-elses"),
        ("<memory unit", "<name>proxy-b</name><memory unit", "exactly one name"),
    ] {
        assert!(whole.contains(from), "{from}");
        refused(&whole.replacen(from, to, 1), named);
    }
}

/// What this parser and libvirt's could read in two ways.
#[test]
fn a_document_means_the_same_to_libvirt() {
    let whole = domain("");
    // A comment is no text to libvirt, which would see the name `victim`, and the file /etc/shadow.
    for (from, to, named) in [
        (
            format!("<name>{NAME}"),
            format!("<name><!--{NAME}.-->victim"),
            "comment in the element domain/name",
        ),
        (format!("<name>{NAME}"), format!("<name>{NAME}<?x y?>"), "processing instruction"),
        (
            "/usr/share/OVMF/OVMF_CODE_4M.ms.fd".to_owned(),
            "<!--/usr/share-->/etc/shadow".to_owned(),
            "comment in the element domain/os/loader",
        ),
        ("<on_crash>destroy".to_owned(), "<on_crash><!--x-->destroy".to_owned(), "comment"),
        (
            "<devices>".to_owned(),
            "<devices><!--<hostdev/>-->".to_owned(),
            "comment in the element domain/devices",
        ),
    ] {
        assert!(whole.contains(&from), "{from}");
        refused(&whole.replacen(&from, &to, 1), named);
    }
    let hidden = "<title>+ADw-/title+AD4APA-emulator+AD4-/bin/sh+ADw-/emulator+AD4APA-title+AD4-</title>";
    for declared in ["encoding='UTF-7'", "encoding='utf-8'", "encoding='IBM037'", ""] {
        let declaration = format!("<?xml version='1.0' {declared}?>");
        let document = whole.replacen("<memory unit", &format!("{hidden}<memory unit"), 1);
        refused(&format!("{declaration}{document}"), "declaration");
        refused(&format!("\u{feff}{declaration}{document}"), "declaration");
    }
    // Without one it is what it looks like.
    let plain = whole.replacen("<memory unit", &format!("{hidden}<memory unit"), 1);
    assert_eq!(scope(|scope| scope.domain(&plain)), Ok(NAME.to_owned()));
    // CDATA and references are text to both.
    let cdata = whole.replacen(&format!("<name>{NAME}"), "<name><![CDATA[victim]]>", 1);
    refused(&cdata, "victim");
    let reference = domain("<disk type='file' device='disk'><source file='&#x2f;etc&#47;shadow'/></disk>");
    refused(&reference, "/etc/shadow");
}

#[test]
fn namespaces_and_repetition_hide_nothing() {
    let whole = domain("");
    let with = |devices: &str| domain(devices);
    refused(&whole.replacen("<domain ", "<domain xmlns='urn:libvirt' ", 1), "namespace");
    refused(&whole.replacen("<domain ", "<domain xmlns:qemu='urn:x' qemu:type='lxc' ", 1), "attribute type");
    refused(&whole.replacen("<domain ", "<domain xml:base='file:///' ", 1), "attribute base");
    refused(&with("<x:disk xmlns:x='urn:x' type='file'/>"), "another namespace");
    refused(
        &with("<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='/etc/shadow' parse='text'/>"),
        "devices/include of another namespace",
    );
    refused(&with("<undeclared:disk/>"), "no XML");
    refused(&whole.replacen("<domain type='kvm'", "<domain type='kvm' type='lxc'", 1), "no XML");
    refused(
        &with(
            "<disk type='file' device='disk'><source file='/var/lib/libvirt/images/proxy-x' file='/etc/shadow'/></disk>",
        ),
        "no XML",
    );
    refused(
        &with(
            "<disk type='file' device='disk'><source file='/var/lib/libvirt/images/proxy-x'/><source file='/etc/shadow'/></disk>",
        ),
        "/etc/shadow",
    );
    // A second part of the same name is looked at like the first.
    refused(&whole.replacen("</domain>", "<devices><hostdev/></devices></domain>", 1), "devices/hostdev");
    refused(&whole.replacen("</domain>", "<os><kernel>/x</kernel></os></domain>", 1), "os/kernel");
    refused(&whole.replacen("<name>", "<name><b/>", 1), "domain/name/b");
    refused(&whole.replacen("<memory", "\0<memory", 1), "no XML");
    refused(&format!("{whole}<domain/>"), "no XML");
}

#[test]
fn firmware_that_others_start_from_is_not_written() {
    let whole = domain("");
    refused(&whole.replacen("<loader readonly='yes'", "<loader readonly='no'", 1), "readonly \"no\"");
    refused(&whole.replacen("<loader readonly='yes' ", "<loader ", 1), "readonly \"\"");
    refused(&whole.replacen("OVMF_VARS_4M.ms.fd'/>", "OVMF_VARS_4M.ms.fd'> </nvram>", 1), "domain/os/nvram");
}

#[test]
fn a_bomb_does_not_go_off() {
    let dtd = "<!DOCTYPE domain [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]>";
    refused(&format!("{dtd}{}", domain("")), "DTD");
    refused(&format!("<!DOCTYPE domain SYSTEM 'file:///etc/passwd'>{}", domain("")), "DTD");
    refused(&"<domain>".repeat(100_000), "bytes");
    refused(&"<domain>".repeat(10_000), "deeper");
    refused(&domain(&"<panic/>".repeat(12_000)), "nodes");
    refused("not xml", "no XML");
    refused("", "no XML");
}

#[test]
fn a_volume_backs_onto_our_own_alone() {
    let volume = |name: &str, path: &str| {
        format!(
            "<volume><name>{name}</name><capacity unit='bytes'>1024</capacity><allocation>0</allocation>
             <target><format type='qcow2'/><compat>1.1</compat></target>
             <backingStore><path>{path}</path><format type='qcow2'/></backingStore></volume>"
        )
    };
    let read = |document: &str| scope(|scope| scope.volume(document));
    let base = "/var/lib/libvirt/images/proxy-base-abcdef-kvm-debian";
    assert_eq!(read(&volume("proxy-a.qcow2", base)), Ok("proxy-a.qcow2".to_owned()));
    for path in ["/etc/shadow", "/var/lib/libvirt/images/other", "json:{}", "", "nbd://x/y"] {
        assert!(read(&volume("proxy-a", path)).unwrap_err().contains("volume/backingStore/path"), "{path}");
    }
    let split = volume("<!--proxy-a.-->victim", base);
    assert!(read(&split).unwrap_err().contains("comment in the element volume/name"));
    for name in ["../proxy-a", "a", ""] {
        assert!(read(&volume(name, base)).unwrap_err().contains("name"), "{name}");
    }
    let target = "<volume><name>proxy-a</name><target><path>/etc/x</path></target></volume>";
    assert!(read(target).unwrap_err().contains("volume/target/path"));
}

#[test]
fn metadata_is_one_element_without_a_bomb() {
    assert_eq!(metadata("<vm><uid>1</uid></vm>"), Ok(()));
    for bad in
        ["<a/><b/>", "text", "<!DOCTYPE a []><a/>", "<?xml version='1.0' encoding='UTF-7'?><a/>", "<a", ""]
    {
        assert!(metadata(bad).is_err(), "{bad}");
    }
}
