//! The engine that all slots share, and how components are compiled.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::Semaphore;
use tracing::warn;
use wasmtime::{Cache, CacheConfig, Config, Enabled, Engine, PoolingAllocationConfig, component::Linker};

use crate::{
    capability::{Always, Writes},
    compile::{self, Compiler},
    imports,
    module::Module,
    refusal::Refusal,
    state::State,
};

/// How often a guest that computes is looked at: what a limit on its time is exact to.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Addresses of one memory.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// Of one call, on average: one of our providers has one.
const CORE_INSTANCES: u32 = 20;
const TABLES: u32 = 4;
/// Of one table. Entries may allow less, and no toolchain asks for more.
const TABLE_ELEMENTS: usize = 100_000;
/// What the host keeps of one instance, which grows with the component's functions.
const INSTANCE_BYTES: usize = 16 << 20;

/// Where compiling happens.
#[derive(Clone, Debug)]
pub enum Compile {
    /// In this process: for tools and tests. Can't be cancelled.
    InProcess,
    /// In a child process that warms the compile cache first, with limits: `program args...`, the
    /// component on its standard input. It is killed at the time limit.
    Child {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
}

/// How a [`Runtime`] is set up.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// wasmtime's compile cache; none for no cache (then [`Compile::Child`] is refused).
    pub cache_dir: Option<PathBuf>,
    /// Where compiling happens.
    pub compile: Compile,
    /// Wall time of one compile.
    pub compile_time: Duration,
    /// Address space of the compiling child, bytes.
    pub compile_memory: u64,
    /// An unpacked component's size, bytes.
    pub module_bytes: u64,
    /// Calls at once, over all entries; what exceeds it waits its turn. Each has its place in a pool, which
    /// takes 4 GiB of addresses a place and, until the place is used, next to no memory.
    pub places: u32,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            compile: Compile::InProcess,
            compile_time: Duration::from_secs(60),
            compile_memory: 1536 * 1024 * 1024,
            module_bytes: 64 * 1024 * 1024,
            places: 512,
        }
    }
}

/// The runtime itself can't start, or the compiling child can't do its work.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The settings don't fit this machine.
    #[error("can't set up the WebAssembly engine on this machine: {0}")]
    Engine(String),
    /// There is no cache to hand compiled code over in.
    #[error("compiling in a child process needs a cache directory; set one, or compile in this process")]
    ChildWithoutCache,
    /// The cache directory is of no use.
    #[error("can't use the compile cache in {dir}: {cause}; give a directory that this user may write")]
    Cache {
        /// Which.
        dir: PathBuf,
        /// Why.
        cause: String,
    },
    /// The engine's clock did not start.
    #[error("can't start the thread that interrupts guests: {0}")]
    Thread(io::Error),
    /// The child can't bound itself.
    #[error("can't limit the compiling process: {0}")]
    Limits(io::Error),
    /// The component does not compile.
    #[error("{0}")]
    Compile(String),
    /// It does not compile in so little memory.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
}

impl RuntimeError {
    /// What the compiling child ends with, so that its parent can tell the causes apart.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::OutOfMemory(_) => compile::EXIT_OUT_OF_MEMORY,
            _ => 1,
        }
    }
}

/// The engine and what belongs to it; clones share it.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    config: RuntimeConfig,
    compiler: Compiler,
    /// What every component gets, linked once: entries only add what they lend.
    linker: Linker<State>,
    places: Semaphore,
    writes: Arc<dyn Writes>,
    _ticker: Ticker,
}

impl Runtime {
    /// Starts the engine and its clock thread.
    pub fn new(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        Self::with_writes(config, Arc::new(Always))
    }

    /// One in which no host call that the contract marks as a write begins unless it may.
    pub fn with_writes(config: RuntimeConfig, writes: Arc<dyn Writes>) -> Result<Self, RuntimeError> {
        if config.cache_dir.is_none() && matches!(config.compile, Compile::Child { .. }) {
            return Err(RuntimeError::ChildWithoutCache);
        }
        let engine = pooling_engine(&config)?;
        let ticker = Ticker::start(engine.clone()).map_err(RuntimeError::Thread)?;
        let compiler = Compiler::new(engine.clone());
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
        let places = Semaphore::new(usize::try_from(config.places).unwrap_or(Semaphore::MAX_PERMITS));
        Ok(Self { inner: Arc::new(Inner { config, compiler, linker, places, writes, _ticker: ticker }) })
    }

    /// Unpacks a module to at most what the config allows.
    pub fn unpack(&self, raw: &[u8]) -> Result<Module, Refusal> {
        Module::unpack(raw, self.inner.config.module_bytes)
    }

    /// What [`Compile::Child`]'s program does: compiles the component into the cache and ends. It first
    /// limits the process that it runs in; the program should end with [`RuntimeError::exit_code`].
    pub fn warm_cache(config: &RuntimeConfig, component: &[u8]) -> Result<(), RuntimeError> {
        compile::warm_cache(config, component)
    }

    pub(crate) fn linker(&self) -> Linker<State> {
        self.inner.linker.clone()
    }

    /// A call holds one while it runs.
    pub(crate) fn places(&self) -> &Semaphore {
        &self.inner.places
    }

    /// What is asked before anything is changed.
    pub fn writes(&self) -> &Arc<dyn Writes> {
        &self.inner.writes
    }

    pub(crate) fn config(&self) -> &RuntimeConfig {
        &self.inner.config
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.inner.compiler
    }
}

/// Memories and stacks that are used again spare most of what a fresh instance costs: decision 0018.
fn pooling_engine(config: &RuntimeConfig) -> Result<Engine, RuntimeError> {
    let (mut settings, _) = settings(config)?;
    settings.allocation_strategy(pool(config.places));
    match Engine::new(&settings) {
        Ok(engine) => Ok(engine),
        Err(error) => {
            let error = format!("{error:#}");
            warn!(
                places = config.places,
                error, "this machine has no addresses for a pool; calls will cost more"
            );
            Ok(engine(config)?.0)
        }
    }
}

fn pool(places: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_memories(places)
        .total_stacks(places)
        // The entry's own limits say how many a call may have; a component of several instances, as other
        // languages make them, takes more of them than one.
        .total_core_instances(places.saturating_mul(CORE_INSTANCES))
        .total_tables(places.saturating_mul(TABLES))
        .table_elements(TABLE_ELEMENTS)
        .max_core_instance_size(INSTANCE_BYTES)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_memory_size(usize::try_from(MEMORY_RESERVATION).unwrap_or(usize::MAX))
        // What a call touches is cleared in place instead of being given back and faulted in again.
        .linear_memory_keep_resident(128 * 1024)
        .table_keep_resident(16 * 1024)
        .max_unused_warm_slots(32)
        // Where the kernel can tell which pages were written, since 6.7.
        .pagemap_scan(Enabled::Auto);
    pool
}

/// What the compiling child needs, which makes no instance: nothing of it differs from what compiled code
/// depends on in its parent, or one could not use what the other compiled.
pub(crate) fn engine(config: &RuntimeConfig) -> Result<(Engine, Option<Cache>), RuntimeError> {
    let (settings, cache) = settings(config)?;
    let engine = Engine::new(&settings).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
    Ok((engine, cache))
}

fn settings(config: &RuntimeConfig) -> Result<(Config, Option<Cache>), RuntimeError> {
    let mut settings = Config::new();
    settings
        .wasm_component_model(true)
        .epoch_interruption(true)
        // Exports are lifted synchronously: concurrency inside a component would only cost.
        .concurrency_support(false)
        // All that 32 bits reach: no access needs a check of its own, and no memory moves as it grows.
        .memory_reservation(MEMORY_RESERVATION);
    let cache = config.cache_dir.as_ref().map(|dir| cache(dir.clone())).transpose()?;
    settings.cache(cache.clone());
    Ok((settings, cache))
}

fn cache(dir: PathBuf) -> Result<Cache, RuntimeError> {
    let unusable = |dir: PathBuf, cause: String| RuntimeError::Cache { dir, cause };
    let dir = std::path::absolute(&dir).map_err(|error| unusable(dir, error.to_string()))?;
    let mut settings = CacheConfig::new();
    settings.with_directory(&dir);
    // What is used often is else compressed anew, as small as it gets, within this process: 170 MiB for
    // some seconds, to save a little of a cache that is small.
    settings.with_optimized_compression_usage_counter_threshold(u64::MAX);
    Cache::new(settings).map_err(|error| unusable(dir, format!("{error:#}")))
}

/// Raises the engine's epoch from a thread of its own: an executor that is busy must not stop the clock
/// that interrupts what keeps it busy.
struct Ticker {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: Engine) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        // After a pause there is one tick, not one for each that was missed.
        let tick = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        };
        let thread = thread::Builder::new().name("wasm-epoch".to_owned()).spawn(tick)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can't have panicked, and there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_ends_with_the_last_runtime() {
        let runtime = Runtime::new(RuntimeConfig::default()).unwrap();
        let engine = runtime.linker().engine().weak();
        let clone = runtime.clone();
        drop(runtime);
        assert!(engine.upgrade().is_some(), "a clone still needs it");
        drop(clone);
        // The thread held the engine; nobody else does.
        assert!(engine.upgrade().is_none(), "the thread goes on");
    }

    #[test]
    fn guests_are_looked_at_whatever_the_executor_does() {
        let runtime = Runtime::new(RuntimeConfig::default()).unwrap();
        let mut store = wasmtime::Store::new(runtime.linker().engine(), false);
        // A core module that spins on a thread that does nothing else.
        let module = wasmtime::Module::new(
            runtime.linker().engine(),
            wat::parse_str("(module (func (export \"spin\") (loop (br 0))))").unwrap(),
        )
        .unwrap();
        store.set_epoch_deadline(3);
        store.epoch_deadline_callback(|mut store| {
            *store.data_mut() = true;
            Ok(wasmtime::UpdateDeadline::Interrupt)
        });
        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        executor.block_on(async {
            let instance = wasmtime::Instance::new_async(&mut store, &module, &[]).await.unwrap();
            let spin = instance.get_typed_func::<(), ()>(&mut store, "spin").unwrap();
            spin.call_async(&mut store, ()).await.unwrap_err();
        });
        assert!(*store.data());
    }
}
