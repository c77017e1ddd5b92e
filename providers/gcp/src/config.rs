//! The entry's config, read to its end. Address and credentials stand in the grant; here is what is made, and where.

use std::collections::BTreeMap;

use provider_sdk::{
    Fault,
    config::{self, Field, Object},
};
use serde_json::Value;

use crate::{image::Image, mark};

/// What the entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub project: String,
    pub zones: Vec<String>,
    pub endpoint: String,
    pub resource_manager: Option<String>,
    pub network: String,
    pub subnetworks: BTreeMap<String, String>,
    pub external: External,
    pub reserved: BTreeMap<String, Vec<String>>,
    pub network_tier: &'static str,
    pub ipv6: Ipv6,
    pub network_tags: Vec<String>,
    pub firewall: Option<Firewall>,
    pub images: BTreeMap<String, Image>,
    pub machine_types: BTreeMap<String, String>,
    pub defaults: Defaults,
    pub disk_gb: u64,
    pub disk_type: String,
    pub labels: BTreeMap<String, String>,
    pub service_account: Option<ServiceAccount>,
    pub spot: Option<OnPreemption>,
    pub shielded: Option<Shielded>,
    pub partial_lists: bool,
}

/// Where the address that serves comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum External {
    Ephemeral,
    Reserved,
    /// The internal address serves.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    None,
    Internal,
    External,
}

/// Who may reach the proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firewall {
    pub source_ranges: Vec<String>,
    pub priority: u64,
}

/// What an empty placement means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub region: Option<String>,
    pub zone: Option<String>,
    pub machine_type: Option<String>,
    pub image: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    pub email: String,
    pub scopes: Vec<String>,
}

/// What becomes of a machine that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPreemption {
    Stop,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shielded {
    pub secure_boot: bool,
    pub vtpm: bool,
    pub integrity_monitoring: bool,
}

/// The region that a zone is in: its name without the letter.
pub fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map(|(region, _)| region).unwrap_or(zone)
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, read)
    }

    /// The regions of its zones, in their order.
    pub fn regions(&self) -> Vec<&str> {
        let mut regions: Vec<&str> = Vec::new();
        for region in self.zones.iter().map(|zone| region_of(zone)) {
            if !regions.contains(&region) {
                regions.push(region);
            }
        }
        regions
    }
}

fn read(root: &mut Object<'_>) -> Config {
    let project = root.required("project", "the project's id").and_then(|field| {
        let text = field.text()?;
        if is_project(text) {
            return Some(text.to_owned());
        }
        field.fault(format!("must be a project's id such as my-project-4711, but is {text:?}"));
        None
    });
    let zones = zones(root);
    let known = |region: &str| zones.iter().any(|zone| region_of(zone) == region);
    let subnetworks = by_region(root, "subnetworks", known, |field| {
        checked(
            field,
            |text| is_resource(text, "subnetworks"),
            "a name or projects/P/regions/R/subnetworks/NAME",
        )
    });
    let reserved = by_region(root, "reservedAddresses", known, |field| {
        let names: Vec<String> =
            field.list().iter().filter_map(|name| checked(name, is_name, A_NAME)).collect();
        (!names.is_empty()).then_some(names)
    });
    let external = root
        .optional("externalAddress")
        .and_then(|field| {
            field.one_of(&[
                ("ephemeral", External::Ephemeral),
                ("reserved", External::Reserved),
                ("none", External::None),
            ])
        })
        .unwrap_or(External::Ephemeral);
    if external == External::Reserved {
        let bare = zones.iter().map(|zone| region_of(zone)).find(|region| !reserved.contains_key(*region));
        if let Some(region) = bare {
            root.fault("reservedAddresses", format!("names none for {region}, where there is a zone"));
        }
    } else if !reserved.is_empty() {
        root.fault("reservedAddresses", "are used only with externalAddress: reserved");
    }
    let tier = root
        .optional("networkTier")
        .and_then(|field| field.one_of(&[("PREMIUM", "PREMIUM"), ("STANDARD", "STANDARD")]));
    let ipv6 = root.optional("ipv6").and_then(|field| {
        field.one_of(&[("none", Ipv6::None), ("internal", Ipv6::Internal), ("external", Ipv6::External)])
    });
    let network = root.optional("network").and_then(|field| {
        checked(&field, |text| is_resource(text, "networks"), "a name or projects/P/global/networks/NAME")
    });
    let firewall = root.optional("firewall").and_then(|field| field.object(firewall));
    let host = network.as_deref().and_then(|network| network.split('/').nth(1));
    if let (Some(host), Some(_)) = (host.filter(|host| Some(*host) != project.as_deref()), &firewall) {
        root.fault(
            "firewall",
            format!("would have to stand in {host}, whose network it is: make the rule there by hand"),
        );
    }
    let images = root.optional("images").map(|field| field.entries()).unwrap_or_default();
    let images: BTreeMap<String, Image> =
        images.into_iter().filter_map(|(key, field)| Some((key.to_owned(), Image::read(&field)?))).collect();
    let machine_types = texts(root, "machineTypes", is_machine_type, "a machine type such as e2-small");
    let defaults = defaults(root, &zones, &images, &machine_types);
    Config {
        project: project.unwrap_or_default(),
        zones,
        endpoint: text(root, "endpoint").unwrap_or_else(|| "compute".to_owned()),
        resource_manager: text(root, "resourceManager"),
        network: network.unwrap_or_else(|| "default".to_owned()),
        subnetworks,
        external,
        reserved,
        network_tier: tier.unwrap_or("PREMIUM"),
        ipv6: ipv6.unwrap_or(Ipv6::None),
        network_tags: list(root, "networkTags", is_name, A_NAME),
        firewall,
        images,
        machine_types,
        defaults,
        disk_gb: root.optional("diskSizeGb").and_then(|field| field.integer(10..=65_536)).unwrap_or(10),
        disk_type: root
            .optional("diskType")
            .and_then(|field| checked(&field, is_name, "a disk type such as pd-balanced"))
            .unwrap_or_else(|| "pd-balanced".to_owned()),
        labels: labels(root),
        service_account: root
            .optional("serviceAccount")
            .and_then(|field| field.object(service_account))
            .flatten(),
        spot: root.optional("spot").and_then(|field| field.object(spot)),
        shielded: root.optional("shieldedVm").and_then(|field| field.object(shielded)),
        partial_lists: switch(root, "partialLists", true),
    }
}

fn zones(root: &mut Object<'_>) -> Vec<String> {
    let Some(field) = root.required("zones", "where instances may be made, such as [us-central1-a]") else {
        return Vec::new();
    };
    let elements = field.list();
    if elements.is_empty() && field.value().is_array() {
        field.fault("must name at least one zone");
    }
    let mut zones: Vec<String> = Vec::new();
    for element in &elements {
        let Some(zone) = checked(element, is_zone, "a zone such as us-central1-a") else { continue };
        if zones.contains(&zone) {
            element.fault(format!("{zone:?} stands there twice"));
        } else {
            zones.push(zone);
        }
    }
    zones
}

fn defaults(
    root: &mut Object<'_>,
    zones: &[String],
    images: &BTreeMap<String, Image>,
    machine_types: &BTreeMap<String, String>,
) -> Defaults {
    let defaults = root.optional("defaults").and_then(|field| {
        field.object(|object| Defaults {
            region: text(object, "region"),
            zone: text(object, "zone"),
            machine_type: text(object, "machineType"),
            image: text(object, "image"),
        })
    });
    let defaults = defaults.unwrap_or_default();
    if let Some(zone) = defaults.zone.as_ref().filter(|zone| !zones.contains(zone)) {
        root.fault("defaults.zone", format!("{zone:?} is not among the zones"));
    }
    if let Some(region) =
        defaults.region.as_ref().filter(|region| !zones.iter().any(|zone| region_of(zone) == region.as_str()))
    {
        root.fault("defaults.region", format!("{region:?} is the region of none of the zones"));
    }
    if let Some(image) =
        defaults.image.as_ref().filter(|image| !images.contains_key(*image) && Image::direct(image).is_none())
    {
        root.fault("defaults.image", format!("{image:?} is neither among the images nor an image's path"));
    }
    if let Some(machine) = defaults
        .machine_type
        .as_ref()
        .filter(|machine| !machine_types.contains_key(*machine) && !is_machine_type(machine))
    {
        root.fault("defaults.machineType", format!("{machine:?} is no machine type"));
    }
    defaults
}

fn firewall(object: &mut Object<'_>) -> Firewall {
    let ranges = object.required("sourceRanges", "who may reach the proxies, such as [192.0.2.0/24]");
    let mut source_ranges = Vec::new();
    if let Some(field) = ranges {
        let elements = field.list();
        if elements.is_empty() && field.value().is_array() {
            field.fault("must name at least one range: without any, everybody would be let in");
        }
        source_ranges = elements
            .iter()
            .filter_map(|range| checked(range, is_range, "a range such as 192.0.2.0/24"))
            .collect();
    }
    // Compute Engine keeps IPv4 and IPv6 in rules of their own.
    if source_ranges.iter().any(|range| range.contains(':'))
        && source_ranges.iter().any(|range| range.contains('.'))
    {
        object.fault("sourceRanges", "must be all IPv4 or all IPv6: a rule can't hold both");
    }
    source_ranges.sort();
    source_ranges.dedup();
    let priority = object.optional("priority").and_then(|field| field.integer(0..=65_535)).unwrap_or(1000);
    Firewall { source_ranges, priority }
}

fn labels(root: &mut Object<'_>) -> BTreeMap<String, String> {
    let entries = root.optional("labels").map(|field| field.entries()).unwrap_or_default();
    let legal = |text: &str| {
        text.len() <= 63 && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
    };
    let mut labels = BTreeMap::new();
    for (key, field) in entries {
        let Some(value) = field.any_text() else { continue };
        if !legal(key) || !key.starts_with(|first: char| first.is_ascii_lowercase()) {
            field.fault("a label's key is at most 63 of a-z, 0-9, _ and -, and begins with a letter");
        } else if key.starts_with(mark::PREFIX) {
            field.fault(format!("labels that begin with {} are the mark's", mark::PREFIX));
        } else if !legal(value) {
            field.fault(format!("must be at most 63 of a-z, 0-9, _ and -, but is {value:?}"));
        } else {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    labels
}

fn service_account(object: &mut Object<'_>) -> Option<ServiceAccount> {
    let email =
        object.required("email", "the account's address").and_then(|field| field.text().map(str::to_owned));
    let scopes: Vec<String> = object
        .optional("scopes")
        .map(|field| field.list().iter().filter_map(|scope| scope.text().map(str::to_owned)).collect())
        .unwrap_or_else(|| vec!["https://www.googleapis.com/auth/cloud-platform".to_owned()]);
    Some(ServiceAccount { email: email?, scopes })
}

fn spot(object: &mut Object<'_>) -> OnPreemption {
    object
        .optional("onPreemption")
        .and_then(|field| field.one_of(&[("stop", OnPreemption::Stop), ("delete", OnPreemption::Delete)]))
        .unwrap_or(OnPreemption::Stop)
}

fn shielded(object: &mut Object<'_>) -> Shielded {
    Shielded {
        secure_boot: switch(object, "secureBoot", false),
        vtpm: switch(object, "vtpm", true),
        integrity_monitoring: switch(object, "integrityMonitoring", true),
    }
}

fn by_region<T>(
    root: &mut Object<'_>,
    key: &'static str,
    known: impl Fn(&str) -> bool,
    read: impl Fn(&Field<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let entries = root.optional(key).map(|field| field.entries()).unwrap_or_default();
    let read = |(region, field): (&str, Field<'_>)| {
        if !known(region) {
            field.fault("is the region of none of the zones");
        }
        Some((region.to_owned(), read(&field)?))
    };
    entries.into_iter().filter_map(read).collect()
}

fn texts(
    root: &mut Object<'_>,
    key: &'static str,
    legal: impl Fn(&str) -> bool,
    what: &str,
) -> BTreeMap<String, String> {
    let entries = root.optional(key).map(|field| field.entries()).unwrap_or_default();
    let read = |(key, field): (&str, Field<'_>)| Some((key.to_owned(), checked(&field, &legal, what)?));
    entries.into_iter().filter_map(read).collect()
}

fn list(root: &mut Object<'_>, key: &'static str, legal: impl Fn(&str) -> bool, what: &str) -> Vec<String> {
    let elements = root.optional(key).map(|field| field.list()).unwrap_or_default();
    elements.iter().filter_map(|element| checked(element, &legal, what)).collect()
}

fn checked(field: &Field<'_>, legal: impl Fn(&str) -> bool, what: &str) -> Option<String> {
    let text = field.text()?;
    if legal(text) {
        return Some(text.to_owned());
    }
    field.fault(format!("must be {what}, but is {text:?}"));
    None
}

fn switch(object: &mut Object<'_>, key: &'static str, otherwise: bool) -> bool {
    object.optional(key).and_then(|field| field.boolean()).unwrap_or(otherwise)
}

fn text(object: &mut Object<'_>, key: &'static str) -> Option<String> {
    object.optional(key).and_then(|field| field.text().map(str::to_owned))
}

const A_NAME: &str = "a name of at most 63 of a-z, 0-9 and -, that begins with a letter";

/// What Compute Engine takes as a resource's name.
pub fn is_name(text: &str) -> bool {
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(legal)
}

/// `e2-small`, `custom-2-4096`.
pub fn is_machine_type(text: &str) -> bool {
    is_name(text) && text.contains('-')
}

/// `us-central1-a`.
pub fn is_zone(text: &str) -> bool {
    is_name(text)
        && text.rsplit_once('-').is_some_and(|(region, letter)| region.contains('-') && letter.len() == 1)
}

/// `my-project`, `example.com:my-project`.
pub fn is_project(text: &str) -> bool {
    let (domain, id) = text.rsplit_once(':').unwrap_or(("", text));
    is_name(id) && domain.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
}

/// A name, or a path that ends in `<kind>/<name>`.
fn is_resource(text: &str, kind: &str) -> bool {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => is_name(name),
        ["projects", project, "global", found, name] => {
            kind == "networks" && *found == kind && is_project(project) && is_name(name)
        }
        ["projects", project, "regions", region, found, name] => {
            kind == "subnetworks" && *found == kind && is_project(project) && is_name(region) && is_name(name)
        }
        _ => false,
    }
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => bits <= 32,
        Ok(std::net::IpAddr::V6(_)) => bits <= 128,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_is_told_with_its_path() {
        let faults = Config::read(&json!({
            "project": "UPPER",
            "zones": ["us-central1-a", "us-central1-a", "nowhere"],
            "network": "projects/other-project/global/networks/shared",
            "subnetworks": { "europe-west1": "egress" },
            "externalAddress": "reserved",
            "images": { "x": { "source": "debian-13" } },
            "defaults": { "zone": "us-central1-b" },
            "labels": { "egressproxies-uid": "me", "Upper": "x" },
            "firewall": { "sourceRanges": ["everybody", "192.0.2.0/24"] },
            "unknown": 1,
        }))
        .unwrap_err();
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        for path in [
            "project",
            "zones[1]",
            "zones[2]",
            "subnetworks.europe-west1",
            "reservedAddresses",
            "images.x.source",
            "defaults.zone",
            "labels.egressproxies-uid",
            "labels.Upper",
            "firewall",
            "firewall.sourceRanges[0]",
            "unknown",
        ] {
            assert!(paths.contains(&path), "{path}: {paths:?}");
        }
    }

    #[test]
    fn the_schema_knows_each_key_that_is_read() {
        let schema: Value = serde_json::from_str(include_str!("config.schema.json")).unwrap();
        let faults = Config::read(&json!({ "project": "lab-project", "zones": ["us-central1-a"], "no": 1 }))
            .unwrap_err();
        let (_, known) = faults.first().unwrap().message.split_once("known here: ").unwrap();
        let mut known: Vec<&str> = known.split(", ").collect();
        known.sort_unstable();
        let mut said: Vec<&str> =
            schema.get("properties").unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        said.sort_unstable();
        assert_eq!(known, said);
    }
}
