//! The suite: a component, a kind of backend, a seed; and the run over all promises.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use egress_contract::{Description, EntryName, Installation, Mark};
use egress_runtime::{Candidate, Limits, Module, Refusal, Revision, Runtime, RuntimeConfig, Slot, inspect};
use egress_sim::{
    fault::{Plan, Point},
    journal::Journal,
    watched::Watch,
};
use serde_json::{Value, json};

use crate::{
    halt::Halt,
    kind::{Kind, World},
    promise::{self, Promise},
    proxy::OURS,
    report::{Outcome, Report},
    stage::Subject,
    trial::Trial,
};

/// What is tried, and how.
pub struct Settings {
    /// The component.
    pub module: Module,
    /// Its entry, as far as there is one.
    pub entry: Option<Entry>,
    /// Another revision, to hand over to and from; none to take the same component with another config.
    pub other: Option<Module>,
    /// Decides every draw.
    pub seed: u64,
    /// Only these promises; all where there are none.
    pub only: Vec<String>,
    /// Only this point of those that a promise is tried at.
    pub cut: Option<Point>,
    /// Whether the journals of all runs are kept for the report.
    pub keep_journals: bool,
}

impl Settings {
    /// The component, and everything as it is usually.
    pub fn new(module: Module) -> Self {
        Self { module, entry: None, other: None, seed: 1, only: Vec::new(), cut: None, keep_journals: false }
    }
}

/// What stands in an entry.
#[derive(Clone)]
pub struct Entry {
    /// Its name.
    pub name: EntryName,
    /// For `configure`.
    pub config: Value,
    /// What it lends, as it stands there.
    pub grants: Value,
    /// What calls may use.
    pub limits: Limits,
    /// Marks of an earlier operator.
    pub legacy: Vec<Mark>,
}

/// Why nothing was tried.
#[derive(Debug, thiserror::Error)]
pub enum CannotRun {
    /// It does not load.
    #[error("the component is refused at the stage {}: {}", .0.stage, .0.message)]
    Refused(Refusal),
    /// It asks for what this kind of backend has not.
    #[error(
        "the component imports {import}, and {kind} lends only what its own kind of providers needs; {way_out}"
    )]
    OtherKind {
        /// What.
        import: String,
        /// Which backend.
        kind: String,
        /// What to do.
        way_out: String,
    },
    /// No promise is called so.
    #[error("there is no promise {0:?}; they are: {1}")]
    NoPromise(String, String),
    /// The engine.
    #[error("the WebAssembly runtime did not start: {0}")]
    Runtime(#[from] egress_runtime::RuntimeError),
    /// The rest.
    #[error("{0}")]
    Setup(String),
}

/// See the module.
pub struct Suite {
    runtime: Runtime,
    kind: Arc<dyn Kind>,
    subject: Subject,
    other: Subject,
    loaded: Arc<Revision>,
    /// Keeps what was compiled.
    _other: Option<Arc<Revision>>,
    settings: Settings,
}

/// Told what happens, while it happens.
pub trait Progress: Sync {
    /// A promise's trial ended.
    fn ended(&self, _outcome: &Outcome) {}
}

impl Progress for () {}

impl Suite {
    /// Loads the component once, or says why it can't be tried.
    pub fn open(kind: Arc<dyn Kind>, settings: Settings) -> Result<Self, CannotRun> {
        Self::open_in(Runtime::new(RuntimeConfig::default())?, kind, settings)
    }

    /// The same in a runtime that others use too: what one of them compiled is compiled for all.
    pub fn open_in(runtime: Runtime, kind: Arc<dyn Kind>, settings: Settings) -> Result<Self, CannotRun> {
        for id in &settings.only {
            if promise::all().iter().all(|promise| promise.id != id) {
                let all: Vec<&str> = promise::all().iter().map(|promise| promise.id).collect();
                return Err(CannotRun::NoPromise(id.clone(), all.join(", ")));
            }
        }
        let executor = executor()?;
        executor.block_on(Self::load(runtime, kind, settings))
    }

    async fn load(runtime: Runtime, kind: Arc<dyn Kind>, settings: Settings) -> Result<Self, CannotRun> {
        fits(&*kind, &settings.module)?;
        let world = kind.world(settings.seed).await.map_err(unprepared)?;
        let bench = Bench { runtime: &runtime, world: &world };
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
        let mut examples = examples(&bench.describe(&subject).await?);
        if settings.entry.is_none() {
            subject.config = examples.pop_front().unwrap_or_else(|| json!({}));
        }
        let loaded = bench.load(&subject).await?;
        let mut other = Subject {
            module: settings.other.clone().unwrap_or_else(|| subject.module.clone()),
            ..subject.clone()
        };
        if settings.entry.is_none() && settings.other.is_none() {
            // The same component whose entry was changed: that is another revision too.
            other.config = examples.pop_front().unwrap_or_else(|| subject.config.clone());
        }
        fits(&*kind, &other.module)?;
        let other_loaded = Some(bench.load(&other).await?);
        Ok(Self { runtime, kind, subject, other, loaded, _other: other_loaded, settings })
    }

    /// Tries every promise, side by side where the backend is simulated.
    pub fn run(&self, progress: &dyn Progress) -> Result<Report, CannotRun> {
        let began = Instant::now();
        let chosen: VecDeque<&'static Promise> = promise::all()
            .iter()
            .filter(|promise| {
                self.settings.only.is_empty() || self.settings.only.iter().any(|id| id == promise.id)
            })
            .collect();
        let at_once = match self.kind.is_simulated() {
            true => thread::available_parallelism().map_or(1, usize::from).min(chosen.len()).max(1),
            false => 1,
        };
        let waiting = Mutex::new(chosen);
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || -> Result<Vec<Outcome>, CannotRun> {
            let executor = executor()?;
            let mut outcomes = Vec::new();
            while let Some(promise) = next() {
                let outcome = executor.block_on(self.try_one(promise));
                progress.ended(&outcome);
                outcomes.push(outcome);
            }
            Ok(outcomes)
        };
        let mut outcomes = Vec::new();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                let done = worker.join().map_err(|_| {
                    CannotRun::Setup("the suite itself panicked; please report it".to_owned())
                })?;
                outcomes.extend(done?);
            }
            Ok::<(), CannotRun>(())
        })?;
        let place =
            |outcome: &Outcome| promise::all().iter().position(|promise| promise.id == outcome.promise.id);
        outcomes.sort_by_key(place);
        Ok(Report::new(self, outcomes, began.elapsed()))
    }

    async fn try_one(&self, promise: &'static Promise) -> Outcome {
        let began = Instant::now();
        let mut trial = Trial::new(self, promise);
        let ended = match promise.silent_about(self) {
            Some(why) => Err(Halt::Skipped(why)),
            None => (promise.scenario)(&mut trial).await,
        };
        let (verdict, counts, journals) = trial.judge(ended).await;
        Outcome { promise, verdict, counts, journals, took: began.elapsed() }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The kind of backend.
    pub fn kind(&self) -> &dyn Kind {
        &*self.kind
    }

    /// The component on trial.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The revision that takes over from it, and it from that.
    pub fn other(&self) -> &Subject {
        &self.other
    }

    /// Decides every draw.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    pub(crate) fn cut(&self) -> Option<Point> {
        self.settings.cut
    }

    pub(crate) fn keeps_journals(&self) -> bool {
        self.settings.keep_journals
    }

    /// What the component says of itself.
    pub fn description(&self) -> &Description {
        self.loaded.description()
    }

    /// Its places.
    pub fn places(&self) -> &[String] {
        self.loaded.places()
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
        let slot = Slot::new(self.runtime.clone(), subject.entry.clone(), Installation::new(OURS));
        let candidate = subject.candidate((self.world.lend)(&watch));
        (slot, candidate)
    }

    async fn describe(&self, subject: &Subject) -> Result<Description, CannotRun> {
        let (slot, candidate) = self.slot(subject);
        slot.describe(candidate).await.map_err(CannotRun::Refused)
    }

    async fn load(&self, subject: &Subject) -> Result<Arc<Revision>, CannotRun> {
        let (slot, candidate) = self.slot(subject);
        slot.load(candidate).await.map_err(CannotRun::Refused)
    }
}

fn executor() -> Result<tokio::runtime::Runtime, CannotRun> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    executor.map_err(|error| CannotRun::Setup(format!("can't start an executor: {error}")))
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
                way_out: "there is no simulated backend for it yet: try it against a real one".to_owned(),
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
