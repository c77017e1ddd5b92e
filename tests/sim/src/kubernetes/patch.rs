//! Merge patch and JSON patch, with the liberties that the API server takes.
//!
//! Its JSON patch is more lenient than RFC 6902: `replace` and `copy` of a key that is missing in an object add
//! it, `test` of a missing one against null holds, an index may be negative, and a path without its slash does
//! nothing. All other faults are one refusal without any detail.

use serde_json::{Value, json};

use super::{
    json::enter,
    status::{Answer, bad_request, status},
};

/// RFC 7396.
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    let fields = enter(into);
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.remove(key);
            }
            value => merge(fields.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

/// The same for a whole object, which must be one.
pub(super) fn merge_object(into: &mut Value, patch: &Value) -> Answer<()> {
    match patch {
        Value::Object(_) => {
            merge(into, patch);
            Ok(())
        }
        Value::Null => Err(bad_request("Invalid JSON Patch")),
        other => Err(bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_name(other)
        ))),
    }
}

/// What Go calls a JSON value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A list of operations: all of them, or none.
pub(super) fn json_patch(into: &mut Value, patch: &Value) -> Answer<()> {
    let Value::Array(operations) = patch else {
        return Err(bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            type_name(patch)
        )));
    };
    let mut patched = into.clone();
    for operation in operations {
        apply(&mut patched, operation).ok_or_else(|| {
            status(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
                json!({}),
            )
        })?;
    }
    *into = patched;
    Ok(())
}

fn apply(object: &mut Value, operation: &Value) -> Option<()> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str);
    let path = text("path")?;
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => set(object, path, value(), Set::Insert),
        "replace" => set(object, path, value(), Set::Replace),
        "remove" => take(object, path).map(|_| ()),
        "test" => {
            let found = get(object, path)?;
            (found.unwrap_or(&Value::Null) == &value()).then_some(())
        }
        "move" => {
            let moved = take(object, text("from")?)?;
            set(object, path, moved, Set::Insert)
        }
        "copy" => {
            let copied = get(object, text("from")?)?.cloned().unwrap_or(Value::Null);
            set(object, path, copied, Set::Insert)
        }
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    Insert,
    Replace,
}

/// The keys of a path; what stands before its first slash does not count.
fn keys(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}

fn index(key: &str, length: usize) -> Option<usize> {
    match key.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok()?),
        None => key.parse().ok(),
    }
}

/// None where the way there is missing; `Some(None)` where only the end is.
fn get<'a>(object: &'a Value, path: &str) -> Option<Option<&'a Value>> {
    let keys = keys(path);
    let Some((last, way)) = keys.split_last() else { return Some(Some(object)) };
    let parent = way.iter().try_fold(object, |here, key| child(here, key))?;
    match parent {
        Value::Object(fields) => Some(fields.get(last)),
        Value::Array(items) => items.get(index(last, items.len())?).map(Some),
        _ => None,
    }
}

fn child<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => items.get(index(key, items.len())?),
        _ => None,
    }
}

fn parent_mut<'a>(object: &'a mut Value, way: &[String]) -> Option<&'a mut Value> {
    let mut here = object;
    for key in way {
        here = match here {
            Value::Object(fields) => fields.get_mut(key)?,
            Value::Array(items) => {
                let at = index(key, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    Some(here)
}

fn set(object: &mut Value, path: &str, value: Value, how: Set) -> Option<()> {
    if path.is_empty() {
        // The whole document: what becomes of it is no object of its kind.
        *object = matches!(value, Value::Object(_)).then_some(value)?;
        return Some(());
    }
    let keys = keys(path);
    // `data/x`: the API server looks for nothing, and finds it.
    let Some((last, way)) = keys.split_last().filter(|_| path.starts_with('/')) else { return Some(()) };
    match parent_mut(object, way)? {
        Value::Object(fields) => {
            fields.insert(last.clone(), value);
        }
        Value::Array(items) => match (how, last.as_str()) {
            (Set::Insert, "-") => items.push(value),
            (Set::Insert, key) => {
                let at = index(key, items.len() + usize::from(key.starts_with('-')))?;
                if at > items.len() {
                    return None;
                }
                items.insert(at, value);
            }
            (Set::Replace, key) => {
                let at = index(key, items.len())?;
                *items.get_mut(at)? = value;
            }
        },
        _ => return None,
    }
    Some(())
}

fn take(object: &mut Value, path: &str) -> Option<Value> {
    let keys = keys(path);
    let (last, way) = keys.split_last()?;
    match parent_mut(object, way)? {
        Value::Object(fields) => fields.remove(last),
        Value::Array(items) => {
            let at = index(last, items.len())?;
            (at < items.len()).then(|| items.remove(at))
        }
        _ => None,
    }
}
