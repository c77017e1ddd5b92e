//! Who is asked what: the API behind the HTTP that a host lends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use egress_runtime::capability::{
    Clock, Http, HttpBody, HttpFailure, HttpFailureKind, HttpRequest, HttpResponse, Pairs,
};
use serde_json::{Value, json};

use super::{
    answers::{Answer, Refusal, json_response, page},
    fields::Mask,
    state::{Project, Region, Weather, World},
};

/// What is to be there.
#[derive(Clone, Debug)]
pub struct ComputeSpec {
    /// The endpoint by which it is reached.
    pub endpoint: String,
    /// The endpoint by which Resource Manager is.
    pub manager: Option<String>,
    /// With their zones.
    pub projects: BTreeMap<String, Vec<String>>,
    /// What a page holds at most.
    pub page: usize,
}

/// See the module. Clones are the same.
#[derive(Clone)]
pub struct Compute {
    world: Arc<Mutex<World>>,
}

/// A request, taken apart.
pub(super) struct Asked<'a> {
    pub method: &'a str,
    pub query: &'a Pairs,
    pub body: Value,
}

impl Asked<'_> {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Compute {
    /// With nothing in it.
    pub fn new(clock: Arc<dyn Clock>, spec: &ComputeSpec) -> Self {
        let project = |zones: &Vec<String>| {
            let zones: BTreeSet<String> = zones.iter().cloned().collect();
            let region = |zone: &String| {
                let region = zone.rsplit_once('-').map_or(zone.as_str(), |(region, _)| region);
                let limits = [
                    ("INSTANCES", 6_000.0),
                    ("CPUS", 24_000.0),
                    ("IN_USE_ADDRESSES", 6_000.0),
                    ("SSD_TOTAL_GB", 500_000.0),
                ];
                let limits = limits.map(|(metric, limit)| (metric.to_owned(), limit)).into_iter().collect();
                (region.to_owned(), Region { limits, is_down: false, hides_quotas: false })
            };
            Project { regions: zones.iter().map(region).collect(), zones, ..Project::default() }
        };
        let world = World {
            clock,
            endpoint: spec.endpoint.clone(),
            manager: spec.manager.clone(),
            projects: spec.projects.iter().map(|(name, zones)| (name.clone(), project(zones))).collect(),
            weather: Weather::default(),
            made: 0,
            page: spec.page.max(1),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Another one that is now as this one is.
    pub fn copy(&self, clock: Arc<dyn Clock>) -> Self {
        let world = World { clock, ..self.lock().clone() };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let mut world = self.lock();
        world.settle();
        let path = request.path.join("/");
        let answers = &mut world.weather.answers;
        let planned = answers
            .iter()
            .position(|(method, end, _)| *method == request.method && path.ends_with(end.as_str()));
        if let Some((_, _, response)) = planned.and_then(|at| answers.remove(at)) {
            return response;
        }
        let body = match &request.body {
            HttpBody::None => Value::Null,
            HttpBody::Bytes(bytes) => serde_json::from_slice(bytes).unwrap_or(Value::Null),
            HttpBody::Form(_) | HttpBody::Multipart(_) => return page(400),
        };
        let asked = Asked { method: &request.method, query: &request.query, body };
        let segments: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let answer = if world.manager.as_deref() == Some(request.endpoint.as_str()) {
            world.manager_answer(&asked, &segments)
        } else {
            world.refuse_parameters(&asked).and_then(|()| world.route(&asked, &segments))
        };
        match answer.and_then(|answer| masked(&asked, answer)) {
            Ok(answer) => json_response(200, &answer),
            Err(refusal) => refusal.response(),
        }
    }
}

fn masked(asked: &Asked<'_>, answer: Value) -> Answer {
    let Some(text) = asked.query("fields") else { return Ok(answer) };
    match Mask::read(text) {
        Some(mask) => Ok(mask.apply(answer)),
        None => Err(Refusal::new(400, "invalidParameter", format!("Invalid field selection {text}"))),
    }
}

impl World {
    fn refuse_parameters(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let refused = asked.query.iter().find(|(name, _)| self.weather.refused_parameters.contains(name));
        match refused {
            Some((name, _)) => Err(Refusal::new(
                400,
                "invalidParameter",
                format!(
                    "Invalid JSON payload received. Unknown name \"{name}\": Cannot bind query parameter."
                ),
            )),
            None => Ok(()),
        }
    }

    fn route(&mut self, asked: &Asked<'_>, path: &[&str]) -> Answer {
        let ["projects", project, below @ ..] = path else { return Err(Refusal::not_found(&path.join("/"))) };
        if let ["global", "images", image @ ..] = below {
            return self.image(project, &image.join("/"));
        }
        if !self.projects.contains_key(*project) {
            return Err(Refusal::not_found(&format!("projects/{project}")));
        }
        match (asked.method, below) {
            ("GET", ["aggregated", "instances"]) => self.aggregated(project, asked),
            ("GET", ["regions", region]) => self.region(project, region),
            ("GET", ["regions", region, "addresses"]) => self.addresses(project, region),
            ("GET", ["global", "firewalls"]) => self.rules(project, asked),
            ("POST", ["global", "firewalls"]) => self.make_rule(project, asked),
            ("GET", ["global", "firewalls", name]) => self.rule(project, name),
            ("DELETE", ["global", "firewalls", name]) => self.delete_rule(project, name, asked),
            ("GET", ["global", "operations", name]) => self.operation(project, None, name),
            (_, ["zones", zone, ..]) if !self.has_zone(project, zone) => {
                Err(Refusal::invalid("zone", zone, "Unknown zone."))
            }
            ("GET", ["zones", zone, "operations"]) => self.operations(project, zone, asked),
            ("GET", ["zones", zone, "operations", name]) => self.operation(project, Some(zone), name),
            ("POST", ["zones", zone, "instances"]) => self.insert(project, zone, asked),
            ("GET", ["zones", zone, "instances", name]) => self.get(project, zone, name),
            ("DELETE", ["zones", zone, "instances", name]) => self.delete(project, zone, name, asked),
            ("POST", ["zones", zone, "instances", name, "start"]) => self.start(project, zone, name, asked),
            ("POST", ["zones", zone, "instances", name, "setLabels"]) => {
                self.set_labels(project, zone, name, asked)
            }
            _ => Err(Refusal::not_found(&path.join("/"))),
        }
    }

    fn has_zone(&self, project: &str, zone: &str) -> bool {
        self.projects.get(project).is_some_and(|project| project.zones.contains(zone))
    }
}

#[async_trait]
impl Http for Compute {
    fn is_read(&self, request: &HttpRequest) -> bool {
        let tests = request.path.last().is_some_and(|last| last.ends_with(":testIamPermissions"));
        matches!(request.method.as_str(), "GET" | "HEAD") || tests
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let known = {
            let world = self.lock();
            world.endpoint == request.endpoint || world.manager.as_deref() == Some(request.endpoint.as_str())
        };
        if !known {
            return Err(HttpFailure {
                kind: HttpFailureKind::Denied,
                message: format!(
                    "endpoint {}: the entry's grant does not name it; add it under grants.http.endpoints",
                    request.endpoint
                ),
                sent: false,
            });
        }
        Ok(self.answer(request))
    }

    async fn info(&self, _: &str) -> Result<Value, HttpFailure> {
        Ok(json!({ "principal": "operator@project.iam.gserviceaccount.com" }))
    }
}
