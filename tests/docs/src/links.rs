//! Every relative link leads to a file that there is, and to a heading that it has.
//!
//! What lies outside of the tree is not asked for: a test that needs somebody else's server fails for his reasons.

use std::{collections::BTreeSet, path::Path};

use crate::page::Page;

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    line: usize,
    to: &'a str,
}

/// The links that lead nowhere.
pub fn faults(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        for Link { line, to } in links(page) {
            if to.contains("://") || to.starts_with("mailto:") {
                if to.starts_with("http://") {
                    faults
                        .push(format!("{}:{line}: {to} can be changed on its way: link to https", page.path));
                }
                continue;
            }
            if let Some(why) = nowhere(root, pages, page, to) {
                faults.push(format!("{}:{line}: {to} {why}", page.path));
            }
        }
    }
    faults
}

fn nowhere(root: &Path, pages: &[Page], page: &Page, to: &str) -> Option<String> {
    let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.path.clone() } else { resolved(&page.path, file)? };
    if !root.join(&path).exists() {
        return Some(format!("leads to {path}, which is not there"));
    }
    let anchor = anchor?;
    let Some(target) = pages.iter().find(|other| other.path == path) else {
        return Some("has an anchor, and what it leads to is no page".to_owned());
    };
    let known = anchors(target);
    (!known.contains(anchor)).then(|| format!("leads to a heading that {path} does not have"))
}

/// A link from where its page stands, as a path from the root; what leaves the tree stays as it is and is not found.
fn resolved(from: &str, to: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

fn links(page: &Page) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, text) in page.prose() {
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once("](") {
            let Some((to, after)) = behind.split_once(')') else { break };
            found.push(Link { line, to: to.split_whitespace().next().unwrap_or_default() });
            rest = after;
        }
    }
    found
}

/// The anchors that a page's headings get where it is shown.
pub fn anchors(page: &Page) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, heading) in page.headings() {
        let slug = slug(heading);
        let repeated = (0..).map(|times| if times == 0 { slug.clone() } else { format!("{slug}-{times}") });
        if let Some(free) = repeated.into_iter().find(|anchor| !found.contains(anchor)) {
            found.insert(free);
        }
    }
    found
}

/// A heading as an anchor: small letters, hyphens for spaces, and nothing else but digits and underscores.
pub fn slug(heading: &str) -> String {
    // Of a link its text is shown.
    let shown = match (heading.find('['), heading.find("](")) {
        (Some(from), Some(to)) if from < to => {
            heading.replacen('[', "", 1).split("](").next().map(str::to_owned)
        }
        _ => None,
    };
    let shown = shown.unwrap_or_else(|| heading.to_owned());
    let kept = shown.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page, root};

    #[test]
    fn every_link_leads_somewhere() {
        let pages = page::all(&root()).unwrap();
        assert!(
            pages.iter().map(|page| links(page).len()).sum::<usize>() > 50,
            "no links are found any more"
        );
        let faults = faults(&root(), &pages);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line() {
        let page = |path: &str, text: &str| Page { path: path.to_owned(), text: text.to_owned() };
        let pages = [
            page(
                "docs/a.md",
                "# Top\n[b](b.md#there) [b](b.md#away) [c](c.md) [up](../../x) [top](#top)\n[h](http://x)\n",
            ),
            page("docs/b.md", "# There\n"),
        ];
        let folder = root();
        // b.md is not there as a file: that is told, and a.md's own heading is found.
        let found = faults(&folder, &pages);
        let lines: Vec<&str> = found.iter().map(|fault| fault.split(' ').nth(1).unwrap()).collect();
        assert_eq!(lines, ["b.md#there", "b.md#away", "c.md", "#top", "http://x"], "{found:#?}");
        assert!(found[2].starts_with("docs/a.md:2: c.md leads to docs/c.md"), "{found:#?}");
    }

    #[test]
    fn anchors_are_those_that_are_shown() {
        let page = Page {
            path: "a.md".to_owned(),
            text: "# What is replaced, and when\n## `epo run`\n## A\n## A\n## The [contract](c.md)\n"
                .to_owned(),
        };
        let found = anchors(&page);
        for anchor in ["what-is-replaced-and-when", "epo-run", "a", "a-1", "the-contract"] {
            assert!(found.contains(anchor), "{anchor}: {found:?}");
        }
    }
}
