//! kvm and kvm2 under the suite, and each with what the other made.

use egress_conformance::Settings;

use crate::support::{component, on_libvirt};

/// Of kvm, whose logic is kvm2's, so many points of each promise are tried.
const FEW: usize = 6;

#[test]
fn the_provider_kvm2_keeps_every_promise() {
    let report = on_libvirt(Settings::new(component("kvm2-provider")));
    assert_eq!((report.broken(), report.failed()), (0, 0));
    // What libvirt has not: held removals, what can't start again, rights by verb, hints.
    assert_eq!(report.skipped(), 8);
    let counts = report.counts;
    for (what, at_least) in [
        (counts.interruptions, 300),
        (counts.hand_overs, 300),
        (counts.interleavings, 200),
        (counts.faults, 3_000),
    ] {
        assert!(what >= at_least, "{counts:?}");
    }
}

#[test]
fn the_provider_kvm_keeps_every_promise() {
    let report = on_libvirt(Settings { points: Some(FEW), ..Settings::new(component("kvm-provider")) });
    assert_eq!((report.broken(), report.failed()), (0, 0));
}

/// At any point of a create or a delete the other component takes the machine over, and gives it back.
#[test]
fn each_takes_over_what_the_other_made() {
    let only = [
        "handed-over-create-is-taken-up",
        "handed-over-create-can-be-deleted",
        "handed-over-delete-is-taken-up",
    ];
    let report = on_libvirt(Settings {
        only: only.map(str::to_owned).to_vec(),
        other: Some(component("kvm-provider")),
        ..Settings::new(component("kvm2-provider"))
    });
    assert_eq!((report.kept(), report.broken(), report.failed()), (3, 0, 0));
}
