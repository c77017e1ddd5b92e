//! The suite: a component, a kind of backend, a seed; and the run over all promises.

use std::{
    collections::VecDeque,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use egress_contract::{Description, EntryName, Installation, Mark};
use egress_runtime::{Limits, Module, Refusal, Revision, Runtime, RuntimeConfig};
use egress_sim::fault::Point;
use serde_json::Value;

use crate::{
    halt::Halt,
    kind::Kind,
    loaded::Loaded,
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
    /// At most so many points of those that a promise is tried at, drawn by the seed; none for all of them. A
    /// real backend takes seconds for each.
    pub points: Option<usize>,
    /// Whether the journals of all runs are kept for the report.
    pub keep_journals: bool,
}

impl Settings {
    /// The component, and everything as it is usually.
    pub fn new(module: Module) -> Self {
        Self {
            module,
            entry: None,
            other: None,
            seed: 1,
            only: Vec::new(),
            cut: None,
            points: None,
            keep_journals: false,
        }
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
    /// The other revision can't be tried.
    #[error("the other component: {0}")]
    Other(Box<Self>),
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
    /// Somebody ended it.
    #[error("ended after {ended} of {all} promises; what was made is removed")]
    Ended {
        /// Promises that were tried.
        ended: usize,
        /// Promises that were to be tried.
        all: usize,
    },
    /// Something of it may still be at the backend.
    #[error(
        "{why}; what was made may still be there: run it again, which removes it first, or remove what is called \
             proxy-*-{hash}-*"
    )]
    Left {
        /// Why it could not be removed.
        why: String,
        /// What stands in all names.
        hash: String,
    },
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
    _other: Arc<Revision>,
    settings: Settings,
    /// Connections to a real backend live as long as this.
    executor: tokio::runtime::Runtime,
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
        let loaded = executor.block_on(async {
            Loaded::fit(&*kind, &settings)?;
            kind.prepare().await.map_err(|unable| CannotRun::Setup(unable.to_string()))?;
            Loaded::load(&runtime, &*kind, &settings).await
        })?;
        let Loaded { subject, other, revision, other_revision } = loaded;
        Ok(Self {
            runtime,
            kind,
            subject,
            other,
            loaded: revision,
            _other: other_revision,
            settings,
            executor,
        })
    }

    /// Tries every promise, side by side where the backend is simulated.
    pub fn run(&self, progress: &dyn Progress) -> Result<Report, CannotRun> {
        self.run_until(std::future::pending(), progress)
    }

    /// The same until somebody ends it. What it made at a real backend is removed in either case.
    pub fn run_until(
        &self,
        end: impl Future<Output = ()>,
        progress: &dyn Progress,
    ) -> Result<Report, CannotRun> {
        let began = Instant::now();
        let chosen: VecDeque<&'static Promise> = promise::all()
            .iter()
            .filter(|promise| {
                self.settings.only.is_empty() || self.settings.only.iter().any(|id| id == promise.id)
            })
            .collect();
        let mut outcomes = match self.kind.is_simulated() {
            true => self.side_by_side(chosen, progress)?,
            false => self.executor.block_on(self.one_by_one(chosen, end, progress))?,
        };
        let place =
            |outcome: &Outcome| promise::all().iter().position(|promise| promise.id == outcome.promise.id);
        outcomes.sort_by_key(place);
        Ok(Report::new(self, outcomes, began.elapsed()))
    }

    async fn one_by_one(
        &self,
        chosen: VecDeque<&'static Promise>,
        end: impl Future<Output = ()>,
        progress: &dyn Progress,
    ) -> Result<Vec<Outcome>, CannotRun> {
        let (all, mut outcomes, mut end) = (chosen.len(), Vec::new(), pin!(end));
        for promise in chosen {
            // What is dropped in mid-call is a host that dies.
            let outcome = tokio::select! {
                biased;
                () = &mut end => break,
                outcome = self.try_one(promise) => outcome,
            };
            progress.ended(&outcome);
            outcomes.push(outcome);
        }
        if let Err(unable) = self.kind.clear().await {
            let hash = Installation::new(OURS).hash().to_owned();
            return Err(CannotRun::Left { why: unable.to_string(), hash });
        }
        match outcomes.len() == all {
            true => Ok(outcomes),
            false => Err(CannotRun::Ended { ended: outcomes.len(), all }),
        }
    }

    fn side_by_side(
        &self,
        chosen: VecDeque<&'static Promise>,
        progress: &dyn Progress,
    ) -> Result<Vec<Outcome>, CannotRun> {
        let at_once = thread::available_parallelism().map_or(1, usize::from).min(chosen.len()).max(1);
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
        Ok(outcomes)
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

    pub(crate) fn most_points(&self) -> Option<usize> {
        self.settings.points
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

fn executor() -> Result<tokio::runtime::Runtime, CannotRun> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    executor.map_err(|error| CannotRun::Setup(format!("can't start an executor: {error}")))
}
