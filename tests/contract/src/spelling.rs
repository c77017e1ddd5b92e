//! A word that the contract documents as a string is spelled so on the Rust side.
//!
//! Kinds of failure are strings and not enums, so that a line can gain one; so no compiler compares the two
//! sides, and this does: it reads the documentation of the field and the arms of `as_str`.

use std::{collections::BTreeSet, path::Path};

use anyhow::Context;
use wit_parser::{Resolve, TypeDefKind};

/// The words in backticks in the documentation of a record's field.
pub fn documented(
    wit: &Path,
    interface: &str,
    record: &str,
    field: &str,
) -> anyhow::Result<BTreeSet<String>> {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit)?;
    let place = || format!("no {interface}.{record}.{field} in the contract");
    let (_, interface) =
        resolve.interfaces.iter().find(|(_, i)| i.name.as_deref() == Some(interface)).with_context(place)?;
    let definition = interface.types.get(record).and_then(|id| resolve.types.get(*id)).with_context(place)?;
    let TypeDefKind::Record(record) = &definition.kind else { anyhow::bail!("{}: no record", place()) };
    let field = record.fields.iter().find(|f| f.name == field).with_context(place)?;
    let docs = field.docs.contents.as_deref().unwrap_or_default();
    Ok(docs.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// The names of an enum's cases.
pub fn cases(wit: &Path, interface: &str, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit)?;
    let place = || format!("no enum {interface}.{name} in the contract");
    let (_, interface) =
        resolve.interfaces.iter().find(|(_, i)| i.name.as_deref() == Some(interface)).with_context(place)?;
    let definition = interface.types.get(name).and_then(|id| resolve.types.get(*id)).with_context(place)?;
    let TypeDefKind::Enum(cases) = &definition.kind else { anyhow::bail!("{}", place()) };
    Ok(cases.cases.iter().map(|case| case.name.clone()).collect())
}

/// The values of the string constants of a source.
pub fn constants(source: &str) -> BTreeSet<String> {
    let value = |line: &str| Some(line.trim().split_once(": &str = \"")?.1.strip_suffix("\";")?.to_owned());
    source.lines().filter(|line| line.trim().starts_with("pub const ")).filter_map(value).collect()
}

/// What each type's `as_str` can answer, by the type's name, in a source that rustfmt formatted.
///
/// The compiler sees to it that every variant has an arm.
pub fn spelled(source: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    for block in source.split("\nimpl ").skip(1) {
        let Some((name, rest)) = block.split_once(" {\n") else { continue };
        let body = rest.split_once("\n}").map_or(rest, |(body, _)| body);
        let Some((_, body)) = body.split_once("fn as_str(") else { continue };
        let body = body.split_once("\n    }").map_or(body, |(body, _)| body);
        let words: BTreeSet<String> = body
            .lines()
            .filter_map(|line| line.trim().split_once(" => \"")?.1.strip_suffix("\","))
            .map(str::to_owned)
            .collect();
        if !words.is_empty() {
            found.push((name.to_owned(), words));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use egress_contract::{ErrorClass, State};

    use super::*;
    use crate::tests::wit;

    /// Where the contract documents the words of a type: interface, record, field.
    const PLACES: [(&str, [&str; 3]); 6] = [
        ("HttpFailureKind", ["http", "failure", "kind"]),
        ("KubernetesFailureKind", ["kubernetes", "failure", "kind"]),
        ("LibvirtStage", ["libvirt", "failure", "stage"]),
        ("TransferFailureKind", ["transfer", "failure", "kind"]),
        ("AddressKind", ["types", "address", "kind"]),
        ("HealthReason", ["types", "health", "reason"]),
    ];

    fn source(path: &str) -> String {
        fs::read_to_string(wit().join("..").join(path)).unwrap()
    }

    #[test]
    fn each_word_is_spelled_as_the_contract_documents_it() {
        let lent = ["http", "kubernetes", "libvirt", "transfer"];
        let lent = lent.map(|name| format!("host/runtime/src/capability/{name}.rs"));
        for path in lent.iter().map(String::as_str).chain(["providers/sdk/src/types.rs"]) {
            let spelled = spelled(&source(path));
            assert!(!spelled.is_empty(), "{path} has no as_str any more: mend this test");
            for (name, words) in spelled {
                let Some((_, [interface, record, field])) =
                    PLACES.into_iter().find(|(known, _)| *known == name)
                else {
                    panic!("{path}: add {name} to PLACES: where does the contract document its words?");
                };
                let documented = documented(&wit(), interface, record, field).unwrap();
                assert_eq!(words, documented, "{name} against {interface}.{record}.{field}");
            }
        }
    }

    #[test]
    fn the_sdk_knows_the_reasons_that_the_operator_knows() {
        let documented = documented(&wit(), "types", "error", "reason").unwrap();
        assert_eq!(constants(&source("providers/sdk/src/error.rs")), documented);
    }

    #[test]
    fn classes_and_states_are_spelled_as_the_contract_names_them() {
        let classes = spelled(&source("host/contract/src/types.rs"))
            .into_iter()
            .find(|(name, _)| name == "ErrorClass")
            .unwrap()
            .1;
        assert_eq!(classes, cases(&wit(), "types", "error-class").unwrap());
        for class in classes {
            let read: ErrorClass = serde_json::from_value(class.clone().into()).unwrap();
            assert_eq!(read.as_str(), class);
        }
        for state in cases(&wit(), "types", "state").unwrap() {
            serde_json::from_value::<State>(state.into()).unwrap();
        }
    }

    #[test]
    fn words_are_read_off_an_as_str_and_off_the_documentation() {
        let source = "\nimpl Kind {\n    /// x\n    pub fn as_str(self) -> &'static str {\n        match self {\n            Self::TooLarge => \"too-large\",\n        }\n    }\n\n    fn other() { A => \"b\", }\n}\n";
        assert_eq!(spelled(source), [("Kind".to_owned(), ["too-large".to_owned()].into())]);
        assert!(documented(&wit(), "http", "failure", "kind").unwrap().contains("too-large"));
        assert!(documented(&wit(), "http", "failure", "nothing").is_err());
    }
}
