//! Debian's registry, as a process of its own, and another tool than ours to push into it.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;

use super::eventually;

pub const USER: &str = "squirrel";
pub const PASSWORD: &str = "password-of-the-squirrel";
/// What htpasswd makes of both.
const HTPASSWD: &str = "squirrel:$2y$05$abcdefghijklmnopqrstuuC5PrUo43AYzrZJeXnySTPW/jO.CkKlm\n";

/// See the module. What it holds outlasts its process, and goes with the value.
pub struct Registry {
    /// Host and port.
    pub name: String,
    address: SocketAddr,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tools() -> PathBuf {
    let tools = std::env::var_os("REGISTRY_TOOLS").map(PathBuf::from);
    tools.expect("REGISTRY_TOOLS is to name the registry's folder; make e2e does all of it")
}

/// oras, which knows nothing of us.
pub fn oras(arguments: &[&str]) {
    let output = Command::new(tools().join("oras")).args(arguments).output().expect("oras runs");
    assert!(output.status.success(), "oras {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Registry {
    /// For everybody, without TLS.
    pub async fn open() -> Self {
        Self::new("127.0.0.1", json!({})).await
    }

    /// For who knows the password, over TLS with a certificate of its own: see [`Self::certificate`].
    pub async fn closed() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        fs::write(folder.path().join("tls.crt"), cert.pem()).expect("a certificate");
        fs::write(folder.path().join("tls.key"), signing_key.serialize_pem()).expect("a key");
        fs::write(folder.path().join("htpasswd"), HTPASSWD).expect("a password");
        let at = |name: &str| folder.path().join(name);
        let more = json!({
            "auth": { "htpasswd": { "realm": "lab", "path": at("htpasswd") } },
            "tls": { "certificate": at("tls.crt"), "key": at("tls.key") },
        });
        Self::within(folder, "localhost", more).await
    }

    async fn new(host: &str, more: serde_json::Value) -> Self {
        Self::within(tempfile::tempdir().expect("a folder"), host, more).await
    }

    async fn within(folder: tempfile::TempDir, host: &str, more: serde_json::Value) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("its port");
        drop(free);
        let mut config = json!({
            "version": "0.1",
            "log": { "level": "warn" },
            "storage": { "filesystem": { "rootdirectory": folder.path().join("images") } },
            "http": { "addr": address.to_string(), "tls": more["tls"] },
        });
        if more["tls"].is_null() {
            config["http"].as_object_mut().expect("an object").remove("tls");
        }
        if !more["auth"].is_null() {
            config["auth"] = more["auth"].clone();
        }
        // JSON is YAML.
        fs::write(folder.path().join("config.yml"), config.to_string()).expect("a config");
        let name = format!("{host}:{}", address.port());
        let mut registry = Self { name, address, folder, child: None };
        registry.start().await;
        registry
    }

    /// Who signs for it.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("tls.crt")
    }

    /// Again, with all that it held.
    pub async fn start(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("a log");
        let child = Command::new(tools().join("docker-registry"))
            .arg("serve")
            .arg(self.folder.path().join("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the registry starts"));
        eventually("the registry listens", async || {
            TcpStream::connect(self.address).map(drop).map_err(|error| {
                format!("{error}; {}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default())
            })
        })
        .await;
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
