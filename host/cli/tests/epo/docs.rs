//! The pages say what the code does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use egress_runtime::Limits;
use serde_json::Value;

use super::command::workspace;

fn guide() -> String {
    std::fs::read_to_string(workspace().join("docs/operator-guide.md")).unwrap()
}

#[test]
fn the_guide_lists_every_limit_with_its_default() {
    let rows: BTreeMap<String, Value> = guide()
        .lines()
        .skip_while(|line| *line != "### Limits")
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter_map(|(name, rest)| Some((name.to_owned(), rest.split(" | ").next()?.parse().ok()?)))
        .collect();
    let Value::Object(defaults) = serde_json::to_value(Limits::default()).unwrap() else { unreachable!() };
    assert_eq!(rows, defaults.into_iter().collect());
}

#[test]
fn the_guide_lists_every_metric() {
    let listed: BTreeSet<String> = names(&guide(), "`egress_").into_iter().collect();
    let mut counted = BTreeSet::new();
    for crate_name in ["runtime", "capabilities", "operator"] {
        sources(&workspace().join("host").join(crate_name).join("src"), &mut |source| {
            counted.extend(names(source, "\"egress_"));
        });
    }
    assert_eq!(listed, counted);
}

/// What stands between two marks, the first of which is the beginning of `opening`.
fn names(text: &str, opening: &str) -> Vec<String> {
    let (mark, _) = opening.split_at(1);
    let name = |(at, _): (usize, &str)| text[at + 1..].split(mark).next().unwrap().to_owned();
    text.match_indices(opening).map(name).collect()
}

fn sources(dir: &Path, see: &mut dyn FnMut(&str)) {
    for found in std::fs::read_dir(dir).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() {
            sources(&path, see);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            see(&std::fs::read_to_string(path).unwrap());
        }
    }
}
