//! A suite that finds nothing proves nothing: each promise is broken here on purpose, and found.

use std::{
    collections::BTreeSet,
    sync::{LazyLock, Mutex},
    thread,
};

use egress_conformance::{Settings, Suite, Verdict, promise};
use egress_runtime::Module;
use fixture_mutants::MUTANTS;
use serde_json::{Value, json};

use crate::support::{component, entry, suite};

const EARLY: &[u8] = b"mutants-early:";
const EARLY_BYTES: usize = 40;

static COMPONENT: LazyLock<Module> = LazyLock::new(|| component("fixture-mutants"));

/// The component, told what to say of itself.
fn that_says(early: &str) -> Module {
    let mut bytes = COMPONENT.bytes().to_vec();
    let at = bytes.windows(EARLY.len()).position(|window| window == EARLY).unwrap();
    let text = format!("{}{early}", std::str::from_utf8(EARLY).unwrap());
    bytes[at..at + EARLY_BYTES].copy_from_slice(format!("{text:EARLY_BYTES$}").as_bytes());
    Module::unpack(&bytes, u64::MAX).unwrap()
}

fn config(mutant: &str, promise: &str) -> Value {
    let mut config = json!({ "cluster": "home", "image": "example.com/squid:6", "mutant": mutant });
    if promise.contains("place") {
        config["clusters"] = json!(["home", "far"]);
    }
    if promise.contains("user-data") {
        config["userData"] = true.into();
    }
    config
}

fn opened(mutant: &str, promise: &str) -> Suite {
    let settings = match mutant.starts_with("profile-") {
        true => Settings { entry: Some(entry(config("", promise))), ..Settings::new(that_says(mutant)) },
        false => Settings { entry: Some(entry(config(mutant, promise))), ..Settings::new(COMPONENT.clone()) },
    };
    suite(Settings { only: vec![promise.to_owned()], ..settings })
}

/// What is wrong with the suite, as this mutant shows.
fn undetected(mutant: &str, promise: &str) -> Option<String> {
    let report = opened(mutant, promise).run(&()).unwrap();
    let outcome = report.outcomes.first().unwrap();
    match &outcome.verdict {
        Verdict::Broken(breach) => {
            println!("{mutant} breaks {promise}: {}", breach.why.lines().next().unwrap_or_default());
            None
        }
        other => Some(format!("{mutant} is not found by {promise}: {other:?}")),
    }
}

#[test]
fn every_mutant_is_found_by_the_promise_that_it_breaks() {
    // What is compiled stays as long as somebody keeps it.
    let _kept = opened("", "profile-is-known");
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

#[test]
fn no_promise_is_without_a_mutant() {
    let broken: BTreeSet<&str> = MUTANTS.iter().flat_map(|(_, promises)| promises.iter().copied()).collect();
    let promised: BTreeSet<&str> = promise::all().iter().map(|promise| promise.id).collect();
    assert_eq!(broken, promised);
}

/// With two places and with user-data taken: what our own provider has not.
#[test]
fn without_a_mutant_its_provider_keeps_what_only_it_can_be_tried_at() {
    for promise in [
        "dead-place-costs-itself",
        "unread-place-is-not-empty",
        "dead-place-is-not-asked-again",
        "user-data-stays-inside",
        "create-honours-user-data",
    ] {
        let report = opened("", promise).run(&crate::support::Printed).unwrap();
        assert_eq!(report.kept(), 1, "{promise}");
    }
}
