//! The tests and files that pages name are there.
//!
//! A page that says "this is so, and that test shows it" is worth as much as that test is.

use std::{collections::BTreeMap, fs, path::Path};

use crate::page::Page;

/// Folders of the tree: a span of code that begins with one of them and a slash is a path.
const FOLDERS: [&str; 7] = ["deploy", "docs", "hack", "host", "providers", "tests", "wit"];

/// What is named and is not there.
pub fn faults(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut sources = BTreeMap::new();
    let mut faults = Vec::new();
    for page in pages {
        for (line, span) in page.spans() {
            let fault = match (span.split_once(".rs::"), is_path(span)) {
                (Some((file, test)), _) => is_missing(root, &mut sources, &format!("{file}.rs"), test),
                (None, true) => (!root.join(span).exists()).then(|| format!("{span} is not there")),
                (None, false) => None,
            };
            faults.extend(fault.map(|fault| format!("{}:{line}: {fault}", page.path)));
        }
    }
    faults
}

/// How many tests a page names.
pub fn count(page: &Page) -> usize {
    page.spans().iter().filter(|(_, span)| span.contains(".rs::")).count()
}

fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
    // A word in capitals stands for whatever is there.
    let stands_for =
        span.split('/').any(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase()));
    plain
        && !stands_for
        && span.split_once('/').is_some_and(|(first, rest)| FOLDERS.contains(&first) && !rest.is_empty())
}

fn is_missing(root: &Path, sources: &mut BTreeMap<String, String>, file: &str, test: &str) -> Option<String> {
    let read = || fs::read_to_string(root.join(file)).unwrap_or_default();
    let source = sources.entry(file.to_owned()).or_insert_with(read);
    if source.is_empty() {
        return Some(format!("{file} is not there, which is to hold the test {test}"));
    }
    (!tests(source).any(|name| name == test)).then(|| format!("{file} has no test {test}"))
}

/// The names of a source's tests: functions that have an attribute of one.
pub fn tests(source: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    source.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test");
            return None;
        }
        let of_test = std::mem::take(&mut is_test);
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        name.split(['(', '<']).next().filter(|_| of_test)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page, root};

    #[test]
    fn every_test_and_file_that_a_page_names_is_there() {
        let pages = page::all(&root()).unwrap();
        let faults = faults(&root(), &pages);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_test_or_file_that_is_not_there_is_named() {
        let here = "tests/docs/src/named.rs";
        let text = format!(
            "`{here}::a_test_or_file_that_is_not_there_is_named` `{here}::faults`\n`docs/no.md` `and/or`\n"
        );
        let page = Page { path: "a.md".to_owned(), text };
        assert_eq!(
            super::faults(&root(), std::slice::from_ref(&page)),
            [format!("a.md:1: {here} has no test faults"), "a.md:2: docs/no.md is not there".to_owned()]
        );
        assert_eq!(count(&page), 2);
    }
}
