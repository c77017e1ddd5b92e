//! What the tests share: one engine, one built guest, and short ways to say what a test is about.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use egress_contract::{Error, Installation, Provider, Spec, Target};
use egress_runtime::{
    Candidate, Lent, Limits, Module, Refusal, Revision, Runtime, RuntimeConfig, Slot, capability::Kubernetes,
};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// What names the installation and the Proxy of every test.
pub const INSTALLATION: &str = "installation";
pub const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33";

const EARLY: &[u8] = b"misbehave-early:";
const EARLY_BYTES: usize = 48;

/// A folder that goes with the test run.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let cache_dir = Some(FOLDER.path().join("cache"));
    Runtime::new(RuntimeConfig { cache_dir, ..RuntimeConfig::default() }).unwrap()
});

static GUEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let guest =
        provider_encode::Guest::find(Path::new(env!("CARGO_MANIFEST_DIR")), Some("fixture-misbehave"))
            .unwrap();
    let out = FOLDER.path().join("misbehave.wasm");
    guest.build(&out).unwrap();
    std::fs::read(out).unwrap()
});

pub fn runtime() -> Runtime {
    RUNTIME.clone()
}

/// A folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = FOLDER.path().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The guest's bytes.
pub fn guest() -> Vec<u8> {
    GUEST.clone()
}

/// The guest, told what to do before it has a config.
pub fn guest_that(early: &str) -> Vec<u8> {
    let mut bytes = guest();
    let at = bytes.windows(EARLY.len()).position(|window| window == EARLY).unwrap();
    let text = format!("{}{early}", std::str::from_utf8(EARLY).unwrap());
    assert!(text.len() <= EARLY_BYTES, "{text}");
    bytes[at..at + EARLY_BYTES].copy_from_slice(format!("{text:EARLY_BYTES$}").as_bytes());
    bytes
}

pub fn module(bytes: &[u8]) -> Module {
    Module::unpack(bytes, u64::MAX).unwrap()
}

pub fn slot() -> Slot {
    slot_on(runtime())
}

pub fn slot_on(runtime: Runtime) -> Slot {
    Slot::new(runtime, "test".parse().unwrap(), Installation::new(INSTALLATION))
}

/// The guest with a config, at a cluster of its own.
pub fn candidate(config: Value) -> Candidate {
    candidate_at(Arc::new(Cluster::default()), config)
}

pub fn candidate_at(cluster: Arc<dyn Kubernetes>, config: Value) -> Candidate {
    Candidate {
        module: module(&guest()),
        pinned: None,
        config,
        lent: Lent { kubernetes: Some(cluster), ..Lent::default() },
        grants: Value::Null,
        limits: Limits::default(),
        legacy: Vec::new(),
    }
}

/// A revision of the guest that does `fault` in `export`, `n` of it.
pub async fn guest_with(fault: &str, export: &str, n: u64, limits: Limits) -> Arc<Revision> {
    let config = json!({ "do": fault, "in": export, "n": n });
    slot().load(Candidate { limits, ..candidate(config) }).await.unwrap()
}

pub async fn refused(candidate: Candidate) -> Refusal {
    slot().load(candidate).await.unwrap_err()
}

pub fn target() -> Target {
    target_of("web")
}

pub fn target_of(proxy: &str) -> Target {
    let uid = format!("{UID}-{proxy}");
    Target {
        name: Installation::new(INSTALLATION).instance_name(proxy, &uid, 1),
        uid,
        incarnation: 1,
        namespace: "team-a".to_owned(),
        proxy: proxy.to_owned(),
        id: None,
        progress: None,
    }
}

pub fn spec() -> Spec {
    Spec { port: 3128, ..Spec::default() }
}

/// What a create ends with when it fails.
pub async fn create_error(revision: &Revision) -> Error {
    revision.create(&target(), &spec(), b"").await.unwrap_err()
}

/// Waits for what must come; the test hangs, and is ended from outside, if it does not.
pub async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
