//! gcp under the suite, on the simulated Compute Engine.

mod calls;
mod lab;
mod situations;

use egress_conformance::Settings;
use serde_json::{Value, json};

use crate::support::{component, entry, on_compute};

/// Two regions, so that zones and regions are a choice; a firewall rule of its own.
pub fn config() -> Value {
    json!({
        "project": "lab-project",
        "zones": ["us-central1-a", "us-central1-b", "europe-west1-b"],
        "resourceManager": "resource-manager",
        "images": { "ubuntu": { "source": "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64" } },
        "defaults": { "region": "us-central1", "machineType": "e2-small" },
        "firewall": { "sourceRanges": ["192.0.2.0/24"] },
    })
}

#[test]
fn the_provider_gcp_keeps_every_promise() {
    let settings = Settings::new(component("gcp-provider"));
    let report = on_compute(Settings { entry: Some(entry(config())), ..settings });
    assert_eq!((report.broken(), report.failed()), (0, 0));
    let counts = report.counts;
    for (what, at_least) in [
        (counts.interruptions, 100),
        (counts.hand_overs, 100),
        (counts.interleavings, 100),
        (counts.faults, 500),
    ] {
        assert!(what >= at_least, "{counts:?}");
    }
}
