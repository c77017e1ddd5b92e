//! What a command asks of the operator that runs a directory, or will: a file each, under the Proxy's UID, so that a
//! successor of the same name is never meant.
//!
//! Asked and done in this order: the request is on the disk before the command ends; the operator marks the Proxy, and
//! only then removes the request. Cut in between, the request is read again and finds that it was done. It waits until
//! the Proxy's file rests: one that goes before its file is seen to be gone would be made again from it.

use std::{fs, io, path::Path};

use egress_operator::api::ABANDON_ANNOTATION;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    directory::{file_of, set},
    files::{self, Readers},
    kinds::Kind,
    objects::{Home, Next, Objects, WriteError},
    server, text,
};

/// The folder's name.
const FOLDER: &str = "requests";
/// Says that an instance is to be left where it is.
pub const ABANDON: &str = ABANDON_ANNOTATION;

/// Asks for the end of the Proxy with this UID.
pub fn ask_for_end(status: &Path, uid: &str, abandon: bool) -> io::Result<()> {
    let folder = status.join(FOLDER);
    files::make_folder(&folder, Readers::Everybody)?;
    let content = text::write(&json!({ "delete": uid, "abandon": abandon })).unwrap_or_default();
    files::replace(&folder.join(format!("{uid}.yaml")), content.as_bytes(), Readers::Everybody)
}

/// Does what was asked, of Proxies whose files rest.
pub fn answer(objects: &Objects, rests: impl Fn(&str) -> bool) -> Result<(), WriteError> {
    let folder = objects.folder().join(FOLDER);
    let listed = match fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(WriteError::File { path: folder, cause }),
    };
    for entry in listed {
        let path = entry.map_err(|cause| WriteError::File { path: folder.clone(), cause })?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let read = fs::read_to_string(&path).map_err(|error| error.to_string());
        match read.and_then(|content| text::read(&content)) {
            Ok(request) => {
                if !end(objects, &request, &rests)? {
                    continue;
                }
            }
            Err(error) => warn!(request = %path.display(), error, "a request can't be read, and is dropped"),
        }
        files::remove(&path).map_err(|cause| WriteError::File { path, cause })?;
    }
    Ok(())
}

/// Whether the request is done with.
fn end(objects: &Objects, request: &Value, rests: impl Fn(&str) -> bool) -> Result<bool, WriteError> {
    let (proxies, _) = objects.list(Kind::Proxy, None);
    let wanted = request.get("delete").filter(|uid| uid.is_string());
    let meant = |object: &Value| wanted.is_some() && object.pointer("/metadata/uid") == wanted;
    let Some((key, object)) = proxies.into_iter().find(|(_, object)| meant(object)) else {
        return Ok(true);
    };
    if !rests(&file_of(&object)) {
        return Ok(false);
    }
    let abandon = request.get("abandon") == Some(&Value::Bool(true));
    objects.update(&key, |before| {
        let Some(before) = before.filter(|before| meant(before)) else { return (Next::Same, ()) };
        let mut next = before.clone();
        if abandon {
            set(&mut next, &["metadata", "annotations", ABANDON], json!("true"));
        }
        match server::end(&next) {
            Next::Same if next != *before => (Next::Put(next, Home::Status), ()),
            ended => (ended, ()),
        }
    })?;
    info!(proxy = %key, abandon, "its end was asked for");
    Ok(true)
}
