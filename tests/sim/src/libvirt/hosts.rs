//! The hosts as a capability.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use egress_runtime::capability::{Allowed, Clock, Libvirt, LibvirtConnection, LibvirtFailure, LibvirtStage};

use super::{
    answers::{self, Answer},
    connection::Connection,
    pool::{self, Pool},
    state::{HostState, World},
};

const GIB: u64 = 1024 * 1024 * 1024;

/// A host to be made.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// By the grant's name.
    pub name: String,
    /// Each of 500 GiB.
    pub pools: Vec<String>,
    /// By the host's name for them.
    pub bridges: Vec<String>,
    /// Bytes.
    pub memory: u64,
    /// Whether it has KVM.
    pub kvm: bool,
}

impl HostSpec {
    /// One as a lab has it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pools: vec!["default".to_owned()],
            bridges: vec!["br0".to_owned()],
            memory: 64 * GIB,
            kvm: true,
        }
    }
}

/// See the module. Clones are the same hosts.
#[derive(Clone)]
pub struct Hosts {
    world: Arc<Mutex<World>>,
}

impl Hosts {
    /// With nothing on them.
    pub fn new(clock: Arc<dyn Clock>, hosts: &[HostSpec]) -> Self {
        let host = |spec: &HostSpec| {
            let pool = |name: &String| {
                let pool = Pool {
                    state: pool::RUNNING,
                    capacity: 500 * GIB,
                    folder: format!("/var/lib/libvirt/{name}"),
                    full: false,
                    volumes: BTreeMap::new(),
                };
                (name.clone(), pool)
            };
            let state = HostState {
                memory: spec.memory,
                kvm: spec.kvm,
                bridges: spec.bridges.clone(),
                pools: spec.pools.iter().map(pool).collect(),
                domains: BTreeMap::new(),
                never_starts: false,
                made: 0,
            };
            (spec.name.clone(), state)
        };
        let world = World {
            clock,
            hosts: hosts.iter().map(host).collect(),
            served: BTreeMap::new(),
            rate: 50 * 1024,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Others that are now as these are.
    pub fn copy(&self, clock: Arc<dyn Clock>) -> Self {
        let world = World { clock, ..self.lock().clone() };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at one host, or changes it.
    pub(super) fn at<T>(&self, host: &str, then: impl FnOnce(&mut HostState, u64) -> Answer<T>) -> Answer<T> {
        let mut world = self.lock();
        let now = world.clock.monotonic_ms();
        let state = world.hosts.get_mut(host).ok_or_else(|| unknown(host))?;
        then(state, now)
    }
}

fn unknown(host: &str) -> LibvirtFailure {
    answers::unsent(
        LibvirtStage::Denied,
        format!("host {host}: the entry's grant does not name it; add it under grants.libvirt.hosts"),
    )
}

#[async_trait]
impl Libvirt for Hosts {
    async fn granted(&self, host: &str) -> Result<Allowed, LibvirtFailure> {
        self.at(host, |state, _| {
            Ok(Allowed {
                pools: state.pools.keys().cloned().collect(),
                bridges: state.bridges.clone(),
                prefix: "proxy-".to_owned(),
            })
        })
    }

    async fn open(&self, host: &str, _: bool) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure> {
        self.at(host, |_, _| Ok(()))?;
        Ok(Arc::new(Connection::new(self.clone(), host)))
    }
}
