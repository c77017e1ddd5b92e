//! `epo provider diff`.

use super::{
    super::command::{Ran, component, file, run},
    guests, json,
};

fn diff(old: &str, new: &str, more: &[&str]) -> Ran {
    run(&[&["provider", "diff", old, new], more].concat())
}

fn with_component(new: &str, more: &[&str]) -> Ran {
    diff(component().to_str().unwrap(), new, more)
}

#[test]
fn another_build_that_does_the_same_is_no_difference() {
    let mut bytes = std::fs::read(component()).unwrap();
    bytes.extend([0, 6, 4, b'n', b'o', b't', b'e', b'!']);
    let (_dir, rebuilt) = file("rebuilt.wasm", &bytes);
    let said = with_component(&rebuilt, &["--only", "create-marks-first"]).well();
    assert!(said.contains("no difference"), "{said}");
    assert!(said.contains("OLD: 1 promises kept, 0 broken"), "{said}");
}

#[test]
fn what_it_says_of_itself_and_takes_otherwise_is_told_by_its_place() {
    let (_dir, other) = guests::kubernetes_with("cluster-e2e", "cluster-abc");
    let ran = with_component(&other, &["--no-promises"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("Profile\n  backend-test\n    - \"cluster-e2e\"\n    + \"cluster-abc\"\n"),
        "{}",
        ran.out
    );
    let (_dir, other) = guests::kubernetes_with("How long a delete waits", "How long a remove waits");
    let ran = with_component(&other, &["--no-promises"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("Config schema\n  squid.shutdownSeconds.description\n"), "{}", ran.out);
    assert!(ran.err.contains("differ"), "{}", ran.err);
}

/// With a namespace of its own, so that check looks for quotas there.
const ENTRY: &str = "module: { file: x }
config: { cluster: home, image: a, imagePullPolicy: Never, namespaces: [a] }
grants: { kubernetes: { clusters: { home: { operator: true, rules: [
  { resources: [pods, configmaps], verbs: [\"*\"], namespaces: [a] }] } } } }
";

#[test]
fn what_it_asks_of_the_host_otherwise_is_told_call_by_call() {
    let (_dir, other) = guests::kubernetes_with("resourcequotas", "resourcequotes");
    let (_dir, entry) = file("mine.yaml", ENTRY.as_bytes());
    let ran = with_component(&other, &["--entry", &entry, "--no-promises", "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let report = json(&ran.out);
    let check =
        report["hostCalls"].as_array().unwrap().iter().find(|calls| calls["export"] == "check").unwrap();
    assert_eq!(
        check["old"].as_array().unwrap().last().unwrap(),
        "kubernetes.list read home v1/resourcequotas a"
    );
    assert_eq!(
        check["new"].as_array().unwrap().last().unwrap(),
        "kubernetes.list read home v1/resourcequotes a"
    );
    let text = with_component(&other, &["--entry", &entry, "--no-promises"]).out;
    let told = "Host calls in one instance's life\n  check: 11 -> 11\n    - kubernetes.list read home v1/resourcequotas a\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_promise_that_only_one_of_them_keeps_is_told_with_its_sentence() {
    // Its mark is one that nobody can read back.
    let (_dir, other) = guests::kubernetes_with("egressproxies.dev/", "egressproxies.org/");
    let ran = with_component(&other, &["--only", "create-marks-first", "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let told = &json(&ran.out)["promises"]["told"][0];
    assert_eq!((&told["id"], &told["old"]["verdict"]), (&"create-marks-first".into(), &"kept".into()));
    assert_eq!(told["new"]["verdict"], "broken");
    assert!(told["says"].as_str().unwrap().contains("mark"), "{told}");
    let fails = &json(&ran.out)["fails"];
    assert_eq!(fails["old"], json("null"));
    assert!(fails["new"].as_str().unwrap().contains("foreign"), "{fails}");
}

#[test]
fn a_config_that_only_the_old_one_takes_is_told() {
    let (_dir, other) = guests::kubernetes_with("imagePullPolicy", "imagePullPolice");
    let (_dir, path) = file("mine.yaml", ENTRY.as_bytes());
    let ran = with_component(&other, &["--entry", &path, "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let report = json(&ran.out);
    assert!(report["refused"].as_str().unwrap().contains("imagePullPolicy"), "{report}");
    assert_eq!(report["promises"], json("null"), "what it does with another config says nothing");
}
