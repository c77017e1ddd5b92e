//! Every command of `epo` that a page or a sample says to type is one that `epo` takes.

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::args::Cli;

/// Why it is not taken; nothing where it is.
fn refusal(words: &[String]) -> Option<String> {
    // A word in capitals stands for what a reader puts there.
    let stands_for = |word: &String| word.chars().all(|c| c.is_ascii_uppercase());
    let words = words.iter().map(|word| if stands_for(word) { word.to_lowercase() } else { word.clone() });
    match Cli::try_parse_from(words) {
        Ok(_) => None,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
            // `epo provider inspect` named in a sentence is the command, not a line to type.
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
            _ => error
                .to_string()
                .lines()
                .next()
                .map(str::to_owned)
                .filter(|why| !why.contains("a value is required")),
        },
    }
}

#[test]
fn every_command_that_a_page_says_to_type_is_taken() {
    let commands = docs_tests::commands::all(&docs_tests::root()).unwrap();
    let mut taken = 0;
    let mut faults = Vec::new();
    for command in commands.iter().filter(|command| command.words[0] == "epo") {
        taken += 1;
        faults.extend(
            refusal(&command.words).map(|why| format!("{}: {}: {why}", command.at, command.words.join(" "))),
        );
    }
    assert!(taken > 40, "{taken}: commands are not found any more");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_or_an_option_that_there_is_not_is_told() {
    let refused = |line: &str| refusal(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_some();
    for line in
        ["epo nonsense", "epo run --nonsense", "epo provider history a b", "epo orphans --delete=maybe"]
    {
        assert!(refused(line), "{line}");
    }
    for line in ["epo --help", "epo provider inspect", "epo run --log-format text"] {
        assert!(!refused(line), "{line}");
    }
}

/// What `--help` shows of each command, and of those below it.
fn paths(command: &clap::Command, above: &str, into: &mut Vec<String>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let path = format!("{above} {}", below.get_name());
        paths(below, &path, into);
        into.push(path);
    }
}

#[test]
fn every_command_stands_in_a_page() {
    let mut all = Vec::new();
    paths(&Cli::command(), "epo", &mut all);
    let pages = docs_tests::page::all(&docs_tests::root()).unwrap();
    let told = |path: &String| {
        pages.iter().any(|page| page.path != "CHANGELOG.md" && page.text.contains(path.as_str()))
    };
    let untold: Vec<&String> = all.iter().filter(|path| !told(path)).collect();
    assert!(untold.is_empty(), "no page speaks of {untold:?}");
}
