//! What stands behind the capabilities of a component that is called by hand: a simulation, or what its entry's
//! grants reach.

use std::sync::Arc;

use egress_capabilities::Beside;
use egress_conformance::{
    halt::Halt,
    kind::{self, World},
};
use egress_contract::Installation;
use egress_operator::lend::{self, Lender};
use egress_runtime::{
    Lent,
    capability::{Clock, SystemClock},
};
use egress_sim::watched::{Watch, Watched, WatchedLibvirt};

use super::entry::Subject;
use crate::{cluster::ClusterArgs, failure::Failure, setup};

/// See the module.
pub enum Behind {
    /// A backend of its own, in virtual time.
    Simulated(World),
    /// What the grants reach.
    Real(Lent, Arc<dyn Clock>),
}

impl Behind {
    /// A simulated backend; the seed decides whatever it draws.
    pub async fn simulated(subject: &Subject, seed: u64) -> Result<Self, Failure> {
        let kind = kind::simulated(&subject.module, &subject.settings.config, &subject.grants()?)
            .map_err(|error| Failure::Setup(error.to_string()))?;
        kind.world(seed).await.map(Self::Simulated).map_err(unprepared)
    }

    /// What the entry's grants reach; `home` is what `operator: true` in them stands for.
    pub async fn real(
        subject: &Subject,
        home: &ClusterArgs,
        installation: &Installation,
    ) -> Result<Self, Failure> {
        Ok(Self::Real(lent(subject, home, installation).await?, Arc::new(SystemClock::default())))
    }

    /// Its time.
    pub fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Simulated(world) => Arc::clone(&world.clock),
            Self::Real(_, clock) => Arc::clone(clock),
        }
    }

    /// What it lends, under the eyes of a watch.
    pub fn lend(&self, watch: &Watch, installation: &Installation) -> Lent {
        match self {
            Self::Simulated(world) => (world.lend)(watch, installation),
            Self::Real(lent, clock) => {
                let Lent { http, kubernetes, libvirt, transfer, clock: _ } = lent.clone();
                Lent {
                    http: http.map(|api| Arc::new(Watched::new(watch.clone(), api)) as Arc<_>),
                    kubernetes: kubernetes.map(|api| Arc::new(Watched::new(watch.clone(), api)) as Arc<_>),
                    libvirt: libvirt.map(|api| Arc::new(WatchedLibvirt::new(watch.clone(), api)) as Arc<_>),
                    transfer: transfer.map(|api| Arc::new(Watched::new(watch.clone(), api)) as Arc<_>),
                    clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(clock)))),
                }
            }
        }
    }

    /// For people, and for recordings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Simulated(_) => "simulated",
            Self::Real(..) => "real",
        }
    }

    /// What there is at a simulated backend.
    pub async fn inventory(&self) -> Option<Vec<String>> {
        match self {
            Self::Simulated(world) => {
                let things = world.backend.inventory().await.ok()?;
                Some(things.iter().map(ToString::to_string).collect())
            }
            Self::Real(..) => None,
        }
    }

    /// A namespace for Proxies that nobody gave one.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Simulated(World { namespaces: [namespace, _], .. }) => namespace,
            Self::Real(..) => "default",
        }
    }
}

/// What an entry's grants lend; `home` is what `operator: true` in them stands for.
pub async fn lent(
    subject: &Subject,
    home: &ClusterArgs,
    installation: &Installation,
) -> Result<Lent, Failure> {
    setup::tls()?;
    let granted = subject.settings.grants.kubernetes.iter().flat_map(|grant| grant.clusters.values());
    let home = match granted.into_iter().any(|cluster| cluster.operator) {
        true => {
            let reached = lend::home(home.config().await?).await;
            Some(reached.map_err(|error| Failure::Unreachable(error.to_string()))?)
        }
        false => None,
    };
    let lent =
        Lender::new(subject.entry.clone(), home, Beside::alone(installation.clone())).lend(&subject.settings);
    lent.map_err(|faults| Failure::Grants { entry: subject.entry.clone(), faults })
}

fn unprepared(halt: Halt) -> Failure {
    let why = match halt {
        Halt::Broken(why) | Halt::Skipped(why) | Halt::Failed(why) => why,
        Halt::Died => "its host died".to_owned(),
    };
    Failure::Setup(format!("the simulated backend can't be prepared: {why}"))
}
