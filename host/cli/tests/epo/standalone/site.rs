//! A directory of a test's own, and operators that run it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::super::command::{Ran, epo, ran, workspace};

/// The longest that anything is waited for.
const LONG: Duration = Duration::from_secs(300);

/// See the module.
pub struct Site {
    pub path: PathBuf,
    _dir: tempfile::TempDir,
    log: PathBuf,
}

/// One that runs; it ends with the test.
pub struct Operator {
    child: Child,
    log: PathBuf,
}

impl Site {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(
            workspace().canonicalize().unwrap().join("target/providers"),
            path.join("modules"),
        )
        .unwrap();
        Self { path, log: dir.path().join("log"), _dir: dir }
    }

    /// As a person with an editor: under another name first.
    pub fn save(&self, name: &str, content: &str) {
        let temporary = self.path.join(format!(".{name}.swp"));
        fs::write(&temporary, content).unwrap();
        fs::rename(temporary, self.path.join(name)).unwrap();
    }

    pub fn put_proxy(&self, name: &str, provider: &str, port: u16) {
        self.save(&format!("{name}.yaml"), &proxy(name, provider, port));
    }

    pub fn start(&self) -> Operator {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = epo()
            .args(["run", "--metrics-address=off", "--log-format=text", "--dir"])
            .arg(&self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Operator { child, log: self.log.clone() }
    }

    /// `epo` with these arguments, and the directory.
    pub fn epo(&self, args: &[&str]) -> Ran {
        ran(epo().args(args).arg("--dir").arg(&self.path).stdin(Stdio::null()).output().unwrap())
    }

    /// A Proxy as its status file has it.
    pub fn proxy(&self, name: &str) -> Option<Value> {
        let path = self.path.join(format!(".status/proxies/default/{name}.yaml"));
        let text = fs::read_to_string(path).ok()?;
        Some(serde_saphyr::from_str(&text).unwrap())
    }

    /// Until what is wanted was taken up.
    pub fn port(&self, name: &str, port: u16) {
        self.eventually(&format!("{name} is to listen at {port}"), || match self.proxy(name) {
            Some(proxy) if proxy["spec"]["port"] == port => Ok(()),
            proxy => Err(format!("{proxy:?}")),
        });
    }

    /// Until a Proxy is in this phase, of the spec that is wanted now.
    pub fn phase(&self, name: &str, phase: &str) -> Value {
        self.eventually(&format!("{name} is {phase}"), || {
            let proxy = self.proxy(name).ok_or("it is not there")?;
            let observed = proxy["status"]["observedGeneration"] == proxy["metadata"]["generation"];
            match proxy["status"]["phase"].as_str() {
                Some(is) if is == phase && observed => Ok(proxy),
                is => Err(format!("it is {is:?}: {}", proxy["status"]["message"])),
            }
        })
    }

    /// Until it is so.
    #[track_caller]
    pub fn eventually<T, E: Into<String>>(&self, what: &str, look: impl Fn() -> Result<T, E>) -> T {
        let start = Instant::now();
        loop {
            match look() {
                Ok(found) => return found,
                Err(error) if start.elapsed() > LONG => {
                    panic!("{what}, but: {}\n{}", error.into(), self.log())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// What all operators said; the last of it.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    pub fn has_said(&self, part: &str) -> bool {
        fs::read_to_string(&self.log).unwrap_or_default().contains(part)
    }
}

impl Operator {
    /// As the kernel does when memory is short: no chance to end anything.
    pub fn kill(mut self) {
        self.assert_running();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    #[track_caller]
    pub fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}\n{}", fs::read_to_string(&self.log).unwrap());
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn proxy(name: &str, provider: &str, port: u16) -> String {
    format!(
        "apiVersion: egressproxies.dev/v1alpha1\nkind: Proxy\nmetadata: {{ name: {name} }}\nspec: {{ provider: {provider}, \
         port: {port} }}\n"
    )
}

/// Every file below a folder.
pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(listed) = fs::read_dir(folder) else { return };
    for entry in listed.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            _ => found.push(entry.path()),
        }
    }
}
