//! `epo provider configmap`: a component as an object that any Kubernetes client can carry.

use std::{collections::BTreeMap, io::Write};

use clap::ValueEnum;
use egress_runtime::inspect;
use k8s_openapi::ByteString;
use serde::Serialize;

use super::ComponentFile;
use crate::{failure::Failure, output};

/// What the API server accepts: the values of a ConfigMap, decoded, together.
const CONFIG_MAP_BYTES: u64 = 1024 * 1024;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # put a component into a cluster, or replace the one that is there
  epo provider configmap target/providers/kubernetes.wasm --name kubernetes-provider \\
    -n egress-system | kubectl apply --server-side -f -

A client-side apply keeps a second copy in an annotation and fails for ConfigMaps over 256 KiB:
say --server-side, always.")]
pub struct ConfigMapCommand {
    #[command(flatten)]
    file: ComponentFile,
    /// The ConfigMap's name
    #[arg(long, value_parser = object_name)]
    name: String,
    /// The ConfigMap's namespace [default: left to kubectl]
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    /// The key that holds the component
    #[arg(long, default_value = "provider.wasm", value_parser = key)]
    key: String,
    /// How the component is packed; the operator tells by itself
    #[arg(long, value_enum, default_value_t)]
    compress: Compression,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// The smallest
    #[default]
    Zstd,
    /// For tools that know no zstd
    Gzip,
    /// As it is
    None,
}

/// As the API server takes it.
fn object_name(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let word = |word: &str| {
        word.bytes().all(|byte| legal(byte) || byte == b'-')
            && word.bytes().next().is_some_and(legal)
            && word.bytes().last().is_some_and(legal)
    };
    match text.len() <= 253 && text.split('.').all(word) {
        true => Ok(text.to_owned()),
        false => Err("Kubernetes takes a-z, 0-9, - and ., and nothing else at the ends".to_owned()),
    }
}

/// The same of a key.
fn key(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=253).contains(&text.len()) && text.bytes().all(legal) && text != "." && !text.starts_with("..")
    {
        true => Ok(text.to_owned()),
        false => Err("Kubernetes takes letters, digits, -, _ and .".to_owned()),
    }
}

impl ConfigMapCommand {
    pub fn run(self) -> Result<(), Failure> {
        let module = self.file.module()?;
        let inspection = inspect(module.bytes()).map_err(|refusal| self.file.refused(refusal))?;
        let packed = self.pack(module.bytes())?;
        let annotations = BTreeMap::from([
            ("egressproxies.dev/contract", inspection.contract),
            ("egressproxies.dev/digest", module.digest().to_string()),
        ]);
        let object = ConfigMap {
            api_version: "v1",
            kind: "ConfigMap",
            metadata: Metadata {
                name: &self.name,
                namespace: self.namespace.as_deref(),
                labels: BTreeMap::from([("app.kubernetes.io/part-of", "egress-proxies-operator")]),
                annotations,
            },
            binary_data: BTreeMap::from([(self.key.as_str(), ByteString(packed))]),
        };
        output::print((APPLY.to_owned() + &output::yaml(&object)?).as_bytes())
    }

    fn pack(&self, component: &[u8]) -> Result<Vec<u8>, Failure> {
        let packed = self.compress.pack(component).map_err(|error| Failure::Render(error.to_string()))?;
        let size = packed.len() as u64;
        if size <= CONFIG_MAP_BYTES {
            return Ok(packed);
        }
        let smaller = "build the component smaller (opt-level \"z\", lto, strip), or put its file into the \
                       operator's --modules-dir, where no such limit holds";
        Err(Failure::TooLarge {
            path: self.file.path().to_owned(),
            size,
            limit: CONFIG_MAP_BYTES,
            packing: match self.compress {
                Compression::Zstd => "zstd",
                Compression::Gzip => "gzip",
                Compression::None => "nothing",
            },
            way_out: match self.compress {
                Compression::Zstd => smaller.to_owned(),
                Compression::Gzip | Compression::None => format!("try --compress zstd, or {smaller}"),
            },
        })
    }
}

impl Compression {
    fn pack(self, component: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Zstd => zstd::encode_all(component, 19),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(component)?;
                encoder.finish()
            }
            Self::None => Ok(component.to_owned()),
        }
    }
}

const APPLY: &str = "\
# Apply with --server-side: a client-side apply fails for ConfigMaps over 256 KiB.
";

/// In the order that people expect to read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    binary_data: BTreeMap<&'a str, ByteString>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    labels: BTreeMap<&'a str, &'a str>,
    annotations: BTreeMap<&'a str, String>,
}
