//! What fields an object may have, and what of a body is kept.
//!
//! The API server reads a body into Go types: fields that a type does not have are dropped, null becomes
//! nothing, and a value of another type is refused in the words of Go's decoder. The types are known from
//! k8s-openapi's schemas. An object of a kind that is not built in is taken as it is.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use k8s_openapi::{
    api::{apps::v1 as apps, core::v1 as core, policy::v1 as policy, rbac::v1 as rbac},
    schemars::{SchemaGenerator, generate::SchemaSettings},
};
use serde_json::{Map, Value};

use super::{json::at, kinds::Kind, patch::type_name, quantity};

/// What may stand somewhere.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Any,
    Text,
    /// base64.
    Bytes,
    Bool,
    Int(&'static str),
    Quantity,
    IntOrText,
    List(Arc<Shape>),
    Map(Arc<Shape>),
    /// The name of a type.
    Struct(String),
}

/// The fields of types, by the types' names.
#[derive(Debug, Default)]
pub(super) struct Schemas(BTreeMap<String, BTreeMap<String, Shape>>);

/// Go leaves out false of these when it writes them, since they are no pointers.
const PLAIN_BOOLS: [&str; 9] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "publishNotReadyAddresses",
    "paused",
];

impl Schemas {
    /// Those of the kinds that are built in.
    pub(super) fn built_in() -> &'static Self {
        static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
        SCHEMAS.get_or_init(|| {
            let mut generator = SchemaSettings::draft2020_12().into_generator();
            add(&mut generator);
            let mut schemas = Self::default();
            for (name, schema) in generator.definitions() {
                schemas.0.insert(short(name).to_owned(), fields_of(schema));
            }
            schemas
        })
    }

    /// The object as the API server reads it, or why it can't.
    pub(super) fn decode(&self, kind: &Kind, object: Value) -> Result<Value, String> {
        if self.0.contains_key(kind.kind.as_ref()) {
            let mut path = Path { of: kind.kind.to_string(), fields: Vec::new() };
            let decoded = self.read(&Shape::Struct(kind.kind.to_string()), object, &mut path)?;
            return Ok(decoded.unwrap_or_else(|| Value::Object(Map::new())));
        }
        Ok(object)
    }

    /// None where nothing is left of it.
    fn read(&self, shape: &Shape, value: Value, path: &mut Path) -> Result<Option<Value>, String> {
        let wrong = |value: &Value, path: &Path| Err(path.wrong(value, &go_type(shape)));
        Ok(match (shape, value) {
            (_, Value::Null) => None,
            (Shape::Any, value) => Some(value),
            (Shape::Text, Value::String(text)) => Some(Value::String(text)),
            (Shape::Bool, value @ Value::Bool(_)) => Some(value),
            (Shape::Bytes, Value::String(text)) => {
                check_base64(&text)?;
                Some(Value::String(text))
            }
            (Shape::Int(of), Value::Number(number)) => {
                let most = if *of == "int32" { i64::from(i32::MAX) } else { i64::MAX };
                match number.as_i64().filter(|number| (-most - 1..=most).contains(number)) {
                    Some(whole) => Some(whole.into()),
                    None => return Err(path.wrong_as(&format!("number {number}"), of)),
                }
            }
            (Shape::Quantity, Value::String(text)) => {
                let parsed = quantity::Quantity::parse(&text).ok_or(quantity::MALFORMED)?;
                Some(parsed.to_string().into())
            }
            (Shape::Quantity, Value::Number(number)) => Some(number.to_string().into()),
            (Shape::IntOrText, value @ (Value::Number(_) | Value::String(_))) => Some(value),
            (Shape::List(of), Value::Array(items)) => {
                let mut read = Vec::new();
                for item in items {
                    read.extend(self.read(of, item, path)?);
                }
                (!read.is_empty()).then_some(Value::Array(read))
            }
            (Shape::Map(of), Value::Object(fields)) => {
                let mut read = Map::new();
                for (key, value) in fields {
                    // Nothing is the empty text here.
                    let empty = matches!(**of, Shape::Text | Shape::Bytes).then(|| Value::from(""));
                    read.extend(self.read(of, value, path)?.or(empty).map(|value| (key, value)));
                }
                (!read.is_empty()).then_some(Value::Object(read))
            }
            (Shape::Struct(name), Value::Object(fields)) => {
                Some(Value::Object(self.read_struct(name, fields, path)?))
            }
            (_, value) => return wrong(&value, path),
        })
    }

    fn read_struct(
        &self,
        name: &str,
        fields: Map<String, Value>,
        path: &mut Path,
    ) -> Result<Map<String, Value>, String> {
        let mut read = Map::new();
        let Some(known) = self.0.get(name) else { return Ok(fields) };
        let outside = std::mem::replace(&mut path.of, name.to_owned());
        for (field, value) in fields {
            let Some(shape) = known.get(&field) else { continue };
            path.fields.push(field.clone());
            let value = self.read(shape, value, path)?;
            path.fields.pop();
            let left_out = |value: &Value| match value {
                Value::Bool(false) => PLAIN_BOOLS.contains(&field.as_str()),
                Value::String(text) => text.is_empty() && matches!(shape, Shape::Text),
                _ => false,
            };
            read.extend(value.filter(|value| !left_out(value)).map(|value| (field.clone(), value)));
        }
        path.of = outside;
        Ok(read)
    }

    /// Why a body is not one that can be applied: unlike other writes, an apply drops nothing.
    pub(super) fn apply_fault(&self, kind: &Kind, object: &Value) -> Option<String> {
        self.0.get(kind.kind.as_ref())?;
        self.strict(&Shape::Struct(kind.kind.to_string()), object, "")
    }

    fn strict(&self, shape: &Shape, value: &Value, path: &str) -> Option<String> {
        let expected = |what: &str| {
            Some(format!(
                "{path}: expected {what}, got &value.valueUnstructured{{Value:{}}}",
                go_value(value)
            ))
        };
        match (shape, value) {
            (_, Value::Null) | (Shape::Any | Shape::IntOrText | Shape::Quantity, _) => None,
            (Shape::Text | Shape::Bytes, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => None,
            (Shape::Int(_), Value::Number(_)) => None,
            (Shape::Text | Shape::Bytes, _) => expected("string"),
            (Shape::Bool, _) => expected("boolean"),
            (Shape::Int(_), _) => expected("numeric"),
            (Shape::List(of), Value::Array(items)) => items.iter().enumerate().find_map(|(index, item)| {
                self.strict(of, item, &format!("{path}{}", item_path(index, item)))
            }),
            (Shape::Map(of), Value::Object(fields)) => {
                fields.iter().find_map(|(key, value)| self.strict(of, value, &format!("{path}.{key}")))
            }
            (Shape::Struct(name), Value::Object(fields)) => {
                let known = self.0.get(name)?;
                fields.iter().find_map(|(key, value)| match known.get(key) {
                    Some(shape) => self.strict(shape, value, &format!("{path}.{key}")),
                    None => Some(format!("{path}.{key}: field not declared in schema")),
                })
            }
            (Shape::List(_), _) => expected("list"),
            (Shape::Map(_) | Shape::Struct(_), _) => expected("map"),
        }
    }
}

/// Where a value stands: Go names the innermost type and all fields on the way, but no index and no key.
struct Path {
    of: String,
    fields: Vec<String>,
}

impl Path {
    fn wrong(&self, value: &Value, expected: &str) -> String {
        self.wrong_as(type_name(value), expected)
    }

    fn wrong_as(&self, found: &str, expected: &str) -> String {
        let (of, fields) = (&self.of, self.fields.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {of}.{fields} of type {expected}")
    }
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Any => "interface {}".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int(of) => (*of).to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrText => "intstr.IntOrString".to_owned(),
        Shape::List(of) => format!("[]{}", go_type(of)),
        Shape::Map(of) => format!("map[string]{}", go_type(of)),
        Shape::Struct(name) => format!("v1.{name}"),
    }
}

fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Object(_) => "map[string]interface {}{}".to_owned(),
        Value::Array(_) => "[]interface {}{}".to_owned(),
        other => other.to_string(),
    }
}

fn item_path(index: usize, item: &Value) -> String {
    match at(item, &["name"]).and_then(Value::as_str) {
        Some(name) => format!("[name={name:?}]"),
        None => format!("[{index}]"),
    }
}

fn check_base64(text: &str) -> Result<(), String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    let text: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    match text.iter().position(|b| !legal(*b)) {
        Some(at) => Err(format!("illegal base64 data at input byte {at}")),
        None if !text.len().is_multiple_of(4) => {
            Err(format!("illegal base64 data at input byte {}", text.len() / 4 * 4))
        }
        None => Ok(()),
    }
}

fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<apps::Deployment>();
    generator.subschema_for::<apps::ReplicaSet>();
    generator.subschema_for::<core::ConfigMap>();
    generator.subschema_for::<core::Event>();
    generator.subschema_for::<core::Namespace>();
    generator.subschema_for::<core::Node>();
    generator.subschema_for::<core::Pod>();
    generator.subschema_for::<core::ResourceQuota>();
    generator.subschema_for::<core::Secret>();
    generator.subschema_for::<core::Service>();
    generator.subschema_for::<core::ServiceAccount>();
    generator.subschema_for::<policy::PodDisruptionBudget>();
    generator.subschema_for::<rbac::ClusterRole>();
    generator.subschema_for::<rbac::ClusterRoleBinding>();
    generator.subschema_for::<rbac::Role>();
    generator.subschema_for::<rbac::RoleBinding>();
}

/// `io.k8s.api.core.v1.PodSpec` is `PodSpec`: no two of ours share a last word.
fn short(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

fn fields_of(schema: &Value) -> BTreeMap<String, Shape> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(field, schema)| (field.clone(), shape_of(schema))).collect()
}

fn shape_of(schema: &Value) -> Shape {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return match short(reference) {
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrText,
            "Time" | "MicroTime" => Shape::Text,
            "FieldsV1" | "RawExtension" => Shape::Any,
            name => Shape::Struct(name.to_owned()),
        };
    }
    match (text("type"), text("format")) {
        ("string", "byte") => Shape::Bytes,
        ("string", _) => Shape::Text,
        ("boolean", _) => Shape::Bool,
        ("integer", "int32") => Shape::Int("int32"),
        ("integer", _) => Shape::Int("int64"),
        ("array", _) => Shape::List(Arc::new(schema.get("items").map_or(Shape::Any, shape_of))),
        ("object", _) => match schema.get("additionalProperties") {
            Some(of @ Value::Object(_)) => Shape::Map(Arc::new(shape_of(of))),
            _ => Shape::Any,
        },
        _ => Shape::Any,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::kinds::Kinds;

    fn decode(kind: &str, object: Value) -> Result<Value, String> {
        let kind = Kinds::default().of("v1", kind).unwrap();
        Schemas::built_in().decode(&kind, object)
    }

    #[test]
    fn what_a_type_does_not_have_is_dropped() {
        let body = json!({ "metadata": { "name": "a", "labels": {}, "annotations": null }, "zzz": 1, "data": { "k": null },
                           "immutable": false });
        let read = json!({ "metadata": { "name": "a" }, "data": { "k": "" }, "immutable": false });
        assert_eq!(decode("ConfigMap", body), Ok(read));
        let body = json!({ "spec": { "hostNetwork": false, "automountServiceAccountToken": false, "securityContext": {},
                                     "volumes": [], "containers": [{ "name": "", "resources": { "limits": { "cpu": "0.5" } } }] } });
        let read = json!({ "spec": { "automountServiceAccountToken": false, "securityContext": {},
                                     "containers": [{ "resources": { "limits": { "cpu": "500m" } } }] } });
        assert_eq!(decode("Pod", body), Ok(read));
    }

    #[test]
    fn another_type_is_refused_in_the_words_of_the_real_one() {
        for (kind, body, why) in [
            (
                "ConfigMap",
                json!({ "data": { "a": 1 } }),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "Pod",
                json!({ "spec": { "containers": "x" } }),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                "Pod",
                json!({ "spec": { "containers": [{ "ports": [{ "containerPort": "x" }] }] } }),
                "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of \
                 type int32",
            ),
            (
                "Pod",
                json!({ "metadata": { "labels": { "a": 1 } } }),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                "Pod",
                json!({ "spec": "x" }),
                "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
            ),
            ("Secret", json!({ "data": { "a": "not base64!" } }), "illegal base64 data at input byte 3"),
        ] {
            assert_eq!(decode(kind, body), Err(why.to_owned()));
        }
    }
}
