//! Where an entry's component is read from: a ConfigMap, a file, or an image in an OCI registry.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use egress_capabilities::{CredentialRef, SecretRef, transfer::address::Range};
use egress_registry::Reference;
use egress_runtime::Digest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Faults;

/// What `kubectl create secret docker-registry` writes.
const LOGIN_KEY: &str = ".dockerconfigjson";
/// How often a tag is looked up unless the entry says otherwise, and at least.
const EVERY: u64 = 300;
const LEAST_EVERY: u64 = 10;

/// Where a component is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleRef {
    /// `binaryData` of a ConfigMap.
    ConfigMap {
        /// The operator's own where none.
        namespace: Option<String>,
        /// Its name.
        name: String,
        /// May be left out when there is only one.
        key: Option<String>,
    },
    /// A file below the directory of modules.
    File(PathBuf),
    /// An image in a registry.
    Oci(Box<OciImage>),
}

/// An image, and how its registry is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciImage {
    /// Which.
    pub reference: Reference,
    /// As whom: a docker config, in a Secret or a file. Nobody where none.
    pub login: Option<CredentialRef>,
    /// Who signs for the registry; whom the system trusts where none.
    pub ca: Option<CredentialRef>,
    /// Without TLS.
    pub plain_http: bool,
    /// Addresses inside that the registry may send to.
    pub inside: Vec<Range>,
    /// How often its tag is looked up; never where none.
    pub every: Option<Duration>,
}

/// Where the component is read from: exactly one of `configMap`, `oci` and `file`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawModule {
    /// `binaryData` of a ConfigMap: plain, gzip or zstd.
    config_map: Option<RawConfigMap>,
    /// A path below `--modules-dir`.
    file: Option<PathBuf>,
    /// An image in an OCI registry.
    oci: Option<RawOci>,
    /// `sha256:` and 64 hexadecimal digits of the unpacked component: any other is refused.
    digest: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawConfigMap {
    /// The operator's own where none.
    namespace: Option<String>,
    /// Its name.
    name: String,
    /// May be left out when there is only one.
    key: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawOci {
    /// `registry.example/team/provider:1.2`, or with `@sha256:...` for what never changes.
    #[serde(rename = "ref")]
    reference: String,
    /// A Secret of the operator's namespace, as `kubectl create secret docker-registry` writes it.
    pull_secret: Option<String>,
    /// In its place, the absolute path of a docker config file.
    docker_config: Option<PathBuf>,
    /// Who signs for the registry, in PEM; whom the system trusts where none.
    ca: Option<CredentialRef>,
    /// Whether it is asked without TLS.
    #[serde(default)]
    plain_http: bool,
    /// Ranges of private addresses, such as `10.0.0.0/8`, that the registry may be at or send to.
    #[serde(default)]
    inside: Vec<String>,
    /// How often a tag is looked up.
    every_seconds: Option<u64>,
}

/// None only together with a fault.
pub(super) fn read(module: Option<Value>, faults: &mut Faults) -> Option<(ModuleRef, Option<Digest>)> {
    let Some(module) = module else {
        faults.add("module", "is missing; give configMap, oci or file");
        return None;
    };
    let RawModule { config_map, file, oci, digest } = faults.read("module", Some(module))?;
    let pinned = digest.map(|digest| digest.parse::<Digest>().map_err(|e| faults.add("module.digest", e)));
    let module = match (config_map, file, oci) {
        (Some(raw), None, None) => config_map_of(raw, faults),
        (None, Some(file), None) => {
            if !is_inside(&file) {
                faults.add("module.file", "must be a path below the directory of modules, without `..`");
            }
            ModuleRef::File(file)
        }
        (None, None, Some(raw)) => ModuleRef::Oci(Box::new(oci_of(raw, faults)?)),
        _ => {
            faults.add("module", "must give exactly one of configMap, oci and file");
            return None;
        }
    };
    Some((module, pinned.transpose().ok()?))
}

fn config_map_of(RawConfigMap { namespace, name, key }: RawConfigMap, faults: &mut Faults) -> ModuleRef {
    let named = [("namespace", &namespace), ("name", &Some(name.clone())), ("key", &key)];
    for (field, value) in named {
        if value.as_ref().is_some_and(|value| !is_object_name(value)) {
            faults.add(&format!("module.configMap.{field}"), "is no name that Kubernetes takes");
        }
    }
    ModuleRef::ConfigMap { namespace, name, key }
}

fn oci_of(raw: RawOci, faults: &mut Faults) -> Option<OciImage> {
    let reference =
        raw.reference.parse::<Reference>().map_err(|error| faults.add("module.oci.ref", error)).ok();
    if raw.pull_secret.as_ref().is_some_and(|name| !is_object_name(name)) {
        faults.add("module.oci.pullSecret", "is not a Secret's name");
    }
    if raw.docker_config.as_ref().is_some_and(|path| !path.is_absolute()) {
        faults.add("module.oci.dockerConfig", "must be an absolute path");
    }
    let login = match (raw.pull_secret, raw.docker_config) {
        (Some(_), Some(_)) => {
            faults.add("module.oci", "may give one of pullSecret and dockerConfig, not both");
            None
        }
        (Some(name), None) => {
            let secret_ref = Some(SecretRef { name, key: LOGIN_KEY.to_owned() });
            Some(CredentialRef { secret_ref, file: None })
        }
        (None, file) => file.map(|file| CredentialRef { file: Some(file), secret_ref: None }),
    };
    if let Some(ca) = &raw.ca {
        check_ca(ca, faults);
    }
    if raw.plain_http && raw.ca.is_some() {
        faults.add("module.oci.ca", "signs for nobody where plainHttp is true; leave out one of them");
    }
    let mut inside = Vec::new();
    for (index, text) in raw.inside.iter().enumerate() {
        match text.parse() {
            Ok(range) => inside.push(range),
            Err(()) => faults.add(
                &format!("module.oci.inside[{index}]"),
                "is neither an address nor a range; write 10.1.2.3 or 10.1.0.0/16",
            ),
        }
    }
    let reference = reference?;
    let every = match (reference.digest(), raw.every_seconds) {
        (Some(_), Some(_)) => {
            let message =
                "does nothing where ref has a digest, which never means anything else; leave it out";
            faults.add("module.oci.everySeconds", message);
            None
        }
        (Some(_), None) | (None, Some(0)) => None,
        (None, Some(seconds)) if seconds < LEAST_EVERY => {
            faults.add(
                "module.oci.everySeconds",
                format!("must be 0, which is never, or at least {LEAST_EVERY}"),
            );
            None
        }
        (None, seconds) => Some(Duration::from_secs(seconds.unwrap_or(EVERY))),
    };
    Some(OciImage { reference, login, ca: raw.ca, plain_http: raw.plain_http, inside, every })
}

fn check_ca(ca: &CredentialRef, faults: &mut Faults) {
    match (&ca.file, &ca.secret_ref) {
        (Some(file), None) if !file.is_absolute() => {
            faults.add("module.oci.ca.file", "must be an absolute path");
        }
        (Some(_), None) => {}
        (None, Some(secret)) => {
            if !is_object_name(&secret.name) || !is_object_name(&secret.key) {
                faults.add("module.oci.ca.secretRef", "names no Secret or no key of one");
            }
        }
        _ => faults.add("module.oci.ca", "must have exactly one of file and secretRef"),
    }
}

/// As loose as the keys of a ConfigMap: it only keeps a path from being made of it.
fn is_object_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=253).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with("..") && name != "."
}

fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oci(text: &str) -> Result<OciImage, Vec<String>> {
        let mut faults = Faults::default();
        let document = serde_saphyr::from_str(&format!("oci: {text}")).unwrap();
        match (read(Some(document), &mut faults), faults.0) {
            (Some((ModuleRef::Oci(image), None)), faults) if faults.is_empty() => Ok(*image),
            (_, faults) => Err(faults.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn an_image_is_named_and_everything_else_may_be_left_out() {
        let image = oci("{ ref: 'registry.example/p:1' }").unwrap();
        assert_eq!(
            (image.reference.to_string().as_str(), image.every),
            ("registry.example/p:1", Some(Duration::from_secs(300)))
        );
        assert!(image.login.is_none() && image.ca.is_none() && !image.plain_http && image.inside.is_empty());
        let text = "{ ref: 'registry.example/p:1', pullSecret: login, ca: { secretRef: { name: ca, key: ca.crt } }, \
                    inside: [10.1.0.0/16], everySeconds: 0 }";
        let image = oci(text).unwrap();
        let login = image.login.unwrap().secret_ref.unwrap();
        assert_eq!((login.name.as_str(), login.key.as_str()), ("login", ".dockerconfigjson"));
        assert_eq!((image.inside.len(), image.every), (1, None));
    }

    #[test]
    fn every_fault_of_an_image_is_told_with_its_path() {
        let text = "{ ref: provider, pullSecret: a/b, dockerConfig: relative, ca: {}, plainHttp: true, inside: [x] }";
        let told = oci(text).unwrap_err();
        let paths: Vec<&str> = told.iter().map(|f| f.split(": ").next().unwrap()).collect();
        let below = |name: &str| format!("module.oci{name}");
        assert_eq!(
            paths,
            [".ref", ".pullSecret", ".dockerConfig", "", ".ca", ".ca", ".inside[0]"].map(below),
            "{told:#?}"
        );
        for every in ["everySeconds: 9", "everySeconds: -1"] {
            assert!(oci(&format!("{{ ref: 'registry.example/p:1', {every} }}")).is_err(), "{every}");
        }
        let digest = format!("registry.example/p@sha256:{}", "0".repeat(64));
        let told = oci(&format!("{{ ref: '{digest}', everySeconds: 60 }}")).unwrap_err();
        assert!(told[0].starts_with("module.oci.everySeconds: does nothing"), "{told:?}");
        assert_eq!(oci(&format!("{{ ref: '{digest}' }}")).unwrap().every, None);
    }
}
