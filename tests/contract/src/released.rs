//! What was released stays as it was.
//!
//! A release is a copy of the files in `wit/released/VERSION/` and their digests in
//! `wit/released/SHA256SUMS`, which `sha256sum -c` reads as well. The files in `wit/` itself may go on to the
//! next version, but not change under a version that was released.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{files, line, version};

/// The folder of releases and the file of digests in it.
const FOLDER: &str = "released";
const SUMS: &str = "SHA256SUMS";

/// The versions that were released, oldest first.
pub fn versions(wit: &Path) -> anyhow::Result<Vec<semver::Version>> {
    let mut found = BTreeSet::new();
    for path in sums(wit)?.keys() {
        let (version, _) = path.split_once('/').unwrap_or((path, ""));
        found.insert(version.parse()?);
    }
    Ok(found.into_iter().collect())
}

/// What was changed that must not.
pub fn faults(wit: &Path) -> anyhow::Result<Vec<String>> {
    let recorded = sums(wit)?;
    let released = versions(wit)?;
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for version in &released {
        let folder = wit.join(FOLDER).join(version.to_string());
        for (name, text) in files(&folder).unwrap_or_default() {
            let path = format!("{version}/{name}");
            match recorded.get(&path) {
                Some(digest) if *digest == sha256(&text) => {}
                Some(digest) => faults.push(format!(
                    "{FOLDER}/{path} of the frozen line {} has the digest {}, and {digest} was released: \
                     put it back; what has to change goes into a new version",
                    line(version),
                    sha256(&text)
                )),
                None => faults.push(format!(
                    "{FOLDER}/{path} of the frozen line {} was not released with it: take it out",
                    line(version)
                )),
            }
            seen.insert(path);
        }
    }
    for path in recorded.keys().filter(|path| !seen.contains(*path)) {
        faults.push(format!("{FOLDER}/{path} was released and is gone: put it back"));
    }
    let current = version(wit)?;
    if released.contains(&current) {
        let folder = wit.join(FOLDER).join(current.to_string());
        faults.extend(differences(&files(&folder)?, &files(wit)?).into_iter().map(|place| {
            format!(
                "{place} differs from the frozen line {} ({current} is released): \
                 raise the package version in every file, or put it back",
                line(&current)
            )
        }));
    }
    Ok(faults)
}

/// What stands for a whole release in the changelog: the digest of its lines in the file of digests.
pub fn digest(wit: &Path, version: &semver::Version) -> anyhow::Result<String> {
    let of_it = format!("  {version}/");
    let text = read(wit)?;
    let lines: String =
        text.lines().filter(|line| line.contains(&of_it)).map(|line| format!("{line}\n")).collect();
    Ok(sha256(lines.as_bytes()))
}

/// Makes the current files a release.
pub fn record(wit: &Path) -> anyhow::Result<semver::Version> {
    let version = version(wit)?;
    if versions(wit)?.contains(&version) {
        anyhow::bail!("{version} is released already: raise the package version in every file first");
    }
    let folder = wit.join(FOLDER).join(version.to_string());
    fs::create_dir_all(&folder)?;
    let mut sums = read(wit)?;
    for (name, text) in files(wit)? {
        fs::write(folder.join(&name), &text)?;
        sums.push_str(&format!("{}  {version}/{name}\n", sha256(&text)));
    }
    fs::write(wit.join(FOLDER).join(SUMS), sums)?;
    Ok(version)
}

/// Where two sets of files differ: `FILE:LINE`, or the file.
fn differences(was: &[(String, Vec<u8>)], is: &[(String, Vec<u8>)]) -> Vec<String> {
    let is: BTreeMap<_, _> = is.iter().map(|(name, text)| (name, text)).collect();
    let mut found = Vec::new();
    let mut left: BTreeSet<_> = is.keys().copied().collect();
    for (name, old) in was {
        left.remove(name);
        match is.get(name) {
            None => found.push(name.clone()),
            Some(new) if *new == old => {}
            Some(new) => {
                let lines = |text: &[u8]| text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
                let (old, new) = (lines(old), lines(new));
                let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
                found.push(format!("{name}:{}", same + 1));
            }
        }
    }
    found.extend(left.into_iter().cloned());
    found
}

/// Path below the folder of releases to digest.
fn sums(wit: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = read(wit)?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (digest, path) = line
                .split_once("  ")
                .ok_or_else(|| anyhow::anyhow!("{FOLDER}/{SUMS}: {line:?} is no `DIGEST  VERSION/FILE`"))?;
            Ok((path.to_owned(), digest.to_owned()))
        })
        .collect()
}

fn read(wit: &Path) -> io::Result<String> {
    match fs::read_to_string(wit.join(FOLDER).join(SUMS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::{copy, edit, raise, wit};

    #[test]
    fn nothing_that_was_released_has_changed() {
        let faults = faults(&wit()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn the_changelog_tells_each_release_with_its_digest() {
        let changelog = fs::read_to_string(wit().join("../CHANGELOG.md")).unwrap();
        let released = versions(&wit()).unwrap();
        assert!(!released.is_empty(), "0.1.0 is released");
        for version in released {
            let digest = digest(&wit(), &version).unwrap();
            let told = changelog.lines().any(|line| line.contains(&format!("egress:provider@{version}")));
            assert!(told && changelog.contains(&digest), "CHANGELOG.md is to tell {version} with {digest}");
        }
    }

    #[test]
    fn a_release_is_recorded_once_and_passes() {
        let folder = copy();
        let version = record(folder.path()).unwrap();
        assert_eq!(versions(folder.path()).unwrap(), [version]);
        assert_eq!(faults(folder.path()).unwrap(), [""; 0]);
        let again = record(folder.path()).unwrap_err().to_string();
        assert!(again.contains("is released already"), "{again}");
    }

    #[test]
    fn a_changed_file_of_a_frozen_line_fails_naming_file_and_line() {
        let folder = copy();
        raise(folder.path(), "0.1.0");
        record(folder.path()).unwrap();
        edit(&folder.path().join("released/0.1.0"), "log.wit", "debug", "debugging");
        fs::write(folder.path().join("released/0.1.0/more.wit"), "").unwrap();
        fs::remove_file(folder.path().join("released/0.1.0/clock.wit")).unwrap();
        let found = faults(folder.path()).unwrap().join("\n");
        assert!(found.contains("released/0.1.0/log.wit of the frozen line 0.1 has the digest"), "{found}");
        assert!(found.contains("released/0.1.0/more.wit of the frozen line 0.1 was not released"), "{found}");
        assert!(found.contains("released/0.1.0/clock.wit was released and is gone"), "{found}");
    }

    #[test]
    fn a_released_version_can_not_be_changed_in_place_but_a_new_one_can_begin() {
        let folder = copy();
        raise(folder.path(), "0.1.0");
        record(folder.path()).unwrap();
        edit(folder.path(), "clock.wit", "interface clock {\n", "interface clock {\n    /// A day.\n");
        let found = faults(folder.path()).unwrap().join("\n");
        assert!(found.contains("clock.wit:") && found.contains("the frozen line 0.1 (0.1.0"), "{found}");
        raise(folder.path(), "0.1.1");
        assert_eq!(faults(folder.path()).unwrap(), [""; 0]);
    }
}
