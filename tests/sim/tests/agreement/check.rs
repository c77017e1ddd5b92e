//! A script against what was recorded of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{compare::differences, differences, run::run, sites::Site, step::Step};

fn recording(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/agreement/{script}.json"))
}

/// What the real one answered, by the steps' names.
fn recorded(script: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(recording(script)).expect("the recording");
    let steps: Vec<Value> = serde_json::from_str(&text).expect("the recording is JSON");
    steps
        .into_iter()
        .map(|step| (step["step"].as_str().unwrap().to_owned(), step["answer"].clone()))
        .collect()
}

pub async fn compare_simulated(script: &str, steps: Vec<Step>) {
    let answers = run(&Site::simulated(), steps).await;
    let recorded = recorded(script);
    let mut found = Vec::new();
    for (step, answer) in &answers {
        let expected = recorded.get(step).unwrap_or_else(|| panic!("{step} is not recorded: see main.rs"));
        found.extend(differences(step, expected, answer));
    }
    assert_eq!(recorded.len(), answers.len(), "the recording has steps that the script has no more");
    let unexpected: Vec<String> =
        found.iter().filter(|found| !differences::is_expected(found)).map(ToString::to_string).collect();
    assert!(unexpected.is_empty(), "{} differences:\n{}", unexpected.len(), unexpected.join("\n"));
    let of_this = |expected: &&differences::Expected| answers.iter().any(|(step, _)| step == expected.step);
    let stale: Vec<_> = differences::EXPECTED
        .iter()
        .filter(of_this)
        .filter(|expected| !found.iter().any(|found| expected.covers(found)))
        .collect();
    assert!(stale.is_empty(), "these differences are gone, so they must go from differences.rs: {stale:#?}");
    println!("{} requests answered alike, {} named differences", answers.len(), found.len());
}

pub async fn compare_real(script: &str, steps: Vec<Step>) {
    let answers = run(&Site::real(), steps).await;
    if std::env::var_os("EPO_RECORD").is_some() {
        let steps: Vec<String> = answers
            .iter()
            .map(|(step, answer)| json!({ "step": step, "answer": answer }).to_string())
            .collect();
        std::fs::write(recording(script), format!("[\n{}\n]\n", steps.join(",\n"))).unwrap();
        println!("{} answers recorded", answers.len());
        return;
    }
    let recorded = recorded(script);
    let found: Vec<String> = answers
        .iter()
        .flat_map(|(step, answer)| differences(step, recorded.get(step).unwrap_or(&Value::Null), answer))
        .map(|found| found.to_string())
        .collect();
    assert!(found.is_empty(), "{} differences from the recording:\n{}", found.len(), found.join("\n"));
    println!("{} requests answered as recorded", answers.len());
}
