//! The simulated project, behind the provider's back.
//!
//! Firewall rules are no part of the inventory: they belong to an entry and stay when the last instance goes, until
//! the collector takes them. Tests of their own look at them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use egress_runtime::capability::{Http, HttpBody, HttpRequest};
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    clock::VirtualClock,
    compute::{Compute, ComputeSpec, Seen},
};
use serde_json::{Value, json};

const INSTANCE: &str = "instance";
/// Somebody else's.
const SOMEBODYS: &str = "somebodys";
/// Stands in somebody else's machine.
const SECRET: &str = "startup-password-of-somebody-else-0815";
/// Of our labels.
const PREFIX: &str = "egressproxies-";
/// Beside the mark.
const FIREWALL: &str = "egressproxies-firewall";
/// So long until what was there before is up.
const BEFORE: Duration = Duration::from_secs(60);
const WRITES: [&str; 6] = [
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.start",
    "compute.instances.setLabels",
    "compute.firewalls.create",
    "compute.firewalls.delete",
];

/// See the module.
pub struct Simulated {
    compute: Compute,
    clock: VirtualClock,
    project: String,
}

impl Simulated {
    /// Furnishes the project with a machine of somebody else's.
    pub async fn new(clock: VirtualClock, project: &str, spec: &ComputeSpec) -> Result<Self, Unable> {
        let compute = Compute::new(Arc::new(clock.clone()), spec);
        let zones = spec.projects.get(project).map(Vec::as_slice).unwrap_or_default();
        if let Some(zone) = zones.first() {
            let body = json!({
                "name": SOMEBODYS,
                "description": SECRET,
                "machineType": format!("zones/{zone}/machineTypes/e2-small"),
                "labels": { "team": "web" },
                "metadata": { "items": [{ "key": "startup-script", "value": SECRET }] },
                "disks": [{ "initializeParams": { "sourceImage": "projects/p/global/images/x" } }],
                "networkInterfaces": [{}],
            });
            let path = ["projects", project, "zones", zone, "instances"];
            let request = HttpRequest {
                endpoint: spec.endpoint.clone(),
                method: "POST".to_owned(),
                path: path.map(str::to_owned).to_vec(),
                body: HttpBody::Bytes(body.to_string().into_bytes()),
                ..HttpRequest::default()
            };
            let answer = compute.send(&request).await.map_err(|failure| Unable::Failed(failure.message))?;
            if answer.status != 200 {
                return Err(Unable::Failed(String::from_utf8_lossy(&answer.body).into_owned()));
            }
            clock.advance(BEFORE);
        }
        Ok(Self { compute, clock, project: project.to_owned() })
    }

    /// Another one that is now as this one is.
    pub fn copy(&self) -> Self {
        let clock = VirtualClock::at(self.clock.elapsed());
        let compute = self.compute.copy(Arc::new(clock.clone()));
        Self { compute, clock, project: self.project.clone() }
    }

    /// What is behind it.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Its time.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// The place.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// What must not come out.
    pub fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned()]
    }

    fn find(&self, on: &Thing) -> Result<Seen, Unable> {
        let found = self.compute.instances().into_iter().find(|seen| seen.name == on.name);
        found.ok_or_else(|| Unable::Failed(format!("there is no {on}")))
    }
}

fn thing(seen: &Seen) -> Thing {
    let mark = seen.vm.labels.iter().filter(|(key, _)| *key != FIREWALL);
    let mut mark: Vec<(String, String)> =
        mark.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value.clone()))).collect();
    mark.sort();
    Thing {
        kind: INSTANCE.to_owned(),
        place: seen.project.clone(),
        name: seen.name.clone(),
        instance: true,
        deleting: seen.vm.deleting,
        mark,
        content: format!("{} {} {:?}", seen.zone, seen.vm.number, seen.vm.labels),
    }
}

#[async_trait]
impl Backend for Simulated {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        let all = self.compute.instances();
        let mut things: Vec<Thing> = all.iter().filter(|seen| seen.name != SOMEBODYS).map(thing).collect();
        things.sort();
        Ok(things)
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        let Seen { zone, name, .. } = self.find(on)?;
        let labels = |change: &dyn Fn(&str, &str) -> Option<String>| {
            self.compute.edit(&zone, &name, |vm| {
                let kept =
                    vm.labels.iter().filter_map(|(key, value)| Some((key.clone(), change(key, value)?)));
                vm.labels = kept.collect();
                vm.label_version += 1;
            })
        };
        let done = match action {
            Action::Remove => self.compute.remove(&zone, &name),
            Action::HoldRemoval => self.compute.hold_removal(&zone, &name),
            Action::LetGo => {
                self.compute.let_go();
                true
            }
            Action::Pause => self.compute.force(&zone, &name, "SUSPENDED"),
            Action::Resume => self.compute.force(&zone, &name, "RUNNING"),
            Action::Stop => self.compute.force(&zone, &name, "TERMINATED"),
            Action::Bewitch => self.compute.force(&zone, &name, "QUANTUM"),
            Action::TakeAddresses => self.compute.edit(&zone, &name, |vm| vm.silent = true),
            Action::EditMark { from, to } => labels(&|_, value| Some(value.replace(from, to))),
            Action::Unmark => labels(&|key, value| (!key.starts_with(PREFIX)).then(|| value.to_owned())),
            Action::Finish => {
                return Err(Unable::NotHere("any instance can be started again".to_owned()));
            }
        };
        if done { Ok(()) } else { Err(Unable::Failed(format!("there is no {on}"))) }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.compute.never_start(true),
            Condition::Full => self.compute.limit("INSTANCES", Some(0.0)),
            Condition::RightsMissing => self.compute.forbid(&WRITES),
            Condition::CursorsExpire => self.compute.weather(|weather| weather.tokens_expire = true),
        }
        Ok(())
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.compute.never_start(false),
            Condition::Full => self.compute.limit("INSTANCES", None),
            Condition::RightsMissing => self.compute.forbid(&[]),
            Condition::CursorsExpire => self.compute.weather(|weather| weather.tokens_expire = false),
        }
        Ok(())
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        let seen = self.find(of)?;
        let items =
            seen.vm.body.pointer("/metadata/items").and_then(Value::as_array).cloned().unwrap_or_default();
        let item = |key: &str| {
            let found = items.iter().find(|item| item.get("key").is_some_and(|found| found == key));
            found.and_then(|item| item.get("value")?.as_str().map(str::to_owned))
        };
        let encoded = item("user-data-encoding").is_some_and(|encoding| encoding == "base64");
        let decoded = |value: String| match encoded {
            true => STANDARD.decode(&value).map_err(|error| Unable::Failed(error.to_string())),
            false => Ok(value.into_bytes()),
        };
        item("user-data").map(decoded).transpose()
    }

    async fn let_time_pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}
