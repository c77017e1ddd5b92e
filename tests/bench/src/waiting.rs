//! Memory of instances that wait in a host call: ten thousand at once.

use std::{path::Path, sync::Arc, time::Duration};

use egress_contract::{Installation, Provider};
use egress_runtime::Limits;
use tokio::task::JoinSet;

use crate::{Failure, backend::Backend, loading, report::Report};

const INSTANCES: u32 = 10_000;

/// Measures it. The first host call of `check` is one that the gate holds.
pub(crate) async fn measure(
    report: &mut Report,
    installation: &Installation,
    component: &[u8],
    folder: &Path,
) -> Result<(), Failure> {
    let backend = Arc::new(Backend::gated());
    let limits =
        Limits { concurrent_calls: INSTANCES, check_ms: 600_000, host_call_ms: 600_000, ..Limits::default() };
    let slot = loading::slot(loading::runtime(&folder.join("cache-0"), Some(INSTANCES))?, installation)?;
    // The stage `check` must not wait.
    let gate = backend.gate();
    if let Some(gate) = gate {
        gate.add_permits(1);
    }
    let candidate = loading::candidate(component, &backend, limits)?;
    let revision =
        slot.load(candidate).await.map_err(|refusal| Failure::new("the component", refusal.to_string()))?;
    let before = memory()?;
    let mut calls = JoinSet::new();
    for _ in 0..INSTANCES {
        let revision = Arc::clone(&revision);
        calls.spawn(async move { revision.check("bench").await.is_ok() });
    }
    // All are there once the memory stands still.
    let mut full = before;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = memory()?;
        if now.abs_diff(full) < 256 * 1024 {
            break;
        }
        full = now;
    }
    if let Some(gate) = gate {
        gate.close();
    }
    let mut answered = 0;
    while let Some(call) = calls.join_next().await {
        answered += u32::from(call.unwrap_or(false));
    }
    if answered != INSTANCES {
        return Err(Failure::new("instances that wait", format!("{answered} of {INSTANCES} answered")));
    }
    let each = full.saturating_sub(before) as f64 / f64::from(INSTANCES) / 1024.0;
    report.figure("an instance that waits in a host call, of 10,000", "KiB", each, Some(70.0));
    Ok(())
}

/// Memory of this process, bytes: pages that instances share, as those of a component's data before it is
/// written to, are counted once and not once an instance.
fn memory() -> Result<u64, Failure> {
    read("/proc/self/smaps_rollup", "Pss:")
}

/// Resident memory of a process, bytes.
pub(crate) fn resident_of(process: &str) -> Result<u64, Failure> {
    read(&format!("/proc/{process}/status"), "VmRSS:")
}

/// One line of a file of /proc, in bytes.
fn read(path: &str, line: &str) -> Result<u64, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::new("memory", format!("{path}: {error}")))?;
    let value = text.lines().find_map(|candidate| candidate.strip_prefix(line));
    let kib = value.and_then(|value| value.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Failure::new("memory", format!("{path} has no {line}")))
}
