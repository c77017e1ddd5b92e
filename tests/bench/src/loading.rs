//! From bytes to active: with nothing in the compile cache, and with everything there.

use std::{path::Path, sync::Arc, time::Instant};

use egress_contract::{EntryName, Installation};
use egress_runtime::{Candidate, Compile, Lent, Limits, Module, Runtime, RuntimeConfig, Slot};
use serde_json::json;

use crate::{Failure, backend::Backend, report::Report, ways};

const TIMES: usize = 5;

/// A runtime whose compile cache is this folder.
pub(crate) fn runtime(cache: &Path, places: Option<u32>) -> Result<Runtime, Failure> {
    let mut config = RuntimeConfig {
        cache_dir: Some(cache.to_owned()),
        compile: Compile::InProcess,
        ..RuntimeConfig::default()
    };
    config.places = places.unwrap_or(config.places);
    Runtime::new(config).map_err(|error| Failure::new("the runtime", error.to_string()))
}

/// The provider as an entry would have it.
pub(crate) fn candidate(
    component: &[u8],
    backend: &Arc<Backend>,
    limits: Limits,
) -> Result<Candidate, Failure> {
    let module = Module::unpack(component, u64::MAX)
        .map_err(|refusal| Failure::new("the component", refusal.to_string()))?;
    Ok(Candidate {
        module,
        pinned: None,
        config: ways::config(),
        lent: Lent { kubernetes: Some(Arc::clone(backend) as _), ..Lent::default() },
        grants: json!({}),
        limits,
        legacy: Vec::new(),
    })
}

/// A slot for the entry `bench`.
pub(crate) fn slot(runtime: Runtime, installation: &Installation) -> Result<Slot, Failure> {
    let entry: EntryName = "bench".parse().map_err(|error| Failure::new("the entry", format!("{error}")))?;
    Ok(Slot::new(runtime, entry, installation.clone()))
}

/// Measures both; answers the slot that is loaded.
pub(crate) async fn measure(
    report: &mut Report,
    installation: &Installation,
    component: &[u8],
    backend: &Arc<Backend>,
    folder: &Path,
) -> Result<Slot, Failure> {
    let mut cold = Vec::new();
    let mut warm = Vec::new();
    let mut last = None;
    for round in 0..TIMES {
        let cache = folder.join(format!("cache-{round}"));
        for readings in [&mut cold, &mut warm] {
            let slot = slot(runtime(&cache, None)?, installation)?;
            let candidate = candidate(component, backend, Limits::default())?;
            let start = Instant::now();
            slot.load(candidate)
                .await
                .map_err(|refusal| Failure::new("the component", refusal.to_string()))?;
            readings.push(start.elapsed().as_secs_f64() * 1e3);
            last = Some(slot);
        }
    }
    report.samples("load, all stages: cold", "ms", cold);
    report.samples("load, all stages: from the compile cache", "ms", warm);
    last.ok_or_else(|| Failure::new("the component", "was not loaded"))
}
