//! `bench [--component FILE] [--out FILE] [--epo FILE --kubeconfig FILE [--quiet SECONDS] [--proxies COUNT]]
//! [--hypervisor DIR --address ADDRESS] [--only live|sweeps|probes|hypervisor]`: what a provider in a
//! component costs, each figure beside its alternative, measured in the same run on the same machine. Nothing here
//! decides a test.

mod backend;
mod fleet;
mod host_call;
mod http_call;
mod hypervisor;
mod live;
mod loading;
mod native;
mod operation;
mod plugin;
mod probes;
mod report;
mod served;
mod sweeps;
mod waiting;
mod ways;
mod wire;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use backend::Backend;
use egress_contract::Installation;
use report::Report;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub(crate) struct Failure {
    what: &'static str,
    why: String,
}

impl Failure {
    pub(crate) fn new(what: &'static str, why: impl Into<String>) -> Self {
        Self { what, why: why.into() }
    }
}

/// What to measure.
struct Options {
    component: PathBuf,
    out: PathBuf,
    /// The release build of epo and a kubeconfig, for what needs an API server.
    live: Option<live::Options>,
    /// For what needs a hypervisor.
    hypervisor: Option<hypervisor::Options>,
    /// Nothing else.
    only: Option<Only>,
}

/// A part of it all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Live,
    Sweeps,
    Probes,
    Hypervisor,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    // As the operator does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let mut args = std::env::args().skip(1).peekable();
    let done = if args.next_if_eq("plugin").is_some() {
        let (Some(own), Some(host)) = (args.next(), args.next()) else {
            eprintln!("usage: bench plugin PLUGIN-SOCKET HOST-SOCKET");
            return ExitCode::from(2);
        };
        plugin::serve(own.into(), host.into()).await
    } else {
        match options(args) {
            Ok(options) => run(&options).await,
            Err(usage) => {
                eprintln!("bench: {usage}");
                return ExitCode::from(2);
            }
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        component: PathBuf::from("target/providers/kubernetes.wasm"),
        out: PathBuf::from("target/bench/summary.json"),
        live: None,
        hypervisor: None,
        only: None,
    };
    let (mut epo, mut kubeconfig) = (None, None);
    let (mut lab, mut address) = (None, None);
    let (mut quiet, mut proxies) = (Duration::from_secs(600), 10_000);
    while let Some(flag) = args.next() {
        let value = args.next().map(PathBuf::from).ok_or(format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--component" => options.component = value,
            "--out" => options.out = value,
            "--epo" => epo = Some(value),
            "--kubeconfig" => kubeconfig = Some(value),
            "--hypervisor" => lab = Some(value),
            "--address" => address = value.to_str().map(str::to_owned),
            "--only" if value.as_os_str() == "live" => options.only = Some(Only::Live),
            "--only" if value.as_os_str() == "sweeps" => options.only = Some(Only::Sweeps),
            "--only" if value.as_os_str() == "probes" => options.only = Some(Only::Probes),
            "--only" if value.as_os_str() == "hypervisor" => options.only = Some(Only::Hypervisor),
            "--quiet" => {
                let seconds = value.to_str().and_then(|seconds| seconds.parse().ok());
                quiet = Duration::from_secs(seconds.ok_or("--quiet needs a number of seconds")?);
            }
            "--proxies" => {
                let count = value.to_str().and_then(|count| count.parse().ok());
                proxies = count.ok_or("--proxies needs a number")?;
            }
            _ => {
                return Err(format!(
                    "{flag} {} is not known: --component, --out, --epo, --kubeconfig, --quiet SECONDS, --proxies COUNT, \
                     --hypervisor, --address, --only live|sweeps|probes|hypervisor",
                    value.display()
                ));
            }
        }
    }
    options.live = match (epo, kubeconfig) {
        (Some(epo), Some(kubeconfig)) => Some(live::Options { epo, kubeconfig, quiet, proxies }),
        (None, None) => None,
        _ => return Err("--epo and --kubeconfig go together".into()),
    };
    options.hypervisor = match (lab, address) {
        (Some(lab), Some(address)) => Some(hypervisor::Options { lab, address }),
        (None, None) => None,
        _ => return Err("--hypervisor and --address go together".into()),
    };
    Ok(options)
}

async fn run(options: &Options) -> Result<(), Failure> {
    let read = std::fs::read(&options.component);
    let component = read.map_err(|error| {
        Failure::new("the component", format!("{}: {error}", options.component.display()))
    })?;
    let mut report = Report::default();
    let wants = |part| options.only.is_none_or(|only| only == part);
    // First: memory that others gave back to the allocator, a sweep would take without being seen.
    if wants(Only::Sweeps) {
        eprintln!("bench: sweeps over many instances");
        sweeps::measure(&mut report).await?;
    }
    if options.only.is_none() {
        calls(&mut report, &component).await?;
    }
    if wants(Only::Probes) {
        eprintln!("bench: probes of many Proxies");
        probes::measure(&mut report).await?;
    }
    match options.hypervisor.as_ref().filter(|_| wants(Only::Hypervisor)) {
        Some(hypervisor) => {
            eprintln!("bench: calls and an image at a hypervisor");
            hypervisor::measure(&mut report, hypervisor, folder()?.path()).await?;
        }
        None => eprintln!("bench: no --hypervisor and --address: what needs one is left out"),
    }
    match options.live.as_ref().filter(|_| wants(Only::Live)) {
        Some(live) => live::measure(&mut report, live, &component).await?,
        None => eprintln!("bench: no --epo and --kubeconfig: what needs an API server is left out"),
    }

    report.print();
    report.write(&options.out).map_err(|error| Failure::new("the summary", error.to_string()))?;
    eprintln!("bench: written to {}", options.out.display());
    Ok(())
}

fn folder() -> Result<tempfile::TempDir, Failure> {
    tempfile::tempdir().map_err(|error| Failure::new("a temporary folder", error.to_string()))
}

/// What calls cost, in this process.
async fn calls(report: &mut Report, component: &[u8]) -> Result<(), Failure> {
    let folder = folder()?;
    let installation = Installation::new("bench");

    eprintln!("bench: loading, cold and from the cache");
    let backend = Arc::new(Backend::default());
    let slot = loading::measure(report, &installation, component, &backend, folder.path()).await?;
    let Some(active) = slot.active() else {
        return Err(Failure::new("the component", "did not become active"));
    };

    eprintln!("bench: creates, three ways");
    ways::measure(report, &installation, active.as_ref(), &backend, folder.path()).await?;

    eprintln!("bench: host calls, two ways");
    host_call::measure(report, &installation, folder.path()).await?;

    eprintln!("bench: requests over HTTP, two ways");
    http_call::measure(report, &installation, folder.path()).await?;

    eprintln!("bench: instances that wait");
    waiting::measure(report, &installation, component, folder.path()).await?;
    Ok(())
}
