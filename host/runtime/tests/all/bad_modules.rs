//! Whatever somebody puts where a provider should be: it is refused at its stage, with a reason, and what
//! was active before goes on as if nothing had happened.

use std::{io::Write, sync::Arc};

use egress_contract::{Fault, Provider};
use egress_runtime::{Candidate, Digest, Limits, Module, Refusal, Stage};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    support::{candidate, candidate_at, guest, guest_that, module, slot, spec, target},
};

/// A raw module and a config, and how they must be refused.
struct Bad {
    what: &'static str,
    raw: Vec<u8>,
    config: Value,
    stage: Stage,
    reason: &'static str,
}

impl Bad {
    fn module(what: &'static str, raw: Vec<u8>, stage: Stage, reason: &'static str) -> Self {
        Self { what, raw, config: json!({}), stage, reason }
    }

    fn config(what: &'static str, config: Value, stage: Stage, reason: &'static str) -> Self {
        Self { what, raw: guest(), config, stage, reason }
    }
}

const UNPACKED: u64 = 8 * 1024 * 1024;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn all() -> Vec<Bad> {
    let guest = guest();
    let cut = |bytes: &[u8]| bytes[..bytes.len() * 3 / 4].to_vec();
    let mut damaged = guest.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    vec![
        Bad::module("empty", Vec::new(), Stage::Fetch, "Empty"),
        Bad::module("an empty stream", zstd(b""), Stage::Fetch, "Empty"),
        Bad::module("a broken zstd stream", cut(&zstd(&guest)), Stage::Fetch, "BrokenStream"),
        Bad::module("a broken gzip stream", cut(&gzip(&guest)), Stage::Fetch, "BrokenStream"),
        Bad::module("a zstd bomb", zstd(&vec![0; 9 << 20]), Stage::Fetch, "TooLarge"),
        Bad::module("a gzip bomb", gzip(&vec![0; 9 << 20]), Stage::Fetch, "TooLarge"),
        Bad::module("no Wasm", b"apiVersion: v1\n".to_vec(), Stage::Parse, "NotWasm"),
        Bad::module("a core module", wat::parse_str("(module)").unwrap(), Stage::Parse, "NotAComponent"),
        Bad::module("an encoding to come", b"\0asm\x0e\0\x01\0".to_vec(), Stage::Parse, "UnknownEncoding"),
        Bad::module("a truncated component", cut(&guest), Stage::Parse, "Invalid"),
        Bad::module("a damaged component", damaged, Stage::Parse, "Invalid"),
        Bad::module(
            "asynchronous",
            wat::parse_str("(component (core func (canon task.cancel)))").unwrap(),
            Stage::Parse,
            "Async",
        ),
        Bad::module("no provider", wat::parse_str("(component)").unwrap(), Stage::Parse, "NoProvider"),
        Bad::module("a loop at the start", guest_that("start:loop"), Stage::Configure, "LimitCompute"),
        Bad::module("a trap at the start", guest_that("start:trap"), Stage::Configure, "Trapped"),
        Bad::module("hunger at the start", guest_that("start:eat"), Stage::Configure, "LimitMemory"),
        Bad::module("a loop in describe", guest_that("describe:loop"), Stage::Configure, "LimitCompute"),
        Bad::module(
            "an import in describe",
            guest_that("describe:import"),
            Stage::Configure,
            "ContractViolation",
        ),
        Bad::module(
            "a lie about the contract",
            guest_that("contract=0.2.0"),
            Stage::Configure,
            "ContractViolation",
        ),
        Bad::module("no version", guest_that("version=new"), Stage::Configure, "ContractViolation"),
        Bad::module("no profile", guest_that("profile=none"), Stage::Configure, "ContractViolation"),
        Bad::config("a config it can't read", json!({ "n": "many" }), Stage::Configure, "ConfigRefused"),
        Bad::config("a loop", json!({ "do": "loop", "in": "configure" }), Stage::Configure, "LimitCompute"),
        Bad::config("a trap", json!({ "do": "trap", "in": "configure" }), Stage::Configure, "Trapped"),
        Bad::config("a panic", json!({ "do": "panic", "in": "configure" }), Stage::Configure, "Trapped"),
        Bad::config("hunger", json!({ "do": "eat", "in": "configure" }), Stage::Configure, "LimitMemory"),
        Bad::config("recursion", json!({ "do": "overflow", "in": "configure" }), Stage::Configure, "Trapped"),
        Bad::config(
            "an import",
            json!({ "do": "import", "in": "configure" }),
            Stage::Configure,
            "ContractViolation",
        ),
        Bad::config("a trap in check", json!({ "do": "trap", "in": "check" }), Stage::Check, "Trapped"),
        Bad::config("a loop in check", json!({ "do": "loop", "in": "check" }), Stage::Check, "LimitCompute"),
        Bad::config(
            "a trap at one of its places",
            json!({ "do": "trap@b", "in": "check", "places": ["a", "b", "c"] }),
            Stage::Check,
            "Trapped",
        ),
    ]
}

/// Little time for what uses all of it, and for the others more than they need.
fn limits(reason: &str) -> Limits {
    let compute_ms = if reason == "LimitCompute" { 100 } else { 60_000 };
    Limits { compute_ms, memory_bytes: 16 << 20, ..Limits::default() }
}

async fn load(slot: &egress_runtime::Slot, raw: &[u8], config: Value, limits: Limits) -> Result<(), Refusal> {
    let module = Module::unpack(raw, UNPACKED)?;
    slot.load(Candidate { module, limits, ..candidate(config) }).await.map(|_| ())
}

#[tokio::test]
async fn each_is_refused_at_its_stage_and_the_old_revision_goes_on() {
    let slot = slot();
    let cluster = Arc::new(Cluster::default());
    let good = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    good.create(&target(), &spec(), b"").await.unwrap();
    for bad in all() {
        let refusal = load(&slot, &bad.raw, bad.config, limits(bad.reason)).await.unwrap_err();
        assert_eq!((refusal.stage, refusal.reason), (bad.stage, bad.reason), "{}: {refusal}", bad.what);
        let active = slot.active().unwrap();
        assert_eq!(active.id(), good.id(), "{}", bad.what);
        active.get(&target()).await.unwrap();
    }
    // And what is good is taken up then as ever.
    let next = slot.load(candidate_at(cluster, json!({ "steps": 1 }))).await.unwrap();
    assert_eq!(slot.active().unwrap().id(), next.id());
    assert_ne!(next.id(), good.id());
}

#[tokio::test]
async fn without_an_old_revision_there_is_none_until_a_good_one_comes() {
    let slot = slot();
    load(&slot, b"no wasm", json!({}), Limits::default()).await.unwrap_err();
    assert!(slot.active().is_none());
    load(&slot, &guest(), json!({}), Limits::default()).await.unwrap();
    assert!(slot.active().is_some());
}

#[tokio::test]
async fn every_fault_of_a_config_is_told() {
    let config = json!({ "faults": ["namespaces[1]", "squid.allowedClients[0]"] });
    let refusal = slot().load(candidate(config)).await.unwrap_err();
    assert_eq!((refusal.stage, refusal.reason), (Stage::Configure, "ConfigRefused"));
    let fault = |path: &str| Fault { path: path.to_owned(), message: "is wrong; mend it".to_owned() };
    assert_eq!(refusal.faults, [fault("namespaces[1]"), fault("squid.allowedClients[0]")]);
    assert!(refusal.message.contains("namespaces[1]: is wrong"), "{refusal}");
    assert!(refusal.message.contains("squid.allowedClients[0]: is wrong"), "{refusal}");
}

#[tokio::test]
async fn a_module_that_is_not_the_pinned_one_is_refused_with_both_digests() {
    let pinned = Digest::of(b"another");
    let candidate = Candidate { pinned: Some(pinned), ..candidate(json!({})) };
    let found = candidate.module.digest();
    let refusal = slot().load(candidate).await.unwrap_err();
    assert_eq!((refusal.stage, refusal.reason), (Stage::Digest, "DigestMismatch"));
    assert!(refusal.message.contains(&pinned.to_string()), "{refusal}");
    assert!(refusal.message.contains(&found.to_string()), "{refusal}");
}

#[tokio::test]
async fn a_place_that_is_down_refuses_no_candidate() {
    let cluster = Arc::new(Cluster::default());
    cluster.stall("about");
    let limits = Limits { check_ms: 2_000, ..Limits::default() };
    slot().load(Candidate { limits, ..candidate_at(cluster, json!({})) }).await.unwrap();
}

/// Resident memory of this process, in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Alone in a process, since other tests' memory would be counted too.
#[test]
fn memory_is_back_after_whatever_was_refused() {
    let this = std::env::current_exe().unwrap();
    let mut alone = std::process::Command::new(this);
    alone.args(["--exact", "bad_modules::alone::memory_is_back", "--ignored", "--nocapture"]);
    let output = alone.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

mod alone {
    use super::*;

    #[tokio::test]
    #[ignore = "run by memory_is_back_after_whatever_was_refused, in a process of its own"]
    async fn memory_is_back() {
        let slot = slot();
        slot.load(candidate(json!({}))).await.unwrap();
        let bad = all();
        let round = async |slot: &egress_runtime::Slot| {
            for bad in &bad {
                load(slot, &bad.raw, bad.config.clone(), limits(bad.reason)).await.unwrap_err();
            }
        };
        // What is kept is filled first: threads, their stacks, the allocator's arenas.
        for _ in 0..2 {
            round(&slot).await;
        }
        let before = resident();
        for _ in 0..3 {
            round(&slot).await;
        }
        let after = resident();
        println!("{before} kB before, {after} kB after");
        assert!(after <= before + before / 10, "{before} kB before, {after} kB after");
    }
}

#[test]
fn packing_changes_no_digest() {
    let plain = module(&guest()).digest();
    assert_eq!(module(&zstd(&guest())).digest(), plain);
    assert_eq!(module(&gzip(&guest())).digest(), plain);
}
