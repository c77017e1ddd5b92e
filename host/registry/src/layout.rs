//! Images in a file, for where no network goes: a tar of an OCI image layout, which registries' tools read and write.
//!
//! An image in it is the very bytes that the registry had, so its digest stays. What is read may be anybody's:
//! it is bounded and hashed like what comes from a registry.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::Image,
    failure::RegistryError,
    manifest::{self, IMAGE},
    reference::{Hash, Reference},
};

const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
const VERSION: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// What tools call an image: the first by its whole name, the second often by its tag alone.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
const MOST_INDEX: u64 = 4 * 1024 * 1024;
/// All of them are held in memory.
const MOST_WHOLE: u64 = 1024 * 1024 * 1024;
const MOST_FILES: usize = 10_000;

/// Images, each by its name.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// In the order in which they were put there.
    pub images: Vec<(Reference, Image)>,
}

/// Why a file gives no images.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It can't be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else, or broken.
    #[error("it is no OCI image layout: {0}")]
    Invalid(String),
    /// One image of it.
    #[error(transparent)]
    Image(#[from] RegistryError),
}

fn invalid(why: impl Into<String>) -> ArchiveError {
    ArchiveError::Invalid(why.into())
}

impl Archive {
    /// The same images make the same file.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut files: BTreeMap<String, Bytes> = BTreeMap::new();
        let mut manifests = Vec::new();
        for (reference, image) in &self.images {
            let (digest, name) = (image.digest(), reference.to_string());
            manifests.push(json!({
                "mediaType": IMAGE,
                "digest": digest.as_str(),
                "size": image.manifest.len(),
                "annotations": NAMES.iter().map(|key| ((*key).to_owned(), json!(name))).collect::<serde_json::Map<_, _>>(),
            }));
            for bytes in image.blobs.iter().chain([&image.manifest]) {
                files.insert(format!("blobs/sha256/{}", Hash::of(bytes).digits()), bytes.clone());
            }
        }
        let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests });
        let mut out = tar::Builder::new(out);
        // First, so that a reader knows what it reads.
        append(&mut out, LAYOUT, VERSION.as_bytes())?;
        append(&mut out, INDEX, index.to_string().as_bytes())?;
        for (path, bytes) in &files {
            append(&mut out, path, bytes)?;
        }
        out.into_inner()?.flush()
    }

    /// Every image of a file; no part of one may have more bytes than `most`.
    pub fn read(input: impl Read, most: u64) -> Result<Self, ArchiveError> {
        let files = files(input, most.max(MOST_INDEX))?;
        if !files.contains_key(LAYOUT) {
            return Err(invalid("it has no file oci-layout"));
        }
        let index = files.get(INDEX).ok_or_else(|| invalid("it has no index.json"))?;
        let index: Index = serde_json::from_slice(index).map_err(|error| {
            invalid(format!("index.json can't be read (line {}, column {})", error.line(), error.column()))
        })?;
        let mut images = Vec::new();
        for listed in index.manifests {
            let digest = Hash::read(&listed.digest)
                .ok_or_else(|| invalid("index.json has a digest that is no sha256"))?;
            let reference = listed.name().ok_or_else(|| {
                let message = format!(
                    "index.json gives {digest} no whole name in the annotation {}; save it with its registry's name",
                    NAMES[0]
                );
                invalid(message)
            })?;
            images.push((reference, image(&files, &digest)?));
        }
        Ok(Self { images })
    }
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Listed {
    fn name(&self) -> Option<Reference> {
        NAMES.iter().find_map(|key| self.annotations.get(*key)?.parse().ok())
    }
}

fn append<W: Write>(out: &mut tar::Builder<W>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    out.append_data(&mut header, path, bytes)
}

/// What matters of a tar. Nothing of it is put on a disk.
fn files(input: impl Read, most: u64) -> Result<BTreeMap<String, Bytes>, ArchiveError> {
    let mut archive = tar::Archive::new(input);
    let (mut found, mut whole) = (BTreeMap::new(), 0_u64);
    for (count, entry) in archive.entries()?.enumerate() {
        let entry = entry.map_err(|error| invalid(format!("it is no tar: {error}")))?;
        if count >= MOST_FILES {
            return Err(invalid(format!("it has more than {MOST_FILES} files")));
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        let wanted = path == LAYOUT || path == INDEX || path.starts_with("blobs/sha256/");
        if !wanted || !entry.header().entry_type().is_file() {
            continue;
        }
        let mut bytes = Vec::new();
        entry.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        whole = whole.saturating_add(bytes.len() as u64);
        if bytes.len() as u64 > most || whole > MOST_WHOLE {
            return Err(invalid(format!(
                "{path:?} has more than {most} bytes, or all together have more than {MOST_WHOLE}"
            )));
        }
        found.insert(path, Bytes::from(bytes));
    }
    Ok(found)
}

fn image(files: &BTreeMap<String, Bytes>, digest: &Hash) -> Result<Image, ArchiveError> {
    let blob = |digest: &Hash| -> Result<Bytes, ArchiveError> {
        let bytes = files.get(&format!("blobs/sha256/{}", digest.digits()));
        let bytes = bytes.ok_or_else(|| invalid(format!("it lacks {digest}, which an image needs")))?;
        match Hash::of(bytes) {
            found if found == *digest => Ok(bytes.clone()),
            found => Err(invalid(format!("what it calls {digest} is {found}"))),
        }
    };
    let manifest = blob(digest)?;
    let parts = manifest::parts(digest.as_str(), &manifest)?;
    parts.component(digest.as_str())?;
    let mut seen = BTreeSet::new();
    let mut blobs = Vec::new();
    for part in std::iter::once(&parts.config).chain(&parts.layers) {
        let digest = part.hash(digest.as_str())?;
        if seen.insert(digest.clone()) {
            blobs.push(blob(&digest)?);
        }
    }
    Ok(Image { manifest, blobs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, artifact};

    const MOST: u64 = 1000;

    fn archive() -> Archive {
        let image = |component: &[u8]| artifact(component, &About::default());
        let named = |name: &str| name.parse().unwrap();
        Archive {
            images: vec![(named("a.example/p:1"), image(b"one")), (named("a.example/q:1"), image(b"two"))],
        }
    }

    fn written(archive: &Archive) -> Vec<u8> {
        let mut out = Vec::new();
        archive.write(&mut out).unwrap();
        out
    }

    fn refused(tar: &[u8]) -> String {
        Archive::read(tar, MOST).unwrap_err().to_string()
    }

    #[test]
    fn images_come_out_as_they_went_in_and_the_file_is_the_same_twice() {
        let bytes = written(&archive());
        assert_eq!(bytes, written(&archive()));
        let read = Archive::read(bytes.as_slice(), MOST).unwrap();
        assert_eq!(read.images, archive().images);
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused() {
        let bytes = written(&archive());
        let at = bytes.windows(3).rposition(|window| window == b"two").unwrap();
        let mut changed = bytes.clone();
        changed[at] = b'T';
        assert!(refused(&changed).contains("what it calls sha256:"), "{}", refused(&changed));
        let missing = {
            let mut one = archive();
            one.images[1].1.blobs.pop();
            written(&one)
        };
        assert!(refused(&missing).contains("it lacks sha256:"), "{}", refused(&missing));
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_and_nothing_is_read_without_end() {
        let of = |files: &[(&str, &[u8])]| {
            let mut out = tar::Builder::new(Vec::new());
            for (path, bytes) in files {
                append(&mut out, path, bytes).unwrap();
            }
            out.into_inner().unwrap()
        };
        assert!(refused(b"").contains("no file oci-layout"));
        assert!(refused(&[b'x'; 2000]).contains("no tar"));
        assert!(refused(&of(&[("a", b"b")])).contains("no file oci-layout"));
        assert!(refused(&of(&[(LAYOUT, b"{}")])).contains("no index.json"));
        assert!(refused(&of(&[(LAYOUT, b"{}"), (INDEX, b"hunter2")])).contains("line 1"));
        let index = json!({ "manifests": [{ "digest": Hash::of(b"").as_str() }] }).to_string();
        assert!(refused(&of(&[(LAYOUT, b"{}"), (INDEX, index.as_bytes())])).contains("no whole name"));
        let large = vec![0; 5 * 1024 * 1024];
        assert!(refused(&of(&[(LAYOUT, b"{}"), ("blobs/sha256/aa", &large)])).contains("has more than"));
    }
}
