//! `epo provider inspect`.

use serde_json::Value;

use super::command::{component, file, run, run_with_input};

#[test]
fn a_component_shows_what_it_is_and_asks_for() {
    let path = component();
    let shown = run(&["provider", "inspect", path.to_str().unwrap()]).well();
    for part in [
        "kubernetes",
        "0.1.0 (this epo serves 0.1.0)",
        "sha256:",
        "packed with zstd",
        "egress:provider/kubernetes@0.1.0",
        "call the Kubernetes API as far as grants.kubernetes reaches",
        "readiness",
        "squid.allowedClients",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in {shown}");
    }
}

#[test]
fn our_providers_import_the_contract_and_nothing_else() {
    let path = component();
    let shown = run(&["provider", "inspect", path.to_str().unwrap(), "-o", "json"]).well();
    let report: Value = serde_json::from_str(&shown).unwrap();
    let imports = report["imports"].as_array().unwrap();
    assert!(!imports.is_empty());
    for import in imports {
        assert!(import["interface"].as_str().unwrap().starts_with("egress:provider/"), "{import}");
    }
    assert_eq!(report["configSchema"]["type"], "object");
    assert_eq!(report["sizeBytes"].as_u64().unwrap(), std::fs::metadata(&path).unwrap().len());
}

#[test]
fn json_and_yaml_say_the_same() {
    let path = component();
    let shown = |format| run(&["provider", "inspect", path.to_str().unwrap(), "-o", format]).well();
    let json: Value = serde_json::from_str(&shown("json")).unwrap();
    let yaml: Value = serde_saphyr::from_str(&shown("yaml")).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn a_packed_component_down_a_pipe_is_the_same_component() {
    let component = std::fs::read(component()).unwrap();
    let args = ["provider", "inspect", "-", "-o", "json"];
    let plain = run_with_input(&args, &component).well();
    let packed = run_with_input(&args, &zstd::encode_all(&component[..], 3).unwrap()).well();
    assert_eq!(plain, packed);
}

#[test]
fn what_is_no_component_is_refused_by_its_file_and_a_way_out() {
    let cut = &std::fs::read(component()).unwrap()[..1000];
    for (content, said) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh", "not WebAssembly"),
        (b"\0asm\x01\0\0\0", "core"),
        (cut, "cut off"),
    ] {
        let (_dir, path) = file("module.wasm", content);
        run(&["provider", "inspect", &path]).refused(3, &[&path, said]);
    }
}

#[test]
fn a_missing_file_is_named() {
    run(&["provider", "inspect", "nosuch.wasm"]).refused(1, &["nosuch.wasm", "No such file"]);
}
