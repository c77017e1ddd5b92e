//! A project's files: layers of templates, the later over the earlier, with the contract's WIT and, for Rust,
//! the SDK beside them.
//!
//! In a template `{{name}}` stands for the provider's name, in paths too; a leading `dot-` of a path's part
//! for a dot, so that nothing in this tree takes a template's hidden files for its own.

use std::collections::BTreeMap;

use egress_contract::CONTRACT_VERSION;

use super::{Kind, Language, embedded::FILES};
use crate::failure::Failure;

/// What is written.
#[derive(Debug)]
pub struct Project {
    /// What it is, for people.
    pub title: &'static str,
    /// By path within the project.
    pub files: BTreeMap<String, String>,
}

/// What a project of one kind in one language is made of.
struct Recipe {
    title: &'static str,
    layers: &'static [&'static str],
    /// What `ci.sh` needs besides make and epo.
    tools: &'static str,
    /// How a CI installs those.
    setup: &'static str,
    /// How the component gets into a cluster; empty where there is none yet that does anything.
    run: &'static str,
    /// How `make test` tries the contract: the whole, or what of it needs no backend.
    suite: &'static str,
}

fn recipe(kind: Kind, language: Language) -> Result<Recipe, Failure> {
    match (kind, language) {
        (Kind::Kubernetes, Language::Rust) => Ok(Recipe {
            title: "a provider of Pods in Rust",
            layers: &["common", "kubernetes", "rust", "rust-kubernetes"],
            tools: "cargo",
            setup: "setup-rust.yml",
            run: "run-configmap.md",
            suite: "suite.mk",
        }),
        (Kind::Kubernetes, Language::JavaScript) => Ok(Recipe {
            title: "a provider of Pods in JavaScript",
            layers: &["common", "kubernetes", "javascript-kubernetes"],
            tools: "node npm",
            setup: "setup-node.yml",
            run: "run-configmap.md",
            suite: "suite.mk",
        }),
        (Kind::Kubernetes, Language::Python) => Ok(Recipe {
            title: "a provider of Pods in Python",
            layers: &["common", "kubernetes", "python-kubernetes"],
            tools: "python3",
            setup: "setup-python.yml",
            run: "run-directory.md",
            suite: "suite.mk",
        }),
        (Kind::Http, Language::Rust) => Ok(Recipe {
            title: "the frame of a provider over HTTP, in Rust",
            layers: &["common", "rust", "rust-skeleton", "rust-http"],
            tools: "cargo",
            setup: "setup-rust.yml",
            run: "",
            suite: "suite-without-backend.mk",
        }),
        (Kind::Libvirt, Language::Rust) => Ok(Recipe {
            title: "the frame of a provider over libvirt, in Rust",
            layers: &["common", "rust", "rust-skeleton", "rust-libvirt"],
            tools: "cargo",
            setup: "setup-rust.yml",
            run: "",
            suite: "suite-without-backend.mk",
        }),
        (Kind::Http | Kind::Libvirt, Language::JavaScript | Language::Python) => Err(Failure::Usage(
            "providers of the kinds http and libvirt are made in Rust alone; use --lang rust, or --kind kubernetes"
                .to_owned(),
        )),
    }
}

impl Project {
    /// Makes them.
    pub fn new(name: &str, kind: Kind, language: Language) -> Result<Self, Failure> {
        let Recipe { title, layers, tools, setup, run, suite } = recipe(kind, language)?;
        let filled = Filled {
            name,
            kind: kind.as_str(),
            tools,
            setup: part(setup),
            run: part(run),
            suite: part(suite),
        };
        let mut files = BTreeMap::new();
        for layer in layers {
            let layer = format!("templates/{layer}/");
            for (path, content) in below(&layer) {
                files.insert(filled.path(path), filled.text(content));
            }
        }
        for (path, content) in below("wit/").filter(|(path, _)| !path.contains('/')) {
            files.insert(format!("wit/{path}"), content.to_owned());
        }
        if language == Language::Rust {
            for (path, content) in below("sdk/") {
                // Two folders deep, as in this tree: it finds the WIT at ../../wit.
                files.insert(format!("vendor/provider-sdk/{path}"), content.to_owned());
            }
        }
        Ok(Self { title, files })
    }
}

fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, content)| Some((path.strip_prefix(folder)?, *content)))
}

/// A text that templates share; the build script would not have found a template that lacks one.
fn part(name: &str) -> &'static str {
    below("templates/parts/").find(|(path, _)| *path == name).map(|(_, content)| content).unwrap_or_default()
}

struct Filled<'a> {
    name: &'a str,
    kind: &'a str,
    tools: &'a str,
    setup: &'a str,
    run: &'a str,
    suite: &'a str,
}

impl Filled<'_> {
    fn path(&self, path: &str) -> String {
        let part = |part: &str| match part.strip_prefix("dot-") {
            Some(hidden) => format!(".{hidden}"),
            None => part.to_owned(),
        };
        path.split('/').map(part).collect::<Vec<_>>().join("/").replace("{{name}}", self.name)
    }

    fn text(&self, text: &str) -> String {
        // Parts first: they have the others in them.
        text.replace("{{setup}}", self.setup)
            .replace("{{run}}\n", self.run)
            .replace("{{suite}}\n", self.suite)
            .replace("{{tools}}", self.tools)
            .replace("{{name}}", self.name)
            .replace("{{kind}}", self.kind)
            .replace("{{contract}}", CONTRACT_VERSION)
            .replace("{{version}}", env!("CARGO_PKG_VERSION"))
    }
}
