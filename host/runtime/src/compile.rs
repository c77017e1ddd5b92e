//! From a component's bytes to machine code, within bounds.
//!
//! A compile can't be cancelled, a process can: so a child does it, with limits on its time and memory, and
//! leaves the result in wasmtime's own cache, where this process finds it. The bytes stay the authority: a
//! cache that lost its file costs a compile, nothing else.

use std::{
    collections::HashMap,
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStderr, Command},
    sync::Semaphore,
    time::timeout,
};
use wasmtime::{Engine, component::Component};

use crate::{
    inspect::Inspection,
    locks::Locks,
    module::{Digest, Module},
    refusal::{Refusal, Stage},
    runtime::{self, Compile, Runtime, RuntimeConfig, RuntimeError},
};

/// How the child says that memory was what it lacked.
pub(crate) const EXIT_OUT_OF_MEMORY: u8 = 12;
/// What is kept of what the child says last.
const STDERR_TAIL: usize = 2048;

/// One component and what is known of it, shared by every revision that uses it.
pub(crate) struct Compiled {
    pub(crate) inspection: Inspection,
    pub(crate) component: Component,
}

/// Compiles each digest once, and forgets it with its last user.
pub(crate) struct Compiler {
    engine: Engine,
    known: Mutex<HashMap<Digest, Weak<Compiled>>>,
    /// One compile a digest.
    digests: Locks,
    /// One hostile module must not keep all others waiting, nor twenty of them take the machine.
    permits: Semaphore,
}

impl Compiler {
    pub(crate) fn new(engine: Engine) -> Self {
        let at_once = thread::available_parallelism().map_or(2, |threads| threads.get().max(2));
        Self { engine, known: Mutex::default(), digests: Locks::default(), permits: Semaphore::new(at_once) }
    }

    /// What some revision uses already.
    pub(crate) fn find(&self, digest: Digest) -> Option<Arc<Compiled>> {
        self.known().get(&digest).and_then(Weak::upgrade)
    }

    pub(crate) async fn compile(
        &self,
        runtime: &Runtime,
        module: &Module,
        inspection: Inspection,
    ) -> Result<Arc<Compiled>, Refusal> {
        let digest = module.digest();
        let _alone = self.digests.acquire(&digest.to_string()).await;
        if let Some(known) = self.find(digest) {
            return Ok(known);
        }
        let _permit =
            self.permits.acquire().await.map_err(|_| refuse("CompileFailed", "the runtime ends"))?;
        let config = runtime.config();
        if let Compile::Child { program, args } = &config.compile {
            let mut command = Command::new(program);
            command.args(args);
            child(command, config, module).await?;
        }
        let compiled = Arc::new(Compiled { inspection, component: self.load(config, module).await? });
        let mut known = self.known();
        known.retain(|_, compiled| compiled.strong_count() > 0);
        known.insert(digest, Arc::downgrade(&compiled));
        Ok(compiled)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Weak<Compiled>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the cache, where it is there. The thread can't be stopped, but nobody waits for it longer.
    async fn load(&self, config: &RuntimeConfig, module: &Module) -> Result<Component, Refusal> {
        let (engine, bytes) = (self.engine.clone(), Arc::clone(module.bytes()));
        let load = tokio::task::spawn_blocking(move || Component::from_binary(&engine, &bytes));
        match timeout(config.compile_time, load).await {
            Ok(Ok(Ok(component))) => Ok(component),
            Ok(Ok(Err(error))) => Err(does_not_compile(&format!("{error:#}"))),
            Ok(Err(_)) => Err(does_not_compile("the compiler panicked")),
            Err(_) => Err(too_slow(config)),
        }
    }
}

fn refuse(reason: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(Stage::Compile, reason, message)
}

fn does_not_compile(cause: &str) -> Refusal {
    refuse(
        "CompileFailed",
        format!("the component does not compile: {cause}; build it again with the tools that wit/ names"),
    )
}

fn too_slow(config: &RuntimeConfig) -> Refusal {
    refuse(
        "CompileTimeout",
        format!(
            "the component did not compile within {} ms, the limit on one compile; make it smaller, or raise \
             the operator's limit on compile time (epo run --compile-time)",
            config.compile_time.as_millis()
        ),
    )
}

/// Without the child's own words: how much it lacked differs each time, and what is said of one component must not.
fn too_big(config: &RuntimeConfig) -> Refusal {
    refuse(
        "CompileMemory",
        format!(
            "the component did not compile in {} bytes of address space, the limit on one compile; \
             make it smaller, or raise the operator's limit on compile memory (epo run --compile-memory)",
            config.compile_memory
        ),
    )
}

/// A heap for each thread, and a thread for each processor, would take up much of the child's limit, and more of
/// it on a larger machine, before anything is compiled.
const SMALL: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "2"), ("RAYON_NUM_THREADS", "4")];

/// Runs the child to its end, or to the limit; dropped, it kills it.
async fn child(mut command: Command, config: &RuntimeConfig, module: &Module) -> Result<(), Refusal> {
    let broken = |what: &str, error: &io::Error| {
        refuse("CompileFailed", format!("{what}: {error}; is the operator's own program still in place?"))
    };
    // It needs nothing of the environment, and that may hold credentials.
    command
        .env_clear()
        .envs(SMALL)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| broken("can't start the compiling process", &error))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A child that ended early has its own words for it.
            let _ = stdin.write_all(module.bytes()).await;
        }
    };
    let all = async { tokio::join!(feed, tail(stderr), child.wait()) };
    let Ok(((), said, status)) = timeout(config.compile_time, all).await else {
        return Err(too_slow(config));
    };
    let status = status.map_err(|error| broken("lost the compiling process", &error))?;
    judge(status, said.trim(), config)
}

fn judge(status: ExitStatus, said: &str, config: &RuntimeConfig) -> Result<(), Refusal> {
    if status.success() {
        return Ok(());
    }
    if status.code() == Some(EXIT_OUT_OF_MEMORY.into()) {
        return Err(too_big(config));
    }
    let signal = status.signal();
    let was = |named: Signal| signal == Some(named.as_raw());
    if was(Signal::ABORT) {
        // An allocation that fails aborts; so does a stack that overflows: more than a compile may take, either way.
        Err(too_big(config))
    } else if was(Signal::XCPU) || was(Signal::KILL) {
        // Its limit on processor time, soft and hard.
        Err(too_slow(config))
    } else {
        Err(does_not_compile(&format!("{said} ({status})")))
    }
}

/// The last of what the child says; all of it is read, or it would wait for us.
async fn tail(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut kept, mut chunk) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(chunk.get(..read).unwrap_or_default());
        if kept.len() > STDERR_TAIL {
            kept.drain(..kept.len() - STDERR_TAIL);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// See [`Runtime::warm_cache`].
pub(crate) fn warm_cache(config: &RuntimeConfig, component: &[u8]) -> Result<(), RuntimeError> {
    limit_this_process(config).map_err(RuntimeError::Limits)?;
    let dir = config.cache_dir.clone().ok_or(RuntimeError::ChildWithoutCache)?;
    let (engine, cache) = runtime::engine(config)?;
    Component::from_binary(&engine, component).map_err(|error| compile_error(&error))?;
    // The cache never says that it could not write: what was written can be read.
    Component::from_binary(&engine, component).map_err(|error| compile_error(&error))?;
    match cache {
        Some(cache) if cache.cache_hits() > 0 => Ok(()),
        _ => Err(RuntimeError::Cache { dir, cause: "what was written there can't be read back".to_owned() }),
    }
}

fn compile_error(error: &wasmtime::Error) -> RuntimeError {
    let message = format!("{error:#}");
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    if io_errors.into_iter().any(|cause| cause.kind() == io::ErrorKind::OutOfMemory) {
        RuntimeError::OutOfMemory(message)
    } else {
        RuntimeError::Compile(message)
    }
}

/// The parent's own limit is on the wall's time; these hold also when the parent is gone.
fn limit_this_process(config: &RuntimeConfig) -> io::Result<()> {
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let seconds = config.compile_time.saturating_add(Duration::from_millis(999)).as_secs();
    let processor = seconds.saturating_mul(threads).max(1);
    setrlimit(Resource::Core, both(0))?;
    setrlimit(
        Resource::Cpu,
        Rlimit { current: Some(processor), maximum: Some(processor.saturating_add(1)) },
    )?;
    setrlimit(Resource::As, both(config.compile_memory))?;
    Ok(())
}
