//! The canary: a revision that makes the next few Proxies before it gets all calls.
//!
//! The shadow stage only looks, so what breaks in `create` is found by creates: of so many Proxies and no more. Who they
//! are is read from their statuses, which a process that ends leaves behind: an instance that the candidate began since
//! its trial did. This holds what was read last, so that no more get a place than may; whoever judges reads all of them
//! anew before, live.
//!
//! A candidate that refuses a Proxy may be right: the Proxy then goes on by the revision that is active. If that refuses
//! it, too, its place is free again; if that makes it, the candidate is wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use egress_contract::{ErrorClass, Provider};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{
    api::{Failure, InstanceStatus, ProxyStatus},
    core::{backoff, conditions, store::ProxyKey},
};

/// `rollout` of an entry, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Rollout {
    /// Proxies that a new revision makes before it gets all calls.
    pub first_proxies: u32,
    /// How long each of them may take until it is ready.
    pub within_seconds: u32,
}

impl Default for Rollout {
    fn default() -> Self {
        Self { first_proxies: 1, within_seconds: 600 }
    }
}

/// What a create failed with, when the host blames the component for it.
const BLAMED: [&str; 2] = ["trap", "contract-violation"];

/// How one Proxy of a canary does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The candidate did not make it.
    Other,
    /// It is being made, since then.
    Making(Timestamp),
    /// It serves.
    Ready,
    /// The candidate refuses to make it, which may be right: the revision that is active is to say.
    Doubted(String),
    /// What went wrong.
    Broken(String),
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Of which entry.
    pub entry: String,
    /// Its id.
    pub revision: String,
}

/// Read from a status alone. `since` is when the candidate's trial began.
pub fn standing(status: &ProxyStatus, deleting: bool, of: &Candidate, since: Timestamp) -> Standing {
    let Some(instance) = status.instance.as_ref().filter(|i| !deleting && of.made(i, since)) else {
        return Standing::Other;
    };
    let failure = status.failure.as_ref();
    if instance.deleting {
        // Whoever asks for its end blames nobody.
        return match failure.filter(|failure| backoff::holds_up_restart(failure)) {
            Some(failure) => Standing::Broken(failure.message.clone()),
            None => Standing::Other,
        };
    }
    let told = |failure: &Failure| format!("create failed ({}): {}", failure.reason, failure.message);
    match failure.map(|failure| (failure, backoff::failed_to_create(failure))) {
        Some((failure, Some(by))) if by == of.revision => {
            if BLAMED.contains(&failure.reason.as_str()) {
                return Standing::Broken(told(failure));
            }
            if is_refusal(failure) {
                return Standing::Doubted(told(failure));
            }
        }
        // What another revision was at proves nothing, for or against.
        Some((_, Some(_))) => return Standing::Other,
        Some((_, None)) | None => {}
    }
    if instance.created && status.revision.as_deref() != Some(of.revision.as_str()) {
        return Standing::Other;
    }
    match conditions::is_ready(status) {
        true => Standing::Ready,
        false => Standing::Making(begun(instance).unwrap_or(since)),
    }
}

/// What does not pass by itself: the component may be wrong, or the Proxy, or a quota is used up.
fn is_refusal(failure: &Failure) -> bool {
    [ErrorClass::Permanent, ErrorClass::QuotaExceeded].iter().any(|class| failure.class == class.as_str())
}

/// What the active revision says of a Proxy that the candidate refused.
enum Word {
    /// Nothing yet.
    None,
    /// The same: it is no word on the candidate.
    Refused,
    /// It makes it.
    Made,
}

fn word(status: &ProxyStatus, deleting: bool, of: &Candidate) -> Word {
    if deleting || status.instance.as_ref().is_none_or(|instance| instance.deleting) {
        return Word::Refused;
    }
    let of_create = status.failure.as_ref().and_then(|f| Some((f, backoff::failed_to_create(f)?)));
    match of_create {
        Some((_, by)) if by == of.revision => Word::None,
        Some((failure, _)) if is_refusal(failure) => Word::Refused,
        Some(_) => Word::None,
        // Its step that went through took the failure away.
        None => Word::Made,
    }
}

/// Its instance is about to be begun: until that is stored, it is never late.
const TAKEN: Standing = Standing::Making(Timestamp::MAX);

fn begun(instance: &InstanceStatus) -> Option<Timestamp> {
    instance.begun.as_ref().map(|begun| begun.0)
}

impl Candidate {
    fn made(&self, instance: &InstanceStatus, since: Timestamp) -> bool {
        self.began(instance) && begun(instance).is_some_and(|begun| begun >= since)
    }

    fn began(&self, instance: &InstanceStatus) -> bool {
        instance.provider == self.entry && instance.created_by.as_deref() == Some(self.revision.as_str())
    }
}

/// Whether a place is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is taken, for this Proxy.
    Taken,
    /// There is none, or none any more.
    None,
    /// It is not known yet who has one.
    Unknown,
}

/// What the Proxies say of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet; at that time one of them is late.
    Wait(Option<Timestamp>),
    /// As many as were asked for are ready.
    Adopt,
    /// One of them is not as it should be: which, and why.
    PutAside(String),
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Doors {
    /// Those that exist are being read.
    #[default]
    Opening,
    Open,
    /// It can't be found out who has a place, or there are to be no more.
    Shut,
}

#[derive(Default)]
struct State {
    rollout: Rollout,
    /// When the trial began, once that is stored.
    since: Option<Timestamp>,
    doors: Doors,
    /// It was adopted or put aside.
    over: bool,
    /// What went wrong with one of them: that stays, whatever becomes of it.
    broken: Option<String>,
    standings: BTreeMap<ProxyKey, Standing>,
    /// Those that it refused, until the active revision has said what it makes of them.
    doubted: BTreeMap<ProxyKey, String>,
    /// Seen after the reading of all began.
    newer: BTreeSet<ProxyKey>,
}

fn keep_broken(broken: &mut Option<String>, key: &ProxyKey, standing: &Standing) {
    if let Standing::Broken(why) = standing {
        broken.get_or_insert_with(|| format!("{key}: {why}"));
    }
}

impl State {
    /// How one does, with what was heard of it before.
    fn weigh(
        &mut self,
        key: &ProxyKey,
        (status, deleting): (&ProxyStatus, bool),
        of: &Candidate,
    ) -> Standing {
        let Some(since) = self.since else { return Standing::Other };
        let now = standing(status, deleting, of, since);
        if let Standing::Doubted(why) = &now {
            self.doubted.entry(key.clone()).or_insert_with(|| why.clone());
            return now;
        }
        let Some(why) = self.doubted.get(key).cloned() else { return now };
        match word(status, deleting, of) {
            Word::None => Standing::Doubted(why),
            Word::Refused => {
                self.doubted.remove(key);
                Standing::Other
            }
            Word::Made => {
                self.doubted.remove(key);
                Standing::Broken(format!("{why}; the active revision makes it"))
            }
        }
    }
}

/// A candidate in its trial.
pub struct Canary {
    /// What makes these Proxies; none while it is being loaded.
    pub provider: Option<Arc<dyn Provider>>,
    /// Which it is.
    pub of: Candidate,
    state: Mutex<State>,
    changed: Notify,
}

impl Canary {
    /// Which gives no place yet.
    pub fn new(provider: Option<Arc<dyn Provider>>, of: Candidate, rollout: Rollout) -> Self {
        let state = State { rollout, ..State::default() };
        Self { provider, of, state: Mutex::new(state), changed: Notify::new() }
    }

    /// What the entry says by now.
    pub fn set_rollout(&self, rollout: Rollout) {
        self.state().rollout = rollout;
    }

    /// From now on what is seen counts; a reading of all follows.
    pub fn begin(&self, since: Timestamp) {
        let mut state = self.state();
        state.doors = Doors::Opening;
        state.since = Some(since);
        state.newer.clear();
    }

    /// All are read once more.
    pub fn reread(&self) {
        self.state().newer.clear();
    }

    /// No more places.
    pub fn shut(&self) {
        self.state().doors = Doors::Shut;
    }

    /// All that exist, as they were read since [`Self::begin`] or [`Self::reread`]; there are places, unless they were
    /// shut meanwhile.
    pub fn open(&self, all: impl IntoIterator<Item = (ProxyKey, ProxyStatus, bool)>) {
        let mut state = self.state();
        if state.since.is_none() {
            return;
        }
        let State { standings, newer, doubted, .. } = &mut *state;
        standings.retain(|key, standing| newer.contains(key) || *standing == TAKEN);
        let mut gone: BTreeSet<_> = doubted.keys().filter(|key| !newer.contains(key)).cloned().collect();
        for (key, status, deleting) in all {
            gone.remove(&key);
            if state.newer.contains(&key) {
                continue;
            }
            match state.weigh(&key, (&status, deleting), &self.of) {
                Standing::Other => {}
                standing => {
                    keep_broken(&mut state.broken, &key, &standing);
                    state.standings.insert(key, standing);
                }
            }
        }
        state.doubted.retain(|key, _| !gone.contains(key));
        if state.doors == Doors::Opening {
            state.doors = Doors::Open;
        }
    }

    /// Somebody else leads: he gives places.
    pub fn close(&self) {
        let mut state = self.state();
        *state = State { rollout: state.rollout, over: state.over, ..State::default() };
    }

    /// It makes nothing more.
    pub fn end(&self) {
        self.state().over = true;
    }

    /// A place for a Proxy whose instance is about to be begun.
    pub fn take(&self, key: &ProxyKey) -> Place {
        let mut state = self.state();
        match (state.over, state.doors) {
            (true, _) | (false, Doors::Shut) => return Place::None,
            (false, Doors::Opening) => return Place::Unknown,
            (false, Doors::Open) => {}
        }
        let most = usize::try_from(state.rollout.first_proxies).unwrap_or(usize::MAX);
        if !state.standings.contains_key(key) && state.standings.len() >= most {
            return Place::None;
        }
        state.newer.insert(key.clone());
        state.standings.entry(key.clone()).or_insert(TAKEN);
        Place::Taken
    }

    /// Whether a step of create goes to the candidate.
    pub fn makes(&self, key: &ProxyKey, status: &ProxyStatus) -> bool {
        let state = self.state();
        let failure = status.failure.as_ref().and_then(backoff::failed_to_create);
        if state.doubted.contains_key(key) || failure.is_some_and(|by| by != self.of.revision) {
            return false;
        }
        // Before it is known when the trial began: who follows another process goes on with what that began.
        let made = |instance: &InstanceStatus| match state.since {
            Some(since) => self.of.made(instance, since),
            None => self.of.began(instance),
        };
        !state.over && status.instance.as_ref().is_some_and(made)
    }

    /// A Proxy as it is now.
    pub fn note(&self, key: &ProxyKey, status: &ProxyStatus, deleting: bool) {
        let mut state = self.state();
        if state.since.is_none() {
            return;
        }
        let now = state.weigh(key, (status, deleting), &self.of);
        state.newer.insert(key.clone());
        keep_broken(&mut state.broken, key, &now);
        let before = match &now {
            Standing::Other => state.standings.remove(key),
            _ => state.standings.insert(key.clone(), now.clone()),
        };
        let now = Some(now).filter(|now| *now != Standing::Other);
        drop(state);
        if before != now {
            self.changed.notify_one();
        }
    }

    /// It is gone, or not ours any more.
    pub fn leave(&self, key: &ProxyKey) {
        self.note(key, &ProxyStatus::default(), true);
    }

    /// Until something else is known than before.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What follows from what is known.
    pub fn verdict(&self, now: Timestamp) -> Verdict {
        let state = self.state();
        let within = Duration::from_secs(state.rollout.within_seconds.into());
        let late = |since: &Timestamp| since.checked_add(within).unwrap_or(Timestamp::MAX);
        if let Some(why) = &state.broken {
            return Verdict::PutAside(why.clone());
        }
        let mut next = None;
        for (key, standing) in &state.standings {
            match standing {
                Standing::Making(since) if late(since) <= now => {
                    let within = state.rollout.within_seconds;
                    return Verdict::PutAside(format!("{key} was not ready within {within} s"));
                }
                Standing::Making(since) => {
                    next = Some(next.map_or(late(since), |next: Timestamp| next.min(late(since))));
                }
                Standing::Ready | Standing::Doubted(_) | Standing::Broken(_) | Standing::Other => {}
            }
        }
        match self.count_ready(&state) >= usize::try_from(state.rollout.first_proxies).unwrap_or(usize::MAX) {
            true => Verdict::Adopt,
            false => Verdict::Wait(next),
        }
    }

    /// How many it made, and how many of them are ready.
    pub fn figures(&self) -> (usize, usize) {
        let state = self.state();
        (state.standings.len(), self.count_ready(&state))
    }

    fn count_ready(&self, state: &State) -> usize {
        state.standings.values().filter(|standing| **standing == Standing::Ready).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
