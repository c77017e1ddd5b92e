//! One host with the component, one simulated project behind it, and whatever a test does to both.

use std::sync::{Arc, LazyLock};

use egress_conformance::{
    host::Host,
    kind::gcp::{Simulated, SimulatedCompute, around},
    proxy::Proxy,
    stage::{Stage, Subject},
};
use egress_contract::{Created, Deleted, Error};
use egress_runtime::{Limits, Module};
use egress_sim::compute::{Compute, Seen};
use serde_json::Value;

use crate::support::{component, runtime};

static COMPONENT: LazyLock<Module> = LazyLock::new(|| component("gcp-provider"));
/// Nothing takes longer in steps.
const MOST_STEPS: usize = 60;

/// See the module.
pub struct Lab {
    pub stage: Stage,
    pub host: Host,
    pub backend: Arc<Simulated>,
    pub proxy: Proxy,
}

/// What was said, in the order of the status: class, reason, message.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub class: String,
    pub reason: String,
    pub message: String,
}

impl Told {
    pub fn new(class: &str, reason: &str, message: String) -> Self {
        Self { class: class.to_owned(), reason: reason.to_owned(), message }
    }

    pub fn of(error: &Error) -> Self {
        let details = error.details.to_string();
        Self::new(error.class.as_str(), &error.reason, format!("{} {details}", error.message))
    }
}

impl Lab {
    pub async fn new(config: &Value) -> Self {
        let kind = SimulatedCompute::of(config).unwrap();
        let backend = Arc::new(kind.backend().await.unwrap());
        let subject = Subject {
            entry: "conformance".parse().unwrap(),
            module: COMPONENT.clone(),
            config: config.clone(),
            grants: Value::Null,
            limits: Limits::default(),
            legacy: vec![vec![("proxy-operator-managed".to_owned(), "true".to_owned())]],
        };
        let stage = Stage::new(runtime(), subject, around(Arc::clone(&backend)));
        let host = stage.host("a").await.unwrap();
        Self { proxy: stage.proxy(1), stage, host, backend }
    }

    pub fn compute(&self) -> &Compute {
        self.backend.compute()
    }

    /// The Proxy's VM.
    pub fn vm(&self) -> Seen {
        let name = self.proxy.name().to_string();
        self.compute().instances().into_iter().find(|seen| seen.name == name).unwrap()
    }

    pub async fn make(&mut self) {
        self.host.make(&mut self.proxy).await.unwrap();
        self.pass(60).await;
    }

    pub async fn pass(&self, seconds: u64) {
        self.stage.wait(std::time::Duration::from_secs(seconds)).await;
    }

    /// Create until it fails, is done, or says this while it is pending.
    pub async fn create_until(&mut self, says: Option<&str>) -> Told {
        for _ in 0..MOST_STEPS {
            match self.host.create_step(&mut self.proxy).await.unwrap().answer {
                Err(error) => return Told::of(&error),
                Ok(Created::Done(id)) => return Told::new("done", "", id),
                Ok(Created::Pending(step)) if says.is_some_and(|says| step.message.contains(says)) => {
                    return Told::new("pending", "", step.message);
                }
                Ok(Created::Pending(step)) => self.stage.wait(step.poll).await,
            }
        }
        panic!("create neither fails nor is done");
    }

    /// The same of delete.
    pub async fn delete_until(&mut self, says: Option<&str>) -> Told {
        for _ in 0..MOST_STEPS {
            match self.host.delete_step(&mut self.proxy).await.unwrap().answer {
                Err(error) => return Told::of(&error),
                Ok(Deleted::Done) => return Told::new("done", "", String::new()),
                Ok(Deleted::Pending(step)) if says.is_some_and(|says| step.message.contains(says)) => {
                    return Told::new("pending", "", step.message);
                }
                Ok(Deleted::Pending(step)) => self.stage.wait(step.poll).await,
            }
        }
        panic!("delete neither fails nor is done");
    }

    pub async fn get(&self) -> Told {
        match self.host.get(&self.proxy).await.unwrap().answer {
            Err(error) => Told::of(&error),
            Ok(instance) => {
                let state = format!("{:?}", instance.state).to_lowercase();
                let ips: Vec<&str> = instance.addresses.iter().map(|address| address.ip.as_str()).collect();
                Told::new(&state, &instance.reason, format!("{} {}", instance.message, ips.join(" ")))
            }
        }
    }

    pub async fn list(&self) -> Told {
        match self.host.list_place("lab-project").await.unwrap() {
            Err(error) => Told::of(&error),
            Ok(listed) if listed.unread.is_empty() => Told::new("listed", "", listed.items.len().to_string()),
            Ok(listed) => Told::new("unread", "", listed.unread.join("; ")),
        }
    }

    pub async fn check(&self) -> Told {
        let health = self.host.check("lab-project").await.unwrap().answer.unwrap();
        let class = if health.ready { "ready" } else { "not ready" };
        Told::new(class, &health.reason, format!("{} {}", health.message, health.details))
    }

    /// How many requests were sent since this number.
    pub fn requests_since(&self, number: u64) -> usize {
        let lines = self.stage.journal().lines();
        lines.iter().filter(|line| line.number > number && line.is_host_call()).count()
    }

    /// The newest number.
    pub fn last(&self) -> u64 {
        self.stage.journal().last()
    }
}
