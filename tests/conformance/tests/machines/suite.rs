//! The contract's suite on real hosts: what the simulation says is tried on the real thing.
//!
//! Both providers are tried at once, each at a host of its own. A run takes seconds here, so of the points of each
//! promise, and of the promises, the seed draws some; the long form tries every point of create and delete.

use std::{sync::Arc, thread};

use egress_conformance::{Outcome, Progress, Report, Settings, Suite, Verdict, promise};
use egress_sim::random::Random;

use crate::{
    images::Images,
    lab::{self, Site, component, is_soak, runtime, seed, sites},
};

/// The host dies at any point of these.
const CUT: [&str; 2] = ["cut-create-is-taken-up", "cut-delete-is-taken-up"];
const CUT_TOO: [&str; 2] = ["cut-create-can-be-deleted", "cut-create-can-be-collected"];
/// For each of the two: ten in all.
const CUTS: usize = 5;
/// Of the other promises.
const PROMISES: usize = 8;
/// What libvirt has not, what nobody can do to a real host, and what would take minutes of waiting; what the few points
/// that are drawn may all come too early for.
const NOT_HERE: [&str; 14] = [
    "create-waits-for-removal",
    "create-tells-the-finished",
    "create-makes-the-vanished-again",
    "get-running-has-address",
    "get-unknown-is-stopped",
    "get-ended-is-stopped",
    "get-removal-is-deleting",
    "list-knows-its-cursors",
    "check-missing-rights",
    "delete-done-means-nothing-left",
    "hints-are-passed-on",
    "missing-right-is-permanent",
    "slowness-is-got-on-with",
    "waiting-is-patient",
];

struct Told(&'static str);

impl Progress for Told {
    fn ended(&self, outcome: &Outcome) {
        let (provider, id, took) = (self.0, outcome.promise.id, outcome.took.as_secs());
        let runs = outcome.counts.runs;
        match &outcome.verdict {
            Verdict::Kept => println!("{provider}: kept {id}: {runs} runs, {took} s"),
            Verdict::Skipped(why) => println!("{provider}: not applicable {id}: {why}"),
            Verdict::Failed(why) => println!("{provider}: not tried {id}: {why}"),
            Verdict::Broken(_) => println!("{provider}: BROKEN {}", outcome.told()),
        }
    }
}

/// Tries these promises.
fn tried(provider: &'static str, at: &[Site], only: Vec<&str>, points: Option<usize>, seed: u64) -> Report {
    let images = Images::serve();
    let entry = lab::entry(&images, at);
    let kind = Arc::new(lab::kind(&entry));
    let settings = Settings {
        entry: Some(entry),
        seed,
        points,
        only: only.into_iter().map(str::to_owned).collect(),
        ..Settings::new(component(&format!("{provider}-provider")))
    };
    let report = Suite::open_in(runtime(), kind, settings).unwrap().run(&Told(provider)).unwrap();
    println!("{provider}: {}", report.summary());
    report
}

fn is_kept(report: &Report) {
    assert_eq!((report.broken(), report.failed()), (0, 0));
    if !is_soak() {
        // What of a promise can be tried here may hang on what is drawn.
        return;
    }
    let skipped = report.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Skipped(_)));
    let skipped: Vec<&str> = skipped.map(|outcome| outcome.promise.id).collect();
    let surprising: Vec<&str> = skipped.into_iter().filter(|id| !NOT_HERE.contains(id)).collect();
    assert_eq!(surprising, Vec::<&str>::new());
}

/// kvm2 at one host and kvm at the other.
fn by_both(only: impl Fn(&'static str) -> Vec<&'static str> + Sync, points: Option<usize>, seed: u64) {
    let [one, two] = sites();
    let each = |provider, site: Site| {
        let only = only(provider);
        move || tried(provider, &[site], only, points, seed)
    };
    let (kvm2, kvm) = (each("kvm2", one), each("kvm", two));
    let reports = thread::scope(|scope| {
        let beside = scope.spawn(kvm);
        [kvm2(), beside.join().unwrap()]
    });
    reports.iter().for_each(is_kept);
    if points.is_none() {
        reports.iter().for_each(|report| assert_eq!(report.counts.left_out, 0));
    }
}

#[test]
#[ignore = "needs real libvirt hosts: make libvirt"]
fn a_create_and_a_delete_that_are_cut_anywhere_lose_nothing_and_double_nothing() {
    let seed = seed();
    match is_soak() {
        true => by_both(|_| CUT.into_iter().chain(CUT_TOO).collect(), None, seed),
        false => by_both(|_| CUT.to_vec(), Some(CUTS), seed),
    }
}

#[test]
#[ignore = "needs real libvirt hosts: make libvirt"]
fn both_providers_keep_the_contract_at_a_real_host() {
    let seed = seed();
    let rest = |id: &&str| !CUT.contains(id) && !id.contains("place-");
    let all: Vec<&str> = promise::all().iter().map(|promise| promise.id).filter(rest).collect();
    let drawn = |provider: &str| match is_soak() {
        true => all.clone(),
        false => Random::seeded(seed ^ provider.len() as u64).sample(all.clone(), PROMISES),
    };
    by_both(drawn, Some(1), seed);
}

#[test]
#[ignore = "needs real libvirt hosts: make libvirt"]
fn a_host_that_is_out_of_order_costs_the_other_nothing() {
    let only = vec!["dead-place-costs-itself", "unread-place-is-not-empty", "unknown-place-is-refused"];
    is_kept(&tried("kvm2", &sites(), only, Some(1), seed()));
}
