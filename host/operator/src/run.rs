//! The operator: who is started with what, and how it ends.
//!
//! Each loop is a task. One that ends, ends the process: half an operator is worse than one that is started
//! anew. A stop takes up nothing new and lets what is in flight end, for a while.

mod lead;

use std::{fmt::Debug, path::PathBuf, sync::Arc, time::Duration};

use egress_capabilities::HomeCluster;
use egress_runtime::{Runtime, RuntimeConfig, RuntimeError};
use kube::{
    Api, CustomResourceExt, Resource,
    api::ListParams,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::lead::{Lead, leased, tell_of_lead};
use crate::{
    api::{ProviderHealth, Proxy},
    cluster::{ApiServer, CallError, Cluster, call},
    controller::{self, Controller},
    core::{
        backoff::{Dice, Pace},
        clock::SystemClock,
        lease::{Led, Terms},
        probe::{self, Fleet},
        reconcile::{Reconciler, Setup},
    },
    entries::{Entries, Shared},
    events::Events,
    health,
    identity::{self, Identity, IdentityError},
    kube_owners::KubeOwners,
    kube_store::KubeStore,
    lend::Simulations,
    modules::Modules,
    probing::{Network, ToController},
    providers::{self, Told},
    proxies::{self, Change},
    waiting::{Noting, Waiting},
};

/// What an operator is given.
pub struct Options {
    /// Where Proxies are kept.
    pub server: ApiServer,
    /// The operator's own namespace.
    pub namespace: String,
    /// The providers ConfigMap in it.
    pub providers: String,
    /// Where entries may name files.
    pub modules_dir: Option<PathBuf>,
    /// Where Proxies are looked after; empty for everywhere.
    pub watch: Vec<String>,
    /// How components are compiled.
    pub runtime: RuntimeConfig,
    /// How the loops pace themselves.
    pub pace: Pace,
    /// Passes at once.
    pub concurrency: u16,
    /// How long a stop waits for what is in flight.
    pub grace: Duration,
    /// Which process this is, for people: the Pod's name.
    pub instance: String,
    /// How several processes agree who of them works; none where there is only ever one.
    pub lease: Option<LeaseOptions>,
    /// What entries with `simulated: true` are lent; on a cluster none, and they are refused.
    pub simulations: Option<Arc<dyn Simulations>>,
}

/// Which Lease, and how it is held.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The same for all processes, but for the identity.
    pub terms: Terms,
}

impl Options {
    /// With what most installations use.
    pub fn new(server: ApiServer, namespace: impl Into<String>, runtime: RuntimeConfig) -> Self {
        Self {
            server,
            namespace: namespace.into(),
            providers: "egress-providers".to_owned(),
            modules_dir: None,
            watch: Vec::new(),
            runtime,
            pace: Pace::default(),
            concurrency: 64,
            grace: Duration::from_secs(30),
            instance: String::new(),
            lease: None,
            simulations: None,
        }
    }
}

impl LeaseOptions {
    /// Nobody's but this process', whose name people know.
    pub fn identity(instance: &str) -> String {
        format!("{instance}_{:016x}", rand::random::<u64>())
    }
}

/// Why an operator does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No client could be made.
    #[error("can't use the API server's configuration: {0}")]
    Client(CallError),
    /// The API server can't be used as it is.
    #[error("can't list {kind}: {cause}{way_out}")]
    NotServed {
        /// `proxies.egressproxies.dev`.
        kind: String,
        /// Why.
        cause: CallError,
        /// What to do.
        way_out: &'static str,
    },
    /// Nobody could be elected.
    #[error(
        "can't read Lease {namespace}/{name}: {cause}; grant the operator's ServiceAccount get, create and update on \
         leases there, or run a single process with --leader-elect=false"
    )]
    Lease {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        cause: CallError,
    },
    /// Who this is could not be told.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The runtime did not start.
    #[error("the runtime does not start: {0}")]
    Runtime(#[from] RuntimeError),
    /// Nothing could be asked over TLS.
    #[error("probes have no TLS: {0}")]
    Tls(rustls::Error),
    /// A loop ended that never should.
    #[error("the loop {0} ended; the process ends, too, and is to be started again")]
    LoopEnded(&'static str),
    /// A loop broke down.
    #[error("a loop broke down: {0}")]
    LoopBroke(tokio::task::JoinError),
}

impl OperatorError {
    /// Whether there was no answer to work with: starting again later may be all that it takes.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::NotServed { cause, .. }
            | Self::Lease { cause, .. }
            | Self::Identity(IdentityError::Call { cause, .. }) => cause.is_unreachable(),
            Self::Client(_)
            | Self::Identity(_)
            | Self::Runtime(_)
            | Self::Tls(_)
            | Self::LoopEnded(_)
            | Self::LoopBroke(_) => false,
        }
    }
}

/// What is known of the way to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The providers ConfigMap was looked for.
    pub entries: bool,
    /// Every component was loaded once, or refused: who takes over is not to wait for it then.
    pub loaded: bool,
    /// Watched namespaces whose Proxies are not known yet.
    pub unlisted: usize,
    /// It is to end.
    pub stopping: bool,
}

impl Readiness {
    /// Whether Proxies are being looked after, or would be at once if this process led.
    pub fn is_ready(&self) -> bool {
        self.entries && self.loaded && self.unlisted == 0 && !self.stopping
    }
}

/// An operator that was prepared: it knows who it is, and its API server answers.
pub struct Operator {
    options: Options,
    /// On which nothing is written without the lead.
    cluster: Cluster,
    identity: Identity,
    runtime: Runtime,
    network: Arc<Network>,
    readiness: watch::Sender<Readiness>,
    lead: Lead,
}

/// Between two looks at whether all components were loaded, at the start.
const LOOK_FOR_LOADED: Duration = Duration::from_millis(100);

/// Prepares an operator, and runs it until `stop` is cancelled.
pub async fn run(options: Options, stop: CancellationToken) -> Result<(), OperatorError> {
    Operator::prepare(options).await?.run(stop).await
}

impl Operator {
    /// Makes sure of everything that a start depends on.
    pub async fn prepare(options: Options) -> Result<Self, OperatorError> {
        let (server, namespace) = (options.server.clone(), options.namespace.clone());
        let free = Cluster::new(server.clone(), namespace.clone()).map_err(OperatorError::Client)?;
        served::<Proxy>(&free, options.watch.first()).await?;
        served_everywhere(&free).await?;
        let lead = Lead::new(&free, options.lease.as_ref());
        if let Some(lease) = &options.lease {
            leased(&free, lease).await?;
        }
        // One of several that start at once mints it; the others find it.
        let identity = identity::establish(&free, &options.watch).await?;
        let writes = Arc::new(lead.proof.clone());
        let runtime = Runtime::with_writes(options.runtime.clone(), writes.clone())?;
        let cluster = Cluster::guarded(server, namespace, writes).map_err(OperatorError::Client)?;
        let unlisted = options.watch.len().max(1);
        let readiness = watch::Sender::new(Readiness { unlisted, ..Readiness::default() });
        let network = Arc::new(Network::new().map_err(OperatorError::Tls)?);
        Ok(Self { options, cluster, identity, runtime, network, readiness, lead })
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// For an endpoint that tells it.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Until `stop` is cancelled, or a loop ends.
    pub async fn run(self, stop: CancellationToken) -> Result<(), OperatorError> {
        let events = Events::new(self.cluster.client.clone(), self.options.instance.clone());
        let (changes, changed) = mpsc::channel(64);
        let entries = Arc::new(Entries::new(self.shared(events.clone(), changes)));
        let mut loops = JoinSet::new();
        self.start_entries(&mut loops, &entries, &events);
        if let Some(lease) = self.options.lease.clone() {
            let (cluster, events, told) = (self.cluster.clone(), events.clone(), self.lead.told.clone());
            loops.spawn(async move {
                tell_of_lead(&cluster, &lease, &events, told).await;
                "that tells who leads"
            });
        }
        let passes = self.start_controller(&mut loops, &entries, events, changed, stop.clone());
        info!(
            installation = self.identity.installation.hash(),
            cluster = self.identity.cluster,
            namespace = self.cluster.namespace,
            "the operator runs"
        );
        let mut lead = Lead::start(self.lead.by, stop.clone(), passes.clone());
        tokio::select! {
            // First: a stop ends the controllers, and that is no failure.
            biased;
            () = stop.cancelled() => {}
            Some(ended) = loops.join_next() => return Err(why_ended(ended)),
            ended = &mut lead => return Err(why_ended(ended.map(|()| "that holds the lease"))),
        }
        self.readiness.send_modify(|readiness| readiness.stopping = true);
        info!(grace = ?self.options.grace, "the operator stops; what is in flight may end");
        let ended = async {
            let _ = lead.await;
            passes.cancelled().await;
        };
        if tokio::time::timeout(self.options.grace, ended).await.is_err() {
            warn!("calls in flight were given up; the next start goes on where they were");
        }
        Ok(())
    }

    fn shared(&self, events: Events, changes: mpsc::Sender<String>) -> Shared {
        let module_bytes = self.options.runtime.module_bytes;
        let modules = Modules::new(self.cluster.clone(), self.options.modules_dir.clone(), module_bytes);
        let home = match &self.options.server {
            ApiServer::Cluster(config) => {
                Some(HomeCluster { config: (**config).clone(), uid: self.identity.cluster.clone() })
            }
            ApiServer::Here(_) => None,
        };
        Shared {
            cluster: self.cluster.clone(),
            installation: self.identity.installation.clone(),
            runtime: self.runtime.clone(),
            modules,
            module_bytes,
            home,
            simulations: self.options.simulations.clone(),
            events,
            owners: KubeOwners::new(self.cluster.client.clone(), self.options.watch.clone()),
            config_map: format!("{}/{}", self.cluster.namespace, self.options.providers),
            changes,
            leadership: self.lead.told.clone(),
        }
    }

    fn start_entries(&self, loops: &mut JoinSet<&'static str>, entries: &Arc<Entries>, events: &Events) {
        let (cluster, name, events) = (self.cluster.clone(), self.options.providers.clone(), events.clone());
        let (known, readiness) = (Arc::clone(entries), self.readiness.clone());
        loops.spawn(async move {
            let listed = || {
                known.listed();
                readiness.send_modify(|readiness| readiness.entries = true);
            };
            let tell = |told| match told {
                Told::Entries(found) => known.apply(found),
                Told::Missing => known.missing(),
            };
            providers::watch(&cluster, &name, &events, tell, listed).await;
            "that watches the providers ConfigMap"
        });
        let (known, readiness) = (Arc::clone(entries), self.readiness.clone());
        loops.spawn(async move {
            let _ = readiness.subscribe().wait_for(|readiness| readiness.entries).await;
            while !known.loaded() {
                tokio::time::sleep(LOOK_FOR_LOADED).await;
            }
            readiness.send_modify(|readiness| readiness.loaded = true);
            std::future::pending::<()>().await;
            "that waits for components"
        });
        let known = Arc::clone(entries);
        loops.spawn(async move {
            known.take_over().await;
            "that takes over ProviderHealths"
        });
        let (seen, mut told) = mpsc::channel(64);
        let cluster = self.cluster.clone();
        loops.spawn(async move {
            health::watch(&cluster, seen).await;
            "that watches ProviderHealths"
        });
        let known = Arc::clone(entries);
        loops.spawn(async move {
            while let Some(seen) = told.recv().await {
                known.see(seen);
            }
            "that takes up holds"
        });
    }

    /// Answers what is cancelled when the last pass has ended.
    fn start_controller(
        &self,
        loops: &mut JoinSet<&'static str>,
        entries: &Arc<Entries>,
        events: Events,
        entries_changed: mpsc::Receiver<String>,
        stop: CancellationToken,
    ) -> CancellationToken {
        let waiting = Arc::new(Waiting::default());
        let (store, told) = (KubeStore::new(self.cluster.client.clone(), events.clone()), events);
        let store = Noting::new(Led::new(store, self.lead.proof.clone()), Arc::clone(&waiting));
        let setup = Setup {
            installation: self.identity.installation.clone(),
            pace: self.options.pace.clone(),
            clock: Arc::new(SystemClock),
            dice: Dice::seeded(rand::random()),
            fleet: Arc::new(Fleet::new(Dice::seeded(rand::random()))),
        };
        let fleet = Arc::clone(&setup.fleet);
        let reconciler = Reconciler::new(store, Arc::clone(entries), setup);
        let controller = Controller::new(reconciler, waiting, self.options.concurrency);
        let (changes, proxies) = self.start_proxy_watches(loops);
        let teller = ToController { cluster: self.cluster.clone(), events: told, changes };
        let (network, leadership) = (Arc::clone(&self.network), self.lead.told.clone());
        loops.spawn(async move {
            probe::run(fleet, network, teller, leadership).await;
            "that probes Proxies"
        });
        let inlets = controller::Inlets {
            proxies,
            entries: entries_changed,
            watches: self.options.watch.len().max(1),
            leadership: self.lead.told.clone(),
        };
        let (ended, readiness) = (CancellationToken::new(), self.readiness.clone());
        let end = ended.clone().drop_guard();
        loops.spawn(async move {
            let _end = end;
            let listed = || {
                readiness.send_modify(|readiness| readiness.unlisted = readiness.unlisted.saturating_sub(1))
            };
            controller.run(inlets, stop, listed).await;
            "that looks after Proxies"
        });
        ended
    }

    fn start_proxy_watches(
        &self,
        loops: &mut JoinSet<&'static str>,
    ) -> (mpsc::Sender<Change>, mpsc::Receiver<Change>) {
        let (changes, told) = mpsc::channel(1024);
        let scopes: Vec<Option<String>> = match self.options.watch.as_slice() {
            [] => vec![None],
            namespaces => namespaces.iter().cloned().map(Some).collect(),
        };
        for scope in scopes {
            let (client, changes) = (self.cluster.client.clone(), changes.clone());
            loops.spawn(async move {
                proxies::watch(client, scope, changes).await;
                "that watches Proxies"
            });
        }
        (changes, told)
    }
}

fn why_ended(ended: Result<&'static str, tokio::task::JoinError>) -> OperatorError {
    match ended {
        Ok(name) => OperatorError::LoopEnded(name),
        Err(error) => OperatorError::LoopBroke(error),
    }
}

async fn served<K>(cluster: &Cluster, namespace: Option<&String>) -> Result<(), OperatorError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + CustomResourceExt + Clone + Debug,
{
    let client = cluster.client.clone();
    let api: Api<PartialObjectMeta<K>> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    first(&api, K::crd_name()).await
}

async fn served_everywhere(cluster: &Cluster) -> Result<(), OperatorError> {
    let api: Api<PartialObjectMeta<ProviderHealth>> = Api::all(cluster.client.clone());
    first(&api, ProviderHealth::crd_name()).await
}

/// A kind without its CRD, or without a right, is found at the start and not by a silent watch.
async fn first<K>(api: &Api<PartialObjectMeta<K>>, kind: &str) -> Result<(), OperatorError>
where
    K: Resource<DynamicType = ()> + Clone + Debug,
{
    match call(api.list(&ListParams::default().limit(1))).await {
        Ok(_) => Ok(()),
        Err(cause) => {
            let way_out = if cause.is_forbidden() {
                "; grant the operator's ServiceAccount list and watch on it"
            } else if cause.is_unserved() {
                "; install the CRDs: epo crd | kubectl apply --server-side -f -"
            } else {
                ""
            };
            Err(OperatorError::NotServed { kind: kind.to_owned(), cause, way_out })
        }
    }
}
