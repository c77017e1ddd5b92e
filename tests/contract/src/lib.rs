//! What guards the contract in `wit/`.
//!
//! A provider outlives the host that it was built for, so three things must not happen unseen: an item that
//! nobody explained, a released file that was changed, and a change within a line that an older component
//! would not survive. Each guard answers the faults that it found, as sentences; the tests want none.

use std::{fs, io, path::Path};

pub mod compatible;
pub mod documented;
pub mod page;
pub mod released;
pub mod spelling;

/// The WIT files of a folder by name, in their order; what stands in folders below is not among them.
pub fn files(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".wit") {
            found.push((name, fs::read(entry.path())?));
        }
    }
    found.sort();
    Ok(found)
}

/// The package version of a folder of WIT files.
pub fn version(folder: &Path) -> anyhow::Result<semver::Version> {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(folder)?;
    let package = resolve.packages.get(package);
    package
        .and_then(|package| package.name.version.clone())
        .ok_or_else(|| anyhow::anyhow!("{}: the package has no version", folder.display()))
}

/// Within a line a provider goes on working: `0.1` for 0.1.x, `1` for 1.x.y.
pub fn line(version: &semver::Version) -> String {
    match version.major {
        0 => format!("0.{}", version.minor),
        major => major.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// The project's own contract.
    pub fn wit() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
    }

    /// A copy of the contract to spoil.
    pub fn copy() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files(&wit()).unwrap() {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    /// Replaces what must stand there.
    pub fn edit(folder: &Path, file: &str, from: &str, to: &str) {
        let path = folder.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} no longer has {from:?}: mend this test");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// Gives every file another version.
    pub fn raise(folder: &Path, to: &str) {
        let from = version(folder).unwrap();
        for (name, _) in files(folder).unwrap() {
            edit(folder, &name, &format!("egress:provider@{from};"), &format!("egress:provider@{to};"));
        }
    }

    #[test]
    fn host_and_sdk_speak_the_version_of_the_package() {
        let version = version(&wit()).unwrap().to_string();
        assert_eq!(version, egress_contract::CONTRACT_VERSION);
        assert_eq!(version, provider_sdk::CONTRACT_VERSION);
    }

    #[test]
    fn a_line_is_what_semver_calls_compatible() {
        for (version, expected) in [("0.1.0", "0.1"), ("0.1.9", "0.1"), ("1.4.2", "1")] {
            assert_eq!(line(&version.parse().unwrap()), expected);
        }
    }
}
