//! A provider's crate: found by asking cargo, built and encoded.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use crate::{EncodeError, GUEST_TARGET, encode};

/// A crate of a workspace that becomes a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    package: String,
    workspace: PathBuf,
    target_dir: PathBuf,
}

impl Guest {
    /// The package of that name, or the one whose folder `dir` is in, or the workspace's only one.
    pub fn find(dir: &Path, package: Option<&str>) -> Result<Self, EncodeError> {
        let metadata = metadata(dir)?;
        let guests: Vec<&Package> = metadata.packages.iter().filter(|package| package.is_guest()).collect();
        let found = match package {
            Some(wanted) => guests.iter().find(|guest| guest.name == wanted),
            None => {
                let here = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
                let holds_here =
                    |guest: &&&Package| guest.manifest_path.parent().is_some_and(|at| here.starts_with(at));
                guests.iter().find(holds_here).or(match guests.as_slice() {
                    [only] => Some(only),
                    _ => None,
                })
            }
        };
        match found {
            Some(guest) => Ok(Self {
                package: guest.name.clone(),
                workspace: metadata.workspace_root,
                target_dir: metadata.target_directory,
            }),
            None => Err(EncodeError::WhichGuest {
                wanted: package.map(str::to_owned),
                found: guests.iter().map(|guest| guest.name.clone()).collect(),
            }),
        }
    }

    /// Its package.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// Where the component goes unless somebody says otherwise: `target/providers/NAME.wasm` in the
    /// workspace, NAME being the package's without `-provider`.
    pub fn default_out(&self) -> PathBuf {
        let name = self.package.strip_suffix("-provider").unwrap_or(&self.package);
        self.workspace.join("target/providers").join(format!("{name}.wasm"))
    }

    /// Builds it and writes the component to `out`; adds the target if rustup has not got it.
    pub fn build(&self, out: &Path) -> Result<(), EncodeError> {
        add_target(&self.workspace)?;
        find_target(&self.workspace)?;
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.workspace).args(["build", "--quiet", "--lib", "--package", &self.package]);
        cargo.args(["--target", GUEST_TARGET, "--profile", "provider"]);
        // A workspace other than ours need not know the profile: this much makes it one.
        cargo.args(["--config", "profile.provider.inherits = 'release'"]);
        cargo.arg("--target-dir").arg(&self.target_dir);
        if self.workspace.join("Cargo.lock").exists() {
            cargo.arg("--locked");
        }
        run(cargo, "cargo", &self.package)?;
        let file = format!("{}.wasm", self.package.replace('-', "_"));
        let core = self.target_dir.join(GUEST_TARGET).join("provider").join(file);
        write(out, &encode(&read(&core)?)?)
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

impl Package {
    fn is_guest(&self) -> bool {
        self.targets.iter().any(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))
    }
}

#[derive(Deserialize)]
struct Target {
    crate_types: Vec<String>,
}

fn metadata(dir: &Path) -> Result<Metadata, EncodeError> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(dir).args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.output().map_err(|source| EncodeError::Start { program: "cargo", source })?;
    let no_workspace = |cause: String| EncodeError::NoWorkspace { dir: dir.to_owned(), cause };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(no_workspace(said.trim().trim_start_matches("error: ").to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| no_workspace(error.to_string()))
}

fn add_target(workspace: &Path) -> Result<(), EncodeError> {
    let mut rustup = Command::new("rustup");
    rustup.current_dir(workspace).args(["--quiet", "target", "add", GUEST_TARGET]);
    match run(rustup, "rustup", GUEST_TARGET) {
        // A toolchain that did not come from rustup brings its own targets.
        Err(EncodeError::Start { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Of one that is missing cargo says no more than that it can't find `core`.
fn find_target(workspace: &Path) -> Result<(), EncodeError> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(workspace).args(["--print", "target-libdir", "--target", GUEST_TARGET]);
    match rustc.output() {
        Ok(said) if said.status.success() => {
            let folder = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            if Path::new(&folder).exists() { Ok(()) } else { Err(EncodeError::NoTarget) }
        }
        // Cargo may know another one.
        _ => Ok(()),
    }
}

fn run(mut command: Command, program: &'static str, package: &str) -> Result<(), EncodeError> {
    let status = command.status().map_err(|source| EncodeError::Start { program, source })?;
    if status.success() { Ok(()) } else { Err(EncodeError::Failed { program, package: package.to_owned() }) }
}

fn read(path: &Path) -> Result<Vec<u8>, EncodeError> {
    fs::read(path).map_err(|source| EncodeError::File { path: path.to_owned(), source })
}

/// Aside, then renamed: whoever watches the folder never reads half a component.
fn write(out: &Path, component: &[u8]) -> Result<(), EncodeError> {
    let file = |source| EncodeError::File { path: out.to_owned(), source };
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(file)?;
    }
    let aside = out.with_extension("wasm.new");
    fs::write(&aside, component).and_then(|()| fs::rename(&aside, out)).map_err(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn a_provider_is_found_by_its_name_and_by_its_folder() {
        let named = Guest::find(&workspace(), Some("kubernetes-provider")).unwrap();
        assert!(named.default_out().ends_with("target/providers/kubernetes.wasm"), "{named:?}");
        let within = workspace().join("providers/kubernetes/src");
        assert_eq!(Guest::find(&within, None).unwrap(), named);
    }

    #[test]
    fn a_crate_that_is_no_provider_is_refused_with_those_that_are() {
        let error = Guest::find(&workspace(), Some("provider-sdk")).unwrap_err().to_string();
        assert!(error.contains("provider-sdk is no provider"), "{error}");
        assert!(error.contains("kubernetes-provider"), "{error}");
    }
}
