//! Runs the binary and looks at what came out.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub fn epo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epo"));
    command.current_dir(workspace());
    // What stands in the environment of whoever runs the tests must not decide them.
    let decides = |name: &str| name.starts_with("EPO_") || name.starts_with("OTEL_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| decides(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.env_remove("KUBECONFIG");
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn component() -> PathBuf {
    component_of("kubernetes")
}

/// A provider of the workspace, as `make providers` builds it.
pub fn component_of(provider: &str) -> PathBuf {
    let path = workspace().join(format!("target/providers/{provider}.wasm"));
    assert!(path.exists(), "{} is missing: run make providers first", path.display());
    path
}

/// What a command left behind.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().expect("it ended by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn run(args: &[&str]) -> Ran {
    ran(epo().args(args).stdin(Stdio::null()).output().unwrap())
}

pub fn run_with_input(args: &[&str], input: &[u8]) -> Ran {
    let mut child =
        epo().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    ran(output)
}

impl Ran {
    /// It went well, and complained about nothing.
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// It ended with this code, printed nothing that a pipe would take for a result, and said all this.
    #[track_caller]
    pub fn refused(self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "{}", self.err);
        assert_eq!(self.out, "", "nothing goes down the pipe");
        assert!(self.err.starts_with("epo: "), "{}", self.err);
        for part in said {
            assert!(self.err.contains(part), "{part:?} is missing in {}", self.err);
        }
    }
}

/// A file that is gone after the test.
pub fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}
