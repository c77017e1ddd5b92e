//! Which domains and volumes may be made.
//!
//! A domain's document can reach anything at its host: devices, folders, other machines' disks, QEMU's command line,
//! files that libvirt writes as root. So each element, attribute and value is one that is known to reach nothing
//! but a granted pool and a granted bridge.

use super::{
    grant::is_plain_path,
    xml::{self, Allowed, Element},
};

const DOMAIN: &[Allowed] = &[
    ("domain", &["type"]),
    ("domain/name", &[]),
    ("domain/uuid", &[]),
    ("domain/title", &[]),
    ("domain/description", &[]),
    ("domain/metadata", &[]),
    ("domain/memory", &["unit"]),
    ("domain/currentMemory", &["unit"]),
    ("domain/vcpu", &["placement", "current"]),
    ("domain/cpu", &["mode", "match", "check", "migratable"]),
    ("domain/cpu/model", &["fallback"]),
    ("domain/cpu/topology", &["sockets", "dies", "clusters", "cores", "threads"]),
    ("domain/cpu/feature", &["policy", "name"]),
    ("domain/os", &["firmware"]),
    ("domain/os/type", &["arch", "machine"]),
    ("domain/os/loader", &["readonly", "secure", "type", "format", "stateless"]),
    ("domain/os/nvram", &["template", "templateFormat", "format"]),
    ("domain/os/boot", &["dev"]),
    ("domain/os/bootmenu", &["enable", "timeout"]),
    ("domain/os/bios", &["useserial", "rebootTimeout"]),
    ("domain/os/firmware", &[]),
    ("domain/os/firmware/feature", &["enabled", "name"]),
    ("domain/features", &[]),
    ("domain/features/acpi", &[]),
    ("domain/features/apic", &["eoi"]),
    ("domain/features/pae", &[]),
    ("domain/features/smm", &["state"]),
    ("domain/features/vmport", &["state"]),
    ("domain/clock", &["offset"]),
    ("domain/clock/timer", &["name", "present", "tickpolicy", "track"]),
    ("domain/on_poweroff", &[]),
    ("domain/on_reboot", &[]),
    ("domain/on_crash", &[]),
    ("domain/pm", &[]),
    ("domain/pm/suspend-to-mem", &["enabled"]),
    ("domain/pm/suspend-to-disk", &["enabled"]),
    ("domain/devices", &[]),
    ("domain/devices/disk", &["type", "device"]),
    ("domain/devices/disk/driver", &["name", "type", "cache", "discard", "detect_zeroes", "io"]),
    ("domain/devices/disk/source", &["file"]),
    ("domain/devices/disk/target", &["dev", "bus"]),
    ("domain/devices/disk/readonly", &[]),
    ("domain/devices/disk/boot", &["order"]),
    ("domain/devices/disk/serial", &[]),
    ("domain/devices/controller", &["type", "index", "model"]),
    ("domain/devices/interface", &["type"]),
    ("domain/devices/interface/mac", &["address"]),
    ("domain/devices/interface/source", &["bridge"]),
    ("domain/devices/interface/model", &["type"]),
    ("domain/devices/interface/boot", &["order"]),
    ("domain/devices/serial", &["type"]),
    ("domain/devices/serial/target", &["type", "port"]),
    ("domain/devices/serial/target/model", &["name"]),
    ("domain/devices/serial/log", &["file", "append"]),
    ("domain/devices/console", &["type"]),
    ("domain/devices/console/target", &["type", "port"]),
    ("domain/devices/channel", &["type"]),
    ("domain/devices/channel/target", &["type", "name"]),
    ("domain/devices/input", &["type", "bus"]),
    ("domain/devices/video", &[]),
    ("domain/devices/video/model", &["type", "heads", "primary", "vram"]),
    ("domain/devices/memballoon", &["model"]),
    ("domain/devices/rng", &["model"]),
    ("domain/devices/rng/rate", &["bytes", "period"]),
    ("domain/devices/rng/backend", &["model"]),
    ("domain/devices/panic", &["model"]),
];

const VOLUME: &[Allowed] = &[
    ("volume", &["type"]),
    ("volume/name", &[]),
    ("volume/capacity", &["unit"]),
    ("volume/allocation", &["unit"]),
    ("volume/target", &[]),
    ("volume/target/format", &["type"]),
    ("volume/target/compat", &[]),
    ("volume/target/clusterSize", &["unit"]),
    ("volume/target/features", &[]),
    ("volume/target/features/lazy_refcounts", &[]),
    ("volume/backingStore", &[]),
    ("volume/backingStore/path", &[]),
    ("volume/backingStore/format", &["type"]),
];

/// Firmware comes with the host's packages.
const FIRMWARE: &str = "/usr/share/";
const RANDOM: [&str; 2] = ["/dev/urandom", "/dev/random"];
/// What may follow when a machine ends. Others have libvirt write the machine's memory into a file, as root.
const LIFECYCLE: [&str; 3] = ["destroy", "restart", "preserve"];
/// What the guest's agent listens at.
const AGENT: &str = "org.qemu.guest_agent.0";

/// What a document may name.
pub(super) struct Scope<'a> {
    pub(super) bridges: &'a [String],
    /// Folders of the granted pools.
    pub(super) folders: &'a [String],
    /// Where console logs may be kept.
    pub(super) logs: &'a str,
    pub(super) may_touch: &'a dyn Fn(&str) -> bool,
}

impl Scope<'_> {
    /// Answers the domain's name, or what of it is refused.
    pub(super) fn domain(&self, document: &str) -> Result<String, String> {
        let (mut names, mut logs) = (Vec::new(), Vec::new());
        xml::read(document, DOMAIN, Some("domain/metadata"), |element| {
            match element.path {
                "domain/name" => names.push(element.text()),
                "domain/devices/serial/log" => {
                    logs.push(element.attribute("file").unwrap_or_default().to_owned());
                }
                _ => self.check(element)?,
            }
            Ok(())
        })?;
        let name = self.only("domain", names)?;
        for log in logs {
            let ours = log
                .strip_prefix(self.logs)
                .and_then(|rest| rest.strip_prefix('/'))
                .and_then(|file| file.strip_prefix(name.as_str()))
                .is_some_and(|rest| rest.starts_with(['.', '-']) && !rest.contains('/'));
            if !ours || !is_plain_path(&log) {
                return Err(format!(
                    "the element domain/devices/serial/log leads to {log:?}, and only files {}/{name}.* are allowed",
                    self.logs
                ));
            }
        }
        Ok(name)
    }

    /// Answers the volume's name, or what of it is refused.
    pub(super) fn volume(&self, document: &str) -> Result<String, String> {
        let mut names = Vec::new();
        xml::read(document, VOLUME, None, |element| match element.path {
            "volume/name" => {
                names.push(element.text());
                Ok(())
            }
            _ => self.check(element),
        })?;
        self.only("volume", names)
    }

    fn only(&self, what: &str, names: Vec<String>) -> Result<String, String> {
        let [name] = names.as_slice() else { return Err(format!("a {what} has exactly one name")) };
        match (self.may_touch)(name) {
            true => Ok(name.clone()),
            false => Err(format!("the name {name:?} is not one that may be written")),
        }
    }

    fn check(&self, element: &Element<'_, '_>) -> Result<(), String> {
        let one_of = |attribute: &str, values: &[&str]| {
            let value = element.attribute(attribute).unwrap_or_default();
            if values.contains(&value) {
                return Ok(());
            }
            let (path, values) = (element.path, values.join(", "));
            Err(format!("the element {path} has {attribute} {value:?}, and only {values} is allowed"))
        };
        match element.path {
            "domain" => one_of("type", &["kvm", "qemu"]),
            "domain/os/loader" if element.text().is_empty() => Ok(()),
            "domain/os/loader" => {
                // Other machines start from it, too.
                one_of("readonly", &["yes"])?;
                self.firmware(element, &element.text())
            }
            "domain/os/nvram" if !element.text().is_empty() => {
                Err("the element domain/os/nvram names a file; leave that to libvirt".to_owned())
            }
            "domain/os/nvram" => {
                element.attribute("template").map_or(Ok(()), |path| self.firmware(element, path))
            }
            "domain/on_poweroff" | "domain/on_reboot" | "domain/on_crash" => {
                let action = element.text();
                match LIFECYCLE.contains(&action.trim()) {
                    true => Ok(()),
                    false => Err(format!(
                        "the element {} says {action:?}; allowed is {}",
                        element.path,
                        LIFECYCLE.join(", ")
                    )),
                }
            }
            "domain/devices/disk" => {
                one_of("type", &["file"])?;
                one_of("device", &["disk", "cdrom"])
            }
            "domain/devices/disk/driver" => {
                one_of("name", &["qemu"])?;
                one_of("type", &["raw", "qcow2"])
            }
            "domain/devices/disk/source" => {
                self.in_pool(element.path, element.attribute("file").unwrap_or_default())
            }
            "domain/devices/interface" => one_of("type", &["bridge"]),
            "domain/devices/interface/source" => {
                let bridge = element.attribute("bridge").unwrap_or_default();
                if self.bridges.iter().any(|granted| granted == bridge) {
                    return Ok(());
                }
                let granted = self.bridges.join(", ");
                Err(format!("the element {} names bridge {bridge:?}; granted is {granted}", element.path))
            }
            "domain/devices/serial" | "domain/devices/console" => one_of("type", &["pty"]),
            "domain/devices/channel" => one_of("type", &["unix"]),
            "domain/devices/channel/target" => {
                one_of("type", &["virtio"])?;
                one_of("name", &[AGENT])
            }
            "domain/devices/rng/backend" => {
                one_of("model", &["random"])?;
                let device = element.text();
                if RANDOM.contains(&device.as_str()) {
                    return Ok(());
                }
                Err(format!(
                    "the element {} names {device:?}; leave it at {}",
                    element.path,
                    RANDOM.join(" or ")
                ))
            }
            "volume" => match element.attribute("type") {
                None => Ok(()),
                Some(_) => one_of("type", &["file"]),
            },
            "volume/target/format" => one_of("type", &["raw", "qcow2", "iso"]),
            "volume/backingStore/format" => one_of("type", &["raw", "qcow2"]),
            "volume/backingStore/path" => self.in_pool(element.path, &element.text()),
            _ => Ok(()),
        }
    }

    fn firmware(&self, element: &Element<'_, '_>, path: &str) -> Result<(), String> {
        if path.starts_with(FIRMWARE) && is_plain_path(path) {
            return Ok(());
        }
        Err(format!("the element {} leads to {path:?}; firmware stands below {FIRMWARE}", element.path))
    }

    /// Directly in a granted pool, and ours.
    fn in_pool(&self, element: &str, path: &str) -> Result<(), String> {
        let found = path.rsplit_once('/').filter(|_| is_plain_path(path));
        if let Some((folder, file)) = found
            && self.folders.iter().any(|granted| granted == folder)
            && (self.may_touch)(file)
        {
            return Ok(());
        }
        Err(format!(
            "the element {element} leads to {path:?}, which is no volume of this installation in a granted pool"
        ))
    }
}

/// One metadata element, before it is set.
pub(super) fn metadata(element: &str) -> Result<(), String> {
    xml::element(element)
}

#[cfg(test)]
mod tests;
