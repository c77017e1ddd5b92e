//! What can be typed. The texts are the documentation that people read first.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    compile::CompileChild,
    local::{Delete, Describe, Get},
    orphans::Orphans,
    provider::ProviderCommand,
    run::Run,
};

/// Runs egress proxies, on Kubernetes or without a cluster, and builds, inspects and ships the providers that make them.
#[derive(Parser)]
#[command(
    name = "epo",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = EXIT_CODES
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage; provider build: a tool is missing; provider test, call, replay, bench and diff: could not run
  3  refused: a component, a config or an entry did not pass
  4  not reachable: there is no such cluster or registry, or it does not answer";

#[derive(Subcommand)]
pub enum Command {
    /// Run the operator
    Run(Box<Run>),
    /// Without a cluster: show Proxies or provider entries
    Get(Get),
    /// Without a cluster: show one of them with all that is known of it
    Describe(Describe),
    /// Without a cluster: remove a Proxy and its instance
    Delete(Delete),
    /// Make, build, inspect, validate and ship providers, and roll them back
    #[command(arg_required_else_help = true)]
    Provider {
        #[command(subcommand)]
        command: ProviderCommand,
    },
    /// Show what stands at the backends without a Proxy, and what becomes of it
    Orphans(Orphans),
    /// Compile a component into the cache
    #[command(hide = true)]
    Compile(CompileChild),
    /// Print the CustomResourceDefinitions as YAML
    ///
    /// Install or update them with:
    ///   epo crd | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Crd,
    /// Print every field and flag that can be set, as Markdown
    Reference,
    /// Print the completion script of a shell
    ///
    /// For bash:
    ///   source <(epo completions bash)
    #[command(verbatim_doc_comment)]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_arguments_of_a_command_have_one_name() {
        super::Cli::command().debug_assert();
    }
}
