//! From a component and its entry to what is on trial: the component with its config, and another revision of it.

use std::{collections::VecDeque, sync::Arc};

use egress_contract::{Description, Installation};
use egress_runtime::{Candidate, Described, Limits, Module, Revision, Runtime, Slot, inspect};
use egress_sim::{fault::Plan, journal::Journal, watched::Watch};
use serde_json::{Value, json};

use crate::{
    halt::Halt,
    kind::{Kind, World},
    proxy::OURS,
    stage::Subject,
    suite::{CannotRun, Settings},
};

/// See the module.
pub struct Loaded {
    pub subject: Subject,
    pub other: Subject,
    pub revision: Arc<Revision>,
    /// Keeps what was compiled.
    pub other_revision: Arc<Revision>,
}

impl Loaded {
    /// Whether the components are of this kind of backend.
    pub fn fit(kind: &dyn Kind, settings: &Settings) -> Result<(), CannotRun> {
        fits(kind, &settings.module)?;
        settings.other.iter().try_for_each(|other| fits(kind, other)).map_err(of_the_other)
    }

    /// Loads both, or says why they can't be tried.
    pub async fn load(runtime: &Runtime, kind: &dyn Kind, settings: &Settings) -> Result<Self, CannotRun> {
        let world = kind.world(settings.seed).await.map_err(unprepared)?;
        let bench = Bench { runtime, world: &world };
        let mut subject = match &settings.entry {
            Some(entry) => Subject {
                entry: entry.name.clone(),
                module: settings.module.clone(),
                config: entry.config.clone(),
                grants: entry.grants.clone(),
                limits: entry.limits.clone(),
                legacy: entry.legacy.clone(),
            },
            None => plain(settings.module.clone())?,
        };
        // Kept until it is loaded, or it would be compiled anew.
        let described = bench.describe(&subject).await?;
        let mut examples = examples(&described.description);
        if settings.entry.is_none() {
            subject.config = examples.pop_front().unwrap_or_else(|| json!({}));
        }
        let revision = bench.load(&subject).await?;
        let mut other = Subject {
            module: settings.other.clone().unwrap_or_else(|| subject.module.clone()),
            ..subject.clone()
        };
        if settings.entry.is_none() && settings.other.is_none() {
            // The same component whose entry was changed: that is another revision too.
            other.config = examples.pop_front().unwrap_or_else(|| subject.config.clone());
        }
        let loaded = bench.load(&other).await;
        let other_revision = match settings.other {
            Some(_) => loaded.map_err(of_the_other)?,
            None => loaded?,
        };
        Ok(Self { subject, other, revision, other_revision })
    }
}

/// Where a component is loaded before there is a stage.
struct Bench<'a> {
    runtime: &'a Runtime,
    world: &'a World,
}

impl Bench<'_> {
    fn slot(&self, subject: &Subject) -> (Slot, Candidate) {
        let watch = Watch::new("-", Journal::default(), Plan::default(), Arc::clone(&self.world.clock));
        watch.silence(true);
        let installation = Installation::new(OURS);
        let candidate = subject.candidate((self.world.lend)(&watch, &installation));
        let slot = Slot::new(self.runtime.clone(), subject.entry.clone(), installation);
        (slot, candidate)
    }

    async fn describe(&self, subject: &Subject) -> Result<Described, CannotRun> {
        let (slot, candidate) = self.slot(subject);
        slot.described(candidate).await.map_err(CannotRun::Refused)
    }

    async fn load(&self, subject: &Subject) -> Result<Arc<Revision>, CannotRun> {
        let (slot, candidate) = self.slot(subject);
        slot.configured(candidate).await.map(Arc::new).map_err(CannotRun::Refused)
    }
}

fn of_the_other(error: CannotRun) -> CannotRun {
    CannotRun::Other(Box::new(error))
}

fn unprepared(halt: Halt) -> CannotRun {
    let why = match halt {
        Halt::Broken(why) | Halt::Skipped(why) | Halt::Failed(why) => why,
        Halt::Died => "a host died".to_owned(),
    };
    CannotRun::Setup(why)
}

/// A component that needs what this backend has not is told so by name, before the stage `link` says it is not
/// granted.
fn fits(kind: &dyn Kind, module: &Module) -> Result<(), CannotRun> {
    let inspection = inspect(module.bytes()).map_err(CannotRun::Refused)?;
    for import in &inspection.imports {
        let interface = import.split('@').next().unwrap_or(import);
        let capability = ["http", "libvirt", "transfer", "kubernetes"]
            .iter()
            .any(|name| interface.strip_prefix("egress:provider/") == Some(name));
        if capability && !kind.lends(interface) {
            return Err(CannotRun::OtherKind {
                import: import.clone(),
                kind: kind.name(),
                way_out: "the suite has no backend for it yet: epo provider inspect and validate look at it without one".to_owned(),
            });
        }
    }
    Ok(())
}

/// Without an entry: everything that the kind has is lent.
fn plain(module: Module) -> Result<Subject, CannotRun> {
    let entry = "conformance"
        .parse()
        .map_err(|error: egress_contract::InvalidName| CannotRun::Setup(error.to_string()))?;
    Ok(Subject {
        entry,
        module,
        config: json!({}),
        grants: json!({}),
        limits: Limits::default(),
        legacy: Vec::new(),
    })
}

/// The configs that the component's schema gives as examples.
fn examples(description: &Description) -> VecDeque<Value> {
    let examples = description.config_schema.get("examples").and_then(Value::as_array);
    examples.map(|examples| examples.iter().cloned().collect()).unwrap_or_default()
}
