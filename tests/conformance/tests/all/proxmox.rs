//! The provider for Proxmox VE under the suite, and what it does that no other provider does.

mod bench;
mod calls;
mod lives;
mod reasons;

use egress_conformance::Settings;

use crate::support::{component, on_proxmox};

#[test]
fn the_provider_proxmox_keeps_every_promise() {
    let report = on_proxmox(Settings::new(component("proxmox-provider")));
    assert_eq!((report.broken(), report.failed()), (0, 0));
    // What Proxmox VE has not: what can't start again, hints.
    assert_eq!(report.skipped(), 3);
    let counts = report.counts;
    for (what, at_least) in [
        (counts.interruptions, 250),
        (counts.hand_overs, 200),
        (counts.interleavings, 180),
        (counts.faults, 2_500),
    ] {
        assert!(what >= at_least, "{counts:?}");
    }
}
