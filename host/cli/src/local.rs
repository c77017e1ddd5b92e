//! `epo get`, `epo describe` and `epo delete`: what kubectl does on a cluster, for a directory.

mod columns;
mod delete;
mod describe;
mod get;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;

pub use self::{delete::Delete, describe::Describe, get::Get};

/// Which directory.
#[derive(clap::Args)]
pub struct Where {
    /// The directory that epo run --dir runs, or ran
    #[arg(long = "dir", env = "EPO_DIR", value_name = "DIR")]
    path: PathBuf,
}

impl Where {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// What there is to be seen, as kubectl calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// What is wanted, and what became of it
    #[value(alias = "proxy")]
    Proxies,
    /// What is known of each provider entry
    #[value(alias = "providerhealth")]
    Providerhealths,
}

fn text_at<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn name_of(object: &Value) -> &str {
    text_at(object, "/metadata/name")
}
