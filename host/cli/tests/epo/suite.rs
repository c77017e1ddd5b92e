//! `epo provider test`.

use std::{fs, path::Path};

use serde_json::Value;

use super::command::{Ran, component, file, run};

const ENTRY: &str = "\
module: { configMap: { name: kubernetes-provider } }
config: { cluster: home, image: 'squid:1', namespaces: [team-a, team-b] }
grants:
  kubernetes:
    clusters:
      home:
        operator: true
        rules:
          - resources: [pods, configmaps]
            verbs: [get, list, create, patch, delete]
            namespaces: [team-a, team-b]
";

/// It went well; meanwhile it told how far it is.
#[track_caller]
fn kept(ran: Ran) -> String {
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert!(ran.err.contains(" kept "), "{}", ran.err);
    ran.out
}

/// It ended with this code, and said all this, wherever.
#[track_caller]
fn ended(ran: Ran, code: i32, said: &[&str]) {
    assert_eq!(ran.code, code, "{}\n{}", ran.err, ran.out);
    for part in said {
        assert!(ran.err.contains(part) || ran.out.contains(part), "{part:?} in {}\n{}", ran.err, ran.out);
    }
}

fn test(arguments: &[&str]) -> Ran {
    let component = component();
    let mut all = vec!["provider", "test", component.to_str().unwrap()];
    all.extend(arguments);
    run(&all)
}

#[test]
fn a_promise_that_is_kept_is_told_with_the_figures() {
    let said = kept(test(&["--only", "create-marks-first", "--only", "cut-delete-is-taken-up"]));
    assert!(said.contains("2 promises kept, 0 broken"), "{said}");
    assert!(said.contains("interruptions"), "{said}");
}

#[test]
fn an_entry_is_tried_as_it_stands() {
    let (_dir, path) = file("entry.yaml", ENTRY.as_bytes());
    kept(test(&["--entry", &path, "--only", "create-is-repeatable"]));
    // What is not granted is found here and not in the cluster.
    let (_dir, path) = file("entry.yaml", ENTRY.replace("create, patch", "patch").as_bytes());
    ended(test(&["--entry", &path, "--only", "create-is-repeatable"]), 1, &["BROKEN: create-is-repeatable"]);
}

#[test]
fn what_is_printed_for_programs_can_be_read_by_them() {
    let said = kept(test(&["--only", "delete-is-repeatable", "--output", "json"]));
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["kept"], &report["promises"][0]["id"]), (&1.into(), &"delete-is-repeatable".into()));
    let said = kept(test(&["--only", "delete-is-repeatable", "--output", "junit"]));
    assert!(said.starts_with("<?xml") && said.contains("tests=\"1\" failures=\"0\""), "{said}");
}

#[test]
fn a_broken_promise_is_told_with_its_point_and_with_what_repeats_it() {
    let (_dir, path) = file("entry.yaml", ENTRY.replace("delete]", "get]").as_bytes());
    let ran = test(&["--entry", &path, "--only", "cut-delete-is-taken-up", "--seed", "7"]);
    let parts = [
        "BROKEN: cut-delete-is-taken-up",
        "What there is at the backend",
        "--only cut-delete-is-taken-up --seed 7",
        "1 of 1 promises broken",
    ];
    ended(ran, 1, &parts);
}

#[test]
fn what_can_not_be_tried_ends_with_2_and_says_what_to_do() {
    ended(test(&["--only", "no-such-promise"]), 2, &["no-such-promise", "create-marks-first"]);
    ended(test(&["--only", "create-marks-first", "--cut", "rubbish"]), 2, &["--cut"]);
    ended(test(&["--cut", "3:after"]), 2, &["--only"]);
    ended(test(&["--entry", "/no/such/entry.yaml"]), 2, &["/no/such/entry.yaml"]);
    let (_dir, path) = file("entry.yaml", ENTRY.replace("squid:1", "").as_bytes());
    ended(test(&["--entry", &path]), 2, &["image"]);
    for (bytes, part) in [
        (b"rubbish".as_slice(), "not WebAssembly"),
        (b"\0asm\x01\0\0\0", "core WebAssembly module"),
        (b"", "empty"),
    ] {
        let (_dir, path) = file("rubbish.wasm", bytes);
        ended(run(&["provider", "test", &path]), 2, &[part]);
    }
    ended(run(&["provider", "test", "/no/such/file.wasm"]), 2, &["/no/such/file.wasm"]);
}

#[test]
fn a_trap_in_describe_is_a_refusal_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("misbehave.wasm");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guest = provider_encode::Guest::find(here, Some("fixture-misbehave")).unwrap();
    guest.build(&out).unwrap();
    let mut bytes = fs::read(&out).unwrap();
    let early = b"misbehave-early:";
    let at = bytes.windows(early.len()).position(|window| window == early).unwrap();
    bytes[at..at + 48].copy_from_slice(format!("{:48}", "misbehave-early:start:trap").as_bytes());
    fs::write(&out, bytes).unwrap();
    ended(run(&["provider", "test", out.to_str().unwrap()]), 2, &["describe", "about to trap"]);
}
