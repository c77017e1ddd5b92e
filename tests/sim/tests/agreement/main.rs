//! The simulated Kubernetes API and a real one are asked the same, and have to answer the same.
//!
//! What the real one answered is kept beside this file, so that the simulator can be compared without one. With
//! a real one (`make e2e`) the recording itself is compared: `EPO_RECORD=1` makes it anew. Each difference that
//! remains is named in `differences.rs`; one that is gone must go from there, too.

#[cfg(test)]
mod check;
#[cfg(test)]
mod compare;
#[cfg(test)]
mod differences;
#[cfg(test)]
mod normal;
#[cfg(test)]
mod run;
#[cfg(test)]
mod script;
#[cfg(test)]
mod sites;
#[cfg(test)]
mod step;

use crate::check::{compare_real, compare_simulated};

#[tokio::test]
async fn the_simulated_api_server_answers_as_the_real_one() {
    compare_simulated("requests", script::steps()).await;
}

#[tokio::test]
async fn simulated_pods_live_and_die_as_real_ones() {
    compare_simulated("lives", script::lives()).await;
}

#[tokio::test]
#[ignore = "needs a real API server: make e2e"]
async fn the_real_api_server_answers_as_it_was_recorded() {
    compare_real("requests", script::steps()).await;
}

#[tokio::test]
#[ignore = "needs a real node: make e2e"]
async fn real_pods_live_and_die_as_it_was_recorded() {
    compare_real("lives", script::lives()).await;
}

#[test]
fn the_script_is_long_enough_to_mean_something() {
    let steps: Vec<_> = script::steps().into_iter().chain(script::lives()).collect();
    assert!(steps.len() >= 60, "{}", steps.len());
    let mut names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "each step has a name of its own");
}

#[test]
fn every_difference_stands_in_the_modules_documentation() {
    let page = include_str!("../../src/kubernetes/mod.rs");
    let page: Vec<&str> = page.lines().map(|line| line.trim_start_matches("//!").trim()).collect();
    let page = page.join(" ");
    let named = differences::EXPECTED.iter().map(|expected| expected.why);
    for why in named.chain(normal::SET_ASIDE.iter().copied()) {
        assert!(page.contains(why), "src/kubernetes/mod.rs does not say: {why}");
    }
}
