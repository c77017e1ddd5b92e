//! One host call and nothing else: a guest that does many in one call, beside the same through the trait.

use std::{hint::black_box, path::Path, sync::Arc, time::Instant};

use egress_contract::{Installation, Provider};
use egress_runtime::{
    Limits,
    capability::{Kubernetes, KubernetesFailure},
};
use provider_encode::Guest;
use serde_json::json;

use crate::{Failure, backend::Backend, loading, report::Report};

const FEW: u64 = 10;
const MANY: u64 = 1_010;
const TIMES: usize = 41;

/// Measures both.
pub(crate) async fn measure(
    report: &mut Report,
    installation: &Installation,
    folder: &Path,
) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new("the calling guest", error.to_string());
    let wasm = folder.join("misbehave.wasm");
    let guest = Guest::find(Path::new(env!("CARGO_MANIFEST_DIR")), Some("fixture-misbehave"));
    guest.and_then(|guest| guest.build(&wasm)).map_err(|error| failed(&error))?;
    let component = std::fs::read(&wasm).map_err(|error| failed(&error))?;

    let backend = Arc::new(Backend::default());
    let slot = loading::slot(loading::runtime(&folder.join("cache-calls"), None)?, installation)?;
    let limits = Limits { host_calls: u32::MAX, ..Limits::default() };
    let mut readings: [Vec<f64>; 2] = Default::default();
    for (calls, readings) in [FEW, MANY].into_iter().zip(&mut readings) {
        let mut candidate = loading::candidate(&component, &backend, limits.clone())?;
        candidate.config = json!({ "do": "call", "in": "check", "n": calls });
        let revision = slot.load(candidate).await.map_err(|error| failed(&error))?;
        for _ in 0..TIMES {
            let start = Instant::now();
            revision.check("home").await.map_err(|error| failed(&error))?;
            readings.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [few, many] = readings;
    let each = many.iter().zip(&few).map(|(many, few)| (many - few) / (MANY - FEW) as f64).collect();
    let component = report.samples("a host call: component", "us", each);

    let natively: &dyn Kubernetes = backend.as_ref();
    let mut each = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = Instant::now();
        for _ in FEW..MANY {
            black_box(natively.about("home").await)
                .map_err(|failure: KubernetesFailure| failed(&failure.message))?;
        }
        each.push(start.elapsed().as_secs_f64() * 1e6 / (MANY - FEW) as f64);
    }
    let native = report.samples("a host call: native", "us", each);
    report.figure("a host call: component over native", "us", component - native, Some(5.0));
    Ok(())
}
