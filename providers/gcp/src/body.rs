//! What an insert sends: the whole machine with its mark, in one document.

use base64::{Engine, engine::general_purpose::STANDARD};
use provider_sdk::{Error, Mark, reason};
use serde_json::{Map, Value, json};

use crate::{
    config::{Config, External, Ipv6, OnPreemption, region_of},
    mark,
    placement::Placed,
};

/// What Compute Engine takes as a value of metadata.
const LONGEST_VALUE: usize = 262_144;

/// User-data as metadata: byte for byte, in base64 where it is no text that JSON bears as it is.
pub fn metadata(placed: &Placed, user_data: &[u8]) -> Result<Value, Error> {
    if user_data.is_empty() {
        return Ok(json!({ "items": [] }));
    }
    if !placed.image.runs_cloud_init() {
        return Err(Error::permanent(
            reason::PLACEMENT,
            format!(
                "the image {} is known to run no cloud-init, so spec.cloudInit would lie there unread; choose another \
                 by spec.placement.image, or say cloudInit: true of it in the entry's images if yours has it",
                placed.image.source
            ),
        ));
    }
    let item = |key: &str, value: &str| json!({ "key": key, "value": value });
    let bears = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    let (value, encoding) = match std::str::from_utf8(user_data).ok().filter(bears) {
        Some(text) => (text.to_owned(), None),
        None => (STANDARD.encode(user_data), Some(item("user-data-encoding", "base64"))),
    };
    if value.len() > LONGEST_VALUE {
        return Err(Error::permanent(
            reason::UNSUPPORTED,
            format!(
                "spec.cloudInit makes {} bytes of metadata, and {LONGEST_VALUE} is the most; fetch the rest from within \
                 the machine",
                value.len()
            ),
        ));
    }
    let items: Vec<Value> = [item("user-data", &value)].into_iter().chain(encoding).collect();
    Ok(json!({ "items": items }))
}

/// What is decided beside config and placement.
pub struct Parts<'a> {
    pub name: &'a str,
    pub zone: &'a str,
    pub mark: &'a Mark,
    pub metadata: &'a Value,
    /// The reserved address that it gets.
    pub address: Option<&'a str>,
    /// The entry's own rule: its tag is called as it is.
    pub firewall: Option<&'a str>,
}

/// The document.
pub fn instance(config: &Config, placed: &Placed, parts: &Parts<'_>) -> Value {
    let zone = parts.zone;
    let mut labels: Map<String, Value> =
        config.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    labels.extend(mark::to_labels(parts.mark));
    // The disk goes with the machine; where somebody keeps it, its labels say whose it was.
    let disk_labels = labels.clone();
    if let Some(rule) = parts.firewall {
        labels.insert(mark::FIREWALL.to_owned(), rule.into());
    }
    let tags: Vec<&str> = config.network_tags.iter().map(String::as_str).chain(parts.firewall).collect();
    let body = json!({
        "name": parts.name,
        "machineType": format!("zones/{zone}/machineTypes/{}", placed.machine_type),
        "labels": labels,
        "tags": { "items": tags },
        "metadata": parts.metadata,
        "disks": [{
            "boot": true,
            "autoDelete": true,
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "initializeParams": {
                "sourceImage": placed.image.source,
                "diskSizeGb": config.disk_gb.to_string(),
                "diskType": format!("zones/{zone}/diskTypes/{}", config.disk_type),
                "labels": disk_labels,
            },
        }],
        "networkInterfaces": [network(config, zone, parts.address)],
        "scheduling": scheduling(config),
    });
    let mut body = body.as_object().cloned().unwrap_or_default();
    if let Some(account) = &config.service_account {
        let accounts = json!([{ "email": account.email, "scopes": account.scopes }]);
        body.insert("serviceAccounts".to_owned(), accounts);
    }
    if let Some(shielded) = config.shielded {
        let options = json!({
            "enableSecureBoot": shielded.secure_boot,
            "enableVtpm": shielded.vtpm,
            "enableIntegrityMonitoring": shielded.integrity_monitoring,
        });
        body.insert("shieldedInstanceConfig".to_owned(), options);
    }
    Value::Object(body)
}

fn network(config: &Config, zone: &str, address: Option<&str>) -> Value {
    let region = region_of(zone);
    let project = &config.project;
    let full = |name: &str, below: String| match name.contains('/') {
        true => name.to_owned(),
        false => format!("projects/{project}/{below}/{name}"),
    };
    let mut nic = Map::new();
    // Of a network of another project the subnetwork alone is named: it decides the network.
    match config.subnetworks.get(region) {
        Some(subnetwork) => {
            nic.insert(
                "subnetwork".to_owned(),
                full(subnetwork, format!("regions/{region}/subnetworks")).into(),
            );
        }
        None => {
            nic.insert("network".to_owned(), full(&config.network, "global/networks".to_owned()).into());
        }
    }
    if config.external != External::None {
        let mut access: Map<String, Value> =
            [("type", "ONE_TO_ONE_NAT"), ("name", "External NAT"), ("networkTier", config.network_tier)]
                .map(|(key, value)| (key.to_owned(), value.into()))
                .into_iter()
                .collect();
        access.extend(address.map(|address| ("natIP".to_owned(), address.into())));
        nic.insert("accessConfigs".to_owned(), json!([access]));
    }
    nic.insert(
        "stackType".to_owned(),
        if config.ipv6 == Ipv6::None { "IPV4_ONLY".into() } else { "IPV4_IPV6".into() },
    );
    if config.ipv6 == Ipv6::External {
        let access = json!({ "type": "DIRECT_IPV6", "name": "External IPv6", "networkTier": "PREMIUM" });
        nic.insert("ipv6AccessConfigs".to_owned(), json!([access]));
    }
    Value::Object(nic)
}

fn scheduling(config: &Config) -> Value {
    match config.spot {
        None => {
            json!({ "provisioningModel": "STANDARD", "onHostMaintenance": "MIGRATE", "automaticRestart": true })
        }
        Some(then) => json!({
            "provisioningModel": "SPOT",
            "onHostMaintenance": "TERMINATE",
            "automaticRestart": false,
            "instanceTerminationAction": match then {
                OnPreemption::Stop => "STOP",
                OnPreemption::Delete => "DELETE",
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use provider_sdk::Placement;

    use super::*;

    fn made(more: Value) -> Value {
        let mut config = json!({
            "project": "lab-project",
            "zones": ["us-central1-a"],
            "images": { "ubuntu": { "source": "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64" } },
            "machineTypes": { "small": "e2-small" },
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = Config::read(&config).unwrap();
        let placed = config.placed(&Placement::default(), "proxy-a").unwrap();
        let metadata = metadata(&placed, b"#cloud-config\n").unwrap();
        let mark = vec![("managed".to_owned(), "true".to_owned())];
        let parts = Parts {
            name: "proxy-a",
            zone: "us-central1-a",
            mark: &mark,
            metadata: &metadata,
            address: None,
            firewall: Some("proxy-base-x"),
        };
        instance(&config, &placed, &parts)
    }

    #[test]
    fn a_machine_bears_its_mark_and_its_disk_goes_with_it() {
        let body = made(json!({ "labels": { "team": "web" } }));
        assert_eq!(body.pointer("/labels/egressproxies-managed"), Some(&json!("true")));
        assert_eq!(body.pointer("/labels/team"), Some(&json!("web")));
        assert_eq!(body.pointer("/disks/0/autoDelete"), Some(&json!(true)));
        assert_eq!(
            body.pointer("/disks/0/initializeParams/diskSizeGb"),
            Some(&json!("10")),
            "64 bits are texts"
        );
        assert_eq!(body.pointer("/tags/items"), Some(&json!(["proxy-base-x"])));
        assert_eq!(
            body.pointer("/metadata/items/0"),
            Some(&json!({ "key": "user-data", "value": "#cloud-config\n" }))
        );
        assert_eq!(body.get("serviceAccounts"), None, "it speaks for nobody unless the config says so");
    }

    #[test]
    fn an_internal_machine_has_no_public_address() {
        let body = made(json!({ "externalAddress": "none", "ipv6": "external" }));
        let nic = body.pointer("/networkInterfaces/0").unwrap();
        assert_eq!(nic.get("accessConfigs"), None);
        assert_eq!(nic.pointer("/stackType"), Some(&json!("IPV4_IPV6")));
        assert_eq!(nic.pointer("/ipv6AccessConfigs/0/type"), Some(&json!("DIRECT_IPV6")));
        assert_eq!(nic.pointer("/network"), Some(&json!("projects/lab-project/global/networks/default")));
    }

    #[test]
    fn a_shared_network_is_named_by_its_subnetwork() {
        let shared = "projects/host-project/regions/us-central1/subnetworks/egress";
        let body = made(json!({ "subnetworks": { "us-central1": shared } }));
        assert_eq!(body.pointer("/networkInterfaces/0/subnetwork"), Some(&json!(shared)));
        assert_eq!(body.pointer("/networkInterfaces/0/network"), None);
    }

    #[test]
    fn spot_shielded_and_account_are_as_the_config_says() {
        let body = made(json!({
            "spot": { "onPreemption": "delete" },
            "shieldedVm": { "secureBoot": true },
            "serviceAccount": { "email": "egress@lab-project.iam.gserviceaccount.com", "scopes": ["s"] },
        }));
        assert_eq!(body.pointer("/scheduling/provisioningModel"), Some(&json!("SPOT")));
        assert_eq!(body.pointer("/scheduling/instanceTerminationAction"), Some(&json!("DELETE")));
        assert_eq!(body.pointer("/scheduling/automaticRestart"), Some(&json!(false)));
        assert_eq!(body.pointer("/shieldedInstanceConfig/enableSecureBoot"), Some(&json!(true)));
        assert_eq!(body.pointer("/shieldedInstanceConfig/enableVtpm"), Some(&json!(true)));
        assert_eq!(body.pointer("/serviceAccounts/0/scopes"), Some(&json!(["s"])));
    }

    #[test]
    fn bytes_that_are_no_text_go_in_base64() {
        let config = json!({ "project": "lab-project", "zones": ["us-central1-a"] });
        let config = Config::read(&config).unwrap();
        let placement = Placement {
            machine_type: Some("e2-small".to_owned()),
            image: Some("projects/p-4711/global/images/x".to_owned()),
            ..Placement::default()
        };
        let placed = config.placed(&placement, "proxy-a").unwrap();
        let encoded = metadata(&placed, b"\xff\0").unwrap();
        assert_eq!(encoded.pointer("/items/0/value"), Some(&json!("/wA=")));
        assert_eq!(
            encoded.pointer("/items/1"),
            Some(&json!({ "key": "user-data-encoding", "value": "base64" }))
        );
        let refused = metadata(&placed, &vec![b'x'; LONGEST_VALUE + 1]).unwrap_err();
        assert!(refused.message.contains("spec.cloudInit"), "{}", refused.message);
    }
}
