//! `epo crd`.

use egress_operator::api::crds_yaml;

use crate::{failure::Failure, output};

/// Prints both definitions as one stream of YAML documents.
pub fn print() -> Result<(), Failure> {
    let text = crds_yaml().map_err(|error| Failure::Render(error.to_string()))?;
    output::print(text.as_bytes())
}
