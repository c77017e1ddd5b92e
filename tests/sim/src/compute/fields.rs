//! The parameter `fields`: `kind,items/*/instances(name,zone)`. What is not named is left out of the answer.

use serde_json::{Map, Value};

/// A mask that was read: names with what is wanted below each; nothing below means all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<(String, Mask)>);

impl Mask {
    /// None for what is no mask.
    pub fn read(text: &str) -> Option<Self> {
        let (mask, rest) = Self::list(text)?;
        rest.is_empty().then_some(mask)
    }

    fn list(text: &str) -> Option<(Self, &str)> {
        let mut mask = Self::default();
        let mut rest = text;
        loop {
            let behind = mask.one(rest)?;
            match behind.strip_prefix(',') {
                Some(more) => rest = more,
                None => return Some((mask, behind)),
            }
        }
    }

    fn one<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let end = text.find([',', '/', '(', ')']).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        let known = self.0.iter().position(|(known, _)| known == name);
        let place = known.unwrap_or_else(|| {
            self.0.push((name.to_owned(), Self::default()));
            self.0.len() - 1
        });
        let (_, below) = self.0.get_mut(place)?;
        if let Some(rest) = rest.strip_prefix('/') {
            return below.one(rest);
        }
        if let Some(rest) = rest.strip_prefix('(') {
            let (inner, rest) = Self::list(rest)?;
            below.0.extend(inner.0);
            return rest.strip_prefix(')');
        }
        Some(rest)
    }

    /// What is left.
    pub fn apply(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Value::Array(all) => all.into_iter().map(|one| self.apply(one)).collect(),
            Value::Object(object) => {
                let kept = object.into_iter().filter_map(|(key, value)| {
                    let below = self.0.iter().find(|(name, _)| *name == key || name == "*")?;
                    Some((key, below.1.apply(value)))
                });
                Value::Object(kept.collect::<Map<String, Value>>())
            }
            other => other,
        }
    }
}
