//! A domain's document as it is defined.
//!
//! It holds what the host's allow-list lets through and nothing beyond: disks as files, since AppArmor's profiles
//! are made from these, one virtio card on the bridge, the agent's channel, a serial console. The seed is a disk like
//! the other and no CD-ROM: kernels made for clouds boot from virtio and know no SATA. No UUID stands in it: so a
//! define can't change a domain that somebody else made under the name meanwhile (code 9 instead).

use crate::{
    config::{Firmware, MachineType},
    xml::{self, escape},
};

/// What decides a domain.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub name: &'a str,
    pub machine: MachineType,
    pub firmware: Firmware,
    /// `kvm` or `qemu`.
    pub kind: &'a str,
    pub overlay: &'a str,
    pub seed: &'a str,
    pub bridge: &'a str,
    /// The folder for what it says on its console.
    pub console_logs: Option<&'a str>,
    /// The metadata element, whole.
    pub mark: &'a str,
}

/// The document.
pub fn write(wanted: &Wanted<'_>) -> String {
    let Wanted { name, machine, firmware, kind, overlay, seed, bridge, console_logs, mark } = wanted;
    let (name, overlay, seed, bridge) = (escape(name), escape(overlay), escape(seed), escape(bridge));
    let (os, loader, smm) = match firmware {
        Firmware::Bios => ("", "", ""),
        Firmware::Uefi => {
            (" firmware=\"efi\"", "<firmware><feature enabled=\"no\" name=\"secure-boot\"/></firmware>", "")
        }
        Firmware::SecureBoot => (
            " firmware=\"efi\"",
            "<firmware><feature enabled=\"yes\" name=\"enrolled-keys\"/><feature enabled=\"yes\" \
             name=\"secure-boot\"/></firmware>",
            "<smm state=\"on\"/>",
        ),
    };
    // An emulated CPU that looks like the host's does not exist.
    let cpu = if *kind == "kvm" { "<cpu mode=\"host-passthrough\"/>" } else { "<cpu mode=\"maximum\"/>" };
    // Kept over a reboot, which is when people look.
    let log = console_logs
        .map(|folder| format!("<log file=\"{}/{name}.console.log\" append=\"on\"/>", escape(folder)))
        .unwrap_or_default();
    let MachineType { vcpus, memory_mib } = machine;
    format!(
        "<domain type=\"{kind}\"><name>{name}</name><metadata>{mark}</metadata>\
         <memory unit=\"MiB\">{memory_mib}</memory><vcpu>{vcpus}</vcpu>\
         <os{os}><type arch=\"x86_64\" machine=\"q35\">hvm</type>{loader}<boot dev=\"hd\"/></os>\
         <features><acpi/><apic/>{smm}</features>{cpu}<clock offset=\"utc\"/>\
         <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>restart</on_crash>\
         <devices>\
         <disk type=\"file\" device=\"disk\"><driver name=\"qemu\" type=\"qcow2\" discard=\"unmap\"/>\
         <source file=\"{overlay}\"/><target dev=\"vda\" bus=\"virtio\"/></disk>\
         <disk type=\"file\" device=\"disk\"><driver name=\"qemu\" type=\"raw\"/><source file=\"{seed}\"/>\
         <target dev=\"vdb\" bus=\"virtio\"/><readonly/></disk>\
         <interface type=\"bridge\"><source bridge=\"{bridge}\"/><model type=\"virtio\"/></interface>\
         <channel type=\"unix\"><target type=\"virtio\" name=\"org.qemu.guest_agent.0\"/></channel>\
         <serial type=\"pty\">{log}<target port=\"0\"/></serial><console type=\"pty\"><target type=\"serial\" port=\"0\"/>\
         </console><rng model=\"virtio\"><backend model=\"random\">/dev/urandom</backend></rng>\
         </devices></domain>"
    )
}

/// Which types of domain a host offers for this architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub kvm: bool,
    pub qemu: bool,
}

/// Reads a capabilities document; none for what is none.
pub fn kinds(text: &str) -> Option<Kinds> {
    let capabilities = xml::parse(text).filter(|document| document.name == "capabilities")?;
    let mut kinds = Kinds::default();
    for guest in capabilities.children.iter().filter(|child| child.name == "guest") {
        let Some(arch) = guest.child("arch").filter(|arch| arch.attribute("name") == Some("x86_64")) else {
            continue;
        };
        for offered in arch.children.iter().filter(|child| child.name == "domain") {
            match offered.attribute("type") {
                Some("kvm") => kinds.kvm = true,
                Some("qemu") => kinds.qemu = true,
                _ => {}
            }
        }
    }
    Some(kinds)
}

/// virDomainState, decoded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// libvirt could not determine it.
    None,
    Running,
    Paused,
    /// On its way to shutoff.
    Shutdown,
    Shutoff,
    Crashed,
    Suspended,
    Unknown(i32),
}

impl State {
    pub fn read(code: i32) -> Self {
        match code {
            0 => Self::None,
            1 | 2 => Self::Running,
            3 => Self::Paused,
            4 => Self::Shutdown,
            5 => Self::Shutoff,
            6 => Self::Crashed,
            7 => Self::Suspended,
            other => Self::Unknown(other),
        }
    }

    /// In libvirt's words.
    pub fn show(self) -> String {
        match self {
            Self::None => "nostate".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Paused => "paused".to_owned(),
            Self::Shutdown => "shutdown".to_owned(),
            Self::Shutoff => "shutoff".to_owned(),
            Self::Crashed => "crashed".to_owned(),
            Self::Suspended => "pmsuspended".to_owned(),
            Self::Unknown(code) => format!("state {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(firmware: Firmware, kind: &str) -> xml::Element {
        let wanted = Wanted {
            name: "proxy-<a>",
            machine: MachineType { vcpus: 2, memory_mib: 512 },
            firmware,
            kind,
            overlay: "/p/a.qcow2",
            seed: "/p/a-seed.iso",
            bridge: "br0",
            console_logs: (firmware == Firmware::Bios).then_some("/var/log/libvirt/qemu"),
            mark: "<instance xmlns=\"urn:x\"><uid>u</uid></instance>",
        };
        xml::parse(&write(&wanted)).unwrap()
    }

    #[test]
    fn a_domain_has_what_a_proxy_needs_and_no_uuid() {
        let domain = wanted(Firmware::Uefi, "kvm");
        assert_eq!(domain.attribute("type"), Some("kvm"));
        assert_eq!(domain.text_at(&["name"]), Some("proxy-<a>"));
        assert_eq!(domain.text_at(&["metadata", "instance", "uid"]), Some("u"));
        assert_eq!(domain.child("uuid"), None);
        assert_eq!(domain.child("os").unwrap().attribute("firmware"), Some("efi"));
        let devices: Vec<&str> =
            domain.child("devices").unwrap().children.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(devices, ["disk", "disk", "interface", "channel", "serial", "console", "rng"]);
    }

    #[test]
    fn any_kernel_that_finds_its_disk_finds_its_seed() {
        let domain = wanted(Firmware::Uefi, "kvm");
        let devices = domain.child("devices").unwrap();
        let disks: Vec<_> = devices.children.iter().filter(|device| device.name == "disk").collect();
        let bus = |disk: &xml::Element| disk.child("target").unwrap().attribute("bus").unwrap().to_owned();
        assert_eq!(disks.iter().map(|disk| bus(disk)).collect::<Vec<_>>(), ["virtio"; 2]);
        let read_only: Vec<bool> = disks.iter().map(|disk| disk.child("readonly").is_some()).collect();
        assert_eq!(read_only, [false, true]);
    }

    #[test]
    fn firmware_and_kind_are_as_asked() {
        assert_eq!(wanted(Firmware::Bios, "kvm").child("os").unwrap().attribute("firmware"), None);
        let secure = wanted(Firmware::SecureBoot, "kvm");
        assert!(secure.at(&["features", "smm"]).is_some());
        let cpu = wanted(Firmware::Uefi, "qemu").child("cpu").cloned().unwrap();
        assert_eq!(cpu.attribute("mode"), Some("maximum"));
    }

    #[test]
    fn a_console_is_kept_in_a_file_of_the_machines_own_where_there_is_a_folder() {
        let log = |firmware| {
            let domain = wanted(firmware, "kvm");
            domain.at(&["devices", "serial", "log"]).and_then(|log| log.attribute("file")).map(str::to_owned)
        };
        assert_eq!(log(Firmware::Bios).as_deref(), Some("/var/log/libvirt/qemu/proxy-<a>.console.log"));
        assert_eq!(log(Firmware::Uefi), None);
    }

    #[test]
    fn what_a_host_offers_is_read() {
        let text = "<capabilities><guest><os_type>hvm</os_type><arch name='i686'><domain type='kvm'/></arch></guest>\
            <guest><arch name='x86_64'><domain type='qemu'/></arch></guest></capabilities>";
        assert_eq!(kinds(text), Some(Kinds { kvm: false, qemu: true }));
        assert_eq!(kinds("<html/>"), None);
    }
}
