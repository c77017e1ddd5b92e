//! What the real one answered.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Where it is kept.
pub fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agreement/recorded.json")
}

/// By the steps' names.
pub fn recorded() -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(recording()).expect("the recording");
    let steps: Vec<Value> = serde_json::from_str(&text).expect("the recording is JSON");
    steps
        .into_iter()
        .map(|step| (step["step"].as_str().unwrap().to_owned(), step["answer"].clone()))
        .collect()
}
