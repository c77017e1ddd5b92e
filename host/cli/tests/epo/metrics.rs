//! The table of metrics in docs/observability.md, which everything that names a metric is held to: the code here, a
//! real scrape in the tests on a cluster, rules and dashboard in [`super::monitoring`].

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// One row.
pub struct Metric {
    pub kind: String,
    pub labels: BTreeSet<String>,
    /// Words that its row names: values of its labels, where there are only so many.
    pub values: BTreeSet<String>,
}

/// The table.
pub fn documented() -> BTreeMap<String, Metric> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let line = line.strip_prefix("| `egress_")?;
        let cells: Vec<&str> = line.split(" | ").collect();
        let [name, kind, labels, text] = cells.as_slice() else { panic!("{line}") };
        let metric = Metric { kind: kind.to_string(), labels: words(labels), values: words(text) };
        Some((format!("egress_{}", name.trim_end_matches('`')), metric))
    };
    // A metric without labels has an empty cell.
    let page = page.replace(" | | ", " |  | ");
    page.lines().filter_map(row).collect()
}
