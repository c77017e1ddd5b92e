//! A plain double of a backend and its provider: instances by name, with what belongs to them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::{
    Address, Created, Deleted, Error, ErrorClass, Health, Instance, Mark, Page, Pending, Provider, Spec,
    State, Target,
};

use crate::core::{
    budget::ReplaceConfig,
    memory::MemoryStore,
    store::{ActiveProvider, Inactive, Providers, ProxyKey},
    tests::world::point,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub uid: String,
    pub incarnation: u32,
    pub state: State,
    pub port: u16,
    pub user_data: Vec<u8>,
    /// Steps of create that are still to come.
    pub steps_left: u32,
    pub address: bool,
    /// It can't be started again.
    pub finished: bool,
}

/// When a scripted failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

#[derive(Default)]
pub struct Inner {
    pub machines: BTreeMap<String, Machine>,
    /// What an instance needs beside it: made first, removed last.
    pub secrets: BTreeSet<String>,
    /// Clones that the backend is at: by name, what they become. They end by themselves.
    pub tasks: BTreeMap<String, Machine>,
    /// Every call, as `create proxy-...`.
    pub log: Vec<String>,
    /// Failures of the calls to come; None lets one pass.
    pub script: VecDeque<Option<(When, Error)>>,
    pub create_steps: u32,
    pub delete_steps: u32,
    /// Whether a call has its effect at once, so that nothing comes between its begin and that.
    pub at_once: bool,
    /// A port that no create takes.
    pub refused: Option<(u16, Error)>,
    /// Whether a machine that was made gets an address by itself.
    pub addresses: bool,
    /// Targets of the last calls.
    pub targets: Vec<Target>,
    /// What was found wrong; asserted empty by the tests.
    pub faults: Vec<String>,
}

impl Inner {
    /// The backend is done with a clone.
    fn land(&mut self, name: &str) -> bool {
        let landed = self.tasks.remove(name);
        landed.map(|machine| self.machines.insert(name.to_owned(), machine)).is_some()
    }

    /// Whatever the backend is at, it ends.
    fn settle(&mut self) {
        self.machines.append(&mut self.tasks);
    }
}

pub struct Backend {
    inner: Mutex<Inner>,
    /// To see, at the moment when a create begins, whether the status still wants it.
    store: Arc<MemoryStore>,
}

impl Backend {
    pub fn new(store: Arc<MemoryStore>) -> Self {
        let inner = Inner { create_steps: 2, delete_steps: 2, addresses: true, ..Inner::default() };
        Self { inner: Mutex::new(inner), store }
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        self.inner().machines.keys().cloned().collect()
    }

    pub fn log(&self) -> Vec<String> {
        self.inner().log.clone()
    }

    pub fn clear_log(&self) {
        self.inner().log.clear();
    }

    pub fn calls(&self, method: &str) -> usize {
        self.inner().log.iter().filter(|line| line.starts_with(method)).count()
    }

    pub fn runs(&self, name: &str) -> bool {
        self.inner().machines.get(name).is_some_and(|m| m.state == State::Running)
    }

    pub fn machine(&self, name: &str, change: impl FnOnce(&mut Machine)) {
        change(self.inner().machines.get_mut(name).unwrap());
    }

    /// The next calls fail so.
    pub fn fail(&self, failures: impl IntoIterator<Item = (When, Error)>) {
        self.inner().script.extend(failures.into_iter().map(Some));
    }

    /// So many calls pass, the next one fails so.
    pub fn pass_then_fail(&self, pass: usize, failure: (When, Error)) {
        let passed = std::iter::repeat_n(None, pass);
        self.inner().script.extend(passed.chain([Some(failure)]));
    }

    /// Every call from here on, until `unfail`.
    pub fn fail_always(&self, error: &Error) {
        self.fail(std::iter::repeat_n((When::Before, error.clone()), 10_000));
    }

    /// Every create with this port fails so.
    pub fn refuse_port(&self, port: u16, error: Error) {
        self.inner().refused = Some((port, error));
    }

    pub fn unfail(&self) {
        self.inner().script.clear();
    }

    /// Nothing is wrong, and nothing stands without its owner.
    pub fn assert_empty(&self) {
        let mut inner = self.inner();
        inner.settle();
        assert_eq!(inner.faults, Vec::<String>::new());
        assert!(
            inner.machines.is_empty() && inner.secrets.is_empty(),
            "{:?} {:?}",
            inner.machines,
            inner.secrets
        );
    }

    /// Exactly this instance runs, with what belongs to it.
    pub fn assert_only(&self, name: &str) {
        let mut inner = self.inner();
        inner.settle();
        assert_eq!(inner.faults, Vec::<String>::new());
        assert_eq!(inner.machines.keys().collect::<Vec<_>>(), [name]);
        assert_eq!(inner.secrets.iter().collect::<Vec<_>>(), [name]);
        assert!(inner.machines.values().all(|m| m.state == State::Running));
    }

    async fn call<T>(
        &self,
        method: &str,
        target: &Target,
        effect: impl FnOnce(&mut Inner) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let failure = {
            let mut inner = self.inner();
            inner.log.push(format!("{method} {}", target.name));
            inner.targets.push(target.clone());
            inner.script.pop_front().flatten()
        };
        let answer = match failure {
            Some((When::Before, error)) => Err(error),
            Some((When::After, error)) => effect(&mut self.inner()).and(Err(error)),
            None => effect(&mut self.inner()),
        };
        point().await;
        answer
    }

    async fn travel(&self) {
        if !self.inner().at_once {
            point().await;
        }
    }

    /// A create may begin only while the status wants just this instance.
    fn check_wanted(&self, target: &Target) {
        let key = ProxyKey { namespace: target.namespace.clone(), name: target.proxy.clone() };
        let record = self.store.peek(&key);
        let instance = record.and_then(|r| r.status.instance);
        let wanted = instance.is_some_and(|i| i.name == target.name.as_str() && !i.deleting);
        if !wanted {
            self.inner().faults.push(format!("create of {} began although it was given up", target.name));
        }
    }
}

fn ours(machine: &Machine, target: &Target) -> Result<(), Error> {
    if (&machine.uid, machine.incarnation) == (&target.uid, target.incarnation) {
        Ok(())
    } else {
        Err(Error::permanent("foreign", format!("{} bears another mark", target.name)))
    }
}

fn pending(progress: String, id: &str) -> Pending {
    Pending {
        id: Some(id.to_owned()),
        progress,
        poll: Duration::from_millis(500),
        message: "at work".to_owned(),
    }
}

#[async_trait]
impl Provider for Backend {
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        self.check_wanted(target);
        let name = target.name.to_string();
        self.travel().await;
        self.call("create", target, |inner| {
            if let Some((_, error)) = inner.refused.as_ref().filter(|(port, _)| *port == spec.port) {
                return Err(error.clone());
            }
            inner.secrets.insert(name.clone());
            let id = format!("id-{name}");
            let Some(machine) = inner.machines.get_mut(&name) else {
                if inner.land(&name) {
                    return Ok(Created::Pending(pending("create landed".into(), &id)));
                }
                // Said before it is used: a delete finds the task by this, and by nothing else.
                if target.progress.as_deref().is_none_or(|p| !p.starts_with("create")) {
                    return Ok(Created::Pending(pending("create reserved".into(), &id)));
                }
                let machine = Machine {
                    uid: target.uid.clone(),
                    incarnation: target.incarnation,
                    state: State::Provisioning,
                    port: spec.port,
                    user_data: user_data.to_vec(),
                    steps_left: inner.create_steps,
                    address: inner.addresses,
                    finished: false,
                };
                inner.tasks.insert(name.clone(), machine);
                return Ok(Created::Pending(pending("create task".into(), &id)));
            };
            ours(machine, target)?;
            if machine.finished {
                return Err(Error::permanent("finished", format!("{name} has finished")));
            }
            if machine.state == State::Deleting {
                return Err(Error::transient("deleting", format!("{name} is being removed")));
            }
            if machine.steps_left > 0 {
                machine.steps_left -= 1;
                return Ok(Created::Pending(pending(format!("create {}", machine.steps_left), &id)));
            }
            machine.state = State::Running;
            Ok(Created::Done(id))
        })
        .await
    }

    async fn get(&self, target: &Target) -> Result<Instance, Error> {
        let name = target.name.to_string();
        self.travel().await;
        self.call("get", target, |inner| {
            let gone = || Error::new(ErrorClass::NotFound, "gone", format!("no machine {name}"));
            let machine = inner.machines.get(&name).ok_or_else(gone)?;
            ours(machine, target)?;
            let addresses = match machine.address {
                true => vec![Address { kind: "internal".into(), ip: "10.0.0.7".into() }],
                false => Vec::new(),
            };
            Ok(Instance {
                id: format!("id-{name}"),
                state: machine.state,
                addresses,
                mark: Mark::new(),
                created_ms: None,
                reason: String::new(),
                message: String::new(),
                details: serde_json::json!({}),
            })
        })
        .await
    }

    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        let name = target.name.to_string();
        self.travel().await;
        self.call("delete", target, |inner| {
            let (steps, id) = (inner.delete_steps, format!("id-{name}"));
            if target.progress.as_deref().is_some_and(|p| p.starts_with("create")) && inner.land(&name) {
                return Ok(Deleted::Pending(pending("delete after create".into(), &id)));
            }
            if let Some(machine) = inner.machines.get_mut(&name) {
                ours(machine, target)?;
                if machine.state != State::Deleting {
                    machine.state = State::Deleting;
                    machine.steps_left = steps;
                }
                if machine.steps_left > 0 {
                    machine.steps_left -= 1;
                    return Ok(Deleted::Pending(pending(format!("delete {}", machine.steps_left), &id)));
                }
                inner.machines.remove(&name);
                return Ok(Deleted::Pending(pending("delete secret".into(), &id)));
            }
            inner.secrets.remove(&name);
            Ok(Deleted::Done)
        })
        .await
    }

    async fn list(&self, _place: &str, _cursor: Option<&str>) -> Result<Page, Error> {
        Ok(Page::default())
    }

    async fn check(&self, _place: &str) -> Result<Health, Error> {
        Err(Error::transient("backend", "not asked here"))
    }
}

/// Entries that a test sets and takes away.
#[derive(Clone, Default)]
pub struct Entries(Arc<Mutex<BTreeMap<String, Result<ActiveProvider, Inactive>>>>);

impl Entries {
    pub fn set(&self, entry: &str, to: Option<(Arc<Backend>, &str)>) {
        let mut entries = self.0.lock().unwrap();
        match to {
            Some((provider, revision)) => {
                let active = ActiveProvider {
                    provider,
                    revision: revision.to_owned(),
                    listed: true,
                    replace: ReplaceConfig::default(),
                    health: None,
                    recoveries: Arc::default(),
                    former: None,
                    canary: None,
                };
                entries.insert(entry.to_owned(), Ok(active))
            }
            None => entries.remove(entry),
        };
    }

    /// As the entry says, and as its places were found.
    pub fn change(&self, entry: &str, change: impl FnOnce(&mut ActiveProvider)) {
        if let Some(Ok(active)) = self.0.lock().unwrap().get_mut(entry) {
            change(active);
        }
    }

    /// As in a process that has just begun.
    pub fn starting(&self, entry: &str) {
        self.0.lock().unwrap().insert(entry.to_owned(), Err(Inactive::Starting));
    }

    /// As after the entry's key was taken away.
    pub fn unlist(&self, entry: &str) {
        if let Some(Ok(active)) = self.0.lock().unwrap().get_mut(entry) {
            active.listed = false;
        }
    }
}

impl Providers for Entries {
    fn active(&self, entry: &str) -> Result<ActiveProvider, Inactive> {
        let missing = || Err(Inactive::Missing("the ConfigMap has no such key".to_owned()));
        self.0.lock().unwrap().get(entry).cloned().unwrap_or_else(missing)
    }
}
