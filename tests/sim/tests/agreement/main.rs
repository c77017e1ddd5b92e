//! The simulated Kubernetes API and a real one are asked the same, and have to answer the same.
//!
//! What the real one answered is kept beside this file, so that the simulator can be compared without one. With
//! a real one (`make e2e`) the recording itself is compared: `EPO_RECORD=1` makes it anew. Each difference that
//! remains is named in `differences.rs`; one that is gone must go from there, too.

#[cfg(test)]
mod compare;
#[cfg(test)]
mod differences;
#[cfg(test)]
mod normal;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod run;
#[cfg(test)]
mod script;
#[cfg(test)]
mod sites;
#[cfg(test)]
mod step;

use serde_json::{Value, json};

use crate::{
    compare::differences,
    recording::{recorded, recording},
    run::run,
    sites::Site,
};

#[tokio::test]
async fn the_simulated_api_server_answers_as_the_real_one() {
    let answers = run(&Site::simulated()).await;
    let recorded = recorded();
    let mut found = Vec::new();
    for (step, answer) in &answers {
        let expected = recorded.get(step).unwrap_or_else(|| panic!("{step} is not recorded: see main.rs"));
        found.extend(differences(step, expected, answer));
    }
    assert_eq!(recorded.len(), answers.len(), "the recording has steps that the script has no more");
    let unexpected: Vec<String> =
        found.iter().filter(|found| !differences::is_expected(found)).map(ToString::to_string).collect();
    assert!(unexpected.is_empty(), "{} differences:\n{}", unexpected.len(), unexpected.join("\n"));
    let stale: Vec<_> =
        differences::EXPECTED.iter().filter(|expected| !found.iter().any(|f| expected.covers(f))).collect();
    assert!(stale.is_empty(), "these differences are gone, so they must go from differences.rs: {stale:#?}");
    println!("{} requests answered alike, {} named differences", answers.len(), found.len());
}

#[tokio::test]
#[ignore = "needs a real API server: make e2e"]
async fn the_real_api_server_answers_as_it_was_recorded() {
    let answers = run(&Site::real()).await;
    if std::env::var_os("EPO_RECORD").is_some() {
        let steps: Vec<String> = answers
            .iter()
            .map(|(step, answer)| json!({ "step": step, "answer": answer }).to_string())
            .collect();
        std::fs::write(recording(), format!("[\n{}\n]\n", steps.join(",\n"))).unwrap();
        println!("{} answers recorded", answers.len());
        return;
    }
    let recorded = recorded();
    let found: Vec<String> = answers
        .iter()
        .flat_map(|(step, answer)| differences(step, recorded.get(step).unwrap_or(&Value::Null), answer))
        .map(|found| found.to_string())
        .collect();
    assert!(found.is_empty(), "{} differences from the recording:\n{}", found.len(), found.join("\n"));
    println!("{} requests answered as recorded", answers.len());
}

#[test]
fn the_script_is_long_enough_to_mean_something() {
    let steps = script::steps();
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
