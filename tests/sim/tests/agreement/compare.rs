//! Where two answers differ.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

/// One place in one answer.
#[derive(Debug)]
pub struct Difference {
    pub step: String,
    pub path: String,
    recorded: Option<Value>,
    found: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        let (recorded, found) = (show(&self.recorded), show(&self.found));
        write!(f, "{} at {}\n  recorded {recorded}\n  found    {found}", self.step, self.path)
    }
}

pub fn differences(step: &str, recorded: &Value, found: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare(step, String::new(), Some(recorded), Some(found), &mut differences);
    differences
}

fn compare(
    step: &str,
    path: String,
    recorded: Option<&Value>,
    found: Option<&Value>,
    into: &mut Vec<Difference>,
) {
    match (recorded, found) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                compare(step, format!("{path}/{key}"), a.get(key), b.get(key), into);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(step, format!("{path}/{index}"), a.get(index), b.get(index), into);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            into.push(Difference { step: step.to_owned(), path, recorded: a.cloned(), found: b.cloned() })
        }
    }
}
