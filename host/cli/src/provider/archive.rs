//! `epo provider save` and `load`: images in a file, for clusters that no network leads to.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::PathBuf,
};

use egress_registry::{Archive, ArchiveError, Reference, Rights};
use egress_runtime::RuntimeConfig;

use super::registry::{LOGINS, RegistryArgs, failure};
use crate::{failure::Failure, output, setup};

#[derive(clap::Args)]
#[command(after_help = format!("\
Examples:
  epo provider save providers.tar registry.example/team/kubernetes-provider:1.0 \\
    registry.example/team/gcp-provider:1.0
  # carry the file over, and there:
  epo provider load providers.tar --to registry.inner:5000/mirror

The file is a tar of an OCI image layout, which other tools read too. Digests stay.

{LOGINS}"))]
pub struct Save {
    /// The file to write
    #[arg(value_name = "FILE.tar")]
    file: PathBuf,
    /// Which images
    #[arg(value_name = "REF", required = true)]
    images: Vec<Reference>,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Save {
    pub fn run(self) -> Result<(), Failure> {
        let registries = self.registry.open()?;
        let most = RuntimeConfig::default().module_bytes;
        let mut archive = Archive::default();
        let fetched = setup::block_on(async {
            for reference in &self.images {
                let image = registries.client(reference, Rights::Pull)?.fetch(most).await.map_err(failure)?;
                archive.images.push((reference.clone(), image));
            }
            Ok(archive)
        })?;
        output::replace(&self.file, |file| {
            let mut out = BufWriter::new(file);
            fetched.write(&mut out)?;
            out.flush()
        })?;
        let saved = fetched.images.iter().map(|(name, image)| format!("{}\n", name.at(image.digest())));
        output::print(saved.collect::<String>().as_bytes())
    }
}

#[derive(clap::Args)]
#[command(after_help = format!("\
Examples:
  # registry.example/team/kubernetes-provider:1.0 becomes
  # registry.inner:5000/mirror/team/kubernetes-provider:1.0, with the same digest
  epo provider load providers.tar --to registry.inner:5000/mirror

{LOGINS}"))]
pub struct Load {
    /// A file that `epo provider save` or a tool like it has written
    #[arg(value_name = "FILE.tar")]
    file: PathBuf,
    /// Another registry, and perhaps a folder there [default: where each came from]
    #[arg(long, value_name = "REGISTRY/FOLDER")]
    to: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Load {
    pub fn run(self) -> Result<(), Failure> {
        let file = File::open(&self.file).map_err(|error| Failure::read(&self.file, error))?;
        let most = RuntimeConfig::default().module_bytes;
        let archive = Archive::read(BufReader::new(file), most).map_err(|error| match error {
            ArchiveError::Io(error) => Failure::read(&self.file, error),
            ArchiveError::Invalid(_) | ArchiveError::Image(_) => {
                let shown = self.file.display();
                Failure::Setup(format!("{shown}: {error}; give a file that epo provider save wrote"))
            }
        })?;
        let registries = self.registry.open()?;
        for (from, image) in &archive.images {
            let to = match &self.to {
                Some(place) => {
                    from.moved_to(place).map_err(|error| Failure::Usage(format!("--to: {error}")))?
                }
                None => from.clone(),
            };
            let client = registries.client(&to, Rights::Push)?;
            let digest = setup::block_on(async { client.push(image).await.map_err(failure) })?;
            output::print(format!("{}\n", to.at(digest)).as_bytes())?;
        }
        Ok(())
    }
}
