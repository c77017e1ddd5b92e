//! The pages of the tree, and what of a page is text and what is code.

use std::{fs, io, path::Path};

/// Folders whose pages are not ours to read here: what is built, and what becomes part of other projects, whose links
/// lead to files that are there once they are made.
const PASSED_OVER: [&str; 4] = ["target", "node_modules", "templates", "venv"];

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// From the root of the tree.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// A fenced block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Its first line, counted from 1.
    pub line: usize,
    /// What stands behind the fence that opens it.
    pub info: String,
    /// What is in it.
    pub text: String,
}

/// Every page, in the order of their paths.
pub fn all(root: &Path) -> io::Result<Vec<Page>> {
    let mut found = Vec::new();
    walk(root, root, "md", &mut |path, text| found.push(Page { path, text }))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Shows every file with an ending below a folder.
pub fn walk(root: &Path, folder: &Path, ending: &str, see: &mut dyn FnMut(String, String)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name.starts_with('.') || PASSED_OVER.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(root, &path, ending, see)?;
        } else if path.extension().is_some_and(|extension| extension == ending) {
            let below = path.strip_prefix(root).unwrap_or(&path);
            see(below.to_string_lossy().into_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// A line of a page and whether it is text or code.
struct Line<'a> {
    number: usize,
    text: &'a str,
    /// What opened the fence that it stands in.
    within: Option<&'a str>,
    is_fence: bool,
}

impl Page {
    fn lines(&self) -> Vec<Line<'_>> {
        let mut within: Option<(&str, &str)> = None;
        let mut lines = Vec::new();
        for (at, text) in self.text.lines().enumerate() {
            let trimmed = text.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            let (before, is_fence) = (within, mark.is_some_and(|m| within.is_none_or(|(open, _)| open == m)));
            if is_fence {
                let info = mark.and_then(|mark| trimmed.strip_prefix(mark)).unwrap_or_default().trim();
                within = if within.is_some() { None } else { mark.map(|mark| (mark, info)) };
            }
            let within = before.map(|(_, info)| info);
            lines.push(Line { number: at + 1, text, within, is_fence });
        }
        lines
    }

    /// The lines that are text, with their numbers.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let lines = self.lines().into_iter();
        let text = lines.filter(|line| line.within.is_none() && !line.is_fence);
        text.map(|line| (line.number, line.text)).collect()
    }

    /// Its blocks of code.
    pub fn fences(&self) -> Vec<Fence> {
        let mut found: Vec<Fence> = Vec::new();
        for line in self.lines() {
            match (line.within, line.is_fence) {
                (None, true) => found.push(Fence {
                    line: line.number + 1,
                    info: line.text.trim_start().trim_start_matches(['`', '~']).trim().to_owned(),
                    text: String::new(),
                }),
                (Some(_), false) => {
                    if let Some(fence) = found.last_mut() {
                        fence.text.push_str(line.text);
                        fence.text.push('\n');
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        found
    }

    /// Its headings, without their marks, with the number of the line.
    pub fn headings(&self) -> Vec<(usize, &str)> {
        let prose = self.prose().into_iter();
        prose
            .filter_map(|(number, line)| {
                let text = line.trim_start_matches('#');
                let depth = line.len() - text.len();
                let is_heading = (1..=6).contains(&depth) && text.starts_with(' ');
                is_heading.then(|| (number, text.trim()))
            })
            .collect()
    }

    /// What stands in backticks in its text, with the number of the line.
    pub fn spans(&self) -> Vec<(usize, &str)> {
        let prose = self.prose().into_iter();
        prose
            .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |span| (number, span)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { path: "docs/a.md".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn code_is_told_from_text() {
        let page = page("# A `b`\n\n```sh\nepo run # not a heading\n```\n\n## C\n~~~\n```\n~~~\n");
        assert_eq!(page.headings(), [(1, "A `b`"), (7, "C")]);
        assert_eq!(page.spans(), [(1, "b")]);
        let fences = page.fences();
        assert_eq!(fences.len(), 2);
        assert_eq!(fences[0], Fence { line: 4, info: "sh".into(), text: "epo run # not a heading\n".into() });
        assert_eq!(fences[1].text, "```\n");
    }
}
