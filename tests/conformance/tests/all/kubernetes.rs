//! The kubernetes provider under the suite.

use egress_conformance::Settings;

use crate::support::{component, run};

#[test]
fn the_kubernetes_provider_keeps_every_promise() {
    let report = run(Settings::new(component("kubernetes-provider")));
    println!("{}", report.summary());
    assert_eq!((report.broken(), report.failed()), (0, 0));
}
