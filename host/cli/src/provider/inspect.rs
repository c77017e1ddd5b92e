//! `epo provider inspect`: what a component is and asks for, before anybody loads it.
//!
//! Name, profile and schema are what the component says of itself, so it is run for them, with nothing
//! lent that leads anywhere. One that this host can't run is still told apart as far as its bytes say.

use egress_contract::{Description, Installation};
use egress_runtime::{Inspection, Module, Refusal, SERVED_CONTRACTS, Slot, inspect};
use serde::Serialize;
use serde_json::Value;

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
    Ok(slot.describe(nothing::candidate(module.clone())).await)
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
            fields(schema, schema, "  ", 0, &mut rows);
            text += "\nConfig (-o json prints its whole schema)\n";
            text += &columns(&rows);
        }
        text
    }
}

/// What an import lets a component do, for whoever decides on its grants.
pub fn allows(interface: &str) -> &'static str {
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

/// How deep objects within objects are listed: a schema may refer to itself.
const DEEPEST: usize = 6;

/// One row for each property, those of objects within objects included: path, type, text.
fn fields(root: &Value, object: &Value, path: &str, depth: usize, rows: &mut Vec<[String; 3]>) {
    let Some(Value::Object(properties)) = object.get("properties") else { return };
    let required: Vec<&str> = match object.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for (name, property) in properties {
        let property = resolved(root, property);
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
        rows.push([at.clone(), kind(root, property), text.join(" ")]);
        if depth < DEEPEST {
            fields(root, property, &format!("{at}."), depth + 1, rows);
        }
    }
}

/// Where a `$ref` within the schema leads; anything else is itself.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let within = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    within.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn kind(root: &Value, schema: &Value) -> String {
    match (schema.get("type"), schema.get("enum").and_then(Value::as_array)) {
        (_, Some(values)) => values.iter().map(plain).collect::<Vec<_>>().join("|"),
        (Some(Value::String(list)), None) if list == "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(root, resolved(root, items))),
            None => "list".to_owned(),
        },
        (Some(Value::Array(several)), None) => several.iter().map(plain).collect::<Vec<_>>().join(" or "),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_listed_through_its_references_and_ends() {
        let schema = json!({
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": { "$ref": "#/$defs/amount" },
                "names": { "type": "array", "items": { "type": "string" } },
                "self": { "$ref": "#" },
            },
            "$defs": { "amount": { "type": ["string", "number"], "description": "How much." } },
        });
        let mut rows = Vec::new();
        fields(&schema, &schema, "", 0, &mut rows);
        let row = |path: &str| rows.iter().find(|row| row[0] == path).unwrap().clone();
        assert_eq!(row("size")[1..], ["string or number", "Required. How much."]);
        assert_eq!(row("names")[1], "list of string");
        assert_eq!(row("self.self.size")[1], "string or number");
    }

    #[test]
    fn what_an_unknown_import_allows_is_not_made_up() {
        assert!(allows("egress:provider/kubernetes@0.1.0").contains("grants.kubernetes"));
        assert!(allows("egress:provider/teleport@0.1.0").contains("unknown"));
        assert!(allows("wasi:io/streams@0.2.0").contains("leads nowhere"));
        assert!(allows("acme:other/thing").contains("refused"));
    }
}
