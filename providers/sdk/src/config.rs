//! Reading a config to its end: every fault with its path, not only the first.
//!
//! A reader goes on after a fault with nothing in the value's place, and what was read counts only when
//! there was no fault at all. A key that nobody asked for is a fault too: a mistyped key must not become
//! its default.

use std::{cell::RefCell, ops::RangeInclusive};

use serde_json::{Map, Value};

/// What is wrong with one value of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: `squid.allowedClients[0]`; empty for the whole.
    pub path: String,
    /// What, and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Reads a whole config.
pub fn read<T>(config: &Value, read: impl FnOnce(&mut Object<'_>) -> T) -> Result<T, Vec<Fault>> {
    let faults = RefCell::new(Vec::new());
    let value = Field { path: String::new(), value: config, faults: &faults }.object(read);
    match (value, faults.into_inner()) {
        (Some(value), faults) if faults.is_empty() => Ok(value),
        (_, faults) => Err(faults),
    }
}

/// A value and where it stands.
#[derive(Clone)]
pub struct Field<'a> {
    path: String,
    value: &'a Value,
    faults: &'a RefCell<Vec<Fault>>,
}

impl<'a> Field<'a> {
    /// Where it stands.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value as it is.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Notes what is wrong with it.
    pub fn fault(&self, message: impl Into<String>) {
        self.faults.borrow_mut().push(Fault::new(self.path.clone(), message));
    }

    fn expected<T>(&self, what: &str) -> Option<T> {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.fault(format!("must be {what}, but is {found}"));
        None
    }

    /// A text that is not empty.
    pub fn text(&self) -> Option<&'a str> {
        match self.value.as_str() {
            Some("") => {
                self.fault("must not be empty");
                None
            }
            Some(text) => Some(text),
            None => self.expected("a text"),
        }
    }

    /// A text that may be empty.
    pub fn any_text(&self) -> Option<&'a str> {
        self.value.as_str().or_else(|| self.expected("a text"))
    }

    /// A whole number within a range.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let what = || format!("a whole number from {} to {}", range.start(), range.end());
        let Some(number) = self.value.as_u64() else { return self.expected(&what()) };
        if range.contains(&number) {
            return Some(number);
        }
        self.fault(format!("must be {}, but is {number}", what()));
        None
    }

    /// True or false.
    pub fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.expected("true or false"))
    }

    /// One of these words.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.fault(format!("must be one of {}, but is {text:?}", words.join(", ")));
        None
    }

    /// The elements of a list.
    pub fn list(&self) -> Vec<Field<'a>> {
        let Some(list) = self.value.as_array() else {
            self.expected::<()>("a list");
            return Vec::new();
        };
        let element =
            |(index, value)| Field { path: format!("{}[{index}]", self.path), value, faults: self.faults };
        list.iter().enumerate().map(element).collect()
    }

    /// The entries of an object whose keys are not known beforehand.
    pub fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let Some(map) = self.map() else { return Vec::new() };
        let entry = |(key, value): (&'a String, &'a Value)| {
            (key.as_str(), Field { path: join(&self.path, key), value, faults: self.faults })
        };
        map.iter().map(entry).collect()
    }

    /// An object with known keys; the others are faults.
    pub fn object<T>(&self, read: impl FnOnce(&mut Object<'a>) -> T) -> Option<T> {
        let map = self.map()?;
        let mut object = Object { field: self.clone(), map, known: Vec::new() };
        let value = read(&mut object);
        object.close();
        Some(value)
    }

    fn map(&self) -> Option<&'a Map<String, Value>> {
        self.value.as_object().or_else(|| self.expected("an object"))
    }
}

/// An object that is being read.
pub struct Object<'a> {
    field: Field<'a>,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// A key that may be missing; null counts as missing.
    pub fn optional(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(Field { path: join(&self.field.path, key), value, faults: self.field.faults })
    }

    /// A key that must be there; `what` says what to write.
    pub fn required(&mut self, key: &'static str, what: &str) -> Option<Field<'a>> {
        let field = self.optional(key);
        if field.is_none() {
            self.fault(key, format!("is missing; give {what}"));
        }
        field
    }

    /// Notes what is wrong with a key, there or not.
    pub fn fault(&self, key: &str, message: impl Into<String>) {
        self.field.faults.borrow_mut().push(Fault::new(join(&self.field.path, key), message));
    }

    fn close(self) {
        for key in self.map.keys().filter(|key| !self.known.contains(&key.as_str())) {
            self.fault(key, format!("is not known; known here: {}", self.known.join(", ")));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(config: &Value) -> Result<(String, u64), Vec<Fault>> {
        read(config, |root| {
            let name = root.required("name", "a name").and_then(|field| field.text().map(str::to_owned));
            let sizes = root.optional("sizes").map(|field| field.list()).unwrap_or_default();
            let size = sizes.iter().filter_map(|size| size.integer(1..=9)).sum();
            root.optional("inner").and_then(|inner| inner.object(|inner| inner.optional("on")?.boolean()));
            (name.unwrap_or_default(), size)
        })
    }

    #[test]
    fn a_good_config_is_read() {
        let config = json!({"name": "x", "sizes": [1, 2], "inner": {"on": true}});
        assert_eq!(parse(&config), Ok(("x".to_owned(), 3)));
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let config = json!({"sizes": [1, 10, "2"], "inner": {"on": "yes", "off": 1}, "nmae": "x"});
        let faults: Vec<String> = parse(&config).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            [
                "name: is missing; give a name",
                "sizes[1]: must be a whole number from 1 to 9, but is 10",
                "sizes[2]: must be a whole number from 1 to 9, but is a text",
                "inner.on: must be true or false, but is a text",
                "inner.off: is not known; known here: on",
                "nmae: is not known; known here: name, sizes, inner",
            ]
        );
    }

    #[test]
    fn a_config_that_is_no_object_is_one_fault() {
        assert_eq!(parse(&json!([])).unwrap_err(), [Fault::new("", "must be an object, but is a list")]);
    }
}
