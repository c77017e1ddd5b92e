//! `epo provider configmap`.

use std::io::Read;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::command::{component, file, run, run_with_input};

fn configmap(path: &str, more: &[&str]) -> super::command::Ran {
    run(&[&["provider", "configmap", path, "--name", "kubernetes-provider"], more].concat())
}

fn carried(yaml: &str, key: &str) -> Vec<u8> {
    let object: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!((&object["apiVersion"], &object["kind"]), (&"v1".into(), &"ConfigMap".into()));
    BASE64_STANDARD.decode(object["binaryData"][key].as_str().unwrap()).unwrap()
}

#[test]
fn what_is_carried_unpacks_to_the_component() {
    let path = component();
    let component = std::fs::read(&path).unwrap();
    let carried = |more: &[&str]| carried(&configmap(path.to_str().unwrap(), more).well(), "provider.wasm");
    assert_eq!(zstd::decode_all(&carried(&[])[..]).unwrap(), component);
    assert_eq!(carried(&["--compress", "none"]), component);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&carried(&["--compress", "gzip"])[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, component);
}

#[test]
fn name_namespace_and_key_are_those_that_were_asked_for() {
    let path = component();
    let yaml = configmap(path.to_str().unwrap(), &["-n", "egress-system", "--key", "a.wasm"]).well();
    let object: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(object["metadata"]["name"], "kubernetes-provider");
    assert_eq!(object["metadata"]["namespace"], "egress-system");
    assert!(!carried(&yaml, "a.wasm").is_empty());
}

#[test]
fn it_says_to_apply_on_the_server_side() {
    let path = component();
    assert!(configmap(path.to_str().unwrap(), &[]).well().contains("--server-side"));
    assert!(run(&["provider", "configmap", "--help"]).well().contains("kubectl apply --server-side"));
}

/// A component that can't be packed under the limit: the real one, with noise in a custom section.
fn incompressible(bytes: usize) -> Vec<u8> {
    let mut component = std::fs::read(component()).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    component.push(0);
    leb128(&mut component, bytes + 2);
    component.extend([1, b'n']);
    component.extend(noise.take(bytes));
    component
}

fn leb128(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[test]
fn a_component_that_no_configmap_holds_is_refused_with_the_way_out() {
    let (_dir, path) = file("big.wasm", &incompressible(1_100_000));
    configmap(&path, &[]).refused(3, &[&path, "1.0 MiB", "--modules-dir", "strip"]);
    configmap(&path, &["--compress", "none"]).refused(3, &["--compress zstd"]);
}

#[test]
fn a_component_just_under_the_limit_is_carried() {
    let (_dir, path) = file("big.wasm", &incompressible(800_000));
    let yaml = configmap(&path, &[]).well();
    assert!(carried(&yaml, "provider.wasm").len() > 800_000);
}

#[test]
fn what_is_no_component_never_becomes_a_configmap() {
    run_with_input(&["provider", "configmap", "-", "--name", "x"], b"not wasm")
        .refused(3, &["not WebAssembly"]);
}
