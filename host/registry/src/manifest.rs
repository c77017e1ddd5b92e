//! A manifest: what an image is made of. Read from anybody, and written as other tools for Wasm write it.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    failure::{Kind, RegistryError, failed},
    reference::Hash,
};

pub(crate) const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
/// What a registry is told that we can read. The rest is asked for so that it can be named.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const WASM: &str = "application/wasm";
/// Of media types and digests that are named in a message.
const MOST_NAMED: usize = 5;

/// One part of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
}

impl Descriptor {
    fn of(media_type: &str, bytes: &[u8]) -> Self {
        let digest = Hash::of(bytes).to_string();
        Self { media_type: media_type.to_owned(), digest, size: bytes.len() as u64 }
    }

    /// Or why nobody could check what comes.
    pub(crate) fn hash(&self, image: &str) -> Result<Hash, RegistryError> {
        Hash::read(&self.digest).ok_or_else(|| {
            failed(
                Kind::ManifestInvalid,
                format!("{image}: its manifest names a part by something else than a sha256"),
            )
        })
    }
}

#[derive(Deserialize)]
struct Manifest {
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// What there is to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// Reads a manifest of one image.
pub(crate) fn parts(image: &str, bytes: &[u8]) -> Result<Parts, RegistryError> {
    let invalid = |why: &str| failed(Kind::ManifestInvalid, format!("{image}: its manifest {why}"));
    let read: Manifest = serde_json::from_slice(bytes).map_err(|error| {
        invalid(&format!("can't be read (line {}, column {})", error.line(), error.column()))
    })?;
    if let Some(several) = read.manifests {
        let named = several.iter().filter_map(|one| Hash::read(&one.digest)).take(MOST_NAMED);
        let named: Vec<String> = named.map(|digest| digest.to_string()).collect();
        let (count, named) = (several.len(), named.join(", "));
        return Err(invalid(&format!(
            "is an index of {count} images ({named}); name the one that is meant by its digest"
        )));
    }
    match (read.config, read.layers) {
        (Some(config), Some(layers)) => Ok(Parts { config, layers }),
        _ => Err(invalid("has no config or no layers; it is none of an image")),
    }
}

impl Parts {
    /// The one that is a component.
    pub(crate) fn component(&self, image: &str) -> Result<&Descriptor, RegistryError> {
        let mut found = self.layers.iter().filter(|layer| layer.media_type == WASM);
        let no = |why: String| failed(Kind::NoWasmLayer, format!("{image}: its manifest has {why}"));
        match (found.next(), found.next()) {
            (Some(layer), None) => Ok(layer),
            (Some(_), Some(_)) => Err(no(format!("several layers of {WASM}, and a component is one"))),
            (None, _) if self.layers.is_empty() => Err(no(format!("no layer, and so none of {WASM}"))),
            (None, _) => {
                let types = self.layers.iter().take(MOST_NAMED).map(|layer| printable(&layer.media_type));
                let types: Vec<String> = types.collect();
                Err(no(format!("no layer of {WASM}, but of {}", types.join(", "))))
            }
        }
    }
}

/// What stands in a manifest is anybody's.
fn printable(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "/.+-_".contains(*c);
    text.chars().filter(plain).take(100).collect()
}

/// What a config says of a component.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The interfaces that it asks for.
    pub imports: Vec<String>,
    /// What it offers.
    pub exports: Vec<String>,
}

/// The parts of an image that holds a component. The same component makes the same image, whenever: so the time
/// that the form asks for is the epoch.
pub fn artifact(component: &[u8], about: &About) -> crate::Image {
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [Hash::of(component).as_str()],
        "component": { "exports": about.exports, "imports": about.imports },
    });
    let config = config.to_string().into_bytes();
    let layer = json!({
        "mediaType": WASM,
        "digest": Hash::of(component).as_str(),
        "size": component.len(),
        // What tools that write layers into files call this one.
        "annotations": { "org.opencontainers.image.title": "provider.wasm" },
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE,
        "config": Descriptor::of(CONFIG, &config),
        "layers": [layer],
    });
    let manifest = manifest.to_string().into_bytes();
    let blobs = vec![config.into(), component.to_vec().into()];
    crate::Image { manifest: manifest.into(), blobs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(manifest: &str) -> RegistryError {
        let parts = parts("r.example/a:1", manifest.as_bytes());
        parts.and_then(|parts| parts.component("r.example/a:1").cloned()).unwrap_err()
    }

    fn with_layers(types: &[&str]) -> String {
        let layers =
            types.iter().map(|t| json!({ "mediaType": t, "digest": Hash::of(b"").as_str(), "size": 0 }));
        let layers: Vec<_> = layers.collect();
        json!({ "schemaVersion": 2, "config": { "mediaType": "c", "digest": "d", "size": 1 }, "layers": layers }).to_string()
    }

    #[test]
    fn what_is_written_is_read_and_is_the_same_twice() {
        let about = About { imports: vec!["a".to_owned()], exports: vec!["b".to_owned()] };
        let image = artifact(b"component", &about);
        assert_eq!(image.manifest, artifact(b"component", &about).manifest);
        let parts = parts("r.example/a:1", &image.manifest).unwrap();
        assert_eq!(parts.config.media_type, CONFIG);
        assert_eq!(parts.component("r.example/a:1").unwrap().digest, Hash::of(b"component").to_string());
        let config: serde_json::Value = serde_json::from_slice(&image.blobs[0]).unwrap();
        assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
        assert_eq!(config["layerDigests"][0], json!(Hash::of(b"component").as_str()));
    }

    #[test]
    fn a_component_may_have_other_layers_beside_it_but_no_second_one() {
        let of = |types: &[&str]| parts("i", with_layers(types).as_bytes()).unwrap().component("i").cloned();
        assert!(of(&[WASM]).is_ok() && of(&["text/plain", WASM]).is_ok());
        assert_eq!(of(&[WASM, WASM]).unwrap_err().kind, Kind::NoWasmLayer);
    }

    #[test]
    fn what_is_no_component_is_told_with_what_it_is() {
        let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
        let error = refused(&with_layers(&[tar]));
        assert_eq!(error.kind, Kind::NoWasmLayer);
        assert!(error.message.contains(tar), "{error}");
        assert_eq!(refused(&with_layers(&[])).kind, Kind::NoWasmLayer);
        assert!(!refused(&with_layers(&["a\u{1b}[31m\nb"])).message.contains(['\n', '\u{1b}']));
        let digest = Hash::of(b"one");
        let index = json!({ "manifests": [{ "mediaType": IMAGE, "digest": digest.as_str(), "size": 3 }] })
            .to_string();
        let error = refused(&index);
        assert_eq!(error.kind, Kind::ManifestInvalid);
        assert!(error.message.contains("index of 1") && error.message.contains(digest.as_str()), "{error}");
        for text in ["", "[]", "{}", "<html>", r#"{"layers": 1}"#, r#"{"layers": []}"#] {
            assert_eq!(refused(text).kind, Kind::ManifestInvalid, "{text}");
        }
    }
}
