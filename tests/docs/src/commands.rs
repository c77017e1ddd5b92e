//! What pages and samples say to type can be typed: the target, the file and the script are there.
//!
//! Commands of `epo` are read by `epo` itself, in a test of its own, with what is found here.

use std::{collections::BTreeSet, fs, io, path::Path};

use crate::{
    page::{self, Page},
    shell,
};

/// Languages of fences that hold commands, and that of a terminal, where commands have a prompt.
const SCRIPTS: [&str; 2] = ["sh", "bash"];
const TERMINAL: &str = "console";

/// Something to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where it is said: a file and a line.
    pub at: String,
    /// The words.
    pub words: Vec<String>,
}

/// Everything that pages, and the comments of what is deployed, say to type.
pub fn all(root: &Path) -> io::Result<Vec<Command>> {
    let mut found: Vec<Command> = page::all(root)?.iter().flat_map(of_page).collect();
    page::walk(root, &root.join("deploy"), "yaml", &mut |path, text| {
        found.extend(of_comments(&path, &text))
    })?;
    Ok(found)
}

/// What a page says to type: in blocks, and in its text where a span of code begins with a command of ours.
pub fn of_page(page: &Page) -> Vec<Command> {
    let mut found = Vec::new();
    for fence in page.fences() {
        let language = fence.info.split_whitespace().next().unwrap_or_default();
        let script = match language {
            TERMINAL => typed(&fence.text),
            language if SCRIPTS.contains(&language) => fence.text,
            _ => continue,
        };
        found.extend(read(&page.path, fence.line, &script));
    }
    for (line, span) in page.spans() {
        // "make room" is a way out, and no target.
        let is_target =
            span.starts_with("make ") && span.split_whitespace().count() == 2 && span != "make room";
        if is_target || ["epo ", "kubectl "].iter().any(|ours| span.starts_with(ours)) {
            found.extend(read(&page.path, line, span));
        }
    }
    found
}

/// What was typed in a terminal: lines with a prompt, and those that go on from them.
fn typed(text: &str) -> String {
    let mut script = String::new();
    let mut goes_on = false;
    for line in text.lines() {
        let command = line.strip_prefix("$ ").or(goes_on.then_some(line));
        goes_on = command.is_some_and(|command| command.ends_with('\\'));
        // A line stays a line, so that numbers of lines stay what they are.
        script.push_str(command.unwrap_or_default());
        script.push('\n');
    }
    script
}

/// What a comment sets off by three spaces is to be typed.
fn of_comments(path: &str, text: &str) -> Vec<Command> {
    let script: String =
        text.lines().map(|line| format!("{}\n", line.strip_prefix("#   ").unwrap_or_default())).collect();
    read(path, 1, &script)
}

fn read(path: &str, first: usize, script: &str) -> Vec<Command> {
    let commands = shell::commands(script).into_iter();
    commands.map(|(line, words)| Command { at: format!("{path}:{}", first + line), words }).collect()
}

/// What can't be typed.
pub fn faults(root: &Path, commands: &[Command]) -> io::Result<Vec<String>> {
    let targets = targets(&fs::read_to_string(root.join("Makefile"))?);
    let mut faults = Vec::new();
    for Command { at, words } in commands {
        let mut fault = |why: String| faults.push(format!("{at}: {}: {why}", words.join(" ")));
        let Some((first, rest)) = words.split_first() else { continue };
        match first.as_str() {
            "make" => {
                for target in rest.iter().filter(|word| !word.contains('=') && !word.starts_with('-')) {
                    if !targets.contains(target) {
                        fault(format!("the Makefile has no target {target}"));
                    }
                }
            }
            "kubectl" => {
                for file in files(rest).filter(|file| is_ours(root, file) && !root.join(file).exists()) {
                    fault(format!("{file} is not there"));
                }
            }
            script
                if script.contains('/')
                    && !script.starts_with(['/', '~', '$', '.'])
                    && is_ours(root, script)
                    && !root.join(script).is_file() =>
            {
                fault(format!("{script} is not there"));
            }
            _ => {}
        }
    }
    Ok(faults)
}

/// What a kubectl is given by `-f` or `-k`.
fn files(words: &[String]) -> impl Iterator<Item = &str> {
    let is_flag = |word: &str| matches!(word, "-f" | "-k" | "--filename" | "--kustomize");
    words.windows(2).filter_map(move |pair| match pair {
        [flag, file] if is_flag(flag) && file != "-" => Some(file.as_str()),
        _ => None,
    })
}

/// Whether a path begins in this tree; what a reader makes himself is his.
fn is_ours(root: &Path, path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    path.contains('/') && !first.is_empty() && first != "target" && root.join(first).is_dir()
}

/// What make can be asked for.
pub fn targets(makefile: &str) -> BTreeSet<String> {
    let lines = makefile.lines().filter(|line| !line.starts_with(['\t', '#', '.', ' ']));
    let rules = lines.filter_map(|line| line.split_once(':')).filter(|(_, rest)| !rest.starts_with('='));
    rules.flat_map(|(names, _)| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn what_is_said_to_be_typed_can_be() {
        let commands = all(&root()).unwrap();
        let of = |program: &str| commands.iter().filter(|command| command.words[0] == program).count();
        assert!(of("epo") > 40 && of("make") > 10 && of("kubectl") > 20, "commands are not found any more");
        let faults = faults(&root(), &commands).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_target_a_file_and_a_script_that_are_not_there_are_named() {
        let page = Page {
            path: "a.md".to_owned(),
            text: "x `make nothing`\n```sh\nkubectl apply -k deploy/nothing\nhack/nothing.sh\nkubectl apply -f own.yaml\n```\n"
                .to_owned(),
        };
        let found = faults(&root(), &of_page(&page)).unwrap();
        let at: Vec<&str> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
        assert_eq!(at, ["a.md:3", "a.md:4", "a.md:1"], "{found:#?}");
    }

    #[test]
    fn of_a_terminal_only_what_was_typed_counts() {
        let fence =
            "```console\n$ epo provider history \\\n    kubernetes\nmake nonsense\n$ make help\n```\n";
        let page = Page { path: "a.md".to_owned(), text: fence.to_owned() };
        let words: Vec<String> = of_page(&page).iter().map(|command| command.words.join(" ")).collect();
        assert_eq!(words, ["epo provider history kubernetes", "make help"]);
    }
}
