//! `epo compile`, hidden: the child process in which `epo run` compiles components.
//!
//! A compile can't be cancelled, a process can. It reads a component from its standard input, bounds its
//! own memory, fills the compile cache and ends.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use egress_runtime::{Compile, Runtime, RuntimeConfig};

use crate::failure::Failure;

#[derive(clap::Args)]
pub struct CompileChild {
    /// The compile cache
    #[arg(long)]
    cache_dir: PathBuf,
    /// Bytes of address space
    #[arg(long)]
    memory: u64,
    /// Seconds of processor time
    #[arg(long)]
    seconds: u64,
}

impl CompileChild {
    /// The command with which `epo run` calls this, for the same cache and bounds.
    pub fn command(program: PathBuf, cache_dir: &Path, config: &RuntimeConfig) -> Compile {
        let args = [
            "compile".to_owned(),
            format!("--cache-dir={}", cache_dir.display()),
            format!("--memory={}", config.compile_memory),
            format!("--seconds={}", config.compile_time.as_secs()),
        ];
        Compile::Child { program, args: args.to_vec() }
    }

    pub fn run(self) -> Result<(), Failure> {
        let mut component = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut component)
            .map_err(|source| Failure::read(Path::new("-"), source))?;
        let config = RuntimeConfig {
            cache_dir: Some(self.cache_dir),
            compile_memory: self.memory,
            compile_time: Duration::from_secs(self.seconds),
            ..RuntimeConfig::default()
        };
        Runtime::warm_cache(&config, &component).map_err(Failure::Compile)
    }
}
