//! `epo delete`: takes a Proxy's document out of its file, and asks for its end.
//!
//! In this order: cut in between, a Proxy without a document is what a removed file leaves as well, and goes for that.
//! The other way round it would be made again from its document.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    directory::{self, STATUS},
    documents,
    files::{self, Readers},
    looking::{Look, LookError},
    requests, text,
};

/// Why a Proxy is not deleted.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The directory can't be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
    /// There is none.
    #[error("there is no Proxy {namespace}/{name} here; see: epo get proxies")]
    Missing {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Its file, or the request.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is not understood well enough to change it.
    #[error(
        "{} holds other documents beside Proxy {namespace}/{name}, and can't be cut without harming them; take it out there \
         yourself", path.display()
    )]
    Entangled {
        /// The file.
        path: PathBuf,
        /// The Proxy's namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What was done.
#[derive(Debug)]
pub struct Ended {
    /// Whose end is asked for.
    pub uid: String,
    /// The file that was changed or removed, and whether it was removed.
    pub file: Option<(String, bool)>,
}

/// Deletes one; `namespace` is also that of documents that give none.
pub fn end(path: &Path, namespace: &str, name: &str, abandon: bool) -> Result<Ended, EditError> {
    let missing = || EditError::Missing { namespace: namespace.to_owned(), name: name.to_owned() };
    let text_at =
        |object: &Value, at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let proxies = Look::at(path)?.proxies()?;
    let found = proxies.iter().find(|object| {
        text_at(object, "/metadata/namespace") == namespace && text_at(object, "/metadata/name") == name
    });
    let found = found.ok_or_else(missing)?;
    let uid = text_at(found, "/metadata/uid");
    let file = directory::file_of(found);
    let changed = match file.as_str() {
        "" => None,
        file => take_out(&path.join(file), namespace, name)?.map(|removed| (file.to_owned(), removed)),
    };
    let status = path.join(STATUS);
    requests::ask_for_end(&status, &uid, abandon).map_err(|cause| EditError::File { path: status, cause })?;
    Ok(Ended { uid, file: changed })
}

/// None where the document is not there; else whether the whole file went.
fn take_out(path: &Path, namespace: &str, name: &str) -> Result<Option<bool>, EditError> {
    let failed = |cause| EditError::File { path: path.to_owned(), cause };
    let content = match fs::read_to_string(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let entangled = || EditError::Entangled {
        path: path.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut left = String::new();
    let mut taken = 0;
    for (_, document) in documents::cut(&content) {
        match is_it(document, namespace, name) {
            Some(true) => taken += 1,
            Some(false) => left.push_str(document),
            None => return Err(entangled()),
        }
    }
    match taken {
        0 => return Ok(None),
        1 => {}
        // Without a namespace, another's may look the same.
        _ => return Err(entangled()),
    }
    if documents::cut(&left).into_iter().all(|(_, document)| documents::is_blank(document)) {
        files::remove(path).map_err(failed)?;
        return Ok(Some(true));
    }
    // Not the link to it, if it is one, and for the same readers: it may hold a Secret.
    let real = fs::canonicalize(path).map_err(failed)?;
    files::replace(&real, left.as_bytes(), Readers::Like(real.clone())).map_err(failed)?;
    Ok(Some(false))
}

/// None where that can't be told, or where it stands inside of something larger.
fn is_it(document: &str, namespace: &str, name: &str) -> Option<bool> {
    if documents::is_blank(document) {
        return Some(false);
    }
    let value = text::read(document).ok()?;
    let text_at = |at: &str| value.pointer(at).and_then(Value::as_str);
    match text_at("/kind") {
        Some("List") => None,
        Some("Proxy") => Some(
            text_at("/metadata/name") == Some(name)
                && text_at("/metadata/namespace").unwrap_or(namespace) == namespace,
        ),
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const WEB: &str =
        "# mine\napiVersion: egressproxies.dev/v1alpha1\nkind: Proxy\nmetadata: { name: web }\n";
    const DB: &str = "---\n# with a note\nkind: Proxy\nmetadata: { name: db, namespace: other }\n";

    fn written(content: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("all.yaml");
        fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn a_document_among_others_is_cut_out_and_the_others_keep_every_byte() {
        let (_dir, path) = written(&format!("{WEB}{DB}"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(take_out(&path, "default", "db").unwrap(), None, "that is another namespace's");
        assert_eq!(take_out(&path, "default", "web").unwrap(), Some(false));
        assert_eq!(fs::read_to_string(&path).unwrap(), DB);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(take_out(&path, "other", "db").unwrap(), Some(true));
        assert!(!path.exists());
        assert_eq!(take_out(&path, "other", "db").unwrap(), None);
    }

    #[test]
    fn a_file_that_is_not_understood_is_not_touched() {
        for content in [
            format!("{WEB}---\n{{\n"),
            format!("{WEB}---\n{WEB}"),
            "kind: List\nitems: [{ kind: Proxy }]\n".to_owned(),
        ] {
            let (_dir, path) = written(&content);
            let refused = take_out(&path, "default", "web").unwrap_err();
            assert!(matches!(refused, EditError::Entangled { .. }), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
