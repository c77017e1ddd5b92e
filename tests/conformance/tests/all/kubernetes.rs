//! The kubernetes provider under the suite.

use egress_conformance::{Settings, promise, promise::Group};

use crate::support::{Printed, component, suite};

/// Of what is tried once, every so many promises are tried again.
const AGAIN: usize = 4;

#[test]
fn the_kubernetes_provider_keeps_every_promise_and_asks_the_same_each_time() {
    let module = component("kubernetes-provider");
    let settings = || Settings { keep_journals: true, ..Settings::new(module.clone()) };
    let whole = suite(settings());
    let report = whole.run(&Printed).unwrap();
    println!("{}", report.summary());
    assert_eq!((report.broken(), report.failed()), (0, 0));
    // It has one place.
    assert_eq!(report.skipped(), 1);
    // Each of these was tried at every point of its runs.
    let counts = report.counts;
    for (what, at_least) in [
        (counts.interruptions, 200),
        (counts.hand_overs, 160),
        (counts.interleavings, 160),
        (counts.faults, 1_000),
    ] {
        assert!(what >= at_least, "{counts:?}");
    }

    let draws = |promise: &&promise::Promise| promise.group == Group::Together;
    let some = promise::all().iter().step_by(AGAIN).filter(|promise| promise.group != Group::Secrets);
    let only = some.chain(promise::all().iter().filter(draws)).map(|promise| promise.id.to_owned()).collect();
    let again = suite(Settings { only, ..settings() }).run(&()).unwrap();
    for outcome in &again.outcomes {
        let first = report.outcomes.iter().find(|first| first.promise.id == outcome.promise.id).unwrap();
        assert!(first.journals == outcome.journals, "{} asks otherwise the second time", outcome.promise.id);
    }
}

#[test]
fn another_seed_draws_other_points() {
    let module = component("kubernetes-provider");
    let journal = |seed| {
        let only = vec!["two-creates-make-one".to_owned()];
        let settings = Settings { keep_journals: true, only, seed, ..Settings::new(module.clone()) };
        suite(settings).run(&()).unwrap().journal()
    };
    assert_ne!(journal(1), journal(2));
}

#[test]
fn a_point_can_be_tried_alone() {
    let module = component("kubernetes-provider");
    let only = |cut: &str| {
        let only = vec!["cut-create-is-taken-up".to_owned()];
        let settings = Settings { only, cut: Some(cut.parse().unwrap()), ..Settings::new(module.clone()) };
        suite(settings).run(&()).unwrap()
    };
    let report = only("6:after");
    assert_eq!((report.kept(), report.counts.interruptions), (1, 1));
    let report = only("4711:before");
    assert_eq!((report.kept(), report.failed()), (0, 1), "there is no such point");
}
