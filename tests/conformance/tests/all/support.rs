//! What the tests share.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use egress_conformance::{
    Entry, Outcome, Progress, Report, Settings, Suite, Verdict,
    kind::{
        gcp::SimulatedCompute, kubernetes::SimulatedKubernetes, libvirt::SimulatedLibvirt,
        proxmox::SimulatedProxmox,
    },
};
use egress_runtime::{Limits, Module, Runtime, RuntimeConfig};
use serde_json::{Value, json};

/// A guest of this workspace, built.
pub fn component(package: &str) -> Module {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("component.wasm");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    provider_encode::Guest::find(here, Some(package)).unwrap().build(&out).unwrap();
    Module::unpack(&std::fs::read(out).unwrap(), u64::MAX).unwrap()
}

/// The simulated Kubernetes for components without an entry.
pub fn kubernetes() -> Arc<SimulatedKubernetes> {
    Arc::new(SimulatedKubernetes::new(&json!(["home", "far"]), &Value::Null))
}

/// Prints what it finds, as it finds it.
pub struct Printed;

impl Progress for Printed {
    fn ended(&self, outcome: &Outcome) {
        let id = outcome.promise.id;
        let ms = outcome.took.as_millis();
        match &outcome.verdict {
            Verdict::Kept => println!("kept {id} {ms} ms {:?}", outcome.counts),
            Verdict::Skipped(why) => println!("not applicable {id}: {why}"),
            Verdict::Failed(why) => println!("not tried {id}: {why}"),
            Verdict::Broken(_) => println!("BROKEN {}", outcome.told()),
        }
    }
}

/// What all tests load their components in.
pub fn runtime() -> Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new(RuntimeConfig::default()).unwrap());
    RUNTIME.clone()
}

/// A suite that does not compile anew what another one has.
pub fn suite(settings: Settings) -> Suite {
    Suite::open_in(runtime(), kubernetes(), settings).unwrap()
}

/// What comes of a component on the simulated libvirt.
pub fn on_libvirt(settings: Settings) -> Report {
    let kind = SimulatedLibvirt::new(&json!({ "hosts": ["hv1", "hv2"] }), &Value::Null);
    let report = Suite::open_in(runtime(), Arc::new(kind), settings).unwrap().run(&Printed).unwrap();
    println!("{}", report.summary());
    report
}

/// What comes of a component on the simulated Compute Engine.
pub fn on_compute(settings: Settings) -> Report {
    let config = settings.entry.as_ref().map(|entry| entry.config.clone()).unwrap();
    let kind = SimulatedCompute::of(&config).unwrap();
    let report = Suite::open_in(runtime(), Arc::new(kind), settings).unwrap().run(&Printed).unwrap();
    println!("{}", report.summary());
    report
}

/// What comes of a component on the simulated Proxmox VE.
pub fn on_proxmox(settings: Settings) -> Report {
    let images = json!({ "debian-13": { "templates": { "pve1": 9000, "pve2": 9001 } } });
    let nodes = json!([{ "name": "pve1" }, { "name": "pve2" }]);
    let kind = SimulatedProxmox::for_config(&json!({ "nodes": nodes, "images": images })).unwrap();
    let report = Suite::open_in(runtime(), Arc::new(kind), settings).unwrap().run(&Printed).unwrap();
    println!("{}", report.summary());
    report
}

/// An entry with this config, and everything granted.
pub fn entry(config: Value) -> Entry {
    Entry {
        name: "conformance".parse().unwrap(),
        config,
        grants: Value::Null,
        limits: Limits::default(),
        legacy: Vec::new(),
    }
}
