//! The pages say what the code does.

use std::{collections::BTreeMap, path::Path};

use egress_runtime::Limits;
use serde_json::Value;

use super::{command::workspace, metrics::documented};

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

/// Names in the sources, and what kind each is counted as.
fn counted() -> BTreeMap<String, String> {
    let mut counted = BTreeMap::new();
    for crate_name in ["runtime", "capabilities", "operator", "cli"] {
        sources(&workspace().join("host").join(crate_name).join("src"), &mut |source| {
            for (at, _) in source.match_indices("\"egress_") {
                let name = source[at + 1..].split('"').next().unwrap();
                let before = source[..at].trim_end();
                let kinds = ["counter!(", "gauge!(", "histogram!("];
                if let Some(kind) = kinds.into_iter().find(|kind| before.ends_with(kind)) {
                    counted.insert(name.to_owned(), kind.trim_end_matches("!(").to_owned());
                }
            }
        });
    }
    counted
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

#[test]
fn the_page_lists_every_metric_with_its_kind_and_no_other() {
    let kinds: BTreeMap<String, String> =
        documented().into_iter().map(|(name, metric)| (name, metric.kind)).collect();
    assert_eq!(kinds, counted());
    assert!(kinds.len() > 20, "{kinds:?}");
}
