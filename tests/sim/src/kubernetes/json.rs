//! Reading and writing inside of JSON objects.

use serde_json::{Map, Value};

/// The text at a path; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |object, key| object.get(*key))
}

/// The list at a path; empty when there is none.
pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The fields at a path, where there are any.
pub(super) fn fields<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object)
}

/// Sets a value at a path; what is missing on the way is made.
pub(super) fn put(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let Some((last, way)) = path.split_last() else { return };
    let mut here = object;
    for key in way {
        here = enter(here).entry(*key).or_insert_with(|| Value::Object(Map::new()));
    }
    enter(here).insert((*last).to_owned(), value.into());
}

/// Sets a value where there is none yet.
pub(super) fn default(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    if at(object, path).is_none_or(Value::is_null) {
        put(object, path, value);
    }
}

/// Takes a value away from a path.
pub(super) fn take(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    let mut here = object;
    for key in way {
        here = here.get_mut(*key)?;
    }
    here.as_object_mut()?.remove(*last)
}

/// The fields of a value, which becomes an object if it is none.
pub(super) fn enter(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object just now"),
    }
}
