//! Looks at the directory's files, twice a second, and takes up what came to rest.
//!
//! Looking is what works everywhere: notifications are lost over NFS, don't cross the links that a mounted volume is
//! swapped by, and are overrun when much happens at once. A file counts once two looks in a row saw the same of it,
//! there or gone: an editor that saves by removing and renaming is never seen in between, and neither is a file half
//! written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use crate::documents::{self, Assumed, Said};

/// The largest file that is read.
const LARGEST: u64 = 8 << 20;

/// Something that differs when the content may.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

/// What is known of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    stamp: Option<Stamp>,
    /// What it said when it was last read.
    pub said: Said,
}

#[cfg(test)]
impl Taken {
    pub fn of(said: Said) -> Self {
        Self { stamp: None, said }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Scan {
    before: BTreeMap<String, Option<Stamp>>,
    taken: BTreeMap<String, Taken>,
    /// What is not known as it is now.
    moving: BTreeSet<String>,
    /// Read once at least; before that nothing is known to be gone.
    rested: bool,
}

impl Scan {
    /// Looks once. Answers whether anything is known anew.
    pub fn look(&mut self, folder: &Path, assumed: &Assumed) -> io::Result<bool> {
        let mut now = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_ours(&name) {
                // What can't be looked at is there all the same.
                now.insert(name, stamp(&entry.path()));
            }
        }
        let known: BTreeSet<String> =
            now.keys().chain(self.before.keys()).chain(self.taken.keys()).cloned().collect();
        let mut changed = false;
        self.moving.clear();
        for name in known {
            let (seen, before) = (now.get(&name), self.before.get(&name));
            if seen != before {
                self.moving.insert(name);
                continue;
            }
            match seen {
                None => changed |= self.taken.remove(&name).is_some(),
                Some(stamp) => {
                    if self.taken.get(&name).is_none_or(|taken| taken.stamp != *stamp || stamp.is_none()) {
                        changed |= self.take(folder, name, stamp.clone(), assumed);
                    }
                }
            }
        }
        let rests = now == self.before;
        if rests && !self.rested {
            (self.rested, changed) = (true, true);
        }
        self.before = now;
        Ok(changed)
    }

    fn take(&mut self, folder: &Path, name: String, seen: Option<Stamp>, assumed: &Assumed) -> bool {
        let path = folder.join(&name);
        let said = match read(&path) {
            Ok(content) => documents::read(&name, &content, assumed),
            Err(error) => Said { faults: vec![format!("can't be read: {error}")], ..Said::default() },
        };
        if stamp(&path) != seen {
            // Somebody writes right now: the next looks find it.
            self.moving.insert(name);
            return false;
        }
        let taken = Taken { stamp: seen, said };
        let changed = self.taken.get(&name).is_none_or(|before| before.said != taken.said);
        self.taken.insert(name, taken);
        changed
    }

    /// Whether every file was looked at twice, so that what is not known is not there.
    pub fn has_rested(&self) -> bool {
        self.rested
    }

    /// Whether what is known of a file is what is there.
    pub fn rests(&self, name: &str) -> bool {
        self.rested && !self.moving.contains(name)
    }

    /// What each file says.
    pub fn files(&self) -> &BTreeMap<String, Taken> {
        &self.taken
    }
}

/// Documents, and no file that an editor keeps for itself.
fn is_ours(name: &str) -> bool {
    let suffix = [".yaml", ".yml", ".json"].into_iter().any(|suffix| name.ends_with(suffix));
    suffix && !name.starts_with(['.', '#'])
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some(Stamp { changed: (found.mtime(), found.mtime_nsec()), size: found.len(), inode: found.ino() })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if found.len() > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assumed() -> Assumed {
        Assumed { namespace: "default".to_owned(), providers: "egress-providers".to_owned() }
    }

    const WEB: &str = "apiVersion: egressproxies.dev/v1alpha1\nkind: Proxy\nmetadata: { name: web }\nspec: { provider: a }\n";

    #[test]
    fn a_file_counts_once_it_rests_and_one_that_is_gone_for_a_moment_was_never_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut scan) = (dir.path().join("web.yaml"), Scan::default());
        let look = |scan: &mut Scan| scan.look(dir.path(), &assumed()).unwrap();
        fs::write(&path, WEB).unwrap();
        assert!(!look(&mut scan), "it was seen once");
        assert!(look(&mut scan) && scan.has_rested());
        assert!(!look(&mut scan), "and is as it was");
        fs::remove_file(&path).unwrap();
        assert!(!look(&mut scan));
        fs::write(&path, WEB).unwrap();
        assert!(!look(&mut scan), "an editor saved it");
        look(&mut scan);
        assert_eq!(scan.files().len(), 1);
        fs::remove_file(&path).unwrap();
        assert!(!look(&mut scan));
        assert!(look(&mut scan));
        assert!(scan.files().is_empty());
    }

    #[test]
    fn a_file_that_can_not_be_read_is_there_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut scan = Scan::default();
        fs::create_dir(dir.path().join("folder.yaml")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link.yaml")).unwrap();
        for _ in 0..2 {
            scan.look(dir.path(), &assumed()).unwrap();
        }
        let faults: Vec<_> = scan.files().values().map(|taken| taken.said.faults.len()).collect();
        assert_eq!(faults, [1, 1]);
    }

    #[test]
    fn what_editors_keep_for_themselves_is_no_document() {
        for name in [".web.yaml", "#web.yaml", "web.yaml~", "web.yaml.swp", "web.txt", "web.yaml.tmp"] {
            assert!(!is_ours(name), "{name}");
        }
        assert!(is_ours("web.yaml") && is_ours("web.yml") && is_ours("web.json"));
    }
}
