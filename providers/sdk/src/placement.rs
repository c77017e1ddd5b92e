//! What a Proxy's placement asks of an entry, and how a provider says that it can't have it.

use crate::{Error, reason};

/// What a placement says can't be honoured; `why` goes on after the field's name.
pub fn refused(field: &str, why: String) -> Error {
    Error::permanent(reason::PLACEMENT, format!("spec.placement.{field} {why}"))
}

/// For people: all of them, or `none`.
pub fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What is asked for; else the default; else the only one there is.
pub fn chosen<'a>(
    field: &str,
    asked: &'a Option<String>,
    default: &'a Option<String>,
    mut known: impl Iterator<Item = &'a String> + Clone,
) -> Result<&'a str, Error> {
    if let Some(chosen) = asked.as_ref().or(default.as_ref()) {
        return Ok(chosen);
    }
    let all = names(known.clone());
    match (known.next(), known.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(refused(
            field,
            format!(
                "is empty, and there is more than one to choose from, or none ({all}); name one, or set defaults.{field}"
            ),
        )),
    }
}
