//! What the definition of a resource says of a document, as an API server checks it before it stores one. Its rules in
//! CEL are not run here; where one matters, the reader of documents has it in Rust.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Everything that is wrong with the spec, each with its path.
pub fn faults(definition: &CustomResourceDefinition, document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let nothing = Value::Object(serde_json::Map::new());
    if let Some(schema) = schema(definition) {
        check(&schema, "spec", document.get("spec").unwrap_or(&nothing), &mut faults);
    }
    faults
}

/// Puts the defaults where nothing stands.
pub fn fill(definition: &CustomResourceDefinition, document: &mut Value) {
    let Some(schema) = schema(definition) else { return };
    if let Some(fields) = document.as_object_mut() {
        fill_in(&schema, fields.entry("spec").or_insert_with(|| Value::Object(serde_json::Map::new())));
    }
}

fn schema(definition: &CustomResourceDefinition) -> Option<Value> {
    let version = serde_json::to_value(definition.spec.versions.first()?.schema.as_ref()?).ok()?;
    version.pointer("/openAPIV3Schema/properties/spec").cloned()
}

fn check(schema: &Value, path: &str, value: &Value, faults: &mut Vec<String>) {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        if !(value.is_null() && schema.get("nullable") == Some(&Value::Bool(true))) {
            faults.push(format!("{path}: must be of type {wanted}"));
        }
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        faults.push(format!("{path}: must be one of {}", allowed.join(", ")));
    }
    if let Some(is) = value.as_f64() {
        if let Some(least) = number("minimum").filter(|least| is < *least) {
            faults.push(format!("{path}: must be at least {least}"));
        }
        if let Some(most) = number("maximum").filter(|most| is > *most) {
            faults.push(format!("{path}: must be at most {most}"));
        }
    }
    if let Some(text) = value.as_str() {
        length(schema, ["minLength", "maxLength"], path, text.chars().count(), "characters", faults);
    }
    if let Some(items) = value.as_array() {
        length(schema, ["minItems", "maxItems"], path, items.len(), "items", faults);
        if let Some(of) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                check(of, &format!("{path}[{index}]"), item, faults);
            }
        }
    }
    if let Some(fields) = value.as_object() {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (field, value) in fields {
            match known.and_then(|known| known.get(field)).or(others.filter(|others| others.is_object())) {
                Some(of) => check(of, &format!("{path}.{field}"), value, faults),
                None if others.is_some() || known.is_none() => {}
                None => faults.push(format!("{path}.{field}: is not known")),
            }
        }
        for field in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(field) = field.as_str().filter(|field| !fields.contains_key(*field)) {
                faults.push(format!("{path}.{field}: is missing"));
            }
        }
    }
}

fn length(
    schema: &Value,
    [least, most]: [&str; 2],
    path: &str,
    is: usize,
    of: &str,
    faults: &mut Vec<String>,
) {
    let number = |key: &str| schema.get(key).and_then(Value::as_u64);
    let is = is as u64;
    if let Some(least) = number(least).filter(|least| is < *least) {
        faults.push(format!("{path}: must have at least {least} {of}"));
    }
    if let Some(most) = number(most).filter(|most| is > *most) {
        faults.push(format!("{path}: must have at most {most} {of}"));
    }
}

fn fill_in(schema: &Value, value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    for (field, of) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let (None, Some(default)) = (fields.get(field), of.get("default")) {
            fields.insert(field.clone(), default.clone());
        }
        if let Some(value) = fields.get_mut(field) {
            fill_in(of, value);
        }
    }
}
