//! This client beside libvirt's own, over the same socket, in turns:
//! `cargo run --release -p libvirt-remote --example bench -- SOCKET [POOL [SUMMARY.json]]`.
//!
//! Without a pool, nothing is uploaded. The socket is one that `ssh -L` forwards to the daemon's: that is how
//! hosts are reached, and what the limits are for. On the daemon's own socket calls are as good, but an upload,
//! at 2 GB/s, is a tenth slower than the C client's: the runtime's other thread is woken by every write.
//! Needs `python3-libvirt`, whose figures include Python; where that matters most, in the upload, it hands over
//! a quarter of a megabyte at a time. Exits with 1 when one of the limits in the table is broken.

use std::{
    error::Error,
    fs,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use bytes::Bytes;
use libvirt_remote::{Connection, StoragePool, StorageVol, StorageVolCreateFlags};
use serde_json::{Value, json};
use tokio::{net::UnixStream, task::JoinSet};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const C_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bench/c_client.py");
const VOLUME: &str = "libvirt-remote-bench";
const ROUNDS: usize = 5;
const SETUPS: usize = 50;
const CALLS: usize = 6_400;
const IN_FLIGHT: usize = 64;
const UPLOAD: u64 = 1 << 30;
const UPLOAD_ROUNDS: usize = 3;
const CHUNK: usize = 262_120;
/// Two runs of the same program differ by so much.
const NOISE: f64 = 1.05;

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    // In a task, as callers are, and not on the main thread, to which each answer would have to be handed.
    let arguments = std::env::args().skip(1).collect();
    tokio::spawn(compare(arguments)).await?
}

async fn compare(arguments: Vec<String>) -> Outcome<ExitCode> {
    let mut arguments = arguments.into_iter();
    let socket = arguments.next().ok_or("usage: bench SOCKET [POOL [SUMMARY.json]]")?;
    let mut table = Table::default();

    for _ in 0..ROUNDS {
        let (connect, open) = setup(&socket).await?;
        table.ours("set-up: connect (ms)", connect * 1e3);
        table.ours("set-up: authenticate and open (ms)", open * 1e3);
        table.theirs(
            "set-up: authenticate and open (ms)",
            figure(&c_client(&socket, "setup", SETUPS, "")?, "open")? * 1e3,
        );

        let libvirt = open_at(&socket).await?;
        let (rate, p50, p99) = sequential(&libvirt).await?;
        let theirs = c_client(&socket, "sequential", CALLS, "")?;
        table.ours("one call after the other: median (us)", p50 * 1e6);
        table.theirs("one call after the other: median (us)", figure(&theirs, "p50")? * 1e6);
        table.ours("one call after the other: 99th percentile (us)", p99 * 1e6);
        table.theirs("one call after the other: 99th percentile (us)", figure(&theirs, "p99")? * 1e6);
        table.ours("one call after the other (1/s)", rate);
        let sequential_rate = figure(&theirs, "rate")?;
        table.theirs("one call after the other (1/s)", sequential_rate);

        let rate = in_flight(&libvirt).await?;
        table.ours("64 in flight, beside one after the other (1/s)", rate);
        table.theirs("64 in flight, beside one after the other (1/s)", sequential_rate);
        table.ours("64 in flight, beside 64 threads (1/s)", rate);
        table.theirs(
            "64 in flight, beside 64 threads (1/s)",
            figure(&c_client(&socket, "threads", CALLS, "")?, "rate")?,
        );
    }
    if let Some(pool) = arguments.next() {
        let libvirt = open_at(&socket).await?;
        let pool = libvirt.storage_pool_lookup_by_name(&pool).await?;
        for _ in 0..UPLOAD_ROUNDS {
            let vol = fresh(&libvirt, &pool).await?;
            let (seconds, growth) = upload(&libvirt, &vol).await?;
            table.ours("upload of 1 GiB (s)", seconds);
            table.ours("its peak of memory (MiB)", growth);
            fresh(&libvirt, &pool).await?;
            let volume = format!("{}/{VOLUME}", pool.name);
            let theirs = c_client(&socket, "upload", usize::try_from(UPLOAD)?, &volume)?;
            table.theirs("upload of 1 GiB (s)", figure(&theirs, "seconds")?);
            table.theirs("its peak of memory (MiB)", figure(&theirs, "peak_growth_kib")? / 1024.0);
        }
        let vol = libvirt.storage_vol_lookup_by_name(&pool, VOLUME).await?;
        libvirt.storage_vol_delete(&vol).await?;
    }
    let held = table.print();
    if let Some(summary) = arguments.next() {
        fs::write(summary, table.json().to_string())?;
    }
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn open_at(socket: &str) -> Outcome<Connection> {
    Ok(Connection::open(UnixStream::connect(socket).await?, "qemu:///system").await?)
}

/// Medians of the parts, in seconds.
async fn setup(socket: &str) -> Outcome<(f64, f64)> {
    let (mut connects, mut opens) = (Vec::new(), Vec::new());
    for _ in 0..SETUPS {
        let start = Instant::now();
        let stream = UnixStream::connect(socket).await?;
        connects.push(start.elapsed());
        let start = Instant::now();
        let libvirt = Connection::open(stream, "qemu:///system").await?;
        opens.push(start.elapsed());
        libvirt.close().await;
    }
    Ok((at(&mut connects, 50), at(&mut opens, 50)))
}

async fn sequential(libvirt: &Connection) -> Outcome<(f64, f64, f64)> {
    for _ in 0..100 {
        libvirt.connect_get_lib_version().await?;
    }
    let mut laps = Vec::with_capacity(CALLS);
    let start = Instant::now();
    for _ in 0..CALLS {
        let lap = Instant::now();
        libvirt.connect_get_lib_version().await?;
        laps.push(lap.elapsed());
    }
    let rate = CALLS as f64 / start.elapsed().as_secs_f64();
    Ok((rate, at(&mut laps, 50), at(&mut laps, 99)))
}

async fn in_flight(libvirt: &Connection) -> Outcome<f64> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let libvirt = libvirt.clone();
        tasks.spawn(async move {
            for _ in 0..CALLS / IN_FLIGHT {
                libvirt.connect_get_lib_version().await?;
            }
            Ok::<_, libvirt_remote::Error>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(CALLS as f64 / start.elapsed().as_secs_f64())
}

async fn fresh(libvirt: &Connection, pool: &StoragePool) -> Outcome<StorageVol> {
    if let Ok(old) = libvirt.storage_vol_lookup_by_name(pool, VOLUME).await {
        libvirt.storage_vol_delete(&old).await?;
    }
    let xml = format!(
        "<volume><name>{VOLUME}</name><capacity>{UPLOAD}</capacity><allocation>0</allocation>\
         <target><format type='raw'/></target></volume>"
    );
    Ok(libvirt.storage_vol_create_xml(pool, &xml, StorageVolCreateFlags::NONE).await?)
}

/// Seconds, and MiB by which this process grew at most.
async fn upload(libvirt: &Connection, vol: &StorageVol) -> Outcome<(f64, f64)> {
    let data: Bytes = (0..=250).cycle().take(CHUNK).collect();
    let before = peak_kib(true)?;
    let start = Instant::now();
    let mut upload = libvirt.storage_vol_upload(vol, 0, Some(UPLOAD)).await?;
    while upload.sent() < UPLOAD {
        let left = usize::try_from(UPLOAD - upload.sent())?;
        upload.write_bytes(data.slice(..left.min(CHUNK))).await?;
    }
    upload.finish().await?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, (peak_kib(false)? - before) / 1024.0))
}

/// The most memory that this process had, in KiB; counted from now on if `reset`.
fn peak_kib(reset: bool) -> Outcome<f64> {
    if reset {
        fs::write("/proc/self/clear_refs", "5")?;
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    Ok(peak.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

fn at(laps: &mut [Duration], percent: usize) -> f64 {
    laps.sort_unstable();
    laps.get(laps.len() * percent / 100).map_or(f64::NAN, Duration::as_secs_f64)
}

fn c_client(socket: &str, what: &str, count: usize, volume: &str) -> Outcome<Value> {
    // Debian's package is for the system's Python alone.
    let output = Command::new("/usr/bin/python3")
        .args([C_CLIENT, socket, what, &count.to_string(), volume])
        .output()?;
    if !output.status.success() {
        return Err(format!("{C_CLIENT} {what}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn figure(figures: &Value, name: &str) -> Outcome<f64> {
    figures.get(name).and_then(Value::as_f64).ok_or_else(|| format!("no {name} in {figures}").into())
}

/// What may be asked of a row's two medians.
enum Limit {
    /// Nothing: a figure to know.
    None,
    /// Ours is at most so many times theirs.
    AtMost(f64),
    /// Ours is at least so many times theirs.
    AtLeast(f64),
    /// Ours is at most this.
    Absolute(f64),
}

fn limit(row: &str) -> Limit {
    match row {
        "one call after the other: median (us)" => Limit::AtMost(NOISE),
        "64 in flight, beside one after the other (1/s)" => Limit::AtLeast(3.0),
        "64 in flight, beside 64 threads (1/s)" => Limit::AtLeast(1.0),
        "upload of 1 GiB (s)" => Limit::AtMost(NOISE),
        "its peak of memory (MiB)" => Limit::Absolute(16.0),
        _ => Limit::None,
    }
}

/// Rows in the order of their first figure.
#[derive(Default)]
struct Table(Vec<(&'static str, Vec<f64>, Vec<f64>)>);

impl Table {
    fn ours(&mut self, row: &'static str, value: f64) {
        self.add(row, Some(value), None);
    }

    fn theirs(&mut self, row: &'static str, value: f64) {
        self.add(row, None, Some(value));
    }

    fn add(&mut self, name: &'static str, ours: Option<f64>, theirs: Option<f64>) {
        match self.0.iter_mut().find(|(row, ..)| *row == name) {
            Some((_, all_ours, all_theirs)) => {
                all_ours.extend(ours);
                all_theirs.extend(theirs);
            }
            None => self.0.push((name, ours.into_iter().collect(), theirs.into_iter().collect())),
        }
    }

    /// Whether all limits held.
    fn print(&self) -> bool {
        println!("{:<50} {:>10} {:>10}  limit", "medians", "this", "C client");
        let mut all = true;
        for (name, ours, theirs) in &self.0 {
            let (ours, theirs) = (median(ours), median(theirs));
            let (text, held) = match limit(name) {
                Limit::None => (String::new(), true),
                Limit::AtMost(times) => (format!("at most {times} times"), ours <= theirs * times),
                Limit::AtLeast(times) => (format!("at least {times} times"), ours >= theirs * times),
                Limit::Absolute(most) => (format!("at most {most}"), ours <= most),
            };
            let verdict = if held { "" } else { ": BROKEN" };
            println!("{name:<50} {ours:>10.3} {theirs:>10.3}  {text}{verdict}");
            all &= held;
        }
        all
    }

    fn json(&self) -> Value {
        let rows = self.0.iter().map(|(name, ours, theirs)| {
            json!({ "what": name, "libvirt-remote": median(ours), "c-client": median(theirs) })
        });
        rows.collect()
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
