//! Components to call: one that misbehaves as its config says, and some that are changed in their bytes.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

use super::super::command::{component, file, workspace};

/// What the misbehaving guest reads before it has a config, and where it stands in it.
const EARLY: &[u8] = b"misbehave-early:";
const EARLY_BYTES: usize = 48;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

static MISBEHAVING: LazyLock<PathBuf> = LazyLock::new(|| {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guest = provider_encode::Guest::find(here, Some("fixture-misbehave")).unwrap();
    let out = FOLDER.path().join("misbehave.wasm");
    guest.build(&out).unwrap();
    out
});

/// The guest that misbehaves.
pub fn misbehaving() -> &'static Path {
    &MISBEHAVING
}

/// The same, told what to do before it has a config.
pub fn misbehaving_early(early: &str) -> (tempfile::TempDir, String) {
    let mut bytes = std::fs::read(misbehaving()).unwrap();
    let at = bytes.windows(EARLY.len()).position(|window| window == EARLY).unwrap();
    let text = format!("{}{early}", String::from_utf8_lossy(EARLY));
    bytes[at..at + EARLY_BYTES].copy_from_slice(format!("{text:EARLY_BYTES$}").as_bytes());
    file("misbehave.wasm", &bytes)
}

/// The kubernetes provider with another text wherever one stands; both are equally long, so it stays well formed.
pub fn kubernetes_with(text: &str, instead: &str) -> (tempfile::TempDir, String) {
    assert_eq!(text.len(), instead.len());
    let mut bytes = std::fs::read(component()).unwrap();
    let (mut at, mut found) = (0, 0);
    while let Some(next) = bytes[at..].windows(text.len()).position(|window| window == text.as_bytes()) {
        at += next;
        bytes[at..at + text.len()].copy_from_slice(instead.as_bytes());
        found += 1;
    }
    assert_ne!(found, 0, "{text:?} stands nowhere in the component");
    file("kubernetes.wasm", &bytes)
}

/// A component of another world of the contract, whose exports trap.
pub fn of_world(world: &str) -> (tempfile::TempDir, String) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(workspace().join("wit")).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut core = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    file("other.wasm", &ComponentEncoder::default().module(&core).unwrap().encode().unwrap())
}
