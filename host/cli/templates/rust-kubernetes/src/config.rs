//! The entry's config, read to its end: every fault with its path, not only the first.

use std::net::IpAddr;

use provider_sdk::{
    Fault,
    config::{self, Field},
};
use serde_json::Value;

/// The networks that are not routed on the Internet.
pub const PRIVATE_NETWORKS: [&str; 5] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
];

/// What the entry says. Addresses and credentials are no part of it: they stand in the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A cluster of the grant: the only place.
    pub cluster: String,
    pub namespace: String,
    pub image: String,
    pub allowed_clients: Vec<String>,
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, |root| Self {
            cluster: root
                .required(
                    "cluster",
                    "the name of a cluster under grants.kubernetes.clusters",
                )
                .and_then(|field| field.text().map(str::to_owned))
                .unwrap_or_default(),
            namespace: root
                .required("namespace", "the namespace where the Pods are made")
                .and_then(|field| namespace(&field))
                .unwrap_or_default(),
            image: root
                .required(
                    "image",
                    "a container image that holds Squid, best by digest",
                )
                .and_then(|field| image(&field))
                .unwrap_or_default(),
            allowed_clients: match root.optional("allowedClients") {
                Some(field) => field.list().iter().filter_map(network).collect(),
                None => PRIVATE_NETWORKS.map(str::to_owned).to_vec(),
            },
        })
    }
}

fn namespace(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if text.len() <= 63 && text.bytes().all(legal) && !text.starts_with('-') && !text.ends_with('-')
    {
        return Some(text.to_owned());
    }
    field.fault(format!("must be a namespace's name, but is {text:?}"));
    None
}

fn image(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if !text
        .chars()
        .any(|letter| letter.is_whitespace() || letter.is_control())
    {
        return Some(text.to_owned());
    }
    field.fault(format!(
        "must be an image's name without blanks, but is {text:?}"
    ));
    None
}

/// Written into Squid's configuration, so nothing but a network passes.
fn network(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let parsed = text.split_once('/').and_then(|(address, prefix)| {
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then_some(prefix)
    });
    match parsed {
        Some(0) => {
            field.fault(format!(
                "{text} is everyone, and an open proxy is found within hours"
            ));
            None
        }
        Some(_) => Some(text.to_owned()),
        None => {
            field.fault(format!(
                "must be a network like 10.0.0.0/8 or fd00::/8, but is {text:?}"
            ));
            None
        }
    }
}
