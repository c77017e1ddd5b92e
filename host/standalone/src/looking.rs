//! The directory as whoever looks at it from outside finds it, whether an operator runs or not. Nothing is taken and
//! nothing is written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    directory::{NOTES, STATUS},
    kinds::Kind,
    lock::Lock,
    objects, text,
};

/// Why there is nothing to be seen.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// No operator ever ran it.
    #[error("{} was never run: there is no {STATUS} in it; start with: epo run --dir {}", path.display(), path.display())]
    NeverRun {
        /// The directory.
        path: PathBuf,
    },
    /// A file, or the directory.
    #[error("{}: {cause}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: String,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Look {
    status: PathBuf,
}

impl Look {
    /// At a directory that was run once.
    pub fn at(path: &Path) -> Result<Self, LookError> {
        let unreadable =
            |cause: io::Error| LookError::Unreadable { path: path.to_owned(), cause: cause.to_string() };
        fs::read_dir(path).map_err(unreadable)?;
        let status = path.join(STATUS);
        match status.is_dir() {
            true => Ok(Self { status }),
            false => Err(LookError::NeverRun { path: path.to_owned() }),
        }
    }

    /// Who runs it.
    pub fn runner(&self) -> Option<String> {
        Lock::holder(&self.status)
    }

    /// What is wrong in which file, and what is asked.
    pub fn notes(&self) -> Vec<String> {
        let read = fs::read_to_string(self.status.join(NOTES)).unwrap_or_default();
        let notes = text::read(&read).ok().and_then(|notes| serde_json::from_value(notes).ok());
        notes.unwrap_or_default()
    }

    /// Every Proxy, by namespace and name.
    pub fn proxies(&self) -> Result<Vec<Value>, LookError> {
        self.all(Kind::Proxy)
    }

    /// Every ProviderHealth, by name.
    pub fn health(&self) -> Result<Vec<Value>, LookError> {
        self.all(Kind::ProviderHealth)
    }

    /// What was told about an object, oldest first.
    pub fn events(&self, uid: &str) -> Result<Vec<Value>, LookError> {
        let mut events = self.all(Kind::Event)?;
        events.retain(|event| event.pointer("/regarding/uid").and_then(Value::as_str) == Some(uid));
        events.sort_by_key(|event| objects::version(event).unwrap_or_default());
        Ok(events)
    }

    fn all(&self, kind: Kind) -> Result<Vec<Value>, LookError> {
        let named = kind.named();
        let below = self.status.join(named.plural);
        let mut files = Vec::new();
        match named.namespaced {
            true => {
                for folder in children(&below)?.into_iter().filter(|path| path.is_dir()) {
                    files.extend(children(&folder)?);
                }
            }
            false => files = children(&below)?,
        }
        let mut found = Vec::new();
        for path in files.into_iter().filter(|path| path.extension().is_some_and(|is| is == "yaml")) {
            match fs::read_to_string(&path) {
                Ok(content) => found.push(
                    text::read(&content)
                        .map_err(|cause| LookError::Unreadable { path: path.clone(), cause })?,
                ),
                // It went since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LookError::Unreadable { path, cause: error.to_string() }),
            }
        }
        Ok(found)
    }
}

fn children(folder: &Path) -> Result<Vec<PathBuf>, LookError> {
    let unreadable =
        |cause: io::Error| LookError::Unreadable { path: folder.to_owned(), cause: cause.to_string() };
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut paths = listed
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}
