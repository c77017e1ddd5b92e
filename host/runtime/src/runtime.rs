//! The engine that all slots share, and how components are compiled.

use std::{path::PathBuf, sync::Arc, time::Duration};

/// Where compiling happens.
#[derive(Clone, Debug)]
pub enum Compile {
    /// In this process: for tools and tests. Can't be cancelled.
    InProcess,
    /// In a child process that warms the compile cache first, with limits: `program args...`, the
    /// component on its standard input. It is killed at the time limit.
    Child {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
}

/// How a [`Runtime`] is set up.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// wasmtime's compile cache; none for no cache (then [`Compile::Child`] is refused).
    pub cache_dir: Option<PathBuf>,
    /// Where compiling happens.
    pub compile: Compile,
    /// Wall time of one compile.
    pub compile_time: Duration,
    /// Address space of the compiling child, bytes.
    pub compile_memory: u64,
    /// An unpacked component's size, bytes.
    pub module_bytes: u64,
}

/// The runtime itself can't start.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// Scaffold.
    #[error("not built yet")]
    Scaffold,
}

/// The engine and what belongs to it; clones share it.
#[derive(Clone)]
pub struct Runtime {
    _inner: Arc<()>,
}

impl Runtime {
    /// Starts the engine and its clock thread.
    pub fn new(_config: RuntimeConfig) -> Result<Self, RuntimeError> {
        Err(RuntimeError::Scaffold)
    }

    /// What [`Compile::Child`]'s program does: compiles the component into the cache and ends.
    pub fn warm_cache(_config: &RuntimeConfig, _component: &[u8]) -> Result<(), RuntimeError> {
        Err(RuntimeError::Scaffold)
    }
}
