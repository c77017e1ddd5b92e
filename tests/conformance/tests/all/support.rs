//! What the tests share.

use std::{path::Path, sync::Arc};

use egress_conformance::{
    Outcome, Progress, Report, Settings, Suite, Verdict, kind::kubernetes::SimulatedKubernetes,
};
use egress_runtime::Module;
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

/// The suite's report on a component.
pub fn run(settings: Settings) -> Report {
    Suite::open(kubernetes(), settings).unwrap().run(&Printed).unwrap()
}
