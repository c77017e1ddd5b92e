//! What can't be tried, called, replayed, measured or compared ends with 2, and says what to do.

use serde_json::json;

use super::{
    super::command::{component, file, run, run_with_input},
    guests, misbehaving_entry, provider,
    replay::real_life,
};

/// Every command about the component in this file.
fn each(path: &str, check: impl Fn(&str, super::Ran)) {
    let good = component();
    let good = good.to_str().unwrap();
    let recording = real_life();
    let recording = recording.to_str().unwrap();
    for args in [
        &["test", path][..],
        &["test", good, "--other", path],
        &["call", path, "check"],
        &["replay", path, recording],
        &["bench", path],
        &["diff", path, good, "--no-promises"],
        &["diff", good, path, "--no-promises"],
    ] {
        check(&args.join(" "), run(&[&["provider"], args].concat()));
    }
}

#[test]
fn rubbish_arguments_point_at_the_help() {
    for args in [
        &["test"][..],
        &["test", "x.wasm", "--only"],
        &["test", "x.wasm", "--cut", "3:after"],
        &["test", "x.wasm", "--only", "a", "--cut", "rubbish"],
        &["test", "x.wasm", "--points", "0"],
        &["test", "x.wasm", "--points", "many"],
        &["test", "x.wasm", "--seed", "-1"],
        &["test", "x.wasm", "--backend", "moon"],
        &["test", "x.wasm", "--output", "yaml"],
        &["call"],
        &["call", "x.wasm"],
        &["call", "x.wasm", "launch"],
        &["call", "x.wasm", "check", "--backend", "moon"],
        &["call", "x.wasm", "get", "--installation", "NOT A HASH"],
        &["call", "x.wasm", "get", "--name", "Somebody Else's"],
        &["replay", "x.wasm"],
        &["bench"],
        &["bench", "a", "b", "c"],
        &["bench", "a", "--rounds", "0"],
        &["configmap", "a", "--name", "Bad Name"],
        &["configmap", "a", "--name", "a", "--namespace", "-"],
        &["configmap", "a", "--name", "a", "--key", "a/b"],
        &["diff", "a"],
        &["diff", "a", "b", "--only", "x", "--no-promises"],
    ] {
        let ran = run(&[&["provider"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("--help"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_missing_file_is_named() {
    each("nosuch.wasm", |_, ran| ran.refused(2, &["nosuch.wasm", "No such file"]));
    let there = component();
    provider("call", &there, &["check", "--entry", "nosuch.yaml"])
        .refused(2, &["nosuch.yaml", "No such file"]);
    provider("call", &there, &["create", "--user-data", "nosuch"]).refused(2, &["nosuch", "No such file"]);
    provider("replay", &there, &["nosuch.json"]).refused(2, &["nosuch.json", "No such file"]);
}

#[test]
fn of_two_components_the_one_that_is_refused_is_named() {
    let (_dir, path) = guests::of_world("http-provider");
    let ran = provider("test", &component(), &["--other", &path]);
    assert!(ran.err.starts_with(&format!("epo: {path}: ")), "{}", ran.err);
    let (_dir, path) = guests::misbehaving_early("describe:trap");
    let ran = provider("test", &component(), &["--other", &path]);
    assert!(ran.err.starts_with(&format!("epo: {path}: ")), "{}", ran.err);
}

#[test]
fn what_is_no_component_is_told_apart() {
    let (_dir, path) = file("module.wasm", b"#!/bin/sh");
    each(&path, |_, ran| ran.refused(2, &[&path, "not WebAssembly", "epo provider build"]));
    run_with_input(&["provider", "call", "-", "describe"], b"").refused(2, &["empty"]);
}

#[test]
fn a_component_that_traps_in_describe_is_told_with_its_last_words() {
    for early in ["describe:trap", "describe:panic", "describe:loop", "start:trap"] {
        let (_dir, path) = guests::misbehaving_early(early);
        let said = ["misbehave.wasm", "stage configure", "describe"];
        run(&["provider", "call", &path, "describe"]).refused(2, &said);
        each(&path, |_, ran| ran.refused(2, &said));
    }
}

#[test]
fn a_config_that_fails_is_told_with_every_fault() {
    let (_dir, entry) = misbehaving_entry(&json!({ "faults": ["a.b", "c"] }));
    for args in [&["test"][..], &["call", "configure"], &["call", "check"], &["bench"]] {
        let (command, more) = args.split_first().unwrap();
        let more = [more, &["--entry", &entry]].concat();
        provider(command, guests::misbehaving(), &more).refused(2, &["a.b: is wrong", "c: is wrong"]);
    }
    let (_dir, broken) = file("mine.yaml", b"module: { file: x }\nconfig: [\n");
    provider("call", &component(), &["check", "--entry", &broken]).refused(2, &["mine.yaml", "not YAML"]);
}

#[test]
fn an_example_of_the_schema_that_fails_is_told_for_what_it_is() {
    let (_dir, path) = guests::kubernetes_with("example.com/squid:6", "                   ");
    run(&["provider", "call", &path, "check"]).refused(2, &["image", "first example", "--entry"]);
}

#[test]
fn a_real_backend_needs_an_entry_and_says_what_is_wrong_with_its_grants() {
    let there = component();
    provider("call", &there, &["check", "--backend", "real"]).refused(2, &["--backend real", "--entry"]);
    provider("test", &there, &["--backend", "real"]).refused(2, &["--backend real", "--entry"]);
    let entry = "module: { file: x }\nconfig: { cluster: home, image: a }\n\
                 grants: { kubernetes: { clusters: { home: { kubeconfig: { file: relative }, rules: [] } } } }\n";
    let (_dir, path) = file("mine.yaml", entry.as_bytes());
    provider("call", &there, &["check", "--entry", &path, "--backend", "real"])
        .refused(2, &["grants.kubernetes.clusters.home.kubeconfig.file", "absolute"]);
    let operators = "module: { file: x }\nconfig: { cluster: home, image: a }\ngrants: { kubernetes: { clusters: { home: \
                     { operator: true, rules: [{ resources: [pods], verbs: [get], namespaces: [a] }] } } } }\n";
    let (_dir, path) = file("mine.yaml", operators.as_bytes());
    let args = ["check", "--entry", &path, "--backend", "real", "--kubeconfig", "/nosuch"];
    provider("call", &there, &args).refused(2, &["/nosuch", "--kubeconfig"]);
    let test = |args: &[&str]| provider("test", &there, &[&["--entry", path.as_str()], args].concat());
    test(&["-n", "a"]).refused(2, &["--namespace", "--backend real"]);
    let real = ["--backend", "real"];
    test(&real).refused(2, &["two namespaces", "the entry's grants name a", "--namespace twice"]);
    test(&[&real[..], &["-n", "a", "-n", "a"]].concat()).refused(2, &["--namespace a is given twice"]);
    test(&[&real[..], &["-n", "a", "-n", "b"]].concat()).refused(2, &["no rule", "reaches namespace b"]);
    let (_dir, path) = file("mine.yaml", operators.replace("[a]", "[a, b]").as_bytes());
    let args = ["--entry", &path, "--backend", "real", "--kubeconfig", "/nosuch"];
    provider("test", &there, &args).refused(2, &["/nosuch", "--kubeconfig"]);
    let (_dir, path) = file("mine.yaml", b"module: { file: x }\nconfig: { cluster: home, image: a }\n");
    provider("test", &there, &["--entry", &path, "--backend", "real"]).refused(2, &["grants.kubernetes"]);
}

#[test]
fn what_fails_at_the_simulated_backend_can_not_be_measured_and_says_how_to_look() {
    let (_dir, entry) = misbehaving_entry(&json!({ "do": "trap", "in": "create" }));
    provider("bench", guests::misbehaving(), &["--entry", &entry])
        .refused(2, &["create", "trap", "epo provider call"]);
}

#[test]
fn a_promise_that_there_is_not_is_told_with_those_that_there_are() {
    let there = component();
    let path = there.to_str().unwrap();
    run(&["provider", "diff", path, path, "--only", "nosuch"]).refused(2, &["nosuch", "create-marks-first"]);
}
