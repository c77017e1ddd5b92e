//! The hosts, what an entry says of them, and what their administrator does there.

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use egress_conformance::{
    Entry,
    kind::libvirt::{Administrator, RealLibvirt},
};
use egress_runtime::{Limits, Module, Runtime, RuntimeConfig};
use egress_sim::backend::Unable;
use provider_encode::Guest;
use serde_json::{Value, json};
use std::sync::LazyLock;

use crate::images::Images;

/// Where the pool's files are.
const POOL: &str = "/var/lib/libvirt/images";
/// A disk of this much finds no room where [`Administrator::fill_up`] left so much.
const LEFT_MIB: u64 = 600;
/// A larger pool is no disk of its own, and others need the room.
const LARGEST_MIB: u64 = 8 * 1024;
/// What the emulator is behind the lab's wrapper.
const EMULATOR: &str = "/usr/bin/qemu-system-x86_64.real";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; use run.sh"))
}

/// A host of the lab.
#[derive(Clone, Debug)]
pub struct Site {
    pub name: String,
    pub address: String,
}

/// Two.
pub fn sites() -> [Site; 2] {
    let told = variable("MACHINES_HOSTS");
    let site = |told: &str| {
        let (name, address) = told.split_once('=').unwrap();
        Site { name: name.to_owned(), address: address.to_owned() }
    };
    let sites: Vec<Site> = told.split_whitespace().map(site).collect();
    sites.try_into().unwrap()
}

impl Site {
    /// A file of its side of the lab.
    pub fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(variable("MACHINES_RUN")).join(format!("libvirt-{}", self.name)).join(name)
    }

    /// Runs a command there as root; what it says, or why not.
    pub fn try_run(&self, command: &str) -> Result<String, String> {
        let ended = Command::new(variable("MACHINES_WITHIN"))
            .args([&self.name, "bash", "-c", command])
            .output()
            .map_err(|error| error.to_string())?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ended.status.success() {
            true => Ok(said(&ended.stdout)),
            false => Err(format!("{}: {command}: {}", self.name, said(&ended.stderr))),
        }
    }

    pub fn run(&self, command: &str) -> String {
        self.try_run(command).unwrap()
    }

    /// As an administrator, or an accident, would: `sshd stop`.
    pub fn service(&self, what: &str) {
        self.run(&format!("/lab/service {what}"));
    }

    /// With other words in its sshd's configuration, or as it was.
    pub fn sshd_config(&self, from: &str, to: &str) {
        let path = self.file("lab/sshd_config");
        let config = fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(&path, config.replace(from, to)).unwrap();
        self.service("sshd stop");
        self.service("sshd start");
    }

    /// What a grant says of it.
    pub fn grant(&self) -> Value {
        json!({
            "address": self.address, "user": "lab",
            "key": { "file": self.file("id") }, "knownHosts": { "file": self.file("known_hosts") },
            "pools": ["default"], "bridges": ["br0"],
        })
    }
}

/// What the administrator of all hosts can do.
pub struct Hands {
    /// Whether something may have to be undone.
    touched: AtomicBool,
}

impl Hands {
    fn at(&self, host: &str, command: &str) -> Result<(), Unable> {
        let site = sites().into_iter().find(|site| site.name == host);
        let site = site.ok_or_else(|| Unable::Failed(format!("the lab has no host {host}")))?;
        site.try_run(command).map(drop).map_err(Unable::Failed)
    }

    /// Does it, or undoes what may have been done.
    fn lasting(&self, host: &str, on: bool, command: [&str; 2]) -> Result<(), Unable> {
        if on {
            self.touched.store(true, Ordering::SeqCst);
        } else if !self.touched.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.at(host, command[usize::from(on)])
    }
}

impl Administrator for Hands {
    fn pause(&self, host: &str, domain: &str, paused: bool) -> Result<(), Unable> {
        self.at(host, &format!("virsh {} {domain}", if paused { "suspend" } else { "resume" }))
    }

    fn fill_up(&self, host: &str, full: bool) -> Result<(), Unable> {
        let fill = format!(
            "left=$(df --output=avail --block-size=1M {POOL} | tail -n 1); [ $left -lt {LARGEST_MIB} ] && \
             fallocate -l $((left - {LEFT_MIB}))M {POOL}/full && virsh --quiet pool-refresh default"
        );
        let empty =
            format!("[ ! -e {POOL}/full ] || {{ rm {POOL}/full; virsh --quiet pool-refresh default; }}");
        self.lasting(host, full, [&empty, &fill])
    }

    fn never_start(&self, host: &str, never: bool) -> Result<(), Unable> {
        let lift = format!("! mountpoint -q {EMULATOR} || umount {EMULATOR}");
        self.lasting(host, never, [&lift, &format!("mount --bind /bin/false {EMULATOR}")])
    }
}

/// What a provider is told of these hosts, and lent.
pub fn entry(images: &Images, sites: &[Site]) -> Entry {
    let names: Vec<Value> = sites.iter().map(|site| json!({ "name": site.name })).collect();
    let hosts: serde_json::Map<String, Value> =
        sites.iter().map(|site| (site.name.clone(), site.grant())).collect();
    Entry {
        name: "machines".parse().unwrap(),
        config: json!({
            "hosts": names,
            "images": { "tiny": { "url": images.url, "firmware": "bios" } },
            "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 128 } },
            "defaults": { "zone": sites[0].name },
            "diskSizeGb": 1,
            "installGuestAgent": false,
        }),
        grants: json!({
            "libvirt": { "hosts": hosts }, "transfer": { "inside": ["127.0.0.1/32"] },
        }),
        limits: Limits::default(),
        legacy: Vec::new(),
    }
}

/// The hosts that an entry's grants lead to.
pub fn kind(entry: &Entry) -> RealLibvirt {
    let part = |name: &str| entry.grants[name].clone();
    let libvirt = serde_json::from_value(part("libvirt")).unwrap();
    let transfer = serde_json::from_value(part("transfer")).unwrap();
    let kind = RealLibvirt::new(entry.name.clone(), libvirt, transfer, None).unwrap();
    kind.run_by(Arc::new(Hands { touched: AtomicBool::new(true) })).that_hides(secrets())
}

/// A line of each host's private key.
fn secrets() -> Vec<String> {
    let line = |site: Site| {
        let key = fs::read_to_string(site.file("id")).unwrap();
        key.lines().nth(1).unwrap().to_owned()
    };
    sites().map(line).to_vec()
}

/// A guest of this workspace, built.
pub fn component(package: &str) -> Module {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("component.wasm");
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    Guest::find(here, Some(package)).unwrap().build(&out).unwrap();
    Module::unpack(&fs::read(out).unwrap(), u64::MAX).unwrap()
}

pub fn runtime() -> Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new(RuntimeConfig::default()).unwrap());
    RUNTIME.clone()
}

/// Whether the long form is asked for.
pub fn is_soak() -> bool {
    env::var("EPO_SOAK").is_ok_and(|value| value == "1")
}

/// What decides every draw: told, or of the hour.
pub fn seed() -> u64 {
    let seed = match env::var("EPO_SEED") {
        Ok(told) => told.parse().expect("EPO_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
    };
    println!("seed {seed}: the same again with EPO_SEED={seed}");
    seed
}
