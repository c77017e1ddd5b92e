//! A project that `epo provider new` made, and what its author runs there.
//!
//! Kept from run to run, and shared by all tests that ask for it, as long as `epo` writes the same one: make and
//! cargo know what is stale of what was fetched and built in it. So a component is built once, whoever needs it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// As long as a name may be.
pub const NAME: &str = "a-provider-of-my-own";

/// See the module.
pub struct Project {
    epo: PathBuf,
    folder: PathBuf,
}

impl Project {
    /// By this `epo`.
    pub fn new(epo: &Path, kind: &str, lang: &str) -> Self {
        let all = projects();
        let folder = all.join(format!("{kind}-{lang}"));
        let (made, new) = (folder.with_extension("made"), folder.with_extension("new"));
        fs::create_dir_all(&all).unwrap();
        let make = |folder: &Path| {
            let args = ["provider", "new", NAME, "--kind", kind, "--lang", lang, "--output"];
            well(Command::new(epo).args(args).arg(folder));
        };
        remove(&new);
        make(&new);
        if !folder.exists() || files(&made) != files(&new) {
            remove(&folder);
            make(&folder);
            remove(&made);
            fs::rename(&new, &made).unwrap();
        }
        Self { epo: epo.to_owned(), folder }
    }

    /// Runs its `ci.sh`: build, its own tests, and what the operator would do with the component.
    pub fn passes_its_ci(&self) {
        well(&mut self.command("./ci.sh"));
    }

    /// Builds the component, and says where it is.
    pub fn component(&self) -> PathBuf {
        well(&mut self.command("make"));
        self.folder.join("build").join(format!("{NAME}.wasm"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("EPO", &self.epo)
            .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
            .env("CARGO_TARGET_DIR", self.folder.with_extension("cargo"))
            // Whether it builds is the question here, not how fast it then is.
            .envs([("CARGO_PROFILE_PROVIDER_OPT_LEVEL", "1"), ("CARGO_PROFILE_PROVIDER_LTO", "off")]);
        command
    }
}

fn projects() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects")
}

fn remove(folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Every file, by its path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn well(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", said(&output.stdout), said(&output.stderr));
}
