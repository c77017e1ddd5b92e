//! The host, and grants that reach it.

use std::{env, fs, path::PathBuf, process::Command, sync::Arc};

use egress_capabilities::{Beside, LibvirtCapability, LibvirtGrant};
use egress_contract::{EntryName, Installation};
use egress_runtime::capability::{Libvirt, LibvirtConnection, LibvirtFailure};
use serde_json::{Value, json};

pub const BRIDGE: &str = "br0";
pub const POOL: &str = "default";
pub const FOLDER: &str = "/var/lib/libvirt/images";

pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; use run.sh"))
}

pub fn run(file: &str) -> PathBuf {
    PathBuf::from(variable("HYPERVISOR_RUN")).join(file)
}

/// As an administrator, or an accident, would: `sshd stop`.
pub fn service(arguments: &str) {
    let (ended, _) = within(&format!("/lab/service {arguments}"));
    assert!(ended, "{arguments}");
}

/// Runs a command in the host, as root: whether it succeeds, and what it says.
pub fn within(command: &str) -> (bool, String) {
    let command = format!("{} {command}", variable("HYPERVISOR_WITHIN"));
    let ended = Command::new("bash").args(["-c", &command]).output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
}

pub fn installation() -> Installation {
    Installation::new("hypervisor-test")
}

/// A name that nobody else uses.
pub fn name(proxy: &str) -> String {
    installation().instance_name(proxy, &format!("{proxy}-{}", std::process::id()), 1).as_str().to_owned()
}

pub fn entry() -> EntryName {
    "kvm".parse().unwrap()
}

/// The host's grant, with some fields of it changed.
pub fn grant(changes: Value) -> LibvirtGrant {
    let mut host = json!({
        "address": variable("HYPERVISOR_ADDRESS"), "user": "lab",
        "key": { "file": key() }, "knownHosts": { "file": run("known_hosts") },
        "pools": [POOL], "bridges": [BRIDGE],
    });
    let fields = host.as_object_mut().unwrap();
    fields.extend(changes.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    serde_json::from_value(json!({ "hosts": { "hv": host } })).unwrap()
}

fn key() -> PathBuf {
    // The one that root@ and lab@ accept.
    run("id")
}

pub fn capability(changes: Value) -> Arc<LibvirtCapability> {
    let made = LibvirtCapability::new(&entry(), grant(changes), &Beside::alone(installation()));
    Arc::new(made.unwrap())
}

pub async fn open(changes: Value) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure> {
    capability(changes).open("hv", false).await
}

/// A file with this text, for as long as the answer lives.
pub fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, text).unwrap();
    (folder, path)
}
