//! `epo provider build`.

use std::path::PathBuf;

use provider_encode::Guest;

use crate::{
    failure::Failure,
    output::{self, bytes},
};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # the provider whose folder this is
  epo provider build

  # one of the workspace's, to a place of your own
  epo provider build kubernetes-provider -o kubernetes.wasm")]
pub struct Build {
    /// The provider's package [default: that of this folder, or the workspace's only one]
    package: Option<String>,
    /// Where the component goes [default: target/providers/NAME.wasm in the workspace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The folder to look for the workspace in
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

impl Build {
    pub fn run(self) -> Result<(), Failure> {
        let guest = Guest::find(&self.directory, self.package.as_deref())?;
        let out = self.output.unwrap_or_else(|| guest.default_out());
        guest.build(&out)?;
        let size = std::fs::metadata(&out).map_err(|source| Failure::read(&out, source))?.len();
        output::print(format!("built {}: {} ({})\n", guest.package(), out.display(), bytes(size)).as_bytes())
    }
}
