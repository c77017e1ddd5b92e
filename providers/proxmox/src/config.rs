//! The entry's config, read to its end.
//!
//! Addresses, trust and tokens stand in the grant. Here are nodes by their names in the cluster, storages, and the
//! catalogues.

mod read;

use std::collections::BTreeMap;

use provider_sdk::{
    Error, Fault, Placement, config,
    placement::{chosen, names, refused},
};
use serde_json::Value;

use crate::vmid::Range;

/// What the entry says. One entry is one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub nodes: Vec<NodeConfig>,
    pub images: BTreeMap<String, Image>,
    pub machine_types: BTreeMap<String, MachineType>,
    pub defaults: Defaults,
    pub vmids: Range,
    pub full_clones: bool,
    /// Of one template at a time.
    pub clones_at_once: usize,
    /// None for the template's own size.
    pub disk_gib: Option<u64>,
    pub vlan: Option<u64>,
    pub pool: Option<String>,
    pub tags: Vec<String>,
    /// Who may reach the proxies' port; none where no machine has a firewall.
    pub firewall: Option<Vec<String>>,
    pub eject_seed: bool,
    pub lock_minutes: u64,
    pub vendor_data: Option<String>,
    pub network_config: Option<String>,
    pub install_guest_agent: bool,
    pub autostart: bool,
    pub ipv6: bool,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// As the cluster calls it.
    pub name: String,
    /// A name from the grant.
    pub endpoint: String,
    /// Where seeds are uploaded to.
    pub iso_storage: String,
    /// Where full clones go; none for where the template is.
    pub storage: Option<String>,
    /// None for the template's own.
    pub bridge: Option<String>,
    /// The bridge's zone in SDN.
    pub zone: String,
}

/// What machines are cloned from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub key: String,
    /// For every node.
    pub template: Option<u32>,
    /// For nodes by name.
    pub templates: BTreeMap<String, u32>,
    /// The disk that grows.
    pub disk: String,
}

/// How large a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineType {
    pub cores: u64,
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
    pub node: NodeConfig,
    pub machine: MachineType,
    pub image: Image,
    pub template: u32,
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, read::root)
    }

    /// A place; none if the config has no such one.
    pub fn node(&self, name: &str) -> Option<&NodeConfig> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// What its nodes are called.
    pub fn node_names(&self) -> String {
        names(self.nodes.iter().map(|node| &node.name))
    }

    /// Whom to ask about a node: itself, or else the first one, which asks it.
    pub fn endpoint(&self, node: &str) -> &str {
        let known = self.node(node).or_else(|| self.nodes.first());
        known.map_or("", |known| known.endpoint.as_str())
    }

    /// Each endpoint once, in the nodes' order.
    pub fn endpoints(&self) -> Vec<&str> {
        let mut endpoints: Vec<&str> = Vec::new();
        for node in &self.nodes {
            if !endpoints.contains(&node.endpoint.as_str()) {
                endpoints.push(&node.endpoint);
            }
        }
        endpoints
    }

    /// What can't be honoured is refused before any call: ignoring it would make something else than asked.
    pub fn placed(&self, placement: &Placement) -> Result<Placed, Error> {
        if let Some((field, _)) = placement.unknown.iter().find(|(_, value)| !value.is_null()) {
            return Err(refused(field, "is set, and this provider does not know it; remove it".to_owned()));
        }
        if let Some(region) = &placement.region {
            return Err(refused(
                "region",
                format!(
                    "{region:?} is set, but an entry is one cluster; remove it, and choose a node by zone"
                ),
            ));
        }
        let zone =
            chosen("zone", &placement.zone, &self.defaults.zone, self.nodes.iter().map(|node| &node.name))?;
        let node = self.node(zone).ok_or_else(|| {
            refused("zone", format!("{zone:?} is not among the entry's nodes ({})", self.node_names()))
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
        let image = self.images.get(image).ok_or_else(|| {
            let known = names(self.images.keys());
            refused("image", format!("{image:?} is not among the entry's images ({known})"))
        })?;
        let template = image.templates.get(&node.name).copied().or(image.template).ok_or_else(|| {
            let key = &image.key;
            refused(
                "image",
                format!(
                    "{key:?} has no template for node {zone}; set images.{key}.templates.{zone}, or .template"
                ),
            )
        })?;
        Ok(Placed { node: node.clone(), machine: *machine, image: image.clone(), template })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> Value {
        let schema: Value = serde_json::from_str(include_str!("config.schema.json")).unwrap();
        schema["examples"][0].clone()
    }

    #[test]
    fn every_example_of_the_schema_is_read() {
        let schema: Value = serde_json::from_str(include_str!("config.schema.json")).unwrap();
        for example in schema["examples"].as_array().unwrap() {
            assert!(Config::read(example).is_ok(), "{:?}", Config::read(example));
        }
    }

    #[test]
    fn the_schema_knows_the_keys_that_are_read() {
        let schema: Value = serde_json::from_str(include_str!("config.schema.json")).unwrap();
        let mut config = example();
        config["?"] = json!(1);
        let faults = Config::read(&config).unwrap_err();
        let (_, known) = faults[0].message.split_once("known here: ").unwrap();
        let mut known: Vec<&str> = known.split(", ").collect();
        known.sort_unstable();
        let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(known, properties);
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let config = json!({
            "nodes": [{ "name": "pve1" }, { "name": "a/b", "isoStorage": "local" }, { "name": "pve1", "isoStorage": "x" }],
            "images": { "debian": {}, "other": { "templates": { "pve9": 9000 }, "disk": "floppy0" } },
            "machineTypes": { "small": { "cores": 0 } },
            "vmids": { "first": 99, "last": 20 },
            "tags": ["Not ok"],
            "defaults": { "zone": "nowhere" },
            "firewall": { "allowFrom": ["10.0.0.0/33"] },
            "pool": "a b",
        });
        let faults: Vec<String> =
            Config::read(&config).unwrap_err().into_iter().map(|fault| fault.path).collect();
        for path in [
            "nodes[0].isoStorage",
            "nodes[1].name",
            "nodes[2].name",
            "images.debian",
            "images.other.templates.pve9",
            "images.other.disk",
            "machineTypes.small.cores",
            "machineTypes.small.memoryMiB",
            "vmids.first",
            "vmids.last",
            "tags[0]",
            "defaults.zone",
            "firewall.allowFrom[0]",
            "pool",
        ] {
            assert!(faults.iter().any(|fault| fault == path), "{path}: {faults:?}");
        }
    }

    #[test]
    fn a_placement_finds_the_template_of_its_node_or_says_what_is_missing() {
        let mut config = example();
        config["images"] = json!({ "debian": { "templates": { "pve1": 9000 } } });
        let config = Config::read(&config).unwrap();
        let at =
            |zone: &str| config.placed(&Placement { zone: Some(zone.to_owned()), ..Placement::default() });
        assert_eq!(at("pve1").unwrap().template, 9000);
        let error = at("pve2").unwrap_err();
        assert!(error.message.contains("images.debian.templates.pve2"), "{error}");
        assert!(at("pve3").unwrap_err().message.contains("zone"));
    }
}
