//! Every page can be found: each one below docs/ is linked from docs/README.md.

use crate::page::Page;

/// The page that leads to all others, from the root of the tree.
pub const INDEX: &str = "docs/README.md";

/// Pages that nobody is led to.
pub fn faults(pages: &[Page]) -> Vec<String> {
    let Some(index) = pages.iter().find(|page| page.path == INDEX) else {
        return vec![format!("{INDEX} is not there")];
    };
    let below = pages.iter().filter_map(|page| page.path.strip_prefix("docs/"));
    // Decisions are numbered, and found by their folder.
    let below = below.filter(|path| *path != "README.md" && !path.starts_with("decisions/"));
    let lost = below.filter(|path| !index.text.contains(&format!("({path})")));
    lost.map(|path| format!("{INDEX} does not lead to {path}: add it where its readers look")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page, root};

    #[test]
    fn every_page_is_led_to() {
        let faults = faults(&page::all(&root()).unwrap());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_page_that_nobody_is_led_to_is_named() {
        let page = |path: &str, text: &str| Page { path: path.to_owned(), text: text.to_owned() };
        let pages =
            [page(INDEX, "[a](a.md)"), page("docs/a.md", ""), page("docs/b.md", ""), page("x/c.md", "")];
        let found = faults(&pages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(" b.md"), "{found:?}");
    }
}
