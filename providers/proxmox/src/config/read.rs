//! From JSON to a [`Config`], key by key.

use std::{collections::BTreeMap, net::IpAddr};

use provider_sdk::config::{Field, Object};

use super::{Config, Defaults, Image, MachineType, NodeConfig};
use crate::vmid::Range;

const LONGEST_DOCUMENT: usize = 1024 * 1024;
/// Beyond what people number by hand.
const FIRST_VMID: u32 = 100_000;
const LAST_VMID: u32 = 199_999;
/// Where plain bridges are in SDN.
const LOCAL_ZONE: &str = "localnetwork";

/// The whole of it.
pub fn root(root: &mut Object<'_>) -> Config {
    let iso_storage = identifier(root, "isoStorage");
    let storage = identifier(root, "storage");
    let bridge = identifier(root, "bridge");
    let zone = identifier(root, "sdnZone");
    let shared = NodeConfig {
        name: String::new(),
        endpoint: String::new(),
        iso_storage: iso_storage.unwrap_or_default(),
        storage,
        bridge,
        zone: zone.unwrap_or_else(|| LOCAL_ZONE.to_owned()),
    };
    let nodes = nodes(root, &shared);
    let images =
        catalogue(root, "images", "debian: {template: 9000}", |key, field| image(key, field, &nodes));
    let machine_types =
        catalogue(root, "machineTypes", "small: {cores: 1, memoryMiB: 512}", |_, field| machine_type(field));
    let defaults = root.optional("defaults").and_then(|field| {
        field.object(|object| Defaults {
            zone: text(object, "zone"),
            machine_type: text(object, "machineType"),
            image: text(object, "image"),
        })
    });
    let defaults = defaults.unwrap_or_default();
    let lacks =
        |name: &Option<String>, known: &dyn Fn(&str) -> bool| name.clone().filter(|name| !known(name));
    if let Some(zone) = lacks(&defaults.zone, &|zone| nodes.iter().any(|node| node.name == zone)) {
        root.fault("defaults.zone", format!("{zone:?} is not among the nodes"));
    }
    if let Some(machine) = lacks(&defaults.machine_type, &|key| machine_types.contains_key(key)) {
        root.fault("defaults.machineType", format!("{machine:?} is not among the machineTypes"));
    }
    if let Some(image) = lacks(&defaults.image, &|key| images.contains_key(key)) {
        root.fault("defaults.image", format!("{image:?} is not among the images"));
    }
    Config {
        nodes,
        images,
        machine_types,
        defaults,
        vmids: range(root),
        full_clones: switch(root, "fullClones", true),
        clones_at_once: usize::try_from(number(root, "clonesAtOnce", 1, 64).unwrap_or(4)).unwrap_or(4),
        disk_gib: number(root, "diskSizeGb", 1, 65_536),
        vlan: number(root, "vlan", 1, 4_094),
        pool: identifier(root, "pool"),
        tags: tags(root),
        firewall: firewall(root),
        eject_seed: switch(root, "ejectSeed", false),
        lock_minutes: number(root, "lockMinutes", 1, 1_440).unwrap_or(10),
        vendor_data: document(root, "vendorData"),
        network_config: document(root, "networkConfig"),
        install_guest_agent: switch(root, "installGuestAgent", true),
        autostart: switch(root, "autostart", true),
        ipv6: switch(root, "ipv6", false),
    }
}

fn switch(root: &mut Object<'_>, key: &'static str, otherwise: bool) -> bool {
    root.optional(key).and_then(|field| field.boolean()).unwrap_or(otherwise)
}

fn number(root: &mut Object<'_>, key: &'static str, least: u64, most: u64) -> Option<u64> {
    root.optional(key).and_then(|field| field.integer(least..=most))
}

fn text(object: &mut Object<'_>, key: &'static str) -> Option<String> {
    object.optional(key).and_then(|field| field.text().map(str::to_owned))
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

/// A name as Proxmox VE has them: of nodes, storages, pools and bridges.
fn named(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.len() > 63 || !text.chars().all(legal) {
        field.fault(format!(
            "must be at most 63 letters, digits, dots, dashes and underscores, but is {text:?}"
        ));
        return None;
    }
    Some(text.to_owned())
}

fn identifier(object: &mut Object<'_>, key: &'static str) -> Option<String> {
    object.optional(key).and_then(|field| named(&field))
}

fn nodes(root: &mut Object<'_>, shared: &NodeConfig) -> Vec<NodeConfig> {
    let Some(field) = root.required("nodes", "a list of {name: .., with the names that the cluster has}")
    else {
        return Vec::new();
    };
    let list = field.list();
    if list.is_empty() && field.value().is_array() {
        field.fault("must name at least one node");
    }
    let mut nodes: Vec<NodeConfig> = Vec::new();
    for element in &list {
        let read = element.object(|object| {
            let name = object.required("name", "a node's name as the cluster has it");
            let name = name.and_then(|field| named(&field).map(|name| (field, name)));
            let endpoint = identifier(object, "endpoint");
            let iso_storage = identifier(object, "isoStorage");
            let storage = identifier(object, "storage");
            let bridge = identifier(object, "bridge");
            if iso_storage.is_none() && shared.iso_storage.is_empty() {
                object.fault(
                    "isoStorage",
                    "is missing here and for all nodes; give a storage that takes ISO images",
                );
            }
            name.map(|(field, name)| {
                let node = NodeConfig {
                    endpoint: endpoint.unwrap_or_else(|| name.clone()),
                    iso_storage: iso_storage.unwrap_or_else(|| shared.iso_storage.clone()),
                    storage: storage.or_else(|| shared.storage.clone()),
                    bridge: bridge.or_else(|| shared.bridge.clone()),
                    zone: shared.zone.clone(),
                    name,
                };
                (field, node)
            })
        });
        let Some((field, node)) = read.flatten() else { continue };
        if nodes.iter().any(|known| known.name == node.name) {
            field.fault(format!("{:?} stands there twice", node.name));
            continue;
        }
        nodes.push(node);
    }
    nodes
}

fn catalogue<T>(
    root: &mut Object<'_>,
    key: &'static str,
    such_as: &str,
    read: impl Fn(&str, &Field<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let Some(field) = root.required(key, &format!("at least one, by its name: {such_as}")) else {
        return BTreeMap::new();
    };
    let entries = field.entries();
    if entries.is_empty() && field.value().is_object() {
        field.fault("must have at least one");
    }
    entries.into_iter().filter_map(|(key, field)| Some((key.to_owned(), read(key, &field)?))).collect()
}

fn vmid(field: &Field<'_>) -> Option<u32> {
    field.integer(100..=999_999_999).and_then(|number| u32::try_from(number).ok())
}

fn image(key: &str, field: &Field<'_>, nodes: &[NodeConfig]) -> Option<Image> {
    field.object(|object| {
        let template = object.optional("template").and_then(|field| vmid(&field));
        let mut templates = BTreeMap::new();
        for (node, field) in object.optional("templates").map(|field| field.entries()).unwrap_or_default() {
            if !nodes.iter().any(|known| known.name == node) {
                field.fault("is not among the nodes");
            }
            if let Some(vmid) = vmid(&field) {
                templates.insert(node.to_owned(), vmid);
            }
        }
        if template.is_none() && templates.is_empty() {
            field.fault("must have a template's number, or templates with one for each node");
        }
        let disk = object.optional("disk").and_then(|field| disk(&field));
        Image { key: key.to_owned(), template, templates, disk: disk.unwrap_or_else(|| "scsi0".to_owned()) }
    })
}

fn disk(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let of =
        |kind: &str| text.strip_prefix(kind).is_some_and(|rest| rest.parse::<u8>().is_ok_and(|n| n < 31));
    if ["scsi", "virtio", "sata"].into_iter().any(of) {
        return Some(text.to_owned());
    }
    field.fault(format!("must be a disk such as scsi0 or virtio0, but is {text:?}"));
    None
}

fn machine_type(field: &Field<'_>) -> Option<MachineType> {
    field.object(|object| {
        let mut number = |key, what, range| {
            object.required(key, what).and_then(|field| field.integer(range)).unwrap_or_default()
        };
        MachineType {
            cores: number("cores", "how many CPUs", 1..=512),
            memory_mib: number("memoryMiB", "how much memory", 16..=16_777_216),
        }
    })
}

fn range(root: &mut Object<'_>) -> Range {
    let ends = root.optional("vmids").and_then(|field| {
        let ends = field.object(|object| {
            let first = object.optional("first").map(|field| vmid(&field));
            let last = object.optional("last").map(|field| vmid(&field));
            (first.unwrap_or(Some(FIRST_VMID)), last.unwrap_or(Some(LAST_VMID)))
        });
        let (Some(first), Some(last)) = ends? else { return None };
        let range = Range::new(first, last);
        if range.is_none() {
            field.fault(format!("{first} to {last} are no numbers: the last one is below the first"));
        }
        range
    });
    ends.unwrap_or_default()
}

impl Default for Range {
    fn default() -> Self {
        Self::between(FIRST_VMID, LAST_VMID)
    }
}

fn tags(root: &mut Object<'_>) -> Vec<String> {
    let Some(field) = root.optional("tags") else { return Vec::new() };
    let mut tags = Vec::new();
    for field in field.list() {
        let Some(text) = field.text() else { continue };
        let legal =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '+' | '.');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if begins && text.chars().all(legal) {
            tags.push(text.to_owned());
        } else {
            field.fault(format!("must be a tag of a-z, 0-9, _, -, + and dots, but is {text:?}"));
        }
    }
    tags
}

fn firewall(root: &mut Object<'_>) -> Option<Vec<String>> {
    root.optional("firewall")?.object(|object| {
        let from = object.required("allowFrom", "a list of networks that may reach the proxies' port");
        let list = from.map(|field| field.list()).unwrap_or_default();
        list.iter().filter_map(network).collect()
    })
}

fn network(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let most = ip.parse::<IpAddr>().map(|ip| if ip.is_ipv4() { 32 } else { 128 });
    let fits =
        most.is_ok_and(|most| length.is_none_or(|length| length.parse::<u8>().is_ok_and(|n| n <= most)));
    if fits {
        return Some(text.to_owned());
    }
    field.fault(format!("must be an address or a network such as 10.0.0.0/8, but is {text:?}"));
    None
}
