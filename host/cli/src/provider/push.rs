//! `epo provider push` and `pull`: a component into a registry, and out of one.

use std::path::PathBuf;

use egress_registry::{About, Client, Reference, Rights, artifact};
use egress_runtime::{Module, RuntimeConfig, inspect};

use super::{
    ComponentFile,
    registry::{LOGINS, Registries, RegistryArgs, failure},
};
use crate::{failure::Failure, output, setup};

#[derive(clap::Args)]
#[command(after_help = format!("\
Examples:
  epo provider push registry.example/team/kubernetes-provider:1.0 target/providers/kubernetes.wasm
  # an entry then says:
  #   module: {{ oci: {{ ref: registry.example/team/kubernetes-provider:1.0 }} }}

What is no provider is refused before anything is sent. The image is printed with its digest; the same
component has the same digest, whenever and by whom it is pushed.

{LOGINS}"))]
pub struct Push {
    /// Where to: registry.example/team/provider:1.0
    #[arg(value_name = "REF")]
    image: Reference,
    #[command(flatten)]
    file: ComponentFile,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Push {
    pub fn run(self) -> Result<(), Failure> {
        if self.image.digest().is_some() || self.image.tag().is_none() {
            let message = format!("{}: the digest comes of what is pushed; name a tag alone", self.image);
            return Err(Failure::Usage(message));
        }
        let module = self.file.module()?;
        let inspection = inspect(module.bytes()).map_err(|refusal| self.file.refused(refusal))?;
        let about = About { imports: inspection.imports, exports: inspection.exports };
        let image = artifact(module.bytes(), &about);
        let client = self.registry.open()?.client(&self.image, Rights::Push)?;
        let digest = setup::block_on(async { client.push(&image).await.map_err(failure) })?;
        output::print(format!("{}\n", self.image.at(digest)).as_bytes())
    }
}

#[derive(clap::Args)]
#[command(after_help = format!("\
Examples:
  epo provider pull registry.example/team/kubernetes-provider:1.0 -o kubernetes.wasm
  epo provider inspect kubernetes.wasm

It is written unpacked, and whole or not at all. The image is printed with its digest.

{LOGINS}"))]
pub struct Pull {
    /// What: registry.example/team/provider:1.0, or @sha256:... instead of the tag
    #[arg(value_name = "REF")]
    image: Reference,
    /// Where to write the component
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Pull {
    pub fn run(self) -> Result<(), Failure> {
        let registries: Registries = self.registry.open()?;
        let client: Client = registries.client(&self.image, Rights::Pull)?;
        let most = RuntimeConfig::default().module_bytes;
        let pulled = setup::block_on(async { client.pull(most).await.map_err(failure) })?;
        let shown = PathBuf::from(self.image.to_string());
        let module =
            Module::unpack(&pulled.component, most).map_err(|refusal| Failure::refused(&shown, refusal))?;
        output::replace(&self.output, |file| std::io::Write::write_all(file, module.bytes()))?;
        output::print(format!("{}\n", self.image.at(pulled.digest)).as_bytes())
    }
}
