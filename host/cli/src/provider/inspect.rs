//! `epo provider inspect`: what a component is and asks for, before anybody loads it.
//!
//! Name, profile and schema are what the component says of itself, so it is run for them, with nothing
//! lent that leads anywhere. One that this host can't run is still told apart as far as its bytes say.

use egress_contract::{Description, Installation};
use egress_runtime::{Candidate, Inspection, Module, Refusal, SERVED_CONTRACTS, Slot, inspect};
use serde::Serialize;
use serde_json::{Value, json};

use super::{ComponentFile, nothing, runtime};
use crate::{
    failure::Failure,
    output::{self, Format, bytes, columns},
    setup,
};

#[derive(clap::Args)]
pub struct Inspect {
    #[command(flatten)]
    file: ComponentFile,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Inspect {
    pub fn run(self) -> Result<(), Failure> {
        let module = self.file.module()?;
        let inspection = inspect(module.bytes()).map_err(|refusal| self.file.refused(refusal))?;
        let described = setup::block_on(describe(&module))?;
        let packed = zstd::encode_all(&module.bytes()[..], 19).map_err(|e| Failure::Render(e.to_string()))?;
        let report = Report::new(&module, packed.len(), inspection, described);
        output::print_as(self.output, &report, Report::table)
    }
}

async fn describe(module: &Module) -> Result<Result<Description, Refusal>, Failure> {
    let slot = Slot::new(runtime()?, nothing::entry()?, Installation::new("inspect"));
    let candidate = Candidate {
        module: module.clone(),
        pinned: None,
        config: json!({}),
        lent: nothing::lent(),
        grants: json!({}),
        limits: egress_runtime::Limits::default(),
        legacy: Vec::new(),
    };
    Ok(slot.describe(candidate).await)
}

/// What is printed; the names are those of the JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    contract: String,
    served_contracts: Vec<String>,
    digest: String,
    size_bytes: usize,
    packed_bytes: usize,
    imports: Vec<Import>,
    exports: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_schema: Option<Value>,
    /// Why the component could not be asked who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    undescribed: Option<String>,
}

#[derive(Serialize)]
struct Import {
    interface: String,
    allows: &'static str,
}

impl Report {
    fn new(
        module: &Module,
        packed_bytes: usize,
        inspection: Inspection,
        described: Result<Description, Refusal>,
    ) -> Self {
        let (description, undescribed) = match described {
            Ok(description) => (Some(description), None),
            Err(refusal) => (None, Some(refusal.to_string())),
        };
        let (name, version, profile, config_schema) = match description {
            Some(Description { name, version, profile, config_schema, .. }) => {
                (Some(name), Some(version), Some(profile), Some(config_schema))
            }
            None => (None, None, None, None),
        };
        Self {
            name,
            version,
            contract: inspection.contract,
            served_contracts: SERVED_CONTRACTS.iter().map(|served| (*served).to_owned()).collect(),
            digest: module.digest().to_string(),
            size_bytes: module.bytes().len(),
            packed_bytes,
            imports: inspection
                .imports
                .into_iter()
                .map(|interface| Import { allows: allows(&interface), interface })
                .collect(),
            exports: inspection.exports,
            profile,
            config_schema,
            undescribed,
        }
    }

    fn table(&self) -> String {
        let unknown = || "unknown".to_owned();
        let mut text = columns(&[
            ["Name:".to_owned(), self.name.clone().unwrap_or_else(unknown)],
            ["Version:".to_owned(), self.version.clone().unwrap_or_else(unknown)],
            [
                "Contract:".to_owned(),
                format!("{} (this epo serves {})", self.contract, self.served_contracts.join(", ")),
            ],
            ["Digest:".to_owned(), self.digest.clone()],
            [
                "Size:".to_owned(),
                format!(
                    "{}, {} packed with zstd",
                    bytes(self.size_bytes as u64),
                    bytes(self.packed_bytes as u64)
                ),
            ],
            ["Exports:".to_owned(), self.exports.join(", ")],
        ]);
        if let Some(why) = &self.undescribed {
            text += &format!("\nIt could not be asked who it is: {why}\n");
        }
        text += "\nImports\n";
        let imports: Vec<_> =
            self.imports.iter().map(|i| [format!("  {}", i.interface), i.allows.to_owned()]).collect();
        text += &columns(&imports);
        if let Some(Value::Object(profile)) = &self.profile {
            text += "\nProfile\n";
            let axes: Vec<_> =
                profile.iter().map(|(axis, value)| [format!("  {axis}"), plain(value)]).collect();
            text += &columns(&axes);
        }
        if let Some(schema) = &self.config_schema {
            let mut rows = Vec::new();
            fields(schema, "  ", &mut rows);
            text += "\nConfig (-o json prints its whole schema)\n";
            text += &columns(&rows);
        }
        text
    }
}

/// What an import lets a component do, for whoever decides on its grants.
fn allows(interface: &str) -> &'static str {
    let name = interface.split('@').next().unwrap_or(interface);
    match name.strip_prefix("egress:provider/") {
        Some("context") => "read its own config and whose mark an instance bears",
        Some("clock") => "tell the time, and wait within a call's limit",
        Some("log") => "write lines to the operator's log, scrubbed and counted",
        Some("locks") => "lock names among calls of its own entry",
        Some("kubernetes") => "call the Kubernetes API as far as grants.kubernetes reaches",
        Some("http") => "send requests to the endpoints under grants.http",
        Some("libvirt") => "manage machines at the hosts under grants.libvirt",
        Some("transfer") => "have the host fill a volume from a URL",
        Some(_) => "unknown to this epo",
        None if name.starts_with("wasi:") => "nothing: WASI is linked, and leads nowhere",
        None => "nothing: no provider gets this, and the component will be refused",
    }
}

/// One row for each property, those of objects within objects included: path, type, text.
fn fields(schema: &Value, path: &str, rows: &mut Vec<[String; 3]>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for (name, property) in properties {
        let at = format!("{path}{name}");
        let mut text = Vec::new();
        if required.contains(&name.as_str()) {
            text.push("Required.".to_owned());
        }
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            text.push(description.to_owned());
        }
        if let Some(default) = property.get("default") {
            text.push(format!("Default: {}.", plain(default)));
        }
        rows.push([at.clone(), kind(property), text.join(" ")]);
        fields(property, &format!("{at}."), rows);
    }
}

fn kind(property: &Value) -> String {
    match (property.get("type"), property.get("enum").and_then(Value::as_array)) {
        (_, Some(values)) => values.iter().map(plain).collect::<Vec<_>>().join("|"),
        (Some(Value::String(list)), None) if list == "array" => {
            format!("list of {}", property.get("items").map_or_else(|| "any".to_owned(), kind))
        }
        (Some(one), None) => plain(one),
        (None, None) => "any".to_owned(),
    }
}

/// A string without its quotes; else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
