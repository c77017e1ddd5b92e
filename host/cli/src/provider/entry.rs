//! A component with its entry: what is called, measured and compared.
//!
//! Without an entry it gets what its own schema gives as an example, and whatever capability it asks for.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use egress_conformance::Entry;
use egress_contract::{Description, EntryName, Installation};
use egress_operator::config::{EntryConfig, Settings};
use egress_runtime::{Candidate, Described, Lent, Module, Runtime, Slot};
use serde_json::{Value, json};

use super::{ComponentFile, nothing, validate};
use crate::failure::Failure;

/// What stands behind the capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Simulated, in virtual time
    #[default]
    Sim,
    /// What the entry's grants reach
    Real,
}

/// Which entry.
#[derive(Clone, Debug, clap::Args)]
pub struct EntryFile {
    /// The entry as it stands in the providers ConfigMap: its config, grants and limits [default: the first
    /// example of the component's config schema]
    #[arg(short, long, value_name = "ENTRY.yaml")]
    pub(super) entry: Option<PathBuf>,
}

impl EntryFile {
    /// Where one was given.
    pub fn path(&self) -> Option<&Path> {
        self.entry.as_deref()
    }

    fn read(&self) -> Result<Option<(EntryName, Settings)>, Failure> {
        let Some(path) = &self.entry else { return Ok(None) };
        // Its pin is about what an operator may load; here another component may be tried on purpose.
        let (name, EntryConfig { settings, .. }) = validate::read(path)?;
        Ok(Some((name, settings)))
    }
}

/// See the module.
pub struct Subject {
    /// The entry's name.
    pub entry: EntryName,
    /// Config, grants, limits.
    pub settings: Settings,
    /// The component.
    pub module: Module,
    /// Whether an entry was given.
    pub from_entry: bool,
    described: Described,
}

impl Subject {
    /// Reads both, and asks the component who it is.
    pub async fn open(runtime: &Runtime, file: &ComponentFile, entry: &EntryFile) -> Result<Self, Failure> {
        let module = file.module()?;
        let given = entry.read()?;
        let from_entry = given.is_some();
        let (name, mut settings) = match given {
            Some(given) => given,
            None => (nothing::entry()?, Settings { config: json!({}), ..Settings::default() }),
        };
        let slot = Slot::new(runtime.clone(), name.clone(), Installation::new("describe"));
        let described = slot.described(nothing::candidate(module.clone())).await;
        let described = described.map_err(|refusal| file.refused(refusal))?;
        if !from_entry {
            settings.config = example(&described.description).unwrap_or_else(|| json!({}));
        }
        Ok(Self { entry: name, settings, module, from_entry, described })
    }

    /// Who the component says it is.
    pub fn description(&self) -> &Description {
        &self.described.description
    }

    /// The grants as they stand in the entry.
    pub fn grants(&self) -> Result<Value, Failure> {
        serde_json::to_value(&self.settings.grants).map_err(|error| Failure::Render(error.to_string()))
    }

    /// For the suite.
    pub fn tried(&self) -> Result<Entry, Failure> {
        Ok(Entry {
            name: self.entry.clone(),
            config: self.settings.config.clone(),
            grants: self.grants()?,
            limits: self.settings.limits.clone(),
            legacy: self.settings.legacy(),
        })
    }

    /// For a slot.
    pub fn candidate(&self, lent: Lent) -> Result<Candidate, Failure> {
        Ok(Candidate {
            module: self.module.clone(),
            pinned: None,
            config: self.settings.config.clone(),
            lent,
            grants: self.grants()?,
            limits: self.settings.limits.clone(),
            legacy: self.settings.legacy(),
        })
    }
}

/// The first config that a component's schema gives as an example.
pub fn example(description: &Description) -> Option<Value> {
    description.config_schema.get("examples")?.as_array()?.first().cloned()
}
