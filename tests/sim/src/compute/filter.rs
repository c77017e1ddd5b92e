//! Filters of lists: `(labels.a=b) (status!=DONE)`, or one `name eq REGEX`; the two forms can't be mixed.

use serde_json::Value;

use super::answers::Refusal;

/// A filter that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    All(Vec<Clause>),
    /// A prefix of the name: the only expressions that are known here end in `.*`.
    Name(String),
}

/// `field=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    field: String,
    value: String,
    equal: bool,
}

impl Filter {
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let bad = || Refusal::invalid("filter", text, "Invalid list filter expression.");
        if let Some(regex) = text.strip_prefix("name eq ") {
            let prefix = regex.strip_suffix(".*").filter(|prefix| !prefix.contains(['.', '*', '(', ' ']));
            return prefix.map(|prefix| Self::Name(prefix.to_owned())).ok_or_else(bad);
        }
        let mut clauses = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (clause, behind) =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(bad)?;
            rest = behind.trim_start();
            let (field, value, equal) = match clause.split_once("!=") {
                Some((field, value)) => (field, value, false),
                None => clause.split_once('=').map(|(field, value)| (field, value, true)).ok_or_else(bad)?,
            };
            clauses.push(Clause { field: field.to_owned(), value: value.to_owned(), equal });
        }
        Ok(Self::All(clauses))
    }

    pub fn takes(&self, object: &Value) -> bool {
        match self {
            Self::Name(prefix) => object
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| name.starts_with(prefix.as_str())),
            Self::All(clauses) => clauses.iter().all(|clause| {
                let found = clause.field.split('.').try_fold(object, |value, key| value.get(key));
                (found.and_then(Value::as_str) == Some(clause.value.as_str())) == clause.equal
            }),
        }
    }
}
