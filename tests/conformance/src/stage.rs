//! Where a scenario plays: one backend, one clock, one journal, and the hosts that share them.

use std::{sync::Arc, time::Duration};

use egress_contract::{EntryName, Fault, Installation, Mark};
use egress_runtime::{Candidate, Lent, Limits, Module, Runtime, Slot, capability::Clock};
use egress_sim::{
    backend::{Action, Thing},
    fault::Plan,
    journal::Journal,
    watched::Watch,
};
use serde_json::Value;

use crate::{
    halt::{Go, Halt},
    host::Host,
    kind::World,
    patience::patient,
    proxy::{OURS, Proxy},
};

/// A component with its entry: what is tried.
#[derive(Clone)]
pub struct Subject {
    /// The entry's name.
    pub entry: EntryName,
    /// The component.
    pub module: Module,
    /// Its config.
    pub config: Value,
    /// The entry's grants, as they stand there.
    pub grants: Value,
    /// What its calls may use.
    pub limits: Limits,
    /// Marks of an earlier operator.
    pub legacy: Vec<Mark>,
}

impl Subject {
    /// For a slot.
    pub fn candidate(&self, lent: Lent) -> Candidate {
        Candidate {
            module: self.module.clone(),
            pinned: None,
            config: self.config.clone(),
            lent,
            grants: self.grants.clone(),
            limits: patient(&self.limits),
            legacy: self.legacy.clone(),
        }
    }
}

/// See the module. Clones are the same stage.
#[derive(Clone)]
pub struct Stage {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    world: World,
    journal: Journal,
    plan: Plan,
    subject: Subject,
}

impl Stage {
    /// With nothing on it.
    pub fn new(runtime: Runtime, subject: Subject, world: World) -> Self {
        let inner = Inner { runtime, world, journal: Journal::default(), plan: Plan::default(), subject };
        Self { inner: Arc::new(inner) }
    }

    /// Another stage that is now as this one is, without its hosts; none where the backend can't be copied.
    pub fn fork(&self) -> Option<Self> {
        let Inner { runtime, world, journal, plan, subject } = &*self.inner;
        let inner = Inner {
            world: (world.fork.as_ref()?)(),
            runtime: runtime.clone(),
            journal: journal.copy(),
            plan: plan.fresh(),
            subject: subject.clone(),
        };
        Some(Self { inner: Arc::new(inner) })
    }

    /// What was asked so far.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// What goes wrong.
    pub fn plan(&self) -> &Plan {
        &self.inner.plan
    }

    /// The time there.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.world.clock
    }

    /// The backend and what belongs to it.
    pub fn world(&self) -> &World {
        &self.inner.world
    }

    /// Time passes.
    pub async fn wait(&self, time: Duration) {
        self.inner.world.backend.let_time_pass(time).await;
    }

    /// A host that runs the component which is tried.
    pub async fn host(&self, name: &str) -> Go<Host> {
        self.host_as(name, &self.inner.subject).await
    }

    /// A host that runs some revision.
    pub async fn host_as(&self, name: &str, subject: &Subject) -> Go<Host> {
        self.host_of(name, subject, OURS).await
    }

    /// A host of an installation that runs some component.
    pub async fn host_of(&self, name: &str, subject: &Subject, installation: &str) -> Go<Host> {
        let Inner { runtime, world, journal, plan, .. } = &*self.inner;
        let watch = Watch::new(name, journal.clone(), plan.clone(), Arc::clone(&world.clock));
        let installation = Installation::new(installation);
        let candidate = subject.candidate((world.lend)(&watch, &installation));
        let slot = Slot::new(runtime.clone(), subject.entry.clone(), installation);
        watch.silence(true);
        // Not through `check`: what it does there is for the promises to find.
        let loaded = slot.configured(candidate).await;
        watch.silence(false);
        let revision = loaded.map_err(|refusal| Halt::Failed(refusal.to_string()))?;
        Ok(Host::new(watch, Arc::new(revision), world))
    }

    /// What the component on trial says of a config: its places, or what is wrong with it.
    pub async fn configure(&self, config: Value) -> Go<Result<Vec<String>, Vec<Fault>>> {
        let Inner { runtime, world, journal, plan, subject } = &*self.inner;
        let watch = Watch::new("-", journal.clone(), plan.clone(), Arc::clone(&world.clock));
        watch.silence(true);
        let installation = Installation::new(OURS);
        let subject = Subject { config, ..subject.clone() };
        let candidate = subject.candidate((world.lend)(&watch, &installation));
        let slot = Slot::new(runtime.clone(), subject.entry, installation);
        match slot.configured(candidate).await {
            Ok(revision) => Ok(Ok(revision.places().to_vec())),
            Err(refusal) if !refusal.faults.is_empty() => Ok(Err(refusal.faults)),
            Err(refusal) => Err(Halt::Failed(refusal.to_string())),
        }
    }

    /// A Proxy of this installation; `number` tells Proxies apart.
    pub fn proxy(&self, number: u32) -> Proxy {
        let [namespace, _] = &self.inner.world.namespaces;
        Proxy::new(OURS, namespace, &format!("web-{number}"), number)
    }

    /// The same in the other namespace.
    pub fn proxy_elsewhere(&self, number: u32) -> Proxy {
        let [_, namespace] = &self.inner.world.namespaces;
        Proxy { namespace: namespace.clone(), ..self.proxy(number) }
    }

    /// All that exists.
    pub async fn inventory(&self) -> Go<Vec<Thing>> {
        Ok(self.inner.world.backend.inventory().await?)
    }

    /// The instances among it.
    pub async fn instances(&self) -> Go<Vec<Thing>> {
        Ok(self.inventory().await?.into_iter().filter(|thing| thing.instance).collect())
    }

    /// The one instance there is.
    pub async fn instance(&self) -> Go<Thing> {
        let mut instances = self.instances().await?;
        match (instances.pop(), instances.len()) {
            (Some(instance), 0) => Ok(instance),
            (found, _) => {
                let all = instances.iter().chain(&found).map(|thing| format!("\n  {thing}"));
                Err(Halt::Broken(format!(
                    "there should be exactly one instance:{}",
                    none(all.collect::<String>())
                )))
            }
        }
    }

    /// An administrator does something to one thing.
    pub async fn act(&self, on: &Thing, action: Action) -> Go {
        let elapsed = Duration::from_millis(self.inner.world.clock.monotonic_ms());
        self.inner.journal.remark(
            elapsed,
            "-",
            format!("an administrator: {action:?} {} {}/{}", on.kind, on.place, on.name),
        );
        Ok(self.inner.world.backend.act(on, &action).await?)
    }
}

fn none(text: String) -> String {
    if text.is_empty() { " there is none".to_owned() } else { text }
}
