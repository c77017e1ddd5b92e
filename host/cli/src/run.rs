//! `epo run`: the operator.
//!
//! It wires and no more: TLS first, logs, metrics and the listener, then the loops, until a signal ends them.

mod directory;
mod http;
mod simulations;

use std::{net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use egress_operator::{ApiServer, LeaseOptions, Operator, Options, Readiness, Terms};
use egress_runtime::RuntimeConfig;
use jiff::SignedDuration;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::{
    directory::{DirectoryArgs, RunDirectory},
    http::Answers,
    simulations::Simulated,
};
use crate::{
    cluster::ClusterArgs,
    compile::CompileChild,
    failure::Failure,
    setup,
    telemetry::{self, LogFormat, Telemetry, log_filter},
};

/// Where a Pod finds its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

#[derive(clap::Args)]
#[command(after_help = "\
Signals:
  SIGTERM, SIGINT  stop: steps in flight end within --shutdown-grace; a second one ends at once

Paths of the listener:
  /metrics  for Prometheus        /healthz  it lives        /readyz  it does its work

Telemetry:
  OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 sends traces, logs and metrics there;
  OpenTelemetry's other variables count as well")]
pub struct Run {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The operator's own namespace [default: the Pod's, else egress-system; with --dir: default]
    #[arg(short, long, env = "EPO_NAMESPACE")]
    namespace: Option<String>,
    /// Look after the Proxies of this namespace only; can be given several times [default: all]
    #[arg(
        long = "watch-namespace",
        env = "EPO_WATCH_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    watch: Vec<String>,
    /// The ConfigMap that holds the provider entries
    #[arg(long, env = "EPO_PROVIDERS_CONFIGMAP", value_name = "NAME", default_value = "egress-providers")]
    providers_configmap: String,
    /// Where entries with `module.file` find their components [default: with --dir DIR itself; else they are refused]
    #[arg(long, env = "EPO_MODULES_DIR", value_name = "DIR")]
    modules_dir: Option<PathBuf>,
    /// Where compiled components are kept [default: in the user's cache folder]
    #[arg(long, env = "EPO_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Where to listen for /metrics, /healthz and /readyz; `off` for nowhere
    #[arg(
        long,
        env = "EPO_METRICS_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080",
        value_parser = ListenAddress::from_str
    )]
    metrics_address: ListenAddress,
    /// What a log line looks like [default: json; with --dir: text]
    #[arg(long, env = "EPO_LOG_FORMAT", value_enum)]
    log_format: Option<LogFormat>,
    /// What is logged: a level, or levels for targets as in `warn,egress_operator=debug`
    #[arg(long, env = "EPO_LOG_LEVEL", value_name = "FILTER", default_value = "info", value_parser = log_filter)]
    log_level: String,
    /// How long steps in flight may take to end when the operator stops
    #[arg(long, env = "EPO_SHUTDOWN_GRACE", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    shutdown_grace: Duration,
    /// How many Proxies are worked on at once
    #[arg(long, env = "EPO_CONCURRENCY", value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// The longest that compiling one component may take
    #[arg(long, env = "EPO_COMPILE_TIME", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    compile_time: Duration,
    /// The most address space that compiling one component may take; it counts more than what is in use
    #[arg(long, env = "EPO_COMPILE_MEMORY", value_name = "SIZE", default_value = "1536Mi", value_parser = size)]
    compile_memory: u64,
    /// The largest component that is taken, unpacked
    #[arg(long, env = "EPO_MODULE_BYTES", value_name = "SIZE", default_value = "64Mi", value_parser = size)]
    module_bytes: u64,
    #[command(flatten)]
    leader: LeaderArgs,
    /// The process' name in Events [default: the host's]
    #[arg(long, env = "EPO_INSTANCE", value_name = "NAME", hide = true)]
    instance: Option<String>,
}

/// Several processes: one works, the others are ready to take over.
#[derive(clap::Args)]
struct LeaderArgs {
    /// Work only while holding a Lease, so that several processes can run; `=false` where there is only ever one
    #[arg(
        long,
        env = "EPO_LEADER_ELECT",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    leader_elect: bool,
    /// The Lease's namespace [default: the operator's own]
    #[arg(long, env = "EPO_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// The Lease's name
    #[arg(
        long,
        env = "EPO_LEADER_ELECT_RESOURCE_NAME",
        value_name = "NAME",
        default_value = "egress-operator"
    )]
    leader_elect_resource_name: String,
    /// How long a Lease that is not renewed keeps others off; whole seconds
    #[arg(
        long,
        env = "EPO_LEADER_ELECT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = duration
    )]
    leader_elect_lease_duration: Duration,
    /// How long after its last renewal a leader may still write; shorter than the Lease
    #[arg(
        long,
        env = "EPO_LEADER_ELECT_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = duration
    )]
    leader_elect_renew_deadline: Duration,
    /// Between two renewals; at most half of the deadline
    #[arg(
        long,
        env = "EPO_LEADER_ELECT_RETRY_PERIOD",
        value_name = "DURATION",
        default_value = "2s",
        value_parser = duration
    )]
    leader_elect_retry_period: Duration,
}

impl LeaderArgs {
    /// None for a single process. `instance` is for people; the identity is of this very process, since a
    /// successor of the same name is somebody else.
    fn lease(&self, namespace: &str, instance: &str) -> Result<Option<LeaseOptions>, Failure> {
        if !self.leader_elect {
            return Ok(None);
        }
        let (duration, deadline) = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline);
        let renewal = self.leader_elect_retry_period;
        if duration.subsec_nanos() != 0 {
            return Err(Failure::Usage("--leader-elect-lease-duration takes whole seconds".to_owned()));
        }
        if deadline >= duration || renewal > deadline / 2 {
            return Err(Failure::Usage(format!(
                "of --leader-elect-lease-duration ({duration:?}), --leader-elect-renew-deadline ({deadline:?}) and \
                 --leader-elect-retry-period ({renewal:?}), the second must be shorter than the first, and the third \
                 at most half of the second"
            )));
        }
        let identity = LeaseOptions::identity(instance);
        Ok(Some(LeaseOptions {
            namespace: self.leader_elect_resource_namespace.clone().unwrap_or_else(|| namespace.to_owned()),
            name: self.leader_elect_resource_name.clone(),
            terms: Terms { identity, duration, deadline, renewal },
        }))
    }
}

impl Run {
    pub fn run(self) -> Result<(), Failure> {
        setup::tls()?;
        let usual = if self.directory.is_given() { LogFormat::Text } else { LogFormat::default() };
        setup::block_on(async {
            let mut telemetry = Telemetry::start(self.log_format.unwrap_or(usual), &self.log_level)?;
            let metrics = telemetry::metrics()?;
            telemetry.send_metrics(&metrics);
            let ended = self.operate(metrics).await;
            telemetry.flush().await;
            ended
        })
    }

    async fn operate(self, metrics: PrometheusHandle) -> Result<(), Failure> {
        let stop = stop_at_signals()?;
        let address = self.metrics_address;
        let directory = self.directory.open(&self.own_namespace(), &self.providers_configmap).await?;
        let options = self.options(directory.as_ref()).await?;
        let operator = Operator::prepare(options).await?;
        if let ListenAddress::At(address) = address {
            let readiness = operator.readiness();
            let ready = Arc::new(move || readiness_of(&readiness.borrow()));
            let bound = http::serve(address, Answers { metrics, ready }).await?;
            info!(address = %bound, "listening for /metrics, /healthz and /readyz");
        }
        let runs =
            async { operator.run(stop).await.inspect_err(|error| error!(%error, "the operator stops")) };
        match directory {
            Some(directory) => directory.around(runs).await,
            None => Ok(runs.await?),
        }
    }

    /// Of a directory, what documents without a namespace mean as well.
    fn own_namespace(&self) -> String {
        match (&self.namespace, self.directory.is_given()) {
            (Some(namespace), _) => namespace.clone(),
            (None, true) => "default".to_owned(),
            (None, false) => own_namespace(),
        }
    }

    async fn options(self, directory: Option<&RunDirectory>) -> Result<Options, Failure> {
        let namespace = self.own_namespace();
        let server = match directory {
            Some(directory) => directory.server(),
            None => ApiServer::Cluster(Box::new(self.cluster.config().await?)),
        };
        let cache_dir = self.cache_dir.or_else(setup::cache_dir).ok_or_else(|| {
            Failure::Setup(
                "there is no home folder to keep compiled components in; give --cache-dir".to_owned(),
            )
        })?;
        let mut runtime = RuntimeConfig {
            cache_dir: Some(cache_dir.clone()),
            compile_time: self.compile_time,
            compile_memory: self.compile_memory,
            module_bytes: self.module_bytes,
            ..RuntimeConfig::default()
        };
        let program = std::env::current_exe()
            .map_err(|error| Failure::Setup(format!("can't find epo's own file, which compiles: {error}")))?;
        runtime.compile = CompileChild::command(program, &cache_dir, &runtime);
        let instance = self.instance.unwrap_or_else(host_name);
        let lease = match directory {
            // Its lock says who works.
            Some(_) => None,
            None => self.leader.lease(&namespace, &instance)?,
        };
        let modules_dir = self.modules_dir.or_else(|| directory.map(RunDirectory::path));
        Ok(Options {
            lease,
            providers: self.providers_configmap,
            modules_dir,
            simulations: directory.map(|_| Simulated::shared()),
            watch: self.watch,
            concurrency: self.concurrency,
            grace: self.shutdown_grace,
            instance,
            ..Options::new(server, namespace, runtime)
        })
    }
}

fn readiness_of(readiness: &Readiness) -> http::Ready {
    match readiness {
        Readiness { stopping: true, .. } => Err("the operator is stopping".to_owned()),
        Readiness { entries: false, .. } => Err("the providers ConfigMap is not read yet".to_owned()),
        Readiness { loaded: false, .. } => Err("the components are not loaded yet".to_owned()),
        Readiness { unlisted: 1.., .. } => Err("the Proxies are not listed yet".to_owned()),
        Readiness { .. } => Ok(()),
    }
}

/// A first signal asks for an end, a second one is it.
fn stop_at_signals() -> Result<CancellationToken, Failure> {
    let listen =
        |kind| signal(kind).map_err(|error| Failure::Setup(format!("can't listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        stopping.cancel();
        either(&mut terminate, &mut interrupt).await;
        warn!("a second signal: ending at once");
        std::process::exit(1);
    });
    Ok(stop)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn own_namespace() -> String {
    let mounted = std::fs::read_to_string(OWN_NAMESPACE).unwrap_or_default();
    match mounted.trim() {
        "" => "egress-system".to_owned(),
        namespace => namespace.to_owned(),
    }
}

fn host_name() -> String {
    // A Pod's is its name.
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Where to listen, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenAddress {
    At(SocketAddr),
    Off,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            address => address.parse().map(Self::At).map_err(|_| {
                "give an address and a port, as 127.0.0.1:8080 or [::]:8080, or 'off'".to_owned()
            }),
        }
    }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let read: Result<SignedDuration, _> = text.parse();
    let positive = read.ok().and_then(|duration| Duration::try_from(duration).ok()).filter(|d| !d.is_zero());
    positive.ok_or_else(|| "give a duration above zero, as 30s or 2m".to_owned())
}

/// Bytes, as Kubernetes writes them: a whole number, with Ki, Mi or Gi or without.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(digits) {
        Some("") => Some(1),
        Some("Ki") => Some(1 << 10),
        Some("Mi") => Some(1 << 20),
        Some("Gi") => Some(1 << 30),
        _ => None,
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok().filter(|number| plain && *number > 0);
    let bytes = number.zip(unit).and_then(|(number, unit): (u64, u64)| number.checked_mul(unit));
    bytes.ok_or_else(|| "give a size above zero in bytes, as 64Mi or 1Gi".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use egress_runtime::Compile;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        run: Run,
    }

    #[test]
    fn sizes_read_as_kubernetes_writes_them() {
        assert_eq!(size("1Gi"), Ok(1 << 30));
        assert_eq!(size("64Mi"), Ok(64 << 20));
        assert_eq!(size("8Ki"), Ok(8192));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for bad in ["", "Mi", "0", "0Gi", "-1Mi", "+1Mi", "1.5Gi", "1G", "1gi", "1 Gi", "99999999999Gi"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_refusal_says_to_raise_has_a_flag() {
        let flags = ["epo", "--compile-memory=2Gi", "--module-bytes=128Mi"];
        let run = Program::try_parse_from(flags).unwrap().run;
        assert_eq!((run.compile_memory, run.module_bytes), (2 << 30, 128 << 20));
        let config = RuntimeConfig { compile_memory: run.compile_memory, ..RuntimeConfig::default() };
        let Compile::Child { args, .. } =
            CompileChild::command(PathBuf::from("epo"), std::path::Path::new("/cache"), &config)
        else {
            panic!("it compiles in a child");
        };
        assert!(args.contains(&"--memory=2147483648".to_owned()), "{args:?}");
    }

    #[test]
    fn the_deployment_has_room_for_a_compile_beside_the_operator() {
        let run = Program::try_parse_from(["epo"]).unwrap().run;
        let deployment = include_str!("../../../deploy/base/deployment.yaml");
        let limit = deployment.split("limits: { memory: ").nth(1).and_then(|rest| rest.split(' ').next());
        let limit = size(limit.unwrap()).unwrap();
        // With cgroup v2 whatever exceeds it ends the whole Pod.
        assert!(limit >= run.compile_memory + (256 << 20), "{limit}");
    }

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "30", "0s", "-5s", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lease_is_held_with_room_for_clocks_and_tries_and_can_be_done_without() {
        let lease = |flags: &[&str]| {
            let run = Program::try_parse_from(["epo"].iter().chain(flags)).unwrap().run;
            run.leader.lease("own", "pod")
        };
        let [one, other] = [&[][..], &["--leader-elect"]].map(|flags| lease(flags).unwrap().unwrap());
        assert_eq!((one.namespace.as_str(), one.name.as_str()), ("own", "egress-operator"));
        assert_ne!(one.terms.identity, other.terms.identity, "no two processes share one");
        assert!(one.terms.identity.starts_with("pod_"), "{}", one.terms.identity);
        assert_eq!(Terms { identity: String::new(), ..one.terms }, Terms::default());
        assert!(lease(&["--leader-elect=false"]).unwrap().is_none());
        for bad in [
            &["--leader-elect-lease-duration=1500ms"][..],
            &["--leader-elect-lease-duration=10s"],
            &["--leader-elect-retry-period=6s"],
        ] {
            assert!(matches!(lease(bad), Err(Failure::Usage(_))), "{bad:?}");
        }
    }

    #[test]
    fn an_address_needs_its_port() {
        assert_eq!("off".parse(), Ok(ListenAddress::Off));
        assert!("[::]:8080".parse::<ListenAddress>().is_ok());
        for bad in ["", "8080", "localhost", "127.0.0.1"] {
            assert!(bad.parse::<ListenAddress>().is_err(), "{bad}");
        }
    }
}
