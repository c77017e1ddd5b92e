//! A real hypervisor over SSH: the calls of a component beside the same calls without one, and an image of a gibibyte
//! into a pool beside the same bytes through ssh.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use egress_capabilities::{LibvirtCapability, TransferCapability, libvirt::Beside};
use egress_contract::{EntryName, Installation, Provider};
use egress_runtime::{
    Candidate, Lent, Limits, Module, Slot,
    capability::{Fill, Libvirt, LibvirtFailure, SystemClock, Transfer, TransferFailure},
};
use provider_encode::Guest;
use serde_json::{Value, json};

use crate::{Failure, loading, report::Report};

/// Calls in one operation: what an operation costs itself falls out of the difference.
const FEW: u32 = 10;
const MANY: u32 = 410;
const TIMES: usize = 41;
const GIB: usize = 1 << 30;
const PORTION: usize = 1 << 20;
/// Of a call.
const MOST_OVER: f64 = 1.02;
const MOST_GROWTH_MIB: f64 = 16.0;

/// A host of the lab.
pub(crate) struct Options {
    /// What the lab keeps of the host: key and known hosts.
    pub(crate) lab: PathBuf,
    pub(crate) address: String,
}

impl Options {
    fn grants(&self) -> Value {
        json!({
            "libvirt": { "hosts": { "hv": {
                "address": self.address, "user": "root", "key": { "file": self.lab.join("id") },
                "knownHosts": { "file": self.lab.join("known_hosts") }, "pools": ["default"], "bridges": ["br0"],
            } } },
            "transfer": { "inside": ["127.0.0.1/32"] },
        })
    }
}

fn failed(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Failure {
    move |why| Failure::new(what, why.to_string())
}

fn refused(failure: LibvirtFailure) -> Failure {
    Failure::new("the hypervisor", failure.message)
}

/// Measures both.
pub(crate) async fn measure(report: &mut Report, options: &Options, folder: &Path) -> Result<(), Failure> {
    let (entry, installation) = (entry()?, Installation::new("bench"));
    let grants = options.grants();
    let part = |name: &str| grants.get(name).cloned().unwrap_or_default();
    let odd = |faults| Failure::new("the grants", format!("{faults:?}"));
    let json = failed("the grants");
    let libvirt = serde_json::from_value(part("libvirt")).map_err(|error| json(&error))?;
    let libvirt = LibvirtCapability::new(&entry, libvirt, &Beside::alone(installation.clone()));
    let libvirt = Arc::new(libvirt.map_err(odd)?);
    let transfer = serde_json::from_value(part("transfer")).map_err(|error| json(&error))?;
    let transfer = Arc::new(TransferCapability::new(transfer, Arc::clone(&libvirt)).map_err(odd)?);

    image(report, options, &installation, &*transfer).await?;
    let wasm = folder.join("asking.wasm");
    let guest = Guest::find(Path::new(env!("CARGO_MANIFEST_DIR")), Some("fixture-libvirt-mutants"));
    guest.and_then(|guest| guest.build(&wasm)).map_err(|error| failed("the component")(&error))?;
    let component = fs::read(&wasm).map_err(|error| failed("the component")(&error))?;
    let module = Module::unpack(&component, u64::MAX).map_err(|error| failed("the component")(&error))?;
    let candidate = Candidate {
        module,
        pinned: None,
        config: config(),
        lent: Lent {
            libvirt: Some(Arc::clone(&libvirt) as _),
            transfer: Some(transfer),
            clock: Some(Arc::new(SystemClock::default())),
            ..Lent::default()
        },
        grants,
        limits: Limits { host_calls: u32::MAX, ..Limits::default() },
        legacy: Vec::new(),
    };
    let slot = Slot::new(loading::runtime(&folder.join("cache-hv"), None)?, entry, installation);
    let revision = slot.configured(candidate).await.map_err(|error| failed("the component")(&error))?;
    let (mut through, mut native) = (Vec::new(), Vec::new());
    let ask = async |asks: u32| {
        let (cursor, start) = (format!("asks:{asks}"), Instant::now());
        let asked = revision.list("hv", Some(&cursor)).await;
        asked.map(|_| start.elapsed()).map_err(|error| failed("the calls")(&error.message))
    };
    let connection = libvirt.open("hv", false).await.map_err(refused)?;
    // In turn, so that both meet the same machine.
    for _ in 0..TIMES {
        let few = ask(FEW).await?;
        through.push(per_call(ask(MANY).await?.saturating_sub(few)));
        let start = Instant::now();
        for _ in FEW..MANY {
            connection.free_memory().await.map_err(refused)?;
        }
        native.push(per_call(start.elapsed()));
    }
    let through = report.samples("a call of libvirt over SSH: component", "us", through);
    let native = report.samples("a call of libvirt over SSH: native", "us", native);
    let name = "a call of libvirt over SSH: component over native";
    report.figure(name, "ratio", through / native, Some(MOST_OVER));
    Ok(())
}

fn entry() -> Result<EntryName, Failure> {
    "bench".parse().map_err(|error| Failure::new("the entry", format!("{error}")))
}

fn config() -> Value {
    json!({
        "hosts": [{ "name": "hv" }],
        "images": { "tiny": { "url": "http://127.0.0.1:1/tiny.qcow2", "firmware": "bios" } },
        "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 128 } },
    })
}

fn per_call(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(MANY - FEW)
}

/// One image through the capability, its length told and not told, and as many bytes through ssh.
async fn image(
    report: &mut Report,
    options: &Options,
    installation: &Installation,
    transfer: &dyn Transfer,
) -> Result<(), Failure> {
    let io = failed("a server of images");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| io(&error))?;
    let at = listener.local_addr().map_err(|error| io(&error))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever hangs up has what he wants.
            let _ = zeros(stream);
        }
    });
    for (path, seconds, growth) in [
        ("told", "1 GiB into a pool, fetched and hashed", "its growth of memory"),
        ("untold", "1 GiB of untold length into a pool", "its growth of memory, length untold"),
    ] {
        let fill = Fill {
            host: "hv".to_owned(),
            pool: "default".to_owned(),
            volume: format!("proxy-base-{}-bench-{path}.raw", installation.hash()),
            url: format!("http://{at}/{path}"),
            format: "raw".to_owned(),
            sha256: None,
        };
        let before = peak(true)?;
        let start = Instant::now();
        let refused = |failure: TransferFailure| Failure::new("the transfer", failure.message);
        while transfer.ensure(&fill).await.map_err(refused)?.sha256.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        report.figure(seconds, "s", start.elapsed().as_secs_f64(), None);
        report.figure(growth, "MiB", peak(false)? - before, Some(MOST_GROWTH_MIB));
    }
    let start = Instant::now();
    copied(options).map_err(|error| failed("ssh")(&error))?;
    report.figure("1 GiB through ssh into a file", "s", start.elapsed().as_secs_f64(), None);
    Ok(())
}

fn zeros(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.extend_from_slice(&byte);
    }
    let length = match head.starts_with(b"GET /untold") {
        true => String::new(),
        false => format!("Content-Length: {GIB}\r\n"),
    };
    stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n").as_bytes())?;
    let portion = vec![0; PORTION];
    (0..GIB / PORTION).try_for_each(|_| stream.write_all(&portion))
}

/// The largest memory of this process, in MiB; perhaps from now on.
fn peak(anew: bool) -> Result<f64, Failure> {
    let failed = failed("this process' memory");
    if anew {
        fs::write("/proc/self/clear_refs", "5").map_err(|error| failed(&error))?;
    }
    let status = fs::read_to_string("/proc/self/status").map_err(|error| failed(&error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| failed(&"no VmHWM"))
}

fn copied(options: &Options) -> std::io::Result<()> {
    let known = format!("UserKnownHostsFile={}", options.lab.join("known_hosts").display());
    let mut ssh = Command::new("ssh")
        .arg("-i")
        .arg(options.lab.join("id"))
        .args(["-o", &known, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"])
        .arg(format!("root@{}", options.address))
        .arg("cat >/var/lib/libvirt/images/copied && rm /var/lib/libvirt/images/copied")
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = ssh.stdin.take() {
        let portion = vec![0; PORTION];
        (0..GIB / PORTION).try_for_each(|_| stdin.write_all(&portion))?;
    }
    match ssh.wait()?.success() {
        true => Ok(()),
        false => Err(std::io::Error::other("it failed")),
    }
}
