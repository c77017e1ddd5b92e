//! kvm and kvm2 under the suite.

use std::sync::Arc;

use egress_conformance::{Report, Settings, Suite, kind::libvirt::SimulatedLibvirt};
use serde_json::{Value, json};

use crate::support::{Printed, component, runtime};

fn tried(settings: Settings) -> Report {
    let kind = SimulatedLibvirt::new(&json!({ "hosts": ["hv1", "hv2"] }), &Value::Null);
    Suite::open_in(runtime(), Arc::new(kind), settings).unwrap().run(&Printed).unwrap()
}

fn keeps_every_promise(package: &str) {
    let report = tried(Settings::new(component(package)));
    println!("{}", report.summary());
    assert_eq!((report.broken(), report.failed()), (0, 0));
    let counts = report.counts;
    for (what, at_least) in [
        (counts.interruptions, 200),
        (counts.hand_overs, 160),
        (counts.interleavings, 160),
        (counts.faults, 1_000),
    ] {
        assert!(what >= at_least, "{counts:?}");
    }
}

#[test]
fn the_provider_kvm2_keeps_every_promise() {
    keeps_every_promise("kvm2-provider");
}

#[test]
fn the_provider_kvm_keeps_every_promise() {
    keeps_every_promise("kvm-provider");
}
