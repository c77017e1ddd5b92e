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

use wasmtime::{Cache, CacheConfig, Config, Engine, component::Linker};

use crate::{
    compile::{self, Compiler},
    imports,
    module::Module,
    refusal::Refusal,
    state::State,
};

/// How often a guest that computes is looked at: what a limit on its time is exact to.
const TICK: Duration = Duration::from_millis(10);

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
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            compile: Compile::InProcess,
            compile_time: Duration::from_secs(60),
            compile_memory: 2 * 1024 * 1024 * 1024,
            module_bytes: 64 * 1024 * 1024,
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
    _ticker: Ticker,
}

impl Runtime {
    /// Starts the engine and its clock thread.
    pub fn new(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        if config.cache_dir.is_none() && matches!(config.compile, Compile::Child { .. }) {
            return Err(RuntimeError::ChildWithoutCache);
        }
        let (engine, _) = engine(&config)?;
        let ticker = Ticker::start(engine.clone()).map_err(RuntimeError::Thread)?;
        let compiler = Compiler::new(engine.clone());
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
        Ok(Self { inner: Arc::new(Inner { config, compiler, linker, _ticker: ticker }) })
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

    pub(crate) fn config(&self) -> &RuntimeConfig {
        &self.inner.config
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.inner.compiler
    }
}

/// The same for parent and child, or one could not use what the other compiled.
pub(crate) fn engine(config: &RuntimeConfig) -> Result<(Engine, Option<Cache>), RuntimeError> {
    let mut settings = Config::new();
    settings
        .wasm_component_model(true)
        .epoch_interruption(true)
        // Exports are lifted synchronously: concurrency inside a component would only cost.
        .concurrency_support(false)
        // Memory is mapped as it grows: thousands of instances fit, and no small host runs out of
        // addresses. A guest that grows by little is not copied each time.
        .memory_reservation(0)
        .memory_reservation_for_growth(16 * 1024 * 1024)
        .memory_guard_size(64 * 1024)
        .guard_before_linear_memory(false);
    let cache = config.cache_dir.as_ref().map(|dir| cache(dir.clone())).transpose()?;
    settings.cache(cache.clone());
    let engine = Engine::new(&settings).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
    Ok((engine, cache))
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
