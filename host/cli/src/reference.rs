//! `epo reference`: every field that people may set, as docs/configuration.md has it.
//!
//! Made of the types that read them and of the command line itself, so that it can't say anything else than what holds.

use clap::CommandFactory;
use egress_operator::{api, config};
use serde_json::Value;

use crate::{args::Cli, failure::Failure, output};

/// How deep objects within objects go: none of ours is deeper, and a schema may refer to itself.
const DEEPEST: usize = 10;

const HEAD: &str = "\
# Configuration

Every field that can be set, out of the code: `epo reference` prints this page, `make manifests` writes it, and a test fails
when it is stale. What each is for, with examples, stands in the [operator's guide](operator-guide.md); what the `config` of
an entry takes, in each [provider's page](README.md).

A field that is not known is a fault, and so is a value that can't be read: nothing is replaced by its default in silence.
`NAME` stands for a name of your own, `[]` for each item of a list.
";

/// Prints the page.
pub fn print() -> Result<(), Failure> {
    output::print(page().as_bytes())
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "\n## An entry\n\nA key of the ConfigMap `egress-providers`.\n\n";
    page += &table(&config::schema());
    for (title, crd, path) in [
        ("A Proxy", "proxies.egressproxies.dev", "spec"),
        ("A ProviderHealth", "providerhealths.egressproxies.dev", "spec"),
    ] {
        page += &format!(
            "\n## {title}\n\nIts `{path}`. `kubectl explain` tells the same, and what the status says.\n\n"
        );
        page += &table(&spec(crd));
    }
    page +=
        "\n## epo run\n\nEach flag has a variable in the environment, but for those where none is named.\n\n";
    page += &flags();
    page
}

/// The schema of a kind's spec.
fn spec(crd: &str) -> Value {
    let all = api::crds().into_iter().find(|known| known.metadata.name.as_deref() == Some(crd));
    let schema = all.and_then(|found| found.spec.versions.into_iter().next()?.schema?.open_api_v3_schema);
    let schema = serde_json::to_value(schema).unwrap_or_default();
    schema.pointer("/properties/spec").cloned().unwrap_or_default()
}

fn table(schema: &Value) -> String {
    let mut rows = Vec::new();
    fields(schema, schema, "", 0, &mut rows);
    let mut text = "| field | type | default | says |\n|---|---|---|---|\n".to_owned();
    for Row { path, kind, default, says } in rows {
        text += &format!("| `{path}` | {} | {} | {} |\n", cell(&kind), cell(&default), cell(&says));
    }
    text
}

/// A cell ends at a bar.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

struct Row {
    path: String,
    kind: String,
    default: String,
    says: String,
}

/// A row for each field, those of objects within objects included.
fn fields(root: &Value, object: &Value, path: &str, depth: usize, rows: &mut Vec<Row>) {
    if depth > DEEPEST {
        return;
    }
    let required: Vec<&str> = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = object.get("properties").and_then(Value::as_object);
    for (name, said) in properties.into_iter().flatten() {
        let property = resolved(root, said);
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let text = |from: &Value| from.get("description").and_then(Value::as_str).map(one_line);
        let default = said.get("default").or_else(|| property.get("default"));
        rows.push(Row {
            path: at.clone(),
            kind: kind(root, property),
            default: match default {
                _ if required.contains(&name.as_str()) => "required".to_owned(),
                Some(Value::Null | Value::Object(_)) | None => String::new(),
                Some(Value::Array(list)) if list.is_empty() => String::new(),
                Some(Value::Bool(false)) => "`false`".to_owned(),
                Some(value) => format!("`{}`", plain(value)),
            },
            says: text(said).or_else(|| text(property)).unwrap_or_default(),
        });
        within(root, property, &at, depth, rows);
    }
    // One of several forms, each with a key of its own.
    for form in object.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        let form = resolved(root, form);
        if form.get("properties").is_some() {
            fields(root, &without_required(form), path, depth + 1, rows);
        }
    }
}

/// Of several forms only one is needed.
fn without_required(form: &Value) -> Value {
    let mut form = form.clone();
    if let Some(fields) = form.as_object_mut() {
        fields.remove("required");
    }
    form
}

/// What is below a field.
fn within(root: &Value, property: &Value, at: &str, depth: usize, rows: &mut Vec<Row>) {
    fields(root, property, at, depth + 1, rows);
    if let Some(item) = property.get("items") {
        fields(root, resolved(root, item), &format!("{at}[]"), depth + 1, rows);
    }
    if let Some(value) = property.get("additionalProperties").filter(|value| value.is_object()) {
        fields(root, resolved(root, value), &format!("{at}.NAME"), depth + 1, rows);
    }
}

/// Where a reference leads, and what an optional field holds where it holds something.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let led = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    let schema = led.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema);
    let either = schema.get("anyOf").and_then(Value::as_array);
    let is_null = |form: &Value| form.get("type").is_some_and(|kind| kind == "null");
    match either.and_then(|forms| forms.iter().find(|form| !is_null(form))) {
        Some(form) if form.get("$ref").is_some() => resolved(root, form),
        _ => schema,
    }
}

fn kind(root: &Value, schema: &Value) -> String {
    let consts = schema.get("oneOf").and_then(Value::as_array);
    let consts: Vec<String> =
        consts.into_iter().flatten().filter_map(|form| form.get("const")).map(plain).collect();
    if !consts.is_empty() {
        return consts.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().filter(|value| !value.is_null()).map(plain).collect();
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    let named = match schema.get("type") {
        Some(Value::Array(several)) => {
            several.iter().map(plain).find(|kind| kind != "null").unwrap_or_default()
        }
        Some(one) => plain(one),
        None => "one of".to_owned(),
    };
    match named.as_str() {
        "array" => {
            let item = schema.get("items").map(|item| kind(root, resolved(root, item)));
            item.map_or_else(|| "list".to_owned(), |item| format!("list of {item}"))
        }
        "object" if schema.get("additionalProperties").is_some_and(Value::is_object) => "by name".to_owned(),
        other => other.to_owned(),
    }
}

/// Of what a type's comment says, the first paragraph on one line.
fn one_line(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A string without its quotes; else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn flags() -> String {
    let mut text = "| flag | variable | default | says |\n|---|---|---|---|\n".to_owned();
    let cli = Cli::command();
    let Some(run) = cli.find_subcommand("run") else { return text };
    for flag in run.get_arguments().filter(|flag| !flag.is_hide_set()) {
        let Some(long) = flag.get_long() else { continue };
        let value = flag.get_value_names().filter(|_| flag.get_action().takes_values());
        let value = value.and_then(|names| names.first()).map(|name| format!(" {name}")).unwrap_or_default();
        let short = flag.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
        let variable = flag.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
        let defaults: Vec<String> =
            flag.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let help =
            flag.get_long_help().or_else(|| flag.get_help()).map(ToString::to_string).unwrap_or_default();
        text += &format!(
            "| `{short}--{long}{value}` | {variable} | {} | {} |\n",
            defaults.join(", "),
            cell(&one_line(&help))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_page_is_what_the_code_means() {
        let path = docs_tests::root().join("docs/configuration.md");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == page(), "docs/configuration.md is stale: run make manifests");
    }

    #[test]
    fn every_field_and_flag_says_what_it_is() {
        let page = page();
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        assert!(rows.len() > 100, "{}", rows.len());
        let silent: Vec<&str> =
            rows.iter().filter(|row| row.last().is_none_or(|s| s.is_empty())).map(|r| r[0]).collect();
        assert!(silent.is_empty(), "{silent:?}");
        for path in [
            "module.configMap.key",
            "grants.http.endpoints.NAME.credentials.header.secret.secretRef.name",
            "grants.kubernetes.clusters.NAME.rules[].verbs",
            "grants.libvirt.hosts.NAME.knownHosts.file",
            "limits.memoryBytes",
            "rollout.firstProxies",
            "healthCheck.replaceAfterSeconds",
            "hold.revision",
        ] {
            assert!(rows.iter().any(|row| row[0] == format!("`{path}`")), "{path} is missing");
        }
        assert!(page.contains("`--watch-namespace"), "flags are there");
    }
}
