//! `epo provider validate`: every stage that a running operator takes a candidate through, with no backend
//! and no cluster.
//!
//! The places are then asked for their health with nothing behind the capabilities: whether they are ready
//! says nothing, but a component that traps on a backend that does not answer is found out here.

use std::path::{Path, PathBuf};

use egress_contract::{EntryName, Installation};
use egress_operator::config::{EntryConfig, read_entry};
use egress_runtime::{Candidate, Lent, Module, Slot};

use super::{ComponentFile, nothing, runtime};
use crate::{failure::Failure, output, setup};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # does the component load, with everything granted?
  epo provider validate target/providers/kubernetes.wasm

  # would the operator take it up with this entry?
  epo provider validate target/providers/kubernetes.wasm --config kubernetes.yaml

It asks no backend and no cluster. It exits with 3 when the operator would refuse it.")]
pub struct Validate {
    #[command(flatten)]
    file: ComponentFile,
    /// The entry as it stands in the providers ConfigMap: its config, grants and limits
    #[arg(short, long, value_name = "ENTRY.yaml")]
    config: Option<PathBuf>,
}

impl Validate {
    pub fn run(self) -> Result<(), Failure> {
        let module = self.file.module()?;
        let digest = module.digest();
        let (entry, candidate) = match &self.config {
            Some(path) => {
                let (name, entry) = read(path)?;
                (name, candidate(module, entry)?)
            }
            None => (nothing::entry()?, nothing::candidate(module)),
        };
        let refused = |refusal| self.file.refused(refusal);
        let with_entry = self.config.is_some();
        setup::block_on(async move {
            let slot = Slot::new(runtime()?, entry, Installation::new("validate"));
            if !with_entry {
                let description = slot.describe(candidate).await.map_err(refused)?;
                return output::print(
                    format!(
                        "{} {} ({digest}) loads; give --config to check an entry's config and grants too\n",
                        description.name, description.version
                    )
                    .as_bytes(),
                );
            }
            let revision = slot.load(candidate).await.map_err(refused)?;
            let description = revision.description();
            output::print(
                format!(
                    "{} {} ({digest}) would be taken up as revision {}, with the places {}\n",
                    description.name,
                    description.version,
                    revision.id(),
                    revision.places().join(", ")
                )
                .as_bytes(),
            )
        })
    }
}

pub fn read(path: &Path) -> Result<(EntryName, EntryConfig), Failure> {
    let text = std::fs::read_to_string(path).map_err(|source| Failure::read(path, source))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // In the ConfigMap the key is the name; here the file's name is as good as any.
    let name = stem.parse().or_else(|_| nothing::entry())?;
    let entry = read_entry(&name, &text).map_err(|invalid| Failure::entry(path, invalid))?;
    Ok((name, entry))
}

fn candidate(module: Module, entry: EntryConfig) -> Result<Candidate, Failure> {
    let EntryConfig { pinned, settings, .. } = entry;
    let all = nothing::lent();
    let lent = Lent {
        http: settings.grants.http.as_ref().and(all.http),
        kubernetes: settings.grants.kubernetes.as_ref().and(all.kubernetes),
        libvirt: settings.grants.libvirt.as_ref().and(all.libvirt),
        transfer: settings.grants.transfer.as_ref().and(all.transfer),
        clock: None,
    };
    let grants =
        serde_json::to_value(&settings.grants).map_err(|error| Failure::Render(error.to_string()))?;
    let legacy = settings.legacy();
    Ok(Candidate { module, pinned, config: settings.config, lent, grants, limits: settings.limits, legacy })
}
