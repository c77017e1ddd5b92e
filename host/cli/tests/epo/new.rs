//! `epo provider new`: what it writes. Whether that builds is tried at the end, and in `tests/projects`.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    command::{Ran, epo, ran, run, workspace},
    // As long as a name may be: whatever stands on one line with it must still fit.
    project::{NAME, Project},
};

const KINDS: [(&str, &str); 5] = [
    ("kubernetes", "rust"),
    ("kubernetes", "javascript"),
    ("kubernetes", "python"),
    ("http", "rust"),
    ("libvirt", "rust"),
];

fn new(name: &str, kind: &str, lang: &str, folder: &Path) -> Ran {
    let mut epo = epo();
    epo.current_dir(folder).args(["provider", "new", name, "--kind", kind, "--lang", lang]);
    ran(epo.output().unwrap())
}

fn project(kind: &str, lang: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let said = new(NAME, kind, lang, folder.path()).well();
    assert!(said.contains(&format!("cd {NAME}")), "{said}");
    let project = folder.path().join(NAME);
    (folder, project)
}

/// Every file, by its path within the project.
fn files(project: &Path) -> Vec<(String, String)> {
    fn walk(project: &Path, dir: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(project, &path, found);
            } else {
                let name = path.strip_prefix(project).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(project, project, &mut found);
    found
}

#[test]
fn a_name_that_entries_do_not_take_is_refused_with_one_that_they_do() {
    let folder = tempfile::tempdir().unwrap();
    for (name, cause) in [
        ("My_Provider", "a-z"),
        ("9lives", "letter"),
        ("mine-", "ends with -"),
        ("one-that-is-far-too-long", "longer than 20"),
        ("../elsewhere", "a-z"),
    ] {
        new(name, "kubernetes", "rust", folder.path()).refused(2, &[name, cause, "my-provider"]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_folder_that_is_there_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("precious"), "data").unwrap();
    new("mine", "kubernetes", "rust", folder.path()).refused(2, &["mine is there already", "--output"]);
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
}

#[test]
fn a_folder_within_none_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("no/mine");
    let out = out.to_str().unwrap();
    run(&["provider", "new", "mine", "--kind", "kubernetes", "--lang", "rust", "--output", out])
        .refused(2, &[out, "does not exist"]);
}

#[test]
fn a_kind_that_a_language_is_not_made_for_is_refused_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["http", "libvirt"] {
        for lang in ["javascript", "python"] {
            new("mine", kind, lang, folder.path())
                .refused(2, &["Rust alone", "--lang rust", "--kind kubernetes"]);
        }
    }
}

#[test]
fn nothing_of_a_template_is_left_unfilled() {
    for (kind, lang) in KINDS {
        let (_folder, project) = project(kind, lang);
        for (path, content) in files(&project) {
            assert!(!path.contains("{{") && !path.contains("dot-"), "{path}");
            // GitHub's own expressions are `${{ .. }}`, with a blank.
            for (at, _) in content.match_indices("{{") {
                let after = &content[at + 2..];
                let word: String = after.chars().take_while(char::is_ascii_lowercase).collect();
                assert!(word.is_empty() || !after[word.len()..].starts_with("}}"), "{path}: {{{{{word}}}}}");
            }
        }
    }
}

#[test]
fn the_contract_in_a_project_is_the_one_that_this_epo_serves() {
    for (kind, lang) in KINDS {
        let (_folder, project) = project(kind, lang);
        let names = |dir: &Path| -> BTreeSet<_> {
            let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.is_file()).map(|path| path.file_name().unwrap().to_owned()).collect()
        };
        let wit = workspace().join("wit");
        assert_eq!(names(&project.join("wit")), names(&wit));
        for name in names(&wit) {
            let read = |dir: &Path| fs::read(dir.join(&name)).unwrap();
            assert_eq!(read(&project.join("wit")), read(&wit), "{name:?}");
        }
    }
}

#[test]
fn a_readme_leads_to_nothing_that_is_not_there() {
    for (kind, lang) in KINDS {
        let (_folder, project) = project(kind, lang);
        let readme = fs::read_to_string(project.join("README.md")).unwrap();
        let links: Vec<&str> =
            readme.match_indices("](").map(|(at, _)| readme[at + 2..].split(')').next().unwrap()).collect();
        assert!(links.len() > 5, "{links:?}");
        for link in links.iter().filter(|link| !link.starts_with("https://")) {
            assert!(project.join(link).exists(), "{kind} {lang}: {link}");
        }
        for command in readme.match_indices("epo provider ").map(|(at, found)| &readme[at + found.len()..]) {
            let command = command.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap();
            run(&["provider", command, "--help"]).well();
        }
    }
}

#[test]
fn what_is_a_script_can_be_run() {
    let (_folder, project) = project("kubernetes", "javascript");
    let mode = fs::metadata(project.join("ci.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "{mode:o}");
}

#[test]
fn a_rust_project_takes_the_versions_that_this_tree_takes() {
    let (_folder, project) = project("kubernetes", "rust");
    let pinned = |root: &Path, file: &str, start: &str| -> String {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{file} has no line {start}")).to_owned()
    };
    for (file, start) in [
        ("rust-toolchain.toml", "channel = "),
        ("Cargo.toml", "edition = "),
        ("Cargo.toml", "rust-version = "),
        ("Cargo.toml", "wit-bindgen = "),
        ("Cargo.toml", "serde = "),
        ("Cargo.toml", "serde_json = "),
    ] {
        assert_eq!(pinned(&project, file, start), pinned(&workspace(), file, start));
    }
}

#[test]
fn a_project_in_rust_passes_its_own_ci() {
    for kind in ["kubernetes", "http", "libvirt"] {
        Project::new(Path::new(env!("CARGO_BIN_EXE_epo")), kind, "rust").passes_its_ci();
    }
}
