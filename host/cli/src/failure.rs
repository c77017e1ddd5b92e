//! Why a command did not do what it was asked to, and the exit code that says so to scripts.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use egress_contract::{EntryName, Fault};
use egress_operator::{
    OperatorError, config::InvalidEntry, orphans::OrphansError, rollback::RollbackError, trial::TrialError,
};
use egress_registry::{Kind, RegistryError};
use egress_runtime::{Refusal, RuntimeError};
use egress_standalone::{EditError, LookError, OpenError};
use provider_encode::EncodeError;

use crate::output::bytes;

/// The exit codes beside 0 and 1: `epo --help` lists them. clap ends with 2 too.
const USAGE: u8 = 2;
const REFUSED: u8 = 3;
const UNREACHABLE: u8 = 4;

/// Why a command failed. Each prints the thing, the cause and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was typed makes no sense, in a way that clap can't see.
    #[error("{0}")]
    Usage(String),
    /// A file, or `-` for the standard input.
    #[error("can't read {}: {source}; give the path of a file that is there", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file that is to be written.
    #[error("can't write {}: {source}; give another path", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The standard output.
    #[error("can't write to the standard output: {0}")]
    Output(io::Error),
    /// What is printed can't be rendered.
    #[error("can't render the output: {0}")]
    Render(String),
    /// A provider was not built.
    #[error(transparent)]
    Build(#[from] EncodeError),
    /// The runtime did not start.
    #[error("the WebAssembly runtime did not start: {0}")]
    Runtime(#[from] RuntimeError),
    /// Something that a command stands on did not start.
    #[error("{0}")]
    Setup(String),
    /// The compiling child's: its parent reads the exit code.
    #[error("{0}")]
    Compile(RuntimeError),
    /// An entry can't be read.
    #[error("{}: {}{}", .path.display(), .invalid.message, listed(&.invalid.faults))]
    Entry { path: PathBuf, invalid: InvalidEntry },
    /// What an entry's grants name can't be lent.
    #[error("entry {entry} can't be lent what it is granted:{}", lines(.faults))]
    Grants { entry: EntryName, faults: Vec<Fault> },
    /// A recording can't be read, or is none.
    #[error("{}: {why}", .path.display())]
    Recording { path: PathBuf, why: String },
    /// There is no cluster, or it does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// A directory can't be run.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// A directory can't be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
    /// A directory can't be changed.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The operator did not start, or stopped.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// An entry's history can't be read or changed.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// What collectors found can't be read or confirmed.
    #[error(transparent)]
    Orphans(#[from] OrphansError),
    /// A component can't be compared with what runs.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A component did not pass.
    #[error("{}: refused at the stage {}: {}", .path.display(), .refusal.stage, .refusal.message)]
    Refused { path: PathBuf, refusal: Refusal },
    /// A tool did its work, and what it looked for is there: a broken promise, a difference, a failure.
    #[error("{0}")]
    Found(String),
    /// A tool whose exit code 1 says what it found could not do its work.
    #[error(transparent)]
    CouldNotRun(Box<Self>),
    /// A registry did not do what it was asked to.
    #[error("{error}; {way_out}")]
    Registry { error: RegistryError, way_out: &'static str },
    /// No ConfigMap holds it.
    #[error(
        "{} is {} packed with {packing}, and a ConfigMap holds at most {}; {way_out}",
        .path.display(), bytes(*.size), bytes(*.limit)
    )]
    TooLarge { path: PathBuf, size: u64, limit: u64, packing: &'static str, way_out: String },
}

impl Failure {
    pub fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub fn refused(path: &Path, refusal: Refusal) -> Self {
        Self::Refused { path: path.to_owned(), refusal }
    }

    pub fn entry(path: &Path, invalid: InvalidEntry) -> Self {
        Self::Entry { path: path.to_owned(), invalid }
    }

    /// For commands that end with 1 when they found something, and with 2 when they could not look.
    pub fn could_not_run(self) -> Self {
        match self {
            Self::Found(_) | Self::CouldNotRun(_) => self,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Self::Output(error),
            other => Self::CouldNotRun(Box::new(other)),
        }
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) | Self::CouldNotRun(_) => USAGE,
            Self::Build(error) if error.is_missing_tool() => USAGE,
            Self::Unreachable(_) => UNREACHABLE,
            Self::Registry { error, .. } => match error.kind {
                Kind::Unreachable => UNREACHABLE,
                Kind::NoWasmLayer | Kind::ManifestInvalid | Kind::DigestDiffers | Kind::TooLarge => REFUSED,
                Kind::Unauthorized
                | Kind::Denied
                | Kind::NotFound
                | Kind::TlsTrust
                | Kind::TooManyRequests
                | Kind::RegistryFailed
                | Kind::RedirectRefused => 1,
            },
            Self::Operator(error) if error.is_unreachable() => UNREACHABLE,
            Self::Rollback(error) if error.is_unreachable() => UNREACHABLE,
            Self::Orphans(error) if error.is_unreachable() => UNREACHABLE,
            Self::Trial(error) if error.is_unreachable() => UNREACHABLE,
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Recording { .. }
            | Self::Output(_)
            | Self::Found(_)
            | Self::Render(_)
            | Self::Build(_)
            | Self::Setup(_)
            | Self::Runtime(_)
            | Self::Directory(_)
            | Self::Look(_)
            | Self::Edit(_)
            | Self::Operator(_)
            | Self::Rollback(_)
            | Self::Orphans(_)
            | Self::Trial(_) => 1,
            Self::Compile(error) => error.exit_code(),
            Self::Refused { .. } | Self::Entry { .. } | Self::Grants { .. } | Self::TooLarge { .. } => {
                REFUSED
            }
        })
    }
}

/// One alone stands in the message already.
fn listed(faults: &[Fault]) -> String {
    match faults {
        [] | [_] => String::new(),
        several => lines(several),
    }
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}
