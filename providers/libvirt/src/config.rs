//! The entry's config, read to its end, and what a placement means in it.
//!
//! Addresses, users, keys, pools and bridges stand in the grant. Here are names of hosts, and the catalogues.

use std::collections::BTreeMap;

use provider_sdk::{
    Error, Fault, Placement,
    config::{self, Field, Object},
    placement::{chosen, names, refused},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{id, volume::Format};

/// So that `proxy-base-<installation>-<entry>-<key>` is no longer than 63.
const LONGEST_KEY: usize = 24;
const GIB: u64 = 1024 * 1024 * 1024;
/// With the rest it must fit a seed of a few MiB.
const LONGEST_DOCUMENT: usize = 1024 * 1024;

/// What the entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub hosts: Vec<HostConfig>,
    pub images: BTreeMap<String, Image>,
    pub machine_types: BTreeMap<String, MachineType>,
    pub defaults: Defaults,
    pub disk_bytes: u64,
    pub vendor_data: Option<String>,
    pub network_config: Option<String>,
    pub install_guest_agent: bool,
    pub autostart: bool,
    /// The folder at the hosts for what machines say on their consoles.
    pub console_logs: Option<String>,
    pub allow_emulation: bool,
    pub ipv6: bool,
    pub legacy_namespaces: Vec<String>,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    pub name: String,
    /// None for the one that the grant has.
    pub pool: Option<String>,
    pub bridge: Option<String>,
}

/// How a guest is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    Bios,
    Uefi,
    SecureBoot,
}

/// An entry of the catalogue, or an address given directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub key: String,
    pub url: String,
    pub sha256: Option<String>,
    pub format: Format,
    pub firmware: Firmware,
}

/// How large a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineType {
    pub vcpus: u64,
    pub memory_mib: u64,
}

/// What an empty placement means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub zone: Option<String>,
    pub machine_type: Option<String>,
    pub image: Option<String>,
}

/// What a placement means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub host: HostConfig,
    pub machine: MachineType,
    pub image: Image,
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, read)
    }

    /// A host by its name; `what` needs it.
    pub fn host(&self, name: &str, what: &str) -> Result<&HostConfig, Error> {
        let found = self.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| id::host_is_gone(what, name, &names(self.hosts.iter().map(|host| &host.name))))
    }

    /// A place; none if the config has no such one.
    pub fn place(&self, name: &str) -> Option<&HostConfig> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// What the entry's hosts are called.
    pub fn host_names(&self) -> String {
        names(self.hosts.iter().map(|host| &host.name))
    }

    /// What can't be honoured is refused before any call: ignoring it would make something else than asked.
    pub fn placed(&self, placement: &Placement) -> Result<Placed, Error> {
        if let Some((field, _)) = placement.unknown.iter().find(|(_, value)| !value.is_null()) {
            return Err(refused(field, "is set, and this provider does not know it; remove it".to_owned()));
        }
        if let Some(region) = &placement.region {
            return Err(refused(
                "region",
                format!("{region:?} is set, but a host belongs to no region; remove it, and choose by zone"),
            ));
        }
        let zone =
            chosen("zone", &placement.zone, &self.defaults.zone, self.hosts.iter().map(|host| &host.name))?;
        let host = self.place(zone).ok_or_else(|| {
            refused("zone", format!("{zone:?} is not among the entry's hosts ({})", self.host_names()))
        })?;
        let machine_type = chosen(
            "machineType",
            &placement.machine_type,
            &self.defaults.machine_type,
            self.machine_types.keys(),
        )?;
        let machine = self.machine_types.get(machine_type).ok_or_else(|| {
            let known = names(self.machine_types.keys());
            refused(
                "machineType",
                format!("{machine_type:?} is not among the entry's machineTypes ({known})"),
            )
        })?;
        let image = chosen("image", &placement.image, &self.defaults.image, self.images.keys())?;
        let image = match self.images.get(image) {
            Some(known) => known.clone(),
            None if is_url(image) => direct(image),
            None => {
                let known = names(self.images.keys());
                return Err(refused(
                    "image",
                    format!("{image:?} is neither among the entry's images ({known}) nor an http(s) URL"),
                ));
            }
        };
        Ok(Placed { host: host.clone(), machine: *machine, image })
    }
}

/// An image without an entry in the catalogue.
fn direct(url: &str) -> Image {
    let digest = Sha256::digest(url.as_bytes());
    let key = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Image { key, url: url.to_owned(), sha256: None, format: Format::Qcow2, firmware: Firmware::Uefi }
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn read(root: &mut Object<'_>) -> Config {
    let hosts = hosts(root);
    let images = catalogue(root, "images", false, image);
    let machine_types = catalogue(root, "machineTypes", true, machine_type);
    let defaults = root.optional("defaults").and_then(|field| {
        field.object(|object| Defaults {
            zone: text(object, "zone"),
            machine_type: text(object, "machineType"),
            image: text(object, "image"),
        })
    });
    let defaults = defaults.unwrap_or_default();
    let known_host = |zone: &String| hosts.iter().any(|host| host.name == *zone);
    if let Some(zone) = defaults.zone.as_ref().filter(|zone| !known_host(zone)) {
        root.fault("defaults.zone", format!("{zone:?} is not among the hosts"));
    }
    if let Some(machine) = defaults.machine_type.as_ref().filter(|key| !machine_types.contains_key(*key)) {
        root.fault("defaults.machineType", format!("{machine:?} is not among the machineTypes"));
    }
    if let Some(image) = defaults.image.as_ref().filter(|key| !images.contains_key(*key) && !is_url(key)) {
        root.fault("defaults.image", format!("{image:?} is neither among the images nor an http(s) URL"));
    }
    Config {
        hosts,
        images,
        machine_types,
        defaults,
        disk_bytes: root.optional("diskSizeGb").and_then(|field| field.integer(1..=65_536)).unwrap_or(10)
            * GIB,
        vendor_data: document(root, "vendorData"),
        network_config: document(root, "networkConfig"),
        install_guest_agent: switch(root, "installGuestAgent", true),
        autostart: switch(root, "autostart", true),
        console_logs: folder(root, "consoleLogs"),
        allow_emulation: switch(root, "allowEmulation", false),
        ipv6: switch(root, "ipv6", false),
        legacy_namespaces: root
            .optional("legacyNamespaces")
            .map(|field| field.list().iter().filter_map(|uri| uri.text().map(str::to_owned)).collect())
            .unwrap_or_default(),
    }
}

fn switch(root: &mut Object<'_>, key: &'static str, otherwise: bool) -> bool {
    root.optional(key).and_then(|field| field.boolean()).unwrap_or(otherwise)
}

fn text(object: &mut Object<'_>, key: &'static str) -> Option<String> {
    object.optional(key).and_then(|field| field.text().map(str::to_owned))
}

/// Whether machines may write there is the grant's.
fn folder(root: &mut Object<'_>, key: &'static str) -> Option<String> {
    let field = root.optional(key)?;
    let text = field.text()?;
    if !text.starts_with('/') || text.ends_with('/') {
        field.fault(format!("must be a folder at the hosts, such as /var/log/libvirt/qemu, but is {text:?}"));
        return None;
    }
    Some(text.to_owned())
}

fn document(root: &mut Object<'_>, key: &'static str) -> Option<String> {
    let field = root.optional(key)?;
    let text = field.text()?;
    if text.len() > LONGEST_DOCUMENT {
        field.fault(format!("has {} bytes, and {LONGEST_DOCUMENT} is the most", text.len()));
        return None;
    }
    Some(text.to_owned())
}

fn hosts(root: &mut Object<'_>) -> Vec<HostConfig> {
    let Some(field) = root.required("hosts", "a list of {name: .., with names from grants.libvirt.hosts}")
    else {
        return Vec::new();
    };
    let list = field.list();
    if list.is_empty() && field.value().is_array() {
        field.fault("must name at least one host");
    }
    let mut hosts: Vec<HostConfig> = Vec::new();
    for element in &list {
        let read = element.object(|object| {
            let name = object.required("name", "a name from grants.libvirt.hosts");
            let name = name.and_then(|field| identifier(&field, 63).map(|name| (field, name)));
            let (pool, bridge) = (text(object, "pool"), text(object, "bridge"));
            name.map(|(field, name)| (field, HostConfig { name, pool, bridge }))
        });
        let Some((field, host)) = read.flatten() else { continue };
        if hosts.iter().any(|other| other.name == host.name) {
            field.fault(format!("{:?} stands there twice", host.name));
            continue;
        }
        hosts.push(host);
    }
    hosts
}

fn catalogue<T>(
    root: &mut Object<'_>,
    key: &'static str,
    required: bool,
    read: impl Fn(&str, &Field<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let field = if required {
        root.required(key, "at least one, by its name: small: {vcpus: 1, memoryMiB: 512}")
    } else {
        root.optional(key)
    };
    let Some(field) = field else { return BTreeMap::new() };
    let entries = field.entries();
    if required && entries.is_empty() && field.value().is_object() {
        field.fault("must have at least one");
    }
    entries.into_iter().filter_map(|(key, field)| Some((key.to_owned(), read(key, &field)?))).collect()
}

/// What becomes part of a volume's name or of an id.
fn identifier(field: &Field<'_>, longest: usize) -> Option<String> {
    let text = field.text()?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.len() > longest || !text.chars().all(legal) {
        field.fault(format!(
            "must be at most {longest} letters, digits, dots, dashes and underscores, but is {text:?}"
        ));
        return None;
    }
    Some(text.to_owned())
}

fn image(key: &str, field: &Field<'_>) -> Option<Image> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(legal) {
        field.fault(format!(
            "a key of images becomes part of a volume's name: at most {LONGEST_KEY} of a-z, 0-9 and -"
        ));
    }
    field.object(|object| {
        let url = object.required("url", "the http(s) URL of a qcow2 or raw image");
        let url = url.and_then(|field| {
            let text = field.text()?;
            if is_url(text) {
                return Some(text.to_owned());
            }
            field.fault(format!("must be an http(s) URL, but is {text:?}"));
            None
        });
        let sha256 = object.optional("sha256").and_then(|field| digest(&field));
        let format = object
            .optional("format")
            .and_then(|field| field.one_of(&[("qcow2", Format::Qcow2), ("raw", Format::Raw)]));
        let firmware = object.optional("firmware").and_then(|field| {
            field.one_of(&[
                ("uefi", Firmware::Uefi),
                ("bios", Firmware::Bios),
                ("uefi-secure-boot", Firmware::SecureBoot),
            ])
        });
        Image {
            key: key.to_owned(),
            url: url.unwrap_or_default(),
            sha256,
            format: format.unwrap_or(Format::Qcow2),
            firmware: firmware.unwrap_or(Firmware::Uefi),
        }
    })
}

fn digest(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(text.to_ascii_lowercase());
    }
    field.fault("must be 64 hexadecimal digits");
    None
}

fn machine_type(_: &str, field: &Field<'_>) -> Option<MachineType> {
    field.object(|object| {
        let mut number = |key, what, range| {
            object.required(key, what).and_then(|field| field.integer(range)).unwrap_or_default()
        };
        MachineType {
            vcpus: number("vcpus", "how many CPUs", 1..=512),
            memory_mib: number("memoryMiB", "how much memory", 16..=16_777_216),
        }
    })
}
