//! Turns a guest crate into a component.
//!
//! Our guests are built for `wasm32-unknown-unknown` and encoded here, so a component imports the
//! contract's capabilities and nothing else (a `wasm32-wasip2` build imports files, environment and
//! clocks even when it uses none). This crate stands apart from the host: building a guest must not wait
//! for wasmtime.

mod guest;

use std::{io, path::PathBuf};

use wit_component::ComponentEncoder;

pub use guest::Guest;

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
    /// The toolchain can't build guests.
    #[error(
        "the Rust toolchain has not got the target {GUEST_TARGET}; run rustup target add {GUEST_TARGET}, or, \
         without rustup, install this target of your system's Rust (on Debian: libstd-rust-dev-wasm32)"
    )]
    NoTarget,
    /// A program ended badly; it has printed why.
    #[error("{program} failed while building {package}; its output is above")]
    Failed {
        /// Which.
        program: &'static str,
        /// For what.
        package: String,
    },
    /// Cargo does not know the folder.
    #[error("{dir} is in no Cargo workspace: {cause}; run this where a provider's Cargo.toml is")]
    NoWorkspace {
        /// Where it was looked for.
        dir: PathBuf,
        /// What cargo said.
        cause: String,
    },
    /// The workspace has no such provider, or it is not clear which is meant.
    #[error(
        "{}; a provider is a crate with crate-type = [\"cdylib\"], and this workspace has {}",
        match .wanted {
            Some(wanted) => format!("{wanted} is no provider of this workspace"),
            None => "say which provider to build".to_owned(),
        },
        if .found.is_empty() { "none".to_owned() } else { .found.join(", ") }
    )]
    WhichGuest {
        /// What was asked for.
        wanted: Option<String>,
        /// What there is.
        found: Vec<String>,
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

impl EncodeError {
    /// Whether something has to be installed first.
    pub fn is_missing_tool(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::NoTarget)
    }
}

/// Encodes a core module, built with wit-bindgen, as a component.
pub fn encode(core_module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let encode = || ComponentEncoder::default().validate(true).module(core_module)?.encode();
    // wit-component reports by chains of causes; its alternate form prints the whole chain.
    encode().map_err(|error| EncodeError::Encode(format!("{error:#}")))
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
