//! Every provider's page answers the same questions in the same order, so that whoever knows one finds his way in all.

use crate::page::Page;

/// What the headings of a provider's page begin with, in their order.
const SECTIONS: [&str; 7] =
    ["What a ", "An entry", "Config", "Placement", "What lands ", "Reasons", "Limits"];
/// The page of a provider that is another one's but for a few lines, and leads to it.
const BY_ANOTHER: &str = "docs/providers/kvm.md";

/// What is missing, or stands elsewhere.
pub fn faults(pages: &[Page]) -> Vec<String> {
    let providers =
        pages.iter().filter(|page| page.path.starts_with("docs/providers/") && page.path != BY_ANOTHER);
    let mut faults = Vec::new();
    for page in providers {
        let mut headings = page.headings().into_iter();
        for section in SECTIONS {
            if !headings.any(|(_, heading)| heading.starts_with(section)) {
                faults.push(format!("{}: no heading {section:?} in its place", page.path));
                break;
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page, root};

    #[test]
    fn every_providers_page_has_the_same_sections_in_the_same_order() {
        let pages = page::all(&root()).unwrap();
        assert!(pages.iter().filter(|page| page.path.starts_with("docs/providers/")).count() >= 5);
        let faults = faults(&pages);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_section_that_is_missing_or_elsewhere_is_named() {
        let page = |text: &str| Page { path: "docs/providers/a.md".to_owned(), text: text.to_owned() };
        let whole: String = SECTIONS.iter().map(|section| format!("## {section}x\n")).collect();
        assert_eq!(faults(&[page(&whole)]), Vec::<String>::new());
        let without = whole.replace("## Placementx\n", "");
        assert!(faults(&[page(&without)])[0].contains("Placement"));
        let moved = format!("{without}## Placementx\n");
        assert_eq!(faults(&[page(&moved)]).len(), 1);
    }
}
