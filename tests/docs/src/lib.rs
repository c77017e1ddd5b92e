//! What guards the pages.
//!
//! A page ages by itself: a file moves, a flag goes, a test is renamed, a message gets other words, and nobody reads it
//! until somebody needs it at night. So whatever a page says that a machine can look up is looked up: links and
//! anchors, commands, targets of make, files, names of tests, and what people are shown. Each guard answers the faults
//! that it found, as sentences; the tests want none.

pub mod commands;
pub mod index;
pub mod links;
pub mod named;
pub mod page;
pub mod providers;
pub mod shell;
pub mod shown;

use std::path::{Path, PathBuf};

/// The folder of the whole tree.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
