//! `epo provider ...`: a component's way from an empty folder to a cluster.

mod archive;
mod bench;
mod build;
mod call;
mod configmap;
mod diff;
mod entry;
mod history;
mod inspect;
mod life;
mod new;
mod nothing;
mod push;
mod registry;
mod replay;
mod shadow;
mod test;
mod validate;
mod world;

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Subcommand;
use egress_runtime::{Module, Refusal, Runtime, RuntimeConfig, RuntimeError};

use crate::{failure::Failure, setup::cache_dir};

#[derive(Subcommand)]
pub enum ProviderCommand {
    /// Make a project for a provider of your own
    New(new::New),
    /// Build a provider's crate into a component
    Build(build::Build),
    /// Show what a component is, asks for and takes as config
    Inspect(inspect::Inspect),
    /// Take a component, and its entry's config, through every stage, without a cluster
    Validate(validate::Validate),
    /// Try a component against the whole contract, at every point where a host can die
    Test(test::Test),
    /// Call a component's exports by hand, at a simulated backend or at an entry's real one
    Call(Box<call::CallCommand>),
    /// Answer recorded host calls again, and show what a component asks otherwise
    Replay(replay::Replay),
    /// Measure what a component's calls cost, beside another's
    Bench(bench::Bench),
    /// Compare two components: what they ask for, and what they do
    Diff(diff::Diff),
    /// Compare what a component sees with what an entry sees that runs
    Shadow(shadow::Shadow),
    /// Write the ConfigMap that carries a component into a cluster
    #[command(name = "configmap")]
    ConfigMap(configmap::ConfigMapCommand),
    /// Put a component into an OCI registry
    Push(push::Push),
    /// Take a component out of an OCI registry
    Pull(push::Pull),
    /// Write images of components into a file, for where no network goes
    Save(archive::Save),
    /// Put the images of a file into a registry
    Load(archive::Load),
    /// List an entry's revisions that are kept in the cluster
    History(history::History),
    /// Run an earlier revision of an entry again
    Rollback(history::Rollback),
    /// Keep an entry at a revision, whatever its source offers
    Hold(history::Hold),
    /// End the hold of an entry
    Resume(history::Resume),
}

pub fn run(command: ProviderCommand) -> Result<(), Failure> {
    match command {
        ProviderCommand::New(command) => command.run(),
        ProviderCommand::Build(command) => command.run(),
        ProviderCommand::Inspect(command) => command.run(),
        ProviderCommand::Validate(command) => command.run(),
        ProviderCommand::Test(command) => command.run(),
        ProviderCommand::Call(command) => command.run(),
        ProviderCommand::Replay(command) => command.run(),
        ProviderCommand::Bench(command) => command.run(),
        ProviderCommand::Diff(command) => command.run(),
        ProviderCommand::Shadow(command) => command.run(),
        ProviderCommand::ConfigMap(command) => command.run(),
        ProviderCommand::Push(command) => command.run(),
        ProviderCommand::Pull(command) => command.run(),
        ProviderCommand::Save(command) => command.run(),
        ProviderCommand::Load(command) => command.run(),
        ProviderCommand::History(command) => command.run(),
        ProviderCommand::Rollback(command) => command.run(),
        ProviderCommand::Hold(command) => command.run(),
        ProviderCommand::Resume(command) => command.run(),
    }
}

/// An author's machine may be slow, and nobody waits but he.
const COMPILE_TIME: Duration = Duration::from_secs(600);

/// What is compiled is kept, where it can be: an author tries one component again and again, and one that
/// brings its language's interpreter takes a while.
fn runtime() -> Result<Runtime, Failure> {
    let config =
        RuntimeConfig { cache_dir: cache_dir(), compile_time: COMPILE_TIME, ..RuntimeConfig::default() };
    match Runtime::new(config.clone()) {
        Err(RuntimeError::Cache { .. }) => Ok(Runtime::new(RuntimeConfig { cache_dir: None, ..config })?),
        made => Ok(made?),
    }
}

/// A component's file, or `-` for the standard input.
#[derive(Clone, Debug, clap::Args)]
pub struct ComponentFile {
    /// The component: plain, gzip or zstd; `-` reads the standard input
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

impl ComponentFile {
    /// For commands that take several.
    fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Unpacked, within the limit that an operator has too.
    fn module(&self) -> Result<Module, Failure> {
        let most = RuntimeConfig::default().module_bytes;
        let mut raw = Vec::new();
        let read = if self.path.as_os_str() == "-" {
            std::io::stdin().lock().take(most + 1).read_to_end(&mut raw)
        } else {
            std::fs::File::open(&self.path).and_then(|file| file.take(most + 1).read_to_end(&mut raw))
        };
        read.map_err(|source| Failure::read(&self.path, source))?;
        Module::unpack(&raw, most).map_err(|refusal| self.refused(refusal))
    }

    fn refused(&self, refusal: Refusal) -> Failure {
        Failure::refused(&self.path, refusal)
    }
}
