//! `epo provider test` at a real backend, `call`, `replay`, `bench` and `diff`.

mod bench;
mod call;
mod diff;
mod guests;
mod real;
mod replay;
mod unable;

use serde_json::Value;

use super::command::{Ran, file, run};

/// User-data of which no line may come out.
const USER_DATA: &str =
    "#cloud-config\npassword: sentinel-one\nruncmd: [\"echo \\\"sentinel-two\\\"\"]\npw: s3\n";
/// What gives it away, in base64 too.
const SENTINELS: [&str; 4] = ["sentinel-one", "sentinel-two", "c2VudGluZW", "115,101,110,116"];

/// Runs a command about a component.
fn provider(command: &str, component: &std::path::Path, more: &[&str]) -> Ran {
    run(&[&["provider", command, component.to_str().unwrap()], more].concat())
}

/// An entry of the component that misbehaves.
fn misbehaving_entry(config: &Value) -> (tempfile::TempDir, String) {
    let entry = format!(
        "module: {{ file: x }}\nconfig: {config}\ngrants: {{ kubernetes: {{ clusters: {{ home: {{ operator: true, rules: [\
         {{ resources: [pods, secrets], verbs: [\"*\"], namespaces: [proxies] }}] }} }} }} }}\n"
    );
    file("misbehave.yaml", entry.as_bytes())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for sentinel in SENTINELS {
        assert!(!text.contains(sentinel), "{what} says {sentinel}: {text}");
    }
}
