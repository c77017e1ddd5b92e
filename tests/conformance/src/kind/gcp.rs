//! Google Compute Engine, simulated: the project and zones that a config names.

mod simulated;

use std::sync::Arc;

use async_trait::async_trait;
use egress_contract::Installation;
use egress_runtime::{
    Lent,
    capability::{Clock, Http, HttpRequest, HttpResponse},
};
use egress_sim::{
    clock::VirtualClock,
    compute::{Compute, ComputeSpec},
    fault::{Fault, When},
    watched::{Watch, Watched, WatchedHttp},
};
use serde_json::{Value, json};

use super::{Kind, OPERATORS_LONGEST_REST, World};
use crate::halt::Go;
pub use simulated::Simulated;

/// Where Proxies live.
const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
/// Small, so that whatever is listed has pages.
const PAGE: usize = 2;

/// See the module.
#[derive(Clone, Debug)]
pub struct SimulatedCompute {
    project: String,
    spec: ComputeSpec,
    /// Region, name.
    reserved: Vec<(String, String)>,
}

impl SimulatedCompute {
    /// For a config that names a project and zones; none for any other.
    pub fn of(config: &Value) -> Option<Self> {
        let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
        let project = text("project")?;
        let zones: Vec<String> = config
            .get("zones")?
            .as_array()?
            .iter()
            .filter_map(|zone| zone.as_str().map(str::to_owned))
            .collect();
        let reserved = config.get("reservedAddresses").and_then(Value::as_object).into_iter().flatten();
        let reserved = reserved.flat_map(|(region, names)| {
            let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
            names
                .iter()
                .filter_map(|name| Some((region.clone(), name.as_str()?.to_owned())))
                .collect::<Vec<_>>()
        });
        Some(Self {
            spec: ComputeSpec {
                endpoint: text("endpoint").unwrap_or_else(|| "compute".to_owned()),
                manager: text("resourceManager"),
                projects: [(project.clone(), zones)].into_iter().collect(),
                page: PAGE,
            },
            reserved: reserved.collect(),
            project,
        })
    }

    /// The same for whoever looks for a simulation.
    pub fn over_http(config: &Value, _: &Value) -> Option<Arc<dyn Kind>> {
        Self::of(config).map(|kind| Arc::new(kind) as Arc<dyn Kind>)
    }

    /// A backend of its own, for tests that look behind it.
    pub async fn backend(&self) -> Go<Simulated> {
        let clock = VirtualClock::default();
        let backend = Simulated::new(clock, &self.project, &self.spec).await?;
        for (number, (region, name)) in self.reserved.iter().enumerate() {
            backend.compute().reserve(region, name, &format!("198.51.100.{}", number + 1));
        }
        Ok(backend)
    }
}

#[async_trait]
impl Kind for SimulatedCompute {
    fn name(&self) -> String {
        "Google Compute Engine, simulated".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        interface == "egress:provider/http"
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn stands(&self, clock: Arc<dyn Clock>) -> Option<Lent> {
        let compute = Compute::new(Arc::clone(&clock), &self.spec);
        for (number, (region, name)) in self.reserved.iter().enumerate() {
            compute.reserve(region, name, &format!("198.51.100.{}", number + 1));
        }
        let http: Arc<dyn Http> = Arc::new(compute);
        Some(Lent { http: Some(http), clock: Some(clock), ..Lent::default() })
    }

    async fn world(&self, _: u64) -> Go<World> {
        Ok(around(Arc::new(self.backend().await?)))
    }
}

/// What comes back from Google, or from something before it, on a bad day.
fn answers(fault: &Fault, when: When) -> Option<HttpResponse> {
    let page = |status: u16, reason: &str| HttpResponse {
        status,
        reason: reason.to_owned(),
        headers: vec![("content-type".to_owned(), "text/html; charset=UTF-8".to_owned())],
        body: b"<html><title>Error</title></html>".to_vec(),
    };
    let json = |status: u16, reason: &str, body: &Value| HttpResponse {
        status,
        reason: reason.to_owned(),
        headers: vec![("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())],
        body: body.to_string().into_bytes(),
    };
    match (fault, when) {
        (Fault::Refused, When::After) => Some(page(502, "Bad Gateway")),
        (Fault::WrongContentType, _) => Some(page(404, "Not Found")),
        (Fault::Garbage, _) => Some(json(200, "OK", &json!({ "kind": "something#else", "items": {} }))),
        (Fault::NoCredentials, When::After) => {
            let message = "Request had invalid authentication credentials.";
            let error = json!({ "error": { "code": 401, "message": message, "status": "UNAUTHENTICATED" } });
            Some(json(401, "Unauthorized", &error))
        }
        (Fault::RateLimited(after), _) => {
            let message = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'.";
            let one = json!({ "message": message, "domain": "usageLimits", "reason": "rateLimitExceeded" });
            let error = json!({ "error": { "code": 429, "message": message, "errors": [one] } });
            let mut response = json(429, "Too Many Requests", &error);
            response.headers.push(("retry-after".to_owned(), after.as_secs().to_string()));
            Some(response)
        }
        _ => None,
    }
}

/// The world around one.
pub fn around(backend: Arc<Simulated>) -> World {
    let clock: Arc<dyn Clock> = Arc::new(backend.clock().clone());
    let (compute, time, project) =
        (backend.compute().clone(), Arc::clone(&clock), backend.project().to_owned());
    let lend = move |watch: &Watch, _: &Installation| {
        let http: Arc<dyn Http> = Arc::new(compute.clone());
        let place = project.clone();
        let place = move |_: &HttpRequest| place.clone();
        Lent {
            http: Some(Arc::new(WatchedHttp::new(watch.clone(), http, place, answers))),
            clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&time)))),
            ..Lent::default()
        }
    };
    let original = Arc::clone(&backend);
    World {
        secrets: backend.secrets(),
        backend,
        clock,
        lend: Arc::new(lend),
        namespaces: NAMESPACES.map(str::to_owned),
        fork: Some(Arc::new(move || around(Arc::new(original.copy())))),
        longest_rest: OPERATORS_LONGEST_REST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_for_it_that_names_a_project_and_zones() {
        let config = json!({ "project": "p-4711", "zones": ["us-central1-a"], "resourceManager": "rm" });
        let kind = SimulatedCompute::of(&config).unwrap();
        assert_eq!((kind.project.as_str(), kind.spec.endpoint.as_str()), ("p-4711", "compute"));
        for other in [json!({}), json!({ "project": "p" }), json!({ "nodes": ["pve1"] })] {
            assert!(SimulatedCompute::of(&other).is_none(), "{other}");
        }
    }
}
