//! What is different between two JSON values, for people.
//!
//! Not the two values side by side: the paths at which they differ, and of long texts the lines. An element that
//! came into a list, or went, is shown as that, and does not make all behind it different.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

/// A longer value is cut.
const LONGEST: usize = 400;

/// One place at which two values differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `body.spec.containers[0].image`; empty for the whole.
    pub path: String,
    /// None where it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// None where it is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Every place at which they differ.
pub fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("", before, after, &mut changes);
    changes
}

fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_objects(path, before, after, changes),
        (Value::Array(before), Value::Array(after)) => compare_arrays(path, before, after, changes),
        _ if before == after => {}
        _ => changes.push(Change {
            path: path.to_owned(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

fn compare_objects(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    changes: &mut Vec<Change>,
) {
    let new = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(new) {
        let at = below(path, key);
        match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) => compare(&at, before, after, changes),
            (before, after) => {
                changes.push(Change { path: at, before: before.cloned(), after: after.cloned() })
            }
        }
    }
}

fn below(path: &str, key: &str) -> String {
    let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match (path, plain) {
        ("", true) => key.to_owned(),
        (path, true) => format!("{path}.{key}"),
        (path, false) => format!("{path}[{}]", Value::from(key)),
    }
}

fn compare_arrays(path: &str, before: &[Value], after: &[Value], changes: &mut Vec<Change>) {
    let same = |pair: &(&Value, &Value)| pair.0 == pair.1;
    let first = before.iter().zip(after).take_while(same).count();
    let (before_left, after_left) =
        (before.get(first..).unwrap_or_default(), after.get(first..).unwrap_or_default());
    let last = before_left.iter().rev().zip(after_left.iter().rev()).take_while(same).count();
    let before_left = before_left.get(..before_left.len() - last).unwrap_or_default();
    let after_left = after_left.get(..after_left.len() - last).unwrap_or_default();
    for offset in 0..before_left.len().max(after_left.len()) {
        let at = format!("{path}[{}]", first + offset);
        match (before_left.get(offset), after_left.get(offset)) {
            (Some(before), Some(after)) => compare(&at, before, after, changes),
            (before, after) => {
                changes.push(Change { path: at, before: before.cloned(), after: after.cloned() })
            }
        }
    }
}

/// One block for each change, its lines behind `indent`.
pub fn shown(changes: &[Change], indent: &str) -> String {
    let mut text = String::new();
    for Change { path, before, after } in changes {
        let path = if path.is_empty() { "(all of it)" } else { path };
        // Writing to a String can't fail.
        let _ = writeln!(text, "{indent}{path}");
        if let (Some(Value::String(before)), Some(Value::String(after))) = (before, after)
            && (before.contains('\n') || after.contains('\n'))
        {
            lines(before, after, indent, &mut text);
            continue;
        }
        for (sign, value) in [('-', before), ('+', after)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{indent}  {sign} {}", short(value));
            }
        }
    }
    text
}

/// The lines that differ, with one that does not on each side.
fn lines(before: &str, after: &str, indent: &str, text: &mut String) {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.split('\n').collect(), after.split('\n').collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let first = before.iter().zip(&after).take_while(same).count();
    let most = before.len().min(after.len()) - first;
    let last = before.iter().rev().zip(after.iter().rev()).take_while(same).count().min(most);
    let mut line = |sign: char, line: &str| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{indent}  {sign} {line}");
    };
    if let Some(context) = first.checked_sub(1).and_then(|at| before.get(at)) {
        line(' ', context);
    }
    before.get(first..before.len() - last).unwrap_or_default().iter().for_each(|gone| line('-', gone));
    after.get(first..after.len() - last).unwrap_or_default().iter().for_each(|new| line('+', new));
    if let Some(context) = before.get(before.len() - last) {
        line(' ', context);
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}... ({} bytes)", text.get(..at).unwrap_or_default(), text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: Value, after: Value) -> String {
        shown(&between(&before, &after), "")
    }

    #[test]
    fn only_what_differs_is_told_by_its_path() {
        let before = json!({ "spec": { "containers": [{ "image": "a", "name": "x" }] }, "kind": "Pod" });
        let after =
            json!({ "spec": { "containers": [{ "image": "b", "name": "x" }], "new": true }, "kind": "Pod" });
        assert_eq!(
            told(before, after),
            "spec.containers[0].image\n  - \"a\"\n  + \"b\"\nspec.new\n  + true\n"
        );
    }

    #[test]
    fn an_element_that_came_makes_those_behind_it_no_different() {
        let (before, after) = (json!(["a", "b", "c"]), json!(["a", "x", "b", "c"]));
        assert_eq!(told(before.clone(), after.clone()), "[1]\n  + \"x\"\n");
        assert_eq!(told(after, before), "[1]\n  - \"x\"\n");
        assert_eq!(told(json!(["a", "a"]), json!(["a"])), "[1]\n  - \"a\"\n");
    }

    #[test]
    fn of_a_long_text_the_lines_are_told() {
        let before = "one\ntwo\nthree\nfour\n";
        let after = "one\ntwo\n3\nthree and a half\nfour\n";
        assert_eq!(
            told(json!({ "conf": before }), json!({ "conf": after })),
            "conf\n    two\n  - three\n  + 3\n  + three and a half\n    four\n"
        );
        assert_eq!(told(json!("a\nb"), json!("a\nb\n")), "(all of it)\n    b\n  + \n");
    }

    #[test]
    fn keys_that_are_no_words_are_quoted() {
        let of = |value: &str| json!({ "labels": { "app.kubernetes.io/name": value } });
        assert_eq!(told(of("a"), of("b")), "labels[\"app.kubernetes.io/name\"]\n  - \"a\"\n  + \"b\"\n");
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        let value = json!({ "a": [1, { "b": null }], "c": "d\ne" });
        assert_eq!(told(value.clone(), value), "");
        assert!(told(json!("x"), json!("y".repeat(1_000))).contains("... (1002 bytes)"));
    }
}
