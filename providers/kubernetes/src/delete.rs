//! One step towards nothing: Pod and ConfigMap.

use provider_sdk::{Context, Deleted, Error, Kubernetes, Pending, Target};

use crate::{
    api,
    config::Config,
    decide::{self, DeleteStep},
    id::Location,
    observe::{ConfigMap, Pod},
};

/// Squid ends within seconds; a node that is out of reach does not.
const POLL_MS: u32 = 1_000;

/// See `Provider::delete`.
///
/// Both objects are read before either is touched: where one is not ours, somebody has to look first.
pub fn delete<H: Context + Kubernetes>(host: &H, config: &Config, target: &Target) -> Result<Deleted, Error> {
    let at = Location::of(target, config)?;
    let mark = host.mark();
    let (pod, map) = (api::pod(host, &at)?, api::config_map(host, &at)?);
    let steps = [
        ("Pod", api::PODS, decide::delete("Pod", &at, &pod, &mark, |pod: &Pod| &pod.owned)?),
        (
            "ConfigMap",
            api::CONFIG_MAPS,
            decide::delete("ConfigMap", &at, &map, &mark, |map: &ConfigMap| &map.owned)?,
        ),
    ];
    let mut waits = Vec::new();
    for (kind, resource, step) in &steps {
        match step {
            DeleteStep::Gone => {}
            DeleteStep::Destroy(owned) => {
                api::destroy(host, &at, *resource, owned)?;
                waits.push(format!("{kind} deleted"));
            }
            DeleteStep::Wait(why) => waits.push(why.clone()),
        }
    }
    // What was deleted just now may still stand: only the next look can say that nothing is left.
    if waits.is_empty() {
        return Ok(Deleted::Done);
    }
    Ok(Deleted::Pending(Pending {
        id: None,
        progress: String::new(),
        poll_ms: POLL_MS,
        message: waits.join("; "),
    }))
}
