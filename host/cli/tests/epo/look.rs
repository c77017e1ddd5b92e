//! Help, usage, and what has no other home.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use super::command::{epo, ran, run, workspace};

#[test]
fn help_documents_every_exit_code() {
    let help = run(&["--help"]).well();
    for code in ["0  done", "1  failed", "2  wrong usage", "3  refused", "4  not reachable"] {
        assert!(help.contains(code), "{code:?} is missing in {help}");
    }
    assert!(!help.contains("compile "), "the compiling child is nobody's to call: {help}");
}

#[test]
fn wrong_usage_ends_with_2_and_points_at_the_help() {
    for args in [&["nosuch"][..], &["provider", "inspect"], &["provider", "configmap", "x.wasm"]] {
        let ran = run(args);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("--help"), "{}", ran.err);
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let mut child = epo().arg("crd").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(first, "---\n");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn the_checked_in_definitions_are_those_that_the_code_means() {
    let path = workspace().join("deploy/crds/egressproxies.dev.yaml");
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert!(checked_in == run(&["crd"]).well(), "deploy/crds is stale: run make manifests");
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).well();
        assert!(script.contains("configmap"), "{shell}");
    }
}

#[test]
fn a_provider_is_built_from_within_its_folder_and_inspects() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deeper/kubernetes.wasm");
    let built = epo()
        .current_dir(workspace().join("providers/kubernetes/src"))
        .args(["provider", "build", "--output"])
        .arg(&out)
        .output()
        .unwrap();
    let said = ran(built).well();
    assert!(said.contains("built kubernetes-provider") && said.contains(out.to_str().unwrap()), "{said}");
    assert!(run(&["provider", "inspect", out.to_str().unwrap()]).well().contains("kubernetes"));
}

#[test]
fn a_provider_that_the_workspace_has_not_is_refused_with_those_that_it_has() {
    run(&["provider", "build", "nosuch"]).refused(1, &["nosuch", "kubernetes-provider", "cdylib"]);
}
