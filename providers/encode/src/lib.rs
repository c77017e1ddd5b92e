//! Turns a guest crate into a component.
//!
//! Our guests are built for `wasm32-unknown-unknown` and encoded here, so a component imports the
//! contract's capabilities and nothing else (a `wasm32-wasip2` build imports files, environment and
//! clocks even when it uses none). This crate stands apart from the host: building a guest must not wait
//! for wasmtime.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use wit_component::ComponentEncoder;

/// The target that guests are built for.
pub const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The core module carries no component type, or does not fit the one it carries.
    #[error(
        "the core module can't become a component: {0}; build it with wit-bindgen against wit/ for {GUEST_TARGET}"
    )]
    Encode(String),
    /// A program did not start.
    #[error("can't run {program}: {source}; is the Rust toolchain on the PATH?")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A program ended badly; it has printed why.
    #[error("{program} failed while building {package}; its output is above")]
    Failed {
        /// Which.
        program: &'static str,
        /// For what.
        package: String,
    },
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Encodes a core module, built with wit-bindgen, as a component.
pub fn encode(core_module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let encode = || ComponentEncoder::default().validate(true).module(core_module)?.encode();
    // wit-component reports by chains of causes; its alternate form prints the whole chain.
    encode().map_err(|error| EncodeError::Encode(format!("{error:#}")))
}

/// Builds the package in the workspace of `manifest_dir` and writes `out`; adds the target if rustup has
/// not got it.
pub fn build(manifest_dir: &Path, package: &str, out: &Path) -> Result<(), EncodeError> {
    add_target(manifest_dir)?;
    let target_dir = target_dir(manifest_dir);
    let mut cargo = Command::new("cargo");
    cargo.current_dir(manifest_dir).args([
        "build",
        "--quiet",
        "--locked",
        "--package",
        package,
        "--profile",
        "provider",
        "--target",
        GUEST_TARGET,
        "--lib",
    ]);
    cargo.arg("--target-dir").arg(&target_dir);
    run(cargo, "cargo", package)?;
    let core =
        target_dir.join(GUEST_TARGET).join("provider").join(format!("{}.wasm", package.replace('-', "_")));
    let component = encode(&read(&core)?)?;
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(|source| EncodeError::File { path: parent.to_owned(), source })?;
    }
    // Aside, then renamed: whoever watches the folder never reads half a component.
    let aside = out.with_extension("wasm.new");
    fs::write(&aside, component)
        .and_then(|()| fs::rename(&aside, out))
        .map_err(|source| EncodeError::File { path: out.to_owned(), source })
}

/// Where guests are built: cargo's own choice, so a warm machine stays warm.
fn target_dir(manifest_dir: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| manifest_dir.join("target"), |dir: OsString| dir.into())
}

fn add_target(manifest_dir: &Path) -> Result<(), EncodeError> {
    let mut rustup = Command::new("rustup");
    rustup.current_dir(manifest_dir).args(["--quiet", "target", "add", GUEST_TARGET]);
    match run(rustup, "rustup", GUEST_TARGET) {
        // A toolchain that did not come from rustup brings its own targets: cargo will say if not.
        Err(EncodeError::Start { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

fn run(mut command: Command, program: &'static str, package: &str) -> Result<(), EncodeError> {
    let status = command.status().map_err(|source| EncodeError::Start { program, source })?;
    if status.success() { Ok(()) } else { Err(EncodeError::Failed { program, package: package.to_owned() }) }
}

fn read(path: &Path) -> Result<Vec<u8>, EncodeError> {
    fs::read(path).map_err(|source| EncodeError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_module_without_a_component_type_is_refused_with_the_way_out() {
        // `\0asm`, version 1: valid, and empty.
        let error = encode(b"\0asm\x01\0\0\0not wasm").unwrap_err().to_string();
        assert!(error.contains("wit-bindgen"), "{error}");
    }
}
