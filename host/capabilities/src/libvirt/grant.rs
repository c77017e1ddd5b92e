//! The grant as people write it, and whether it makes sense.

use std::collections::BTreeMap;

use egress_contract::Fault;
use serde::{Deserialize, Serialize};

use crate::{credentials::CredentialRef, faults::Faults};

/// A longer deadline can't be met: the runtime ends every host call earlier.
const LONGEST_MS: u64 = 95_000;

/// Which hosts an entry may use, and what of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LibvirtGrant {
    /// By the name that the provider's config uses.
    pub hosts: BTreeMap<String, HostGrant>,
}

/// One host: how to reach it, as whom, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HostGrant {
    /// A name or an address.
    pub address: String,
    /// Of sshd.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// Who may open libvirt's socket there.
    pub user: String,
    /// A private key without a passphrase.
    pub key: CredentialRef,
    /// In the form of OpenSSH's known_hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<CredentialRef>,
    /// Takes whoever answers for the host, instead of `knownHosts`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_ignore_host_key: bool,
    /// Of libvirt, at the host.
    #[serde(default = "socket")]
    pub socket: String,
    /// libvirt's name for the driver.
    #[serde(default = "uri")]
    pub uri: String,
    /// Storage pools that may be used.
    pub pools: Vec<String>,
    /// Bridges that a domain may be attached to.
    pub bridges: Vec<String>,
    /// The folder at the host in which a domain's console log may be kept.
    #[serde(default = "logs")]
    pub logs: String,
    /// Domains of an earlier operator that may be touched although their names are not this one's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopt: Vec<String>,
    /// When to give up.
    #[serde(default)]
    pub timeouts: Timeouts,
}

fn ssh_port() -> u16 {
    22
}

fn socket() -> String {
    "/var/run/libvirt/libvirt-sock".to_owned()
}

fn uri() -> String {
    "qemu:///system".to_owned()
}

fn logs() -> String {
    "/var/log/libvirt/qemu".to_owned()
}

/// When to give up, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Timeouts {
    /// Until libvirt has let us in.
    pub connect_ms: u64,
    /// One call.
    pub call_ms: u64,
    /// A domain's start.
    pub start_ms: u64,
    /// What a guest uploads or downloads itself.
    pub upload_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, call_ms: 30_000, start_ms: 90_000, upload_ms: 60_000 }
    }
}

impl LibvirtGrant {
    /// Everything that is wrong; paths begin at the grant.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if self.hosts.is_empty() {
            faults.add("hosts", "names no host; add one, or leave the grant out");
        }
        for (name, host) in &self.hosts {
            let path = format!("hosts.{name}");
            let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            if !(1..=63).contains(&name.len()) || !name.bytes().all(legal) {
                faults.add(&path, "a host's name matches [A-Za-z0-9._-]{1,63}");
            }
            host.check(&path, &mut faults);
        }
        faults.0
    }
}

impl HostGrant {
    fn check(&self, path: &str, faults: &mut Faults) {
        if !is_word(&self.address) || self.address.contains(['/', '@', '[', ']']) {
            let message =
                "must be a name or an address, without user and port, which have fields of their own";
            faults.add(&format!("{path}.address"), message);
        }
        if self.port == 0 {
            faults.add(&format!("{path}.port"), "must be at least 1");
        }
        if !is_word(&self.user) {
            faults.add(&format!("{path}.user"), "is not a user's name");
        }
        self.key.check(&format!("{path}.key"), faults);
        match (&self.known_hosts, self.insecure_ignore_host_key) {
            (Some(known), false) => known.check(&format!("{path}.knownHosts"), faults),
            (None, true) => {}
            (None, false) => faults.add(&format!("{path}.knownHosts"), "is missing: nobody would be trusted"),
            (Some(_), true) => {
                let message = "says to trust anybody, and knownHosts says whom; keep knownHosts";
                faults.add(&format!("{path}.insecureIgnoreHostKey"), message);
            }
        }
        for (field, value) in [("socket", &self.socket), ("logs", &self.logs)] {
            if !is_plain_path(value) {
                faults.add(&format!("{path}.{field}"), "must be an absolute path without . and .. in it");
            }
        }
        if !is_word(&self.uri) {
            faults.add(&format!("{path}.uri"), "is not a URI of libvirt, such as qemu:///system");
        }
        for (field, values) in [("pools", &self.pools), ("bridges", &self.bridges)] {
            if values.is_empty() {
                faults.add(&format!("{path}.{field}"), "is empty, so that no domain can be made");
            }
        }
        for (field, values) in [("pools", &self.pools), ("bridges", &self.bridges), ("adopt", &self.adopt)] {
            for (index, value) in values.iter().enumerate() {
                if !is_word(value) || value.contains('/') {
                    faults.add(&format!("{path}.{field}[{index}]"), "is not a name");
                }
            }
        }
        self.timeouts.check(&format!("{path}.timeouts"), faults);
    }
}

impl Timeouts {
    fn check(&self, path: &str, faults: &mut Faults) {
        let all = [
            ("connectMs", self.connect_ms),
            ("callMs", self.call_ms),
            ("startMs", self.start_ms),
            ("uploadMs", self.upload_ms),
        ];
        for (field, value) in all {
            if !(1..=LONGEST_MS).contains(&value) {
                faults.add(&format!("{path}.{field}"), &format!("must be 1 to {LONGEST_MS}"));
            }
        }
    }
}

fn is_word(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// One that leads where it seems to lead.
pub(super) fn is_plain_path(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("")
        && path.len() <= 1024
        && parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths(grant: Value) -> Vec<String> {
        let grant: LibvirtGrant = serde_json::from_value(grant).unwrap();
        grant.faults().into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn a_grant_as_the_documentation_shows_it_is_accepted() {
        let grant = json!({ "hosts": {
            "hv1": { "address": "hv1.lan", "user": "libvirt", "key": { "file": "/etc/epo/ssh/id" },
                     "knownHosts": { "file": "/etc/epo/ssh/known_hosts" }, "pools": ["default"], "bridges": ["br0"] },
            "hv2": { "address": "fd00::2", "port": 2222, "user": "root",
                     "key": { "secretRef": { "name": "ssh", "key": "id" } }, "insecureIgnoreHostKey": true,
                     "socket": "/run/libvirt/virtqemud-sock", "pools": ["ssd", "hdd"], "bridges": ["br0"],
                     "adopt": ["proxy-old"], "timeouts": { "connectMs": 5000 } },
        } });
        assert_eq!(paths(grant), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let grant = json!({ "hosts": { "a/b": {
            "address": "root@hv1", "port": 0, "user": "", "key": { "file": "id" }, "socket": "/run/../etc/x",
            "uri": "", "pools": [], "bridges": ["a/b"], "logs": "logs", "timeouts": { "callMs": 0, "startMs": 900_000 },
        }, "c": {
            "address": "c", "user": "u", "key": {}, "knownHosts": { "secretRef": { "name": "a/b", "key": "" } },
            "insecureIgnoreHostKey": true, "pools": ["p"], "bridges": ["b"],
        } } });
        assert_eq!(
            paths(grant),
            [
                "hosts.a/b",
                "hosts.a/b.address",
                "hosts.a/b.port",
                "hosts.a/b.user",
                "hosts.a/b.key.file",
                "hosts.a/b.knownHosts",
                "hosts.a/b.socket",
                "hosts.a/b.logs",
                "hosts.a/b.uri",
                "hosts.a/b.pools",
                "hosts.a/b.bridges[0]",
                "hosts.a/b.timeouts.callMs",
                "hosts.a/b.timeouts.startMs",
                "hosts.c.key",
                "hosts.c.insecureIgnoreHostKey",
            ]
        );
        assert_eq!(paths(json!({ "hosts": {} })), ["hosts"]);
    }
}
