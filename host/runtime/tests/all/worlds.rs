//! Components for every world that somebody may build against: made from WIT text, with a body that traps.

use std::path::Path;

use egress_contract::CONTRACT_VERSION;
use egress_runtime::{Candidate, Lent, Stage, inspect};
use serde_json::json;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

use crate::support::{candidate, module, refused};

/// A component for `world` of our wit/, after `edit` of each of its files; `more` are other packages.
pub fn component(world: &str, more: &[&str], edit: impl Fn(String) -> String) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = edit(std::fs::read_to_string(&path).unwrap());
            std::fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    let mut resolve = Resolve::default();
    for (number, package) in more.iter().enumerate() {
        resolve.push_str(format!("more-{number}.wit"), package).unwrap();
    }
    let (package, _) = resolve.push_dir(folder.path()).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut core = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

fn unchanged(text: String) -> String {
    text
}

/// A world of ours with one import more.
fn with_import(import: &str) -> impl Fn(String) -> String {
    move |text: String| {
        text.replace("world kubernetes-provider {", &format!("world kubernetes-provider {{ import {import};"))
    }
}

#[test]
fn a_component_is_known_without_running_it() {
    let inspection = inspect(&component("kubernetes-provider", &[], unchanged)).unwrap();
    assert_eq!(inspection.contract, CONTRACT_VERSION);
    let mut imports: Vec<&str> = inspection.imports.iter().map(String::as_str).collect();
    imports.sort_unstable();
    assert_eq!(
        imports,
        [
            "egress:provider/clock@0.1.0",
            "egress:provider/context@0.1.0",
            "egress:provider/kubernetes@0.1.0",
            "egress:provider/locks@0.1.0",
            "egress:provider/log@0.1.0",
        ]
    );
    assert_eq!(inspection.exports, ["egress:provider/provider@0.1.0"]);
}

#[tokio::test]
async fn another_line_of_the_contract_is_refused_with_both_versions() {
    let next = component("kubernetes-provider", &[], |text| text.replace("@0.1.0", "@0.2.0"));
    let refusal = refused(Candidate { module: module(&next), ..candidate(json!({})) }).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Parse, "ContractVersion"));
    assert!(refusal.message.contains("0.2.0") && refusal.message.contains("0.1.0"), "{refusal}");
}

#[test]
fn a_later_patch_of_the_same_line_is_taken() {
    let later = component("kubernetes-provider", &[], |text| text.replace("@0.1.0", "@0.1.7"));
    assert_eq!(inspect(&later).unwrap().contract, "0.1.7");
}

#[test]
fn a_missing_export_is_named() {
    let lacking = component("kubernetes-provider", &[], |text| {
        text.replace("    check: func(place: string) -> health;", "")
            .replace("    delete: func(target: target) -> result<deleted, error>;", "")
    });
    let refusal = inspect(&lacking).unwrap_err();
    assert_eq!((refusal.stage, refusal.reason), (Stage::Parse, "ExportMissing"));
    assert!(refusal.message.contains("delete, check"), "{refusal}");
}

#[test]
fn a_component_that_is_no_provider_is_told_what_it_is() {
    let other = component("kubernetes-provider", &[], |text| text.replace("export provider;", ""));
    let refusal = inspect(&other).unwrap_err();
    assert_eq!((refusal.stage, refusal.reason), (Stage::Parse, "NoProvider"));
    assert!(refusal.message.contains("egress:provider/provider"), "{refusal}");
}

#[tokio::test]
async fn an_export_of_another_shape_is_refused_before_it_runs() {
    let shaped = component("kubernetes-provider", &[], |text| {
        text.replace("check: func(place: string) -> health;", "check: func(place: u32) -> health;")
    });
    let refusal = refused(Candidate { module: module(&shaped), ..candidate(json!({})) }).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Link, "InterfaceMismatch"), "{refusal}");
    assert!(refusal.message.contains("expected `string` found `u32`"), "{refusal}");
}

#[tokio::test]
async fn an_import_of_another_shape_is_refused_before_it_runs() {
    let shaped = component("kubernetes-provider", &[], |text| {
        text.replace("now-ms: func() -> u64;", "now-ms: func() -> string;")
    });
    let refusal = refused(Candidate { module: module(&shaped), ..candidate(json!({})) }).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Link, "InterfaceMismatch"), "{refusal}");
    assert!(refusal.message.contains("clock"), "{refusal}");
}

#[tokio::test]
async fn an_import_that_the_entry_does_not_grant_is_named_with_the_way_out() {
    for (world, import) in
        [("http-provider", "http"), ("kubernetes-provider", "kubernetes"), ("libvirt-provider", "libvirt")]
    {
        let ours = component(world, &[], unchanged);
        let refusal =
            refused(Candidate { module: module(&ours), lent: Lent::default(), ..candidate(json!({})) }).await;
        assert_eq!((refusal.stage, refusal.reason), (Stage::Link, "ImportNotGranted"));
        assert!(refusal.message.contains(&format!("egress:provider/{import}@0.1.0")), "{refusal}");
        assert!(refusal.message.contains(&format!("grants.{import}")), "{refusal}");
    }
}

#[tokio::test]
async fn an_import_that_this_host_does_not_serve_is_named() {
    let strange = component(
        "kubernetes-provider",
        &["package some:body@1.0.0; interface sockets { open: func(); }"],
        with_import("some:body/sockets@1.0.0"),
    );
    let refusal = refused(Candidate { module: module(&strange), ..candidate(json!({})) }).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Link, "ImportNotServed"), "{refusal}");
    assert!(refusal.message.contains("some:body/sockets@1.0.0"), "{refusal}");
}

#[tokio::test]
async fn wasi_is_there_for_whom_an_ordinary_toolchain_made_import_it() {
    let wasi = component(
        "kubernetes-provider",
        &["package wasi:cli@0.2.6;
           interface environment { get-environment: func() -> list<tuple<string, string>>; }
           interface exit { exit: func(status: result); }"],
        with_import("wasi:cli/environment@0.2.6; import wasi:cli/exit@0.2.6"),
    );
    // It is linked, and fails only where its body does.
    let refusal = refused(Candidate { module: module(&wasi), ..candidate(json!({})) }).await;
    assert_eq!((refusal.stage, refusal.reason), (Stage::Configure, "Trapped"), "{refusal}");
}
