//! What an author lacks is named with the way to it, and ends with 2.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use super::command::{Ran, epo, ran};

/// A folder for the PATH with these programs of this machine and no others.
fn only(programs: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for program in programs {
        let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.exists());
        symlink(found.unwrap_or_else(|| panic!("no {program} here")), folder.path().join(program)).unwrap();
    }
    folder
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes a project, and runs what its README says, with this PATH.
fn make(lang: &str, path: &Path) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let mut new = epo();
    new.current_dir(folder.path());
    ran(new.args(["provider", "new", "mine", "--kind", "kubernetes", "--lang", lang]).output().unwrap())
        .well();
    let mut make = std::process::Command::new(path.join("make"));
    make.current_dir(folder.path().join("mine")).env("PATH", path).env("EPO", env!("CARGO_BIN_EXE_epo"));
    ran(make.output().unwrap())
}

#[track_caller]
fn told(ran: &Ran, said: &[&str]) {
    assert_eq!(ran.code, 2, "{}", ran.err);
    for part in said {
        assert!(ran.err.contains(part), "{part:?} is missing in {}", ran.err);
    }
}

#[test]
fn without_node_or_with_an_old_one_make_says_what_to_install() {
    let path = only(&["make", "sh", "find"]);
    told(&make("javascript", path.path()), &["Node.js 18", "https://nodejs.org", "make again"]);
    script(&path.path().join("npm"), "exit 0");
    script(&path.path().join("node"), "exit 1");
    told(&make("javascript", path.path()), &["Node.js 18"]);
}

#[test]
fn without_python_or_its_venv_make_says_what_to_install() {
    let path = only(&["make", "sh", "find"]);
    told(&make("python", path.path()), &["Python 3.11", "python3-venv", "make PYTHON="]);
    script(&path.path().join("python3"), "exit 1");
    told(&make("python", path.path()), &["Python 3.11"]);
}

#[test]
fn without_the_guests_target_a_build_says_how_to_get_it() {
    // No rustup, which would install it.
    let path = only(&["make", "sh", "cargo"]);
    script(&path.path().join("rustc"), "echo /nowhere/lib");
    told(
        &make("rust", path.path()),
        &["target wasm32-unknown-unknown", "rustup target add", "libstd-rust-dev-wasm32"],
    );
}

#[test]
fn without_cargo_a_build_says_that_the_toolchain_is_missing() {
    let path = only(&["make", "sh"]);
    told(&make("rust", path.path()), &["can't run cargo", "is the Rust toolchain on the PATH"]);
}

#[test]
fn without_epo_make_says_how_to_name_it() {
    let path = only(&["make", "sh", "cargo"]);
    let folder = tempfile::tempdir().unwrap();
    let mut new = epo();
    new.current_dir(folder.path());
    ran(new.args(["provider", "new", "mine", "--kind", "http", "--lang", "rust"]).output().unwrap()).well();
    let mut make = std::process::Command::new(path.path().join("make"));
    make.current_dir(folder.path().join("mine")).env("PATH", path.path()).env_remove("EPO");
    told(&ran(make.output().unwrap()), &["no epo on the PATH", "make EPO="]);
}
