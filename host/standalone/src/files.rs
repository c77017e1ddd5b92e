//! Files that are whole at every moment: the old one or the new one, also after a power cut.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

/// Ends the name of a file that is being written; what bears it is nobody's, and removed at a start.
pub const TEMPORARY: &str = ".tmp";

/// Who may read a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// As the umask says.
    Everybody,
    /// The operator's user alone.
    Owner,
    /// Whoever may read this one.
    Like(PathBuf),
}

/// Puts a file there: under another name first, on the disk, and only then under its own.
pub fn replace(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(TEMPORARY);
    let temporary = folder.join(name);
    let written = write(&temporary, content, &readers).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // Half a file on a full disk would take the room that the next attempt needs.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync(folder)
}

fn write(path: &Path, content: &[u8], readers: &Readers) -> io::Result<()> {
    let mode = match readers {
        Readers::Everybody => 0o644,
        Readers::Owner | Readers::Like(_) => 0o600,
    };
    // What a killed process left there may have other rights.
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    if let Readers::Like(other) = readers {
        let other = fs::metadata(other)?;
        // Of somebody else's file, where that may be done.
        let _ = fchown(&file, Some(other.uid()), Some(other.gid()));
        file.set_permissions(other.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// Takes a file away for good; one that is not there is no error.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a folder and those above it, for good. One that is there keeps its readers.
pub fn make_folder(path: &Path, readers: Readers) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mode = match readers {
        Readers::Everybody => 0o755,
        Readers::Owner | Readers::Like(_) => 0o700,
    };
    DirBuilder::new().recursive(true).mode(mode).create(path)?;
    path.parent().map_or(Ok(()), sync)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_a_killed_process_left_half_written_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yaml");
        replace(&path, b"one", Readers::Everybody).unwrap();
        fs::write(dir.path().join("web.yaml.tmp"), b"tw").unwrap();
        replace(&path, b"two", Readers::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
    }

    #[test]
    fn a_file_that_can_not_be_written_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yaml");
        replace(&path, b"one", Readers::Everybody).unwrap();
        fs::create_dir(dir.path().join("web.yaml.tmp")).unwrap();
        assert!(replace(&path, b"two", Readers::Everybody).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }
}
