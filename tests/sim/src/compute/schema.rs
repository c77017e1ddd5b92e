//! The simulation answers nothing that the API does not describe: names and types from its discovery document, revision
//! 20261106, as far as they are used here. What a later revision may add is told by its name.

use serde_json::{Map, Value};

/// In answers on purpose: whoever reads ignores what it does not know.
const LATER: &str = "somethingNew";
const SCHEMAS: &str = include_str!("schema.json");

/// What is wrong with an answer of this kind.
pub fn faults(schema: &str, answer: &Value) -> Vec<String> {
    let schemas: Map<String, Value> = serde_json::from_str(SCHEMAS).unwrap();
    let mut faults = Vec::new();
    check(&schemas, schema, answer, schema, &mut faults);
    faults
}

fn check(schemas: &Map<String, Value>, kind: &str, value: &Value, at: &str, faults: &mut Vec<String>) {
    let inner = |open, close| kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close));
    let is_right = match kind {
        "any" => true,
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => {
            if let (Some(kind), Some(all)) = (inner('[', ']'), value.as_array()) {
                all.iter().for_each(|one| check(schemas, kind, one, at, faults));
                true
            } else if let (Some(kind), Some(all)) = (inner('{', '}'), value.as_object()) {
                all.iter().for_each(|(key, one)| check(schemas, kind, one, &format!("{at}.{key}"), faults));
                true
            } else if let (Some(fields), Some(object)) = (schemas.get(kind), value.as_object()) {
                for (key, one) in object.iter().filter(|(key, _)| *key != LATER) {
                    match fields.get(key).and_then(Value::as_str) {
                        Some(kind) => check(schemas, kind, one, &format!("{at}.{key}"), faults),
                        None => faults.push(format!("{at} has no {key}")),
                    }
                }
                true
            } else {
                false
            }
        }
    };
    if !is_right {
        faults.push(format!("{at} should be {kind}, and is {value}"));
    }
}
