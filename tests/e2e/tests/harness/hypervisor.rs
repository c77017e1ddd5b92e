//! The libvirt host that the lab brought up, behind the operator's back, and images for it.

use std::{collections::BTreeSet, env, net::Ipv4Addr, path::PathBuf, process::Command};

use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// See the module.
pub struct Hypervisor {
    /// Of its sshd.
    pub address: Ipv4Addr,
    /// Where it keeps what a client needs: `id`, `known_hosts`.
    run: PathBuf,
    within: String,
}

/// What stands at the host: domains, volumes, and the variables of UEFI machines.
pub type Things = BTreeSet<String>;

impl Hypervisor {
    /// What `HYPERVISOR` names.
    pub fn new() -> Self {
        let variable = |name: &str| {
            env::var(name).unwrap_or_else(|_| panic!("{name} is not set; make e2e does all of it"))
        };
        Self {
            address: variable("HYPERVISOR_ADDRESS").parse().expect("an address"),
            run: variable("HYPERVISOR_RUN").into(),
            within: variable("HYPERVISOR_WITHIN"),
        }
    }

    /// A file of the lab's for this host.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.run.join(name)).expect("a file of the lab's host")
    }

    /// This machine as the host's guests reach it.
    pub fn here(&self) -> Ipv4Addr {
        let [a, b, c, d] = self.address.octets();
        Ipv4Addr::new(a, b, c, d - 1)
    }

    /// Runs a command in the host, as root; what it says.
    pub fn within(&self, command: &str) -> String {
        let command = format!("{} {command}", self.within);
        let ended = Command::new("bash").args(["-c", &command]).output().expect("bash");
        let said = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        assert!(ended.status.success(), "{command}: {}", said(ended.stderr));
        said(ended.stdout)
    }

    pub fn things(&self) -> Things {
        // A table has a head of two lines, and names come first.
        let mut things = Things::new();
        let mut note = |kind: &str, said: String, skip: usize| {
            let names = said.lines().skip(skip).filter_map(|line| line.split_whitespace().next());
            things.extend(names.map(|name| format!("{kind} {name}")));
        };
        note("domain", self.within("virsh list --all --name"), 0);
        self.within("virsh pool-refresh default");
        note("volume", self.within("virsh vol-list default"), 2);
        note("nvram", self.within("ls /var/lib/libvirt/qemu/nvram"), 0);
        things
    }
}

/// Serves one file to whoever asks, whole or from where he was cut off.
pub struct ImageServer {
    pub url: String,
    pub port: u16,
    accepting: AbortHandle,
}

impl Drop for ImageServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ImageServer {
    /// What this variable names.
    pub async fn of(variable: &str) -> Self {
        let file =
            env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; make e2e does all of it"));
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let url = format!("http://127.0.0.1:{port}/image.qcow2");
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let file = file.clone();
                tokio::spawn(async move { serve(stream, &file).await });
            }
        });
        Self { url, port, accepting: accepting.abort_handle() }
    }
}

async fn serve(mut stream: TcpStream, file: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let mut file = File::open(file).await?;
    let length = file.metadata().await?.len();
    let from = head.split_once("range: bytes=").and_then(|(_, rest)| rest.split('-').next()?.parse().ok());
    let (status, begin) = match from {
        Some(begin) => {
            (format!("206 Partial\r\nContent-Range: bytes {begin}-{}/{length}", length - 1), begin)
        }
        None => ("200 OK".to_owned(), 0),
    };
    let left = length - begin;
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {left}\r\nETag: \"1\"\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    if head.starts_with("get ") {
        file.seek(std::io::SeekFrom::Start(begin)).await?;
        copy(&mut file, &mut stream).await?;
    }
    stream.shutdown().await
}
