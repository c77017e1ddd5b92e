//! `epo provider new`: a project that builds, and keeps the contract from the start.

mod embedded;
mod project;

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use clap::ValueEnum;

use crate::{failure::Failure, output};
use project::Project;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  epo provider new mine --kind kubernetes --lang javascript
  cd mine && make test

A provider of the kind kubernetes is whole: it makes Pods that run Squid, and keeps every promise of the contract.
One of the kind http or libvirt reads its config, and says of the rest where it is to be written.")]
pub struct New {
    /// What the provider is called: [a-z0-9-], at most 20, a letter first
    name: String,
    /// What its backend is reached by
    #[arg(long, value_enum)]
    kind: Kind,
    /// What it is written in; http and libvirt are there in Rust alone
    #[arg(long, value_enum)]
    lang: Language,
    /// The folder to make [default: the provider's name]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// What a backend is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// An HTTP API
    Http,
    /// Hypervisors that run libvirt
    Libvirt,
    /// The Kubernetes API
    Kubernetes,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Libvirt => "libvirt",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// What a provider is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust, on the SDK
    Rust,
    /// JavaScript, built by componentize-qjs from npm
    #[value(name = "javascript")]
    JavaScript,
    /// Python, built by componentize-py from PyPI
    Python,
}

impl New {
    pub fn run(self) -> Result<(), Failure> {
        check(&self.name)?;
        let project = Project::new(&self.name, self.kind, self.lang)?;
        let dir = self.output.unwrap_or_else(|| PathBuf::from(&self.name));
        write(&dir, &project)?;
        let (dir, files) = (dir.display(), project.files.len());
        let said = format!(
            "made {dir}: {}, {files} files\n\n  cd {dir}\n  make        # builds build/{}.wasm\n  make test\n\n\
             README.md says what is where, and how to run it.\n",
            project.title, self.name
        );
        output::print(said.as_bytes())
    }
}

/// It becomes the name of the entry, of a crate or a package, of a file and of objects in Kubernetes.
fn check(name: &str) -> Result<(), Failure> {
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let cause = match name.len() {
        0 => "is empty",
        21.. => "is longer than 20 characters",
        _ if !name.bytes().all(legal) => "has other characters than a-z, 0-9 and -",
        _ if !name.starts_with(|first: char| first.is_ascii_lowercase()) => "does not begin with a letter",
        _ if name.ends_with('-') => "ends with -",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!(
        "the name {name:?} {cause}; give one like my-provider, at most 20 characters"
    )))
}

fn write(dir: &Path, project: &Project) -> Result<(), Failure> {
    fs::create_dir(dir).map_err(|error| {
        let dir = dir.display();
        match error.kind() {
            ErrorKind::AlreadyExists => Failure::Usage(format!(
                "{dir} is there already, and nothing in it was touched; give another folder with --output"
            )),
            ErrorKind::NotFound => Failure::Usage(format!(
                "can't make {dir}: the folder that it is to stand in does not exist; make that first"
            )),
            _ => Failure::Setup(format!("can't make {dir}: {error}; give another folder with --output")),
        }
    })?;
    for (path, content) in &project.files {
        let path = dir.join(path);
        write_file(&path, content).map_err(|error| {
            Failure::Setup(format!(
                "can't write {}: {error}; {} is incomplete: remove it, and try again",
                path.display(),
                dir.display()
            ))
        })?;
    }
    Ok(())
}

fn write_file(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)?;
    if content.starts_with("#!") {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_entries_crates_and_kubernetes_take() {
        for good in ["a", "mine", "my-provider", "k8s", "twenty-characters-ab"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["", "Mine", "my_provider", "9lives", "-mine", "mine-", "my.provider", "twenty-one-characters"]
        {
            assert!(matches!(check(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
