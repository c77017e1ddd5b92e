//! A compile can't be cancelled; a process can. So whatever somebody wrote to keep a compiler busy, or to
//! fill its memory, costs its own child and nothing else.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use egress_contract::Provider;
use egress_runtime::{Candidate, Compile, Refusal, Runtime, RuntimeConfig, RuntimeError, Stage};
use serde_json::json;
use wasmparser::{Encoding, Parser, Payload};

use crate::support::{candidate, folder, guest, guest_that, module, slot_on, spec, target, until};

const MIB: u64 = 1024 * 1024;
/// More than an honest component takes in an unoptimised build of the compiler.
const MEMORY: u64 = 1024 * MIB;
const PATIENCE: Duration = Duration::from_secs(300);

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], leb(content.len()), content.to_vec()].concat()
}

/// The guest with one core module more, which is instantiated with it.
fn guest_with(core: &[u8]) -> Vec<u8> {
    let guest = guest();
    let mut depth = Vec::new();
    let mut modules = 0;
    for payload in Parser::new(0).parse_all(&guest) {
        match payload.unwrap() {
            Payload::Version { encoding, .. } => {
                modules += usize::from(encoding == Encoding::Module && depth.len() == 1);
                depth.push(encoding);
            }
            Payload::End(_) => drop(depth.pop()),
            _ => {}
        }
    }
    let instance = [leb(1), vec![0], leb(modules), leb(0)].concat();
    [guest, section(1, core), section(2, &instance)].concat()
}

/// One function whose thousands of locals all depend on each other at every step.
fn takes_minutes() -> Vec<u8> {
    const LOCALS: usize = 3_000;
    const STEPS: usize = 60_000;
    let mut body = [leb(1), leb(LOCALS), vec![0x7f]].concat();
    for step in 0..STEPS {
        let (a, b) = (leb(1 + step % LOCALS), leb(1 + (step * 7 + 3) % LOCALS));
        // a += b; if a { b += 1 }
        body.extend([&[0x20][..], &a, &[0x20], &b, &[0x6a, 0x21], &a].concat());
        let add_one = [&[0x20][..], &b, &[0x41, 1, 0x6a, 0x21], &b].concat();
        body.extend([&[0x20][..], &a, &[0x04, 0x40], &add_one, &[0x0b]].concat());
    }
    body.push(0x0b);
    let code = [leb(1), leb(body.len()), body].concat();
    let core = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7f, 0]),
        section(3, &[1, 0]),
        section(10, &code),
    ]
    .concat();
    guest_with(&core)
}

/// The example that stands for the operator's own binary; cargo builds it with the tests.
fn warm_cache() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this.parent().and_then(Path::parent).unwrap().join("examples/warm_cache");
    assert!(program.exists(), "{} is not built: run all tests of the crate", program.display());
    program
}

fn config(name: &str, compile_time: Duration, compile_memory: u64) -> RuntimeConfig {
    let cache_dir = folder(name);
    let args = vec![
        cache_dir.display().to_string(),
        compile_time.as_millis().to_string(),
        compile_memory.to_string(),
    ];
    RuntimeConfig {
        cache_dir: Some(cache_dir),
        compile: Compile::Child { program: warm_cache(), args },
        compile_time,
        compile_memory,
        ..RuntimeConfig::default()
    }
}

/// One whose child is a shell's script.
fn scripted(name: &str, script: &str) -> RuntimeConfig {
    let compile =
        Compile::Child { program: "/bin/sh".into(), args: vec!["-c".to_owned(), script.to_owned()] };
    RuntimeConfig { compile, ..config(name, PATIENCE, MEMORY) }
}

async fn refused(config: RuntimeConfig, bytes: &[u8]) -> Refusal {
    let slot = slot_on(Runtime::new(config).unwrap());
    let candidate = Candidate { module: module(bytes), ..candidate(json!({})) };
    let refusal = slot.load(candidate).await.unwrap_err();
    assert_eq!(refusal.stage, Stage::Compile, "{refusal}");
    assert!(slot.active().is_none());
    refusal
}

/// Gone, or a zombie that nobody has asked for yet.
fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

#[tokio::test]
async fn what_the_child_compiled_is_found_in_the_cache() {
    let config = config("child", PATIENCE, MEMORY);
    let files = |config: &RuntimeConfig| {
        let modules = config.cache_dir.as_ref().unwrap().join("modules");
        let compiler = std::fs::read_dir(modules).unwrap().next().unwrap().unwrap();
        let files = std::fs::read_dir(compiler.path()).unwrap().map(|file| file.unwrap().path());
        // Beside each stands what the cache keeps account in.
        files.filter(|file| file.extension().is_none()).count()
    };
    let slot = slot_on(Runtime::new(config.clone()).unwrap());
    let revision = slot.load(candidate(json!({}))).await.unwrap();
    revision.create(&target(), &spec(), b"").await.unwrap();
    assert_eq!(files(&config), 1, "parent and child don't share what was compiled");
}

#[tokio::test]
async fn a_module_built_to_compile_for_minutes_costs_its_child_and_nothing_else() {
    let slot = slot_on(Runtime::new(config("minutes", PATIENCE, MEMORY)).unwrap());
    let good = slot.load(candidate(json!({}))).await.unwrap();
    // The same cache, and less patience.
    let config = RuntimeConfig {
        compile_time: Duration::from_millis(500),
        ..config("minutes", Duration::from_millis(500), MEMORY)
    };
    let slow = refused(config, &takes_minutes()).await;
    assert_eq!(slow.reason, "CompileTimeout", "{slow}");
    assert!(slow.message.contains("500 ms"), "{slow}");
    good.create(&target(), &spec(), b"").await.unwrap();
}

#[tokio::test]
async fn an_entry_whose_module_compiles_for_minutes_keeps_no_other_waiting() {
    let runtime = Runtime::new(config("others", PATIENCE, MEMORY)).unwrap();
    let (bad, good) = (slot_on(runtime.clone()), slot_on(runtime));
    let slow = Candidate { module: module(&takes_minutes()), ..candidate(json!({})) };
    let mut slow = Box::pin(bad.load(slow));
    tokio::select! {
        outcome = &mut slow => panic!("{outcome:?}"),
        revision = good.load(candidate(json!({}))) => drop(revision.unwrap()),
    }
}

#[tokio::test]
async fn a_module_that_fills_the_compilers_memory_is_refused_with_the_limit() {
    let memory = 400 * MIB;
    let refusal = refused(config("memory", PATIENCE, memory), &takes_minutes()).await;
    assert_eq!(refusal.reason, "CompileMemory", "{refusal}");
    assert!(refusal.message.contains(&memory.to_string()), "{refusal}");
    // An honest one fits.
    let slot = slot_on(Runtime::new(config("memory", PATIENCE, memory)).unwrap());
    slot.load(candidate(json!({}))).await.unwrap();
}

#[tokio::test]
async fn the_child_is_killed_at_the_limit_and_when_nobody_waits_any_more() {
    let pid_file = folder("pid").join("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", pid_file.display());
    let pid = || std::fs::read_to_string(&pid_file).unwrap_or_default().trim().to_owned();

    let limited = RuntimeConfig { compile_time: Duration::from_secs(1), ..scripted("pids", &script) };
    assert_eq!(refused(limited, &guest()).await.reason, "CompileTimeout");
    until(|| is_gone(&pid())).await;

    std::fs::remove_file(&pid_file).unwrap();
    let slot = slot_on(Runtime::new(scripted("pids", &script)).unwrap());
    let load = tokio::spawn(async move { slot.load(candidate(json!({}))).await });
    until(|| pid_file.exists()).await;
    load.abort();
    load.await.unwrap_err();
    until(|| is_gone(&pid())).await;
}

#[tokio::test]
async fn what_the_child_says_last_is_the_cause() {
    let flood = "i=0; while [ $i -lt 2000 ]; do echo noise noise noise >&2; i=$((i+1)); done; ";
    let script = format!("{flood} echo the last word >&2; exit 1");
    let refusal = refused(scripted("says", &script), &guest()).await;
    assert_eq!(refusal.reason, "CompileFailed");
    assert!(refusal.message.contains("the last word"), "{refusal}");
    assert!(refusal.message.len() < 4096, "all of it was kept: {} bytes", refusal.message.len());
    let refusal = refused(scripted("crashes", "kill -SEGV $$"), &guest()).await;
    assert!(refusal.message.contains("signal: 11"), "{refusal}");
}

#[tokio::test]
async fn a_child_that_does_not_start_is_told() {
    let mut config = config("missing", PATIENCE, MEMORY);
    config.compile = Compile::Child { program: "/nowhere/epo".into(), args: Vec::new() };
    let refusal = refused(config, &guest()).await;
    assert_eq!(refusal.reason, "CompileFailed");
    assert!(refusal.message.contains("can't start the compiling process"), "{refusal}");
}

#[tokio::test]
async fn the_childs_environment_is_empty() {
    // Cargo sets plenty for a test.
    let script = "test -z \"$CARGO_MANIFEST_DIR\" || { echo leaks >&2; exit 1; }; echo clean >&2; exit 1";
    let refusal = refused(scripted("environment", script), &guest()).await;
    assert!(refusal.message.contains("clean"), "{refusal}");
}

#[tokio::test]
async fn what_is_valid_and_needs_what_this_host_has_not_is_refused_by_the_compiler() {
    let garbage_collected = wat::parse_str("(module (type (struct (field i32))))").unwrap();
    let config = RuntimeConfig { cache_dir: Some(folder("gc")), ..RuntimeConfig::default() };
    let refusal = refused(config, &guest_with(&garbage_collected)).await;
    assert_eq!(refusal.reason, "CompileFailed", "{refusal}");
}

#[tokio::test]
async fn one_digest_is_compiled_once_for_all_entries() {
    let starts = folder("starts").join("starts");
    let script = format!("echo start >> {}; exec {} \"$@\"", starts.display(), warm_cache().display());
    let mut config = config("once", PATIENCE, MEMORY);
    if let Compile::Child { program, args } = &mut config.compile {
        let own = ["-c".to_owned(), script, "sh".to_owned()];
        *program = "/bin/sh".into();
        args.splice(0..0, own);
    }
    let runtime = Runtime::new(config).unwrap();
    let slots: Vec<_> = (0..4).map(|_| Arc::new(slot_on(runtime.clone()))).collect();
    let loads = slots.iter().map(|slot| slot.load(candidate(json!({}))));
    let revisions = futures::future::join_all(loads).await;
    assert!(revisions.iter().all(Result::is_ok));
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 1);
    let other = Candidate { module: module(&guest_that("version=3.0.0")), ..candidate(json!({})) };
    slots[0].load(other).await.unwrap();
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 2);
}

#[test]
fn a_runtime_that_can_not_work_does_not_start() {
    let child = RuntimeConfig { cache_dir: None, ..config("none", PATIENCE, MEMORY) };
    assert!(matches!(Runtime::new(child), Err(RuntimeError::ChildWithoutCache)));
    let nowhere = RuntimeConfig { cache_dir: Some("/dev/null/cache".into()), ..RuntimeConfig::default() };
    match Runtime::new(nowhere) {
        Err(error @ RuntimeError::Cache { .. }) => {
            assert!(error.to_string().contains("/dev/null/cache"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a cache that can't be written was taken"),
    }
}
