//! `epo`: the operator, and the tools around it, in one binary.
//!
//! Here is only the choice of the command; each is a module of its own, and each ends in a [`Failure`]
//! that knows its exit code.

mod args;
mod cluster;
mod compile;
mod crd;
#[cfg(test)]
mod documented;
mod failure;
mod local;
mod orphans;
mod output;
mod provider;
mod reference;
mod run;
mod setup;
mod telemetry;

use std::{io::Write, process::ExitCode};

use clap::{CommandFactory, Parser};

use crate::{
    args::{Cli, Command},
    failure::Failure,
};

fn main() -> ExitCode {
    setup::pages();
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has had enough of it: `epo crd | head`.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell when this fails.
            let _ = writeln!(std::io::stderr(), "epo: {failure}");
            failure.exit_code()
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(run) => run.run(),
        Command::Get(get) => get.run(),
        Command::Describe(describe) => describe.run(),
        Command::Delete(delete) => delete.run(),
        Command::Provider { command } => provider::run(command),
        Command::Orphans(orphans) => orphans.run(),
        Command::Compile(child) => child.run(),
        Command::Crd => crd::print(),
        Command::Reference => reference::print(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "epo", &mut script);
            output::print(&script)
        }
    }
}
