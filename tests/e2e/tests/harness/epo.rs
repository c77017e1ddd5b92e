//! The real `epo`, as a process of its own.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::eventually;

/// Ended at once when it is dropped.
pub struct Epo {
    child: Child,
    log: PathBuf,
    /// Where in the log this process begins: earlier ones stand before it.
    begin: u64,
    address: Option<String>,
}

impl Drop for Epo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the tests' own files are kept, also after them.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// What `make e2e` has built, or what EPO names.
pub fn program() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().expect("the test's own file");
        test.parent().and_then(|deps| deps.parent()).expect("the profile's folder").join("epo")
    };
    let program = std::env::var_os("EPO").map_or_else(beside, PathBuf::from);
    assert!(program.exists(), "{} is missing: cargo build -p epo", program.display());
    program
}

impl Epo {
    /// Its log goes to `NAME.log`, behind what earlier ones wrote.
    /// `variables` are all that stands in its environment.
    pub fn start(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let log = folder().join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log");
        let begin = file.metadata().expect("the log's size").len();
        println!("the log of epo: {}", log.display());
        let child = Command::new(program())
            .arg("run")
            .args(["--metrics-address", "127.0.0.1:0", "--log-format", "json"])
            .args(arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("the log"))
            .stderr(file)
            .spawn()
            .expect("epo starts");
        Self { child, log, begin, address: None }
    }

    /// Until it does its work.
    pub async fn ready(&mut self) {
        eventually("epo is ready", async || {
            self.assert_running();
            match self.answer("/readyz").await {
                Ok(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// A test that goes on without it would tell of everything but its end.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the state of epo") {
            let log = self.log();
            let last: Vec<&str> = log.lines().rev().take(10).collect();
            panic!("epo ended: {status}; its last words, newest first: {last:#?}");
        }
    }

    /// What its metrics say.
    pub async fn metrics(&mut self) -> String {
        self.answer("/metrics").await.expect("metrics")
    }

    /// Where it listens, once it was ready.
    pub fn address(&self) -> &str {
        self.address.as_deref().expect("it listens")
    }

    async fn answer(&mut self, path: &str) -> Result<String, String> {
        if self.address.is_none() {
            self.address = self.lines().into_iter().find_map(|line| {
                let listens = line["message"].as_str()?.starts_with("listening");
                listens.then(|| line["address"].as_str().map(str::to_owned)).flatten()
            });
        }
        let address = self.address.as_ref().ok_or("it does not listen yet")?;
        let mut stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        let ask = format!("GET {path} HTTP/1.1\r\nHost: epo\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.map_err(|e| e.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(|e| e.to_string())?;
        Ok(answer)
    }

    /// Where it logs, also for when it has ended.
    pub fn log_path(&self) -> PathBuf {
        self.log.clone()
    }

    /// What this process has logged.
    pub fn log(&self) -> String {
        let whole = fs::read(&self.log).expect("the log");
        let begin = usize::try_from(self.begin).expect("a log that fits");
        String::from_utf8_lossy(&whole[begin..]).into_owned()
    }

    /// The same, line by line.
    pub fn lines(&self) -> Vec<Value> {
        self.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Resident memory, with that of what it shares.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Stops it where it is, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("epo is signalled");
    }

    /// At once, in the middle of whatever it does.
    pub fn kill(mut self) {
        self.child.kill().expect("epo is killed");
        let status = self.child.wait().expect("epo has ended");
        assert_eq!(status.signal(), Some(9), "it had ended before: {status}");
    }

    /// Asks it to end, and waits until it has.
    pub async fn terminate(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits until it has ended.
    pub async fn ended(mut self) -> ExitStatus {
        eventually("epo ends", async || self.child.try_wait().expect("its state").ok_or("it runs")).await
    }
}
