//! The samples in deploy/ work as they stand, but for names and addresses that everybody has his own of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::command::{component_of, file, run, workspace};

/// A file of samples, and what is in it.
struct Sample {
    name: String,
    documents: Vec<Value>,
}

impl Sample {
    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.documents.iter().filter(move |document| document["kind"] == kind)
    }

    /// The entries in it, by name.
    fn entries(&self) -> BTreeMap<String, String> {
        let maps = self.of_kind("ConfigMap").filter(|map| map["metadata"]["name"] == "egress-providers");
        let keys = maps.flat_map(|map| map["data"].as_object().into_iter().flatten());
        keys.map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned())).collect()
    }
}

fn samples() -> Vec<Sample> {
    let folder = workspace().join("deploy/samples");
    let mut samples: Vec<Sample> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            Sample { name, documents: serde_saphyr::from_multiple(&text).unwrap() }
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples
}

/// What an entry's Proxies may name as a zone.
fn zones(config: &Value) -> Vec<&str> {
    let named = ["hosts", "nodes"].into_iter().flat_map(|key| config[key].as_array().into_iter().flatten());
    let zones = config["zones"].as_array().into_iter().flatten();
    named.filter_map(|one| one["name"].as_str()).chain(zones.filter_map(Value::as_str)).collect()
}

#[test]
fn every_sample_entry_would_be_taken_up_and_its_proxies_fit_it() {
    let mut tried = Vec::new();
    for sample in samples() {
        for (provider, text) in sample.entries() {
            let entry: Value = serde_saphyr::from_str(&text).unwrap();
            let (_dir, path) = file(&format!("{provider}.yaml"), text.as_bytes());
            let component = component_of(&provider);
            let said = run(&["provider", "validate", component.to_str().unwrap(), "--config", &path]).well();
            assert!(said.contains("would be taken up"), "{}: {said}", sample.name);
            let config = &entry["config"];
            for proxy in sample.of_kind("Proxy") {
                assert_eq!(proxy["spec"]["provider"], provider.as_str(), "{}", sample.name);
                let placement = &proxy["spec"]["placement"];
                if let Some(zone) = placement["zone"].as_str() {
                    assert!(zones(config).contains(&zone), "{}: {zone}", sample.name);
                }
                if let Some(region) = placement["region"].as_str() {
                    assert!(
                        zones(config).iter().any(|zone| zone.starts_with(region)),
                        "{}: {region}",
                        sample.name
                    );
                }
                for (field, catalogue) in [("machineType", "machineTypes"), ("image", "images")] {
                    if let Some(named) = placement[field].as_str() {
                        assert!(config[catalogue].get(named).is_some(), "{}: {named}", sample.name);
                    }
                }
            }
            for secret in secrets(&entry["grants"]) {
                let readable = sample.of_kind("Role").any(|role| {
                    role["metadata"]["namespace"] == "egress-system"
                        && role["rules"].to_string().contains(&format!("\"resourceNames\":[\"{secret}\"]"))
                });
                assert!(readable, "{}: nothing lets the operator read Secret {secret}", sample.name);
            }
            tried.push(provider);
        }
    }
    tried.sort();
    assert_eq!(tried, ["gcp", "kubernetes", "kvm2", "proxmox"]);
}

/// The names of all Secrets that grants take something out of.
fn secrets(grants: &Value) -> Vec<String> {
    match grants {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match key.as_str() {
                "secretRef" => vec![value["name"].as_str().unwrap().to_owned()],
                _ => secrets(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(secrets).collect(),
        _ => Vec::new(),
    }
}

/// Why a Squid's rules let in more than networks that they name.
fn too_open(config: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = config.lines().map(words).collect();
    let mut faults = Vec::new();
    let named = |acl: &String| {
        let of_it = lines.iter().filter(|line| line.len() > 3 && line[0] == "acl" && line[1] == *acl);
        let networks: Vec<&String> =
            of_it.filter(|line| line[2] == "src").flat_map(|line| &line[3..]).collect();
        let wide =
            |network: &&&String| network.ends_with("/0") || matches!(network.as_str(), "all" | "0/0" | "::");
        !networks.is_empty() && !networks.iter().any(|network| wide(&network))
    };
    for line in lines.iter().filter(|line| line.len() > 1 && line[0] == "http_access" && line[1] == "allow") {
        if !line[2..].iter().any(named) {
            faults.push(line.join(" "));
        }
    }
    if !lines.iter().any(|line| line.len() > 2 && line[0] == "http_access" && line[1] == "allow") {
        faults.push("nobody is let in".to_owned());
    }
    faults
}

#[test]
fn the_squid_of_every_sample_admits_named_networks_and_never_everyone() {
    let mut tried = 0;
    for sample in samples() {
        let inline = sample.of_kind("Proxy").map(|proxy| proxy["spec"]["cloudInit"]["inline"].as_str());
        let maps = sample.of_kind("ConfigMap").map(|map| map["data"]["user-data"].as_str());
        for user_data in inline.chain(maps).flatten() {
            tried += 1;
            assert_eq!(too_open(user_data), Vec::<String>::new(), "{}", sample.name);
            assert!(user_data.contains("http_access deny inside"), "{}: the machine itself", sample.name);
        }
    }
    assert_eq!(tried, 3, "one for each provider of machines; Pods have what their provider generates");
    for open in [
        "http_access allow all",
        "acl clients src 0.0.0.0/0\nhttp_access allow clients",
        "acl tls port 443\nhttp_access allow tls",
        "http_access deny all",
    ] {
        assert_eq!(too_open(open).len(), 1, "{open}");
    }
}
