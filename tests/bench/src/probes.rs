//! What it costs the operator to probe many Proxies: to know who is due, to ask so many at once, and to judge. The
//! network is left out: each probe takes as long as one in a data centre, and passes.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use egress_operator::core::{
    backoff::Dice,
    probe::{Check, Fleet, HealthConfig, Outcome, Probe, Target, Teller, run},
    store::{Notice, ProxyKey},
};
use http::Uri;
use tokio::{sync::watch, time::Instant};

use crate::{Failure, live::mib, report::Report, waiting::resident_of};

const PROXIES: u32 = 10_000;
const TAKES: Duration = Duration::from_millis(20);
/// Until each of them was asked once: the period that entries have by default.
const FIRST: Duration = Duration::from_secs(35);
const MEASURED: Duration = Duration::from_secs(60);

/// Counts.
#[derive(Default)]
struct Asked {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Asked {
    async fn ask(&self) -> Outcome {
        self.all.fetch_add(1, Ordering::Relaxed);
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(TAKES).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        Outcome::Passed(String::new())
    }
}

#[async_trait]
impl Probe for Asked {
    async fn connect(&self, _: SocketAddr, _: Duration) -> Outcome {
        self.ask().await
    }

    async fn through(&self, _: SocketAddr, _: &Uri, _: Duration) -> Outcome {
        self.ask().await
    }

    async fn direct(&self, _: &Uri, _: Duration) -> bool {
        true
    }
}

struct Nobody;

impl Teller for Nobody {
    async fn changed(&self, _: BTreeSet<ProxyKey>) {}

    async fn tell(&self, _: &str, _: Notice) {}
}

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let before = resident_of("self")?;
    let config = HealthConfig { url: Some("http://probe.test/".to_owned()), ..HealthConfig::default() };
    let most_at_once = f64::from(config.at_once);
    let check = Check::of(Some(&config), None);
    let check = check.ok_or_else(|| Failure::new("probes", "the entry asks for none"))?;
    let fleet = Arc::new(Fleet::new(Dice::seeded(1)));
    for number in 0..PROXIES {
        let key = ProxyKey { namespace: "egress-bench".to_owned(), name: format!("bench-{number}") };
        let target = Target {
            uid: format!("00000000-0000-4000-8000-{number:012}"),
            instance: format!("proxy-bench-{number}"),
            entry: "bench".to_owned(),
            at: SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), 3128),
            check: check.clone(),
        };
        fleet.watch(&key, target, None, Instant::now());
    }
    let asked = Arc::new(Asked::default());
    let (leads, leadership) = watch::channel(Some(1));
    let probing = tokio::spawn(run(fleet, Arc::clone(&asked), Nobody, leadership));
    tokio::time::sleep(FIRST).await;

    let (cpu, all) = (cpu_seconds()?, asked.all.load(Ordering::Relaxed));
    tokio::time::sleep(MEASURED).await;
    let used = cpu_seconds()? - cpu;
    let probes = asked.all.load(Ordering::Relaxed) - all;
    drop(leads);
    let ended = probing.await;
    ended.map_err(|error| Failure::new("probes", error.to_string()))?;

    let name = "10,000 Proxies probed every 30 s: probes in a minute";
    report.figure(name, "probes", probes as f64, None);
    let most = asked.most.load(Ordering::Relaxed) as f64;
    report.figure("the same: probes at once", "probes", most, Some(most_at_once));
    report.figure("the same: of one processor", "%", 100.0 * used / MEASURED.as_secs_f64(), Some(5.0));
    let more = resident_of("self")?.saturating_sub(before);
    report.figure("the same: memory", "MiB", mib(more), Some(32.0));
    Ok(())
}

/// That this process has used so far.
fn cpu_seconds() -> Result<f64, Failure> {
    let read = std::fs::read_to_string("/proc/self/stat");
    let stat = read.map_err(|error| Failure::new("/proc/self/stat", error.to_string()))?;
    // Behind the name, which may hold anything: user and system time are the 12th and 13th, in hundredths.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks.as_slice() {
        [user, system] => Ok((user + system) / 100.0),
        _ => Err(Failure::new("/proc/self/stat", stat)),
    }
}
