//! What docs/troubleshooting.md says is shown, compared with what is.
//!
//! An entry of the page is a heading, a block of what an engineer sees, what it means and what to do. The block has lines
//! of `kubectl describe`; a word in angle brackets stands for whatever is there. The test that an entry names provokes
//! what the entry is about, and asks here whether every line of the block was shown.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    links::slug,
    page::{Fence, Page},
};

/// The page, from the root of the tree.
pub const PAGE: &str = "docs/troubleshooting.md";

/// A symptom.
#[derive(Debug)]
pub struct Entry {
    /// Its heading as an anchor: what tests know it by.
    pub anchor: String,
    /// The line of the heading.
    pub line: usize,
    /// What is shown.
    pub shown: Vec<Fence>,
    /// The tests that provoke it: files and names.
    pub by: Vec<(String, String)>,
}

/// The page's entries.
pub fn entries(page: &Page) -> Vec<Entry> {
    let is_entry = |line: usize| page.text.lines().nth(line - 1).is_some_and(|text| text.starts_with("### "));
    let headings: Vec<(usize, &str)> = page.headings();
    let ends = headings.iter().skip(1).map(|(line, _)| *line).chain([usize::MAX]);
    let sections = headings.iter().zip(ends).filter(|((line, _), _)| is_entry(*line));
    sections
        .map(|((from, heading), to)| {
            let within = |line: usize| (*from..to).contains(&line);
            let shown = page.fences().into_iter().filter(|fence| within(fence.line) && fence.info == "text");
            let by = page.spans().into_iter().filter(|(line, _)| within(*line));
            let by = by.filter_map(|(_, span)| span.split_once(".rs::"));
            Entry {
                anchor: slug(heading),
                line: *from,
                shown: shown.collect(),
                by: by.map(|(file, test)| (format!("{file}.rs"), test.to_owned())).collect(),
            }
        })
        .collect()
}

/// What the page says of an entry and was not shown.
///
/// The error says what is wrong with the page itself.
pub fn differs(root: &Path, anchor: &str, shown: &[String]) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let page = Page { path: PAGE.to_owned(), text };
    let entries = entries(&page);
    let entry = entries.iter().find(|entry| entry.anchor == anchor);
    let entry = entry.ok_or_else(|| format!("{PAGE} has no entry {anchor:?}"))?;
    let lines: Vec<String> = entry.shown.iter().flat_map(|fence| fence.text.lines().map(plain)).collect();
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(format!("{PAGE}:{}: {anchor} has no block of what is shown", entry.line));
    }
    let shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
    Ok(lines.into_iter().filter(|line| !shown.iter().any(|seen| fits(line, seen))).collect())
}

/// The same, as what a test fails with: nothing where all of it was shown.
pub fn complaint(anchor: &str, shown: &[String]) -> String {
    match differs(&crate::root(), anchor, shown) {
        Ok(missing) if missing.is_empty() => String::new(),
        Ok(missing) => format!(
            "{PAGE}, {anchor}: the page says\n  {}\nand shown was\n  {}\n",
            missing.join("\n  "),
            shown.join("\n  ")
        ),
        Err(fault) => fault,
    }
}

/// The messages of an entry that stand in no line of a table, such as `kubectl get -o wide` prints.
pub fn untold(root: &Path, anchor: &str, table: &str) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let page = Page { path: PAGE.to_owned(), text };
    let entries = entries(&page);
    let entry = entries.iter().find(|entry| entry.anchor == anchor);
    let entry = entry.ok_or_else(|| format!("{PAGE} has no entry {anchor:?}"))?;
    let lines = entry.shown.iter().flat_map(|fence| fence.text.lines());
    let messages = lines.filter_map(|line| Some(plain(line.trim_start().strip_prefix("Message:")?)));
    // Whatever stands before and behind it.
    let rows: Vec<String> = table.lines().map(|row| format!(" {} ", plain(row))).collect();
    let untold =
        messages.filter(|message| !rows.iter().any(|row| fits(&format!("<row>{message}<row>"), row)));
    Ok(untold.collect())
}

/// One space where there are many.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is what a pattern says, in which words in angle brackets stand for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('<') {
        let Some((_, after)) = behind.split_once('>') else { break };
        parts.push(before);
        rest = after;
    }
    parts.push(rest);
    let Some((first, middle)) = parts.split_first() else { return false };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let Some((last, middle)) = middle.split_last() else { return line.is_empty() };
    for part in middle {
        // What stands for something stands for at least a character.
        let Some(at) = line.char_indices().skip(1).find(|(at, _)| line[*at..].starts_with(part)) else {
            return false;
        };
        let Some(behind) = line.get(at.0 + part.len()..) else { return false };
        line = behind;
    }
    line.strip_suffix(last).is_some_and(|between| !between.is_empty())
}

/// An object as `kubectl describe` prints it, each line without its indentation.
pub fn described(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    describe(value, &mut lines);
    lines
}

fn describe(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) | Value::Array(_) => {
                        lines.push(format!("{}:", title(name)));
                        describe(value, lines);
                    }
                    Value::String(text) => lines.push(format!("{}: {text}", title(name))),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {
                        lines.push(format!("{}: {value}", title(name)));
                    }
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| describe(item, lines)),
        Value::String(text) => lines.push(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => lines.push(value.to_string()),
    }
}

/// `retryAt` is shown as `Retry At`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !title.is_empty() {
            title.push(' ');
        }
        if title.is_empty() { title.extend(c.to_uppercase()) } else { title.push(c) }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{named, root};

    fn page() -> Page {
        Page { path: PAGE.to_owned(), text: fs::read_to_string(root().join(PAGE)).unwrap() }
    }

    #[test]
    fn each_symptom_is_provoked_by_a_test_that_compares_what_is_shown() {
        let entries = entries(&page());
        assert!(entries.len() >= 30, "{}", entries.len());
        for Entry { anchor, line, shown, by } in &entries {
            assert!(!shown.is_empty(), "{PAGE}:{line}: say what is shown, in a block of text");
            let provokes = by.iter().any(|(file, test)| {
                let source = fs::read_to_string(root().join(file)).unwrap_or_default();
                named::tests(&source).any(|name| name == test) && source.contains(&format!("\"{anchor}\""))
            });
            assert!(provokes, "{PAGE}:{line}: no test that it names compares \"{anchor}\": {by:?}");
        }
    }

    #[test]
    fn a_pattern_fits_what_it_says_and_nothing_else() {
        for (pattern, line, wanted) in [
            ("a b", "a b", true),
            ("a b", "a bc", false),
            ("<x> b", "a b", true),
            ("<x> b", " b", false),
            ("a <x>", "a c d", true),
            ("a <x> c <y>.", "a b c d.", true),
            ("a <x> c <y>.", "a b d.", false),
            ("a<x>", "a", false),
            ("ä<x>ö", "äüö", true),
        ] {
            assert_eq!(fits(pattern, line), wanted, "{pattern:?} {line:?}");
        }
    }

    #[test]
    fn a_message_is_found_in_its_row_whatever_stands_around_it() {
        let symptom = "its-secret-or-configmap-is-missing";
        let row = "web   kvm2   Creating   Secret a/b, key c does not exist; create it, or change spec.cloudInit   74c0";
        assert_eq!(untold(&root(), symptom, row), Ok(Vec::new()));
        assert_eq!(untold(&root(), symptom, "web   kvm2   Creating").map(|left| left.len()), Ok(1));
        assert!(untold(&root(), "nothing", row).is_err());
    }

    #[test]
    fn an_object_is_shown_as_kubectl_does() {
        let object = serde_json::json!({ "phase": "Failed", "failure": { "retryAt": "x", "count": 1 }, "list": ["a"] });
        assert_eq!(
            described(&object),
            ["Failure:", "Count: 1", "Retry At: x", "List:", "a", "Phase: Failed"]
        );
    }
}
