//! Where credentials are read from: a file, or a Secret beside the operator. They are read whenever they are
//! needed, so that a rotated one takes effect, and no error quotes what was read.

use std::{io, path::PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use crate::faults::Faults;

/// No key and no list of hosts is larger.
const MOST_BYTES: u64 = 1024 * 1024;

/// Exactly one of `file` and `secretRef` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CredentialRef {
    /// An absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// In the operator's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// One value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretRef {
    /// The Secret.
    pub name: String,
    /// Its key.
    pub key: String,
}

/// Reads Secrets of the namespace that the operator runs in.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The value's bytes.
    async fn read(&self, secret: &SecretRef) -> Result<Vec<u8>, SecretUnread>;
}

/// Why a Secret's value is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretUnread {
    /// There is no such Secret, or no such key in it.
    Missing,
    /// Anything else, for people.
    Unreadable(String),
}

/// Why there is no credential.
pub struct NoCredential {
    /// Its place, the cause, the way out.
    pub message: String,
    /// It may still come.
    pub missing: bool,
}

impl CredentialRef {
    pub(crate) fn check(&self, path: &str, faults: &mut Faults) {
        match (&self.file, &self.secret_ref) {
            (Some(file), None) if !file.is_absolute() => {
                faults.add(&format!("{path}.file"), "must be an absolute path");
            }
            (Some(_), None) => {}
            (None, Some(secret)) => {
                if !crate::kubernetes::is_object(&secret.name) {
                    faults.add(&format!("{path}.secretRef.name"), "is not a Secret's name");
                }
                if !crate::kubernetes::is_object(&secret.key) {
                    faults.add(&format!("{path}.secretRef.key"), "is not a key of a Secret");
                }
            }
            _ => faults.add(path, "must have exactly one of file and secretRef"),
        }
    }

    /// As people would find it.
    pub fn place(&self) -> String {
        match (&self.file, &self.secret_ref) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(secret)) => format!("Secret {}, key {}", secret.name, secret.key),
            (None, None) => "nowhere".to_owned(),
        }
    }

    /// What stands there; `secrets` reads Secrets, where there are any.
    pub async fn read(&self, secrets: Option<&dyn Secrets>) -> Result<String, NoCredential> {
        let no = |missing, why: &str| NoCredential { message: format!("{}: {why}", self.place()), missing };
        let bytes = match (&self.file, &self.secret_ref) {
            (Some(file), _) => read_file(file).await.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => no(true, "there is no such file; mount it there"),
                kind => no(false, &format!("can't be read: {kind}")),
            })?,
            (None, Some(secret)) => {
                let Some(secrets) = secrets else {
                    return Err(no(false, "Secrets can't be read without a cluster; give a file"));
                };
                secrets.read(secret).await.map_err(|unread| match unread {
                    SecretUnread::Missing => no(true, "there is none; create it in the operator's namespace"),
                    SecretUnread::Unreadable(why) => no(false, &format!("can't be read: {why}")),
                })?
            }
            (None, None) => return Err(no(false, "the grant names no place")),
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(no(false, "is larger than 1 MiB; this can't be the right one"));
        }
        String::from_utf8(bytes).map_err(|_| no(false, "is not text; this can't be the right one"))
    }
}

async fn read_file(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(MOST_BYTES + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
