//! What people write into the directory: files of YAML documents, as `kubectl apply -f` takes them.
//!
//! Each document stands for itself: one that can't be read harms nobody but what it is about. A file is cut where YAML
//! says that a document ends, so that one which is broken does not swallow those behind it.

mod schema;

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use egress_contract::EntryName;
use egress_operator::api::{ProviderHealth, Proxy};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{kinds::Kind, objects::Key, text};

/// The file whose documents may be provider entries, without a ConfigMap around them.
const ENTRIES: &str = "providers";

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Objects, without a status.
    pub objects: Vec<(Key, Value)>,
    /// What is wrong, for people.
    pub faults: Vec<String>,
    /// What faulty documents are about, as far as that can be told.
    pub faulty: Vec<Key>,
}

/// What is assumed where a document does not say it.
#[derive(Clone, Debug)]
pub struct Assumed {
    /// The namespace.
    pub namespace: String,
    /// The providers ConfigMap.
    pub providers: String,
}

/// Where documents of a file begin and end: each with the number of its first line.
pub fn cut(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut from, mut first) = (0, 1);
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marks = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marks && at > from {
            documents.push((first, text.get(from..at).unwrap_or_default()));
            (from, first) = (at, number + 1);
        }
        at += line.len();
    }
    documents.push((first, text.get(from..).unwrap_or_default()));
    documents
}

/// Whether there is anything but blanks, comments and marks.
pub fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        line.is_empty() || line.starts_with('#') || line == "..."
    })
}

/// Reads one file; `name` is the file's, without a folder.
pub fn read(name: &str, content: &[u8], assumed: &Assumed) -> Said {
    let mut said = Said::default();
    let Ok(content) = std::str::from_utf8(content) else {
        said.faults.push("is not text in UTF-8".to_owned());
        return said;
    };
    let documents: Vec<_> = cut(content).into_iter().filter(|(_, document)| !is_blank(document)).collect();
    if documents.is_empty() {
        // An editor that saves in two steps, or a disk that is full, leaves such a file behind.
        said.faults.push("holds no document; remove the file if that is meant".to_owned());
    }
    for (line, document) in documents {
        match text::read(document) {
            Ok(value) => one(name, line, value, assumed, &mut said),
            Err(error) => said.faults.push(format!("the document from line {line} on is not YAML: {error}")),
        }
    }
    said
}

fn one(name: &str, line: usize, document: Value, assumed: &Assumed, said: &mut Said) {
    let text_at = |path: &str| document.pointer(path).and_then(Value::as_str);
    if let (Some("List"), Some(items)) = (text_at("/kind"), document.get("items").and_then(Value::as_array)) {
        items.iter().for_each(|item| one(name, line, item.clone(), assumed, said));
        return;
    }
    let (Some(api_version), Some(kind)) = (text_at("/apiVersion"), text_at("/kind")) else {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        match document.as_object().filter(|fields| stem == ENTRIES && !fields.is_empty()) {
            Some(fields) => said.objects.push(entries(fields, assumed)),
            None => said.faults.push(format!(
                "the document from line {line} on has no apiVersion and kind; write them, or put provider entries into \
                 {ENTRIES}.yaml"
            )),
        }
        return;
    };
    let written_by_people = [Kind::Proxy, Kind::ProviderHealth, Kind::ConfigMap, Kind::Secret];
    let found = Kind::all().iter().find(|named| {
        named.kind == kind && named.api_version == api_version && written_by_people.contains(&named.of)
    });
    let Some(named) = found else {
        // What else a cluster's file may hold (a Namespace, a Role) says nothing here, and is no fault.
        let ours = Kind::all().iter().find(|named| named.kind == kind && named.of == Kind::Proxy);
        if let Some(ours) = ours {
            said.faults.push(format!(
                "the document from line {line} on has apiVersion {api_version}; a {kind} is of {}",
                ours.api_version
            ));
        }
        return;
    };
    let Some(name) = text_at("/metadata/name").filter(|name| is_object_name(name)) else {
        said.faults.push(format!(
            "the {kind} from line {line} on has no metadata.name that can be used: a-z, 0-9, '-' and '.', as web-1"
        ));
        return;
    };
    let namespace = match (named.namespaced, text_at("/metadata/namespace")) {
        (false, _) => "",
        (true, Some(namespace)) if is_object_name(namespace) => namespace,
        (true, Some(_)) => {
            said.faults.push(format!("the {kind} from line {line} on has a metadata.namespace that is none"));
            return;
        }
        (true, None) => &assumed.namespace,
    };
    let key = Key::new(named.of, namespace, name);
    let faults = match named.of {
        Kind::Proxy => proxy(&document),
        Kind::ProviderHealth => schema::faults(&ProviderHealth::crd(), &document),
        Kind::Secret => secret(&document),
        Kind::ConfigMap => Vec::new(),
        Kind::Event | Kind::Namespace | Kind::Definition => Vec::new(),
    };
    if faults.is_empty() {
        said.objects.push((key, wanted(named.of, document)));
    } else {
        said.faults.extend(faults.into_iter().map(|fault| format!("{key}: {fault}")));
        said.faulty.push(key);
    }
}

/// Bare entries are the data of the ConfigMap that would hold them.
fn entries(fields: &Map<String, Value>, assumed: &Assumed) -> (Key, Value) {
    let data: BTreeMap<&String, String> = fields
        .iter()
        .map(|(entry, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                value => text::write(value).unwrap_or_default(),
            };
            (entry, text)
        })
        .collect();
    (
        Key::new(Kind::ConfigMap, &assumed.namespace, &assumed.providers),
        json!({ "metadata": {}, "data": data }),
    )
}

fn proxy(document: &Value) -> Vec<String> {
    let mut faults = schema::faults(&Proxy::crd(), document);
    if faults.is_empty() {
        let provider = document.pointer("/spec/provider").and_then(Value::as_str).unwrap_or_default();
        if let Err(error) = provider.parse::<EntryName>() {
            faults.push(format!("spec.provider: {error}"));
        }
        let sources = document.pointer("/spec/cloudInit").and_then(Value::as_object).map(Map::len);
        if sources.is_some_and(|sources| sources != 1) {
            faults.push("spec.cloudInit: give exactly one of inline, secretRef and configMapRef".to_owned());
        }
    }
    faults
}

fn secret(document: &Value) -> Vec<String> {
    let data = document.get("data").and_then(Value::as_object).into_iter().flatten();
    let bad = data.filter(|(_, value)| value.as_str().is_none_or(|text| STANDARD.decode(text).is_err()));
    // Never the value.
    bad.map(|(key, _)| format!("data.{key} is not base64; plain text belongs under stringData")).collect()
}

/// What of a document is wanted: no status, and of the metadata what people may set.
fn wanted(kind: Kind, document: Value) -> Value {
    let Value::Object(mut fields) = document else { return Value::Null };
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|field, _| ["annotations", "labels"].contains(&field.as_str()));
    }
    if kind == Kind::Secret
        && let Some(Value::Object(plain)) = fields.remove("stringData")
    {
        let data = fields.entry("data").or_insert_with(|| json!({}));
        for (key, value) in plain {
            if let (Value::Object(data), Some(text)) = (&mut *data, value.as_str()) {
                data.insert(key, json!(STANDARD.encode(text)));
            }
        }
    }
    let mut object = Value::Object(fields);
    if kind == Kind::Proxy {
        schema::fill(&Proxy::crd(), &mut object);
    }
    object
}

fn is_object_name(name: &str) -> bool {
    let part = |part: &str| {
        let inner = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        !part.is_empty() && inner && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests;
