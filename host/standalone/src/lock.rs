//! One operator a directory.
//!
//! The kernel holds the lock and lets go of it with the process, however that ends: nothing is left to be cleaned up
//! by hand. What stands in the file is for people alone.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;

/// The file's name.
const FILE: &str = "lock";
const TRIES: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

/// Why it is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// By somebody else.
    #[error("{holder}")]
    Held {
        /// `process 4711 on hv1, since 2026-01-01T00:00:00Z`.
        holder: String,
    },
    /// The file can't be used.
    #[error("{}: {cause}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

impl Lock {
    /// Takes it, or says who has it.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(FILE);
        let unusable = |cause| LockError::Unusable { path: folder.join(FILE), cause };
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(unusable)?;
        let mut tries = TRIES;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(cause)) => return Err(unusable(cause)),
                // Perhaps somebody only asks who has it.
                Err(TryLockError::WouldBlock) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(BETWEEN);
                }
                Err(TryLockError::WouldBlock) => return Err(LockError::Held { holder: told(&mut file) }),
            }
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let pid = std::process::id();
        let whom = format!("process {pid} on {}, since {:.0}\n", host.trim(), Timestamp::now());
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(whom.as_bytes())
        };
        write(&mut file).map_err(unusable)?;
        Ok(Self { file, path })
    }

    /// Whether the file is still where it was: the directory may have been removed, unmounted or replaced.
    pub fn stands(&self) -> io::Result<bool> {
        let (held, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        Ok((held.dev(), held.ino()) == (there.dev(), there.ino()))
    }

    /// Who holds the lock of a folder, if anybody does. Whoever asks takes nothing.
    pub fn holder(folder: &Path) -> Option<String> {
        let mut file = File::open(folder.join(FILE)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(told(&mut file)),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }
}

fn told(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(200).read_to_string(&mut text);
    match (read, text.trim()) {
        // It has the lock, and was not yet told who it is.
        (Err(_), _) | (_, "") => "another process".to_owned(),
        (Ok(_), told) => told.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_has_it_and_gets_it_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {} on ", std::process::id())), "{refused}");
        assert_eq!(Lock::holder(dir.path()), Some(refused));
        drop(first);
        assert_eq!(Lock::holder(dir.path()), None);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_directory_that_was_replaced_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        let lock = Lock::take(&folder).unwrap();
        assert!(lock.stands().unwrap());
        std::fs::rename(&folder, dir.path().join("b")).unwrap();
        assert!(lock.stands().is_err(), "it is gone");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(FILE), "").unwrap();
        assert!(!lock.stands().unwrap(), "another one stands there");
    }
}
