//! What an administrator sees and does, and what a bad day does.

use egress_runtime::capability::HttpResponse;
use serde_json::{Value, json};

use super::{
    answers::{Refusal, json_response, page},
    api::Compute,
    operations::Begin,
    state::{Effect, OpError, RUNS_MS, Reserved, Vm, Weather, World},
};

/// An instance behind everybody's back.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The project's id.
    pub project: String,
    /// The zone's name.
    pub zone: String,
    /// Its own.
    pub name: String,
    /// All of it.
    pub vm: Vm,
}

/// What can be answered once instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// 403 rateLimitExceeded.
    RateLimited,
    /// 429, with so many seconds to wait.
    TooMany(u32),
    /// 401, in the newer form.
    Unauthorized,
    /// 403 accessNotConfigured.
    ApiOff,
    /// A page of something on the way.
    Html(u16),
    /// 503 backendError.
    Unavailable,
    /// 200, and something else than was asked for.
    Garbage,
    /// 400 resourceNotReady.
    NotReady,
    /// 412 conditionNotMet.
    Changed,
    /// 403 quotaExceeded.
    QuotaAtOnce,
}

impl Trouble {
    fn response(self) -> HttpResponse {
        match self {
            Self::RateLimited => Refusal::rate().response(),
            Self::TooMany(seconds) => {
                let mut response =
                    Refusal::new(429, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'.").response();
                response.headers.push(("retry-after".to_owned(), seconds.to_string()));
                response
            }
            Self::Unauthorized => {
                let error = json!({ "error": {
                    "code": 401, "status": "UNAUTHENTICATED",
                    "message": "Request had invalid authentication credentials.",
                } });
                json_response(401, &error)
            }
            Self::ApiOff => Refusal::new(
                403,
                "accessNotConfigured",
                "Access Not Configured. Compute Engine API has not been used in project 4711 before or it is disabled.",
            )
            .response(),
            Self::Html(status) => page(status),
            Self::Unavailable => Refusal::new(503, "backendError", "Backend Error").response(),
            Self::Garbage => json_response(200, &json!({ "kind": "something#else" })),
            Self::NotReady => Refusal::not_ready("projects/p/zones/z/instances/n").response(),
            Self::Changed => Refusal::changed().response(),
            Self::QuotaAtOnce => Refusal::new(403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0 globally.").response(),
        }
    }
}

impl OpError {
    /// No machines left in a zone.
    pub fn stockout(project: &str, zone: &str, free: &str) -> Self {
        Self {
            code: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS".to_owned(),
            message: format!(
                "The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the \
                 request.  Try a different zone, or try again later."
            ),
            status: 503,
            phrase: "SERVICE UNAVAILABLE",
            details: vec![
                json!({ "help": { "links": [{ "url": "https://cloud.google.com/compute/docs/resource-error" }] } }),
                json!({ "errorInfo": { "domain": "compute.googleapis.com", "reason": "resource_availability",
                    "metadatas": { "zone": zone, "zonesAvailable": free } } }),
            ],
        }
    }

    /// A limit was hit.
    pub fn quota(metric: &str, limit: f64, region: &str) -> Self {
        Self {
            code: "QUOTA_EXCEEDED".to_owned(),
            message: format!("Quota '{metric}' exceeded.  Limit: {limit:.1} in region {region}."),
            status: 403,
            phrase: "FORBIDDEN",
            details: vec![json!({ "quotaInfo": {
                "metricName": metric, "limitName": format!("{metric}-per-project-region"),
                "dimensions": { "region": region }, "limit": limit,
            } })],
        }
    }

    /// Any other.
    pub fn of(code: &str, message: &str, status: u64) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), status, phrase: "", details: Vec::new() }
    }
}

impl Compute {
    fn change<T>(&self, then: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.lock();
        world.settle();
        then(&mut world)
    }

    /// Every instance that can be seen.
    pub fn instances(&self) -> Vec<Seen> {
        self.change(|world| {
            let now = world.now();
            let all =
                world.projects.iter().flat_map(|(project, of)| of.vms.iter().map(move |vm| (project, vm)));
            all.filter(|(_, (_, vm))| vm.is_visible(now))
                .map(|(project, ((zone, name), vm))| Seen {
                    project: project.clone(),
                    zone: zone.clone(),
                    name: name.clone(),
                    vm: vm.clone(),
                })
                .collect()
        })
    }

    /// What a get would show of each rule, by name.
    pub fn rules(&self) -> Vec<Value> {
        self.change(|world| {
            world.projects.values().flat_map(|of| of.rules.values().map(|(_, rule)| rule.clone())).collect()
        })
    }

    /// Changes an instance wherever it stands; whether there is one.
    pub fn edit(&self, zone: &str, name: &str, change: impl FnOnce(&mut Vm)) -> bool {
        self.change(|world| {
            let key = (zone.to_owned(), name.to_owned());
            let vm = world.projects.values_mut().find_map(|of| of.vms.get_mut(&key));
            vm.map(change).is_some()
        })
    }

    /// Edits a rule.
    pub fn edit_rule(&self, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        self.change(|world| {
            let rule = world.projects.values_mut().find_map(|of| of.rules.get_mut(name));
            rule.map(|(_, rule)| change(rule)).is_some()
        })
    }

    /// Stops, suspends or forces any other status.
    pub fn force(&self, zone: &str, name: &str, status: &str) -> bool {
        let now = self.lock().now();
        self.edit(zone, name, |vm| {
            // Whatever comes up has come up before anybody does something to it.
            vm.runs_ms = vm.runs_ms.or(Some(now));
            vm.forced = (status != "RUNNING").then(|| status.to_owned());
        })
    }

    /// Removes it at once, and what was under way with it ends.
    pub fn remove(&self, zone: &str, name: &str) -> bool {
        self.change(|world| {
            let now = world.now();
            let key = (zone.to_owned(), name.to_owned());
            let target = format!("zones/{zone}/instances/{name}");
            world.projects.values_mut().any(|of| {
                let removed = of.vms.remove(&key).is_some();
                for op in
                    of.ops.iter_mut().filter(|op| removed && op.target == target && op.done_ms.is_none())
                {
                    op.due_ms = Some(now);
                    op.effect = Effect::None;
                }
                removed
            })
        })
    }

    /// Somebody deletes it, and something holds that up until it is let go.
    pub fn hold_removal(&self, zone: &str, name: &str) -> bool {
        self.change(|world| {
            let key = (zone.to_owned(), name.to_owned());
            let Some((project, number)) = world.projects.iter_mut().find_map(|(project, of)| {
                let vm = of.vms.get_mut(&key)?;
                vm.deleting = true;
                Some((project.clone(), vm.number))
            }) else {
                return false;
            };
            let begin = Begin {
                kind: "delete",
                zone: Some(zone),
                target: format!("zones/{zone}/instances/{name}"),
                target_number: number,
                lasts_ms: None,
                error: None,
                effect: Effect::Delete,
            };
            world.begin(&project, None, begin);
            true
        })
    }

    /// Lets held removals go on.
    pub fn let_go(&self) {
        self.change(|world| world.release(|op| op.kind == "delete"));
    }

    /// Whether what is inserted or started comes up.
    pub fn never_start(&self, never: bool) {
        self.change(|world| {
            world.weather.never_starts = never;
            if !never {
                world.release(|op| op.kind != "delete");
                // What was started before the insert's operation was forgotten.
                let now = world.now();
                let late = world.projects.values_mut().flat_map(|of| of.vms.values_mut());
                late.filter(|vm| vm.runs_ms.is_none()).for_each(|vm| vm.runs_ms = Some(now + RUNS_MS));
            }
        });
    }

    /// A quota's limit in every region; none puts a generous one back.
    pub fn limit(&self, metric: &str, limit: Option<f64>) {
        self.change(|world| {
            for region in world.projects.values_mut().flat_map(|of| of.regions.values_mut()) {
                region.limits.insert(metric.to_owned(), limit.unwrap_or(6_000.0));
            }
        });
    }

    /// Nobody has these permissions from now on.
    pub fn forbid(&self, permissions: &[&str]) {
        self.change(|world| {
            for of in world.projects.values_mut() {
                of.forbidden = permissions.iter().map(|permission| (*permission).to_owned()).collect();
            }
        });
    }

    /// Whatever else the day is like.
    pub fn weather(&self, change: impl FnOnce(&mut Weather)) {
        self.change(|world| change(&mut world.weather));
    }

    /// A region that is down, or hides its quotas.
    pub fn region(&self, name: &str, is_down: bool, hides_quotas: bool) {
        self.change(|world| {
            for region in world.projects.values_mut().filter_map(|of| of.regions.get_mut(name)) {
                region.is_down = is_down;
                region.hides_quotas = hides_quotas;
            }
        });
    }

    /// The next request of this method whose path ends so is answered so.
    pub fn answer_next(&self, method: &str, path_ends: &str, trouble: Trouble) {
        self.change(|world| {
            let planned = (method.to_owned(), path_ends.to_owned(), trouble.response());
            world.weather.answers.push_back(planned);
        });
    }

    /// An address is reserved.
    pub fn reserve(&self, region: &str, name: &str, address: &str) {
        self.change(|world| {
            for of in world.projects.values_mut() {
                let reserved = Reserved { region: region.to_owned(), address: address.to_owned() };
                of.addresses.insert(name.to_owned(), reserved);
            }
        });
    }

    /// A Spot machine is taken away: it stops, or goes. An operation says so.
    pub fn preempt(&self, zone: &str, name: &str) -> bool {
        let found = self.instances().into_iter().find(|seen| seen.zone == zone && seen.name == name);
        let Some(seen) = found else { return false };
        self.change(|world| {
            let begin = Begin {
                kind: "compute.instances.preempted",
                zone: Some(zone),
                target: format!("zones/{zone}/instances/{name}"),
                target_number: seen.vm.number,
                lasts_ms: Some(0),
                error: None,
                effect: Effect::None,
            };
            world.begin(&seen.project, None, begin);
            world.settle();
        });
        let action = seen.vm.body.pointer("/scheduling/instanceTerminationAction").and_then(Value::as_str);
        match action {
            Some("DELETE") => self.remove(zone, name),
            _ => self.force(zone, name, "TERMINATED"),
        }
    }

    /// Forgets what ended operations were: their retention is not documented.
    pub fn forget_operations(&self) {
        self.change(|world| {
            for of in world.projects.values_mut() {
                of.ops.retain(|op| op.done_ms.is_none());
            }
        });
    }

    /// How many operations of this kind there were.
    pub fn operations(&self, kind: &str) -> usize {
        self.change(|world| {
            world.projects.values().flat_map(|of| &of.ops).filter(|op| op.kind == kind).count()
        })
    }
}
