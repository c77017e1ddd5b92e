//! What only a hypervisor shows, broken on purpose: the suite finds it there, too.

use std::{
    sync::{LazyLock, Mutex},
    thread,
};

use egress_conformance::{Settings, Verdict};
use egress_runtime::Module;
use fixture_libvirt_mutants::MUTANTS;
use serde_json::json;

use crate::support::{component, entry, on_libvirt};

static COMPONENT: LazyLock<Module> = LazyLock::new(|| component("fixture-libvirt-mutants"));

fn settings(mutant: &str, promise: &str) -> Settings {
    let mut config = json!({
        "hosts": [{ "name": "hv1" }, { "name": "hv2" }],
        "images": { "debian-13": { "url": "https://images.example.org/debian-13.qcow2" } },
        "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 512 } },
        "defaults": { "zone": "hv1" },
    });
    if !mutant.is_empty() {
        config["mutant"] = json!(mutant);
    }
    Settings {
        entry: Some(entry(config)),
        only: vec![promise.to_owned()],
        ..Settings::new(COMPONENT.clone())
    }
}

/// What is wrong with the suite, as this mutant shows.
fn undetected(mutant: &str, promise: &str) -> Option<String> {
    let report = on_libvirt(settings(mutant, promise));
    match &report.outcomes.first().unwrap().verdict {
        Verdict::Broken(breach) => {
            println!("{mutant} breaks {promise}: {}", breach.why.lines().next().unwrap_or_default());
            None
        }
        other => Some(format!("{mutant} is not found by {promise}: {other:?}")),
    }
}

#[test]
fn every_mutant_is_found_by_the_promise_that_it_breaks() {
    let pairs =
        MUTANTS.iter().flat_map(|(mutant, promises)| promises.iter().map(move |promise| (*mutant, *promise)));
    let waiting = Mutex::new(pairs.collect::<Vec<_>>());
    let work = || {
        let mut faults = Vec::new();
        loop {
            let Some((mutant, promise)) = waiting.lock().unwrap().pop() else { return faults };
            faults.extend(undetected(mutant, promise));
        }
    };
    let faults: Vec<String> = thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// So that it is the mutation that is found.
#[test]
fn without_a_mutant_each_of_these_promises_is_kept() {
    let mut promises: Vec<&str> = MUTANTS.iter().flat_map(|(_, promises)| promises.iter().copied()).collect();
    promises.sort_unstable();
    promises.dedup();
    let settings = settings("", "");
    let only = promises.iter().map(|promise| (*promise).to_owned()).collect();
    let report = on_libvirt(Settings { only, points: Some(6), ..settings });
    // The end of a held removal, which libvirt has not.
    assert_eq!((report.skipped(), report.broken(), report.failed()), (1, 0, 0));
    assert_eq!(report.kept() + 1, promises.len());
}
