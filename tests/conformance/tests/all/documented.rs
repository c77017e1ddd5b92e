//! The pages say what the code does.

use std::{collections::BTreeSet, path::Path};

use egress_conformance::{
    profile::{AXES, HEALTH_REASONS},
    promise,
};

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The cells of each row of a page's tables.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches([' ', '|']).to_owned()).collect()).collect()
}

#[test]
fn the_page_lists_every_promise_as_the_table_has_it_and_no_other() {
    let listed: Vec<Vec<String>> = rows(&page("conformance.md"))
        .into_iter()
        .filter(|row| row.len() >= 3 && row[0].starts_with('`') && !row[0].starts_with("`--"))
        .collect();
    let table: Vec<Vec<String>> = promise::all()
        .iter()
        .map(|promise| {
            let binds = promise.binds.map(|(axis, value)| format!("`{axis}` `{value}`")).unwrap_or_default();
            vec![format!("`{}`", promise.id), promise.says.to_owned(), promise.stands.to_owned(), binds]
        })
        .collect();
    let told = |rows: &[Vec<String>]| -> Vec<String> {
        rows.iter().map(|row| row.join(" | ").trim_end_matches([' ', '|']).to_owned()).collect()
    };
    assert_eq!(told(&listed), told(&table));
}

#[test]
fn every_promise_has_a_name_and_a_sentence_of_its_own() {
    let ids: BTreeSet<&str> = promise::all().iter().map(|promise| promise.id).collect();
    let sentences: BTreeSet<&str> = promise::all().iter().map(|promise| promise.says).collect();
    assert_eq!((ids.len(), sentences.len()), (promise::all().len(), promise::all().len()));
    for promise in promise::all() {
        assert!(promise.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", promise.id);
        assert!(promise.says.ends_with('.') && !promise.stands.is_empty(), "{}", promise.id);
    }
}

#[test]
fn the_axes_and_reasons_are_the_contracts() {
    let contract = page("contract.md");
    let code =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let section = |title: &str| {
        let (_, behind) = contract.split_once(title).unwrap();
        let end = behind.find("\n## ").into_iter().chain(behind.find("\n### ")).min().unwrap();
        rows(&behind[..end])
    };
    let axes: Vec<(String, Vec<String>)> = section("### Profile")
        .iter()
        .filter(|row| row[0].starts_with('`'))
        .map(|row| (code(&row[0])[0].clone(), code(&row[1])))
        .collect();
    let known: Vec<(String, Vec<String>)> = AXES
        .iter()
        .map(|(axis, values)| ((*axis).to_owned(), values.iter().map(|value| (*value).to_owned()).collect()))
        .collect();
    assert_eq!(axes, known);
    let reasons: BTreeSet<String> = section("### Reasons of a health")
        .iter()
        .filter(|row| row[0].starts_with('`'))
        .map(|row| code(&row[0])[0].clone())
        .collect();
    assert_eq!(reasons, HEALTH_REASONS.iter().map(|reason| (*reason).to_owned()).collect());
}
