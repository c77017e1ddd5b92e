//! All Proxies that are probed: who is due, and what was found out.
//!
//! In memory alone, of the process that leads: a new one begins with what the statuses say. The reconciler watches and
//! leaves Proxies here and reads what was found; the loop takes who is due and tells how it went. Each holds the lock
//! for a moment.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Uri;
use tokio::{sync::Notify, time::Instant};

use super::{
    Check, Course, Outcome, Report, State,
    evidence::{Evidence, News},
    outside::Outside,
    settings::Ask,
};
use crate::core::{backoff::Dice, store::ProxyKey};

/// Between the first probes of one that just began to serve.
const SOON: Duration = Duration::from_secs(2);

/// Whom to probe, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose instance it is: another one of this name has another.
    pub uid: String,
    /// The instance's name.
    pub instance: String,
    /// Of which entry.
    pub entry: String,
    /// Where it listens.
    pub at: SocketAddr,
    /// How it is asked.
    pub check: Check,
}

/// A probe that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub key: ProxyKey,
    /// Of the watch that it is for: its end says nothing of a later one.
    pub watch: u64,
    pub entry: String,
    pub at: SocketAddr,
    pub check: Check,
    pub began: Instant,
    /// Asked for, too, if the probe passes.
    pub egress: Option<Uri>,
}

/// How it went.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub outcome: Outcome,
    pub egress: Option<IpAddr>,
}

struct Watched {
    target: Target,
    watch: u64,
    course: Course,
    due: Instant,
    egress: Option<IpAddr>,
    /// Seen once, and not yet believed: it differs from the one before.
    maybe: Option<IpAddr>,
    egress_due: Instant,
    report: Report,
    /// Raised with each change of the report.
    serial: u64,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<ProxyKey>,
}

/// How many of an entry count as what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub healthy: usize,
    pub unhealthy: usize,
    pub unknown: usize,
}

#[derive(Default)]
struct Inner {
    proxies: HashMap<ProxyKey, Watched>,
    due: BTreeSet<(Instant, ProxyKey)>,
    lanes: HashMap<String, Lane>,
    evidence: Evidence,
    outside: Outside,
    tallies: BTreeMap<String, Tally>,
    /// Whose reports changed since they were asked for last.
    changed: BTreeSet<ProxyKey>,
    /// Gives watches and serials, never twice.
    last: u64,
}

/// See the module.
pub struct Fleet {
    inner: Mutex<Inner>,
    dice: Dice,
    stirred: Notify,
}

impl Fleet {
    /// Of nobody yet.
    pub fn new(dice: Dice) -> Self {
        Self { inner: Mutex::default(), dice, stirred: Notify::new() }
    }

    /// It serves, and is to be probed like this. `known` is what its status says of this very instance, for when it was
    /// not watched before.
    pub fn watch(
        &self,
        key: &ProxyKey,
        target: Target,
        known: Option<(State, Option<IpAddr>)>,
        now: Instant,
    ) {
        let mut inner = self.inner();
        if let Some(watched) = inner.proxies.get_mut(key) {
            if watched.target == target {
                return;
            }
            let same = (&watched.target.uid, &watched.target.instance) == (&target.uid, &target.instance);
            if same && watched.target.check.ask == target.check.ask && watched.target.entry == target.entry {
                let egress = watched.egress.filter(|_| target.check.egress.is_some());
                watched.target = target;
                return inner.settle(key, egress);
            }
        }
        let known = known.filter(|_| !matches!(target.check.ask, Ask::Nothing(_)));
        let first = match &known {
            // All of them at once after a restart, and nobody waits for news.
            Some(_) => target.check.period,
            None => Duration::from_secs(1).min(target.check.period),
        };
        let is_known = known.is_some();
        inner.leave(key);
        let due = now + self.dice.between(Duration::ZERO, first);
        let (state, egress) = known.unwrap_or_default();
        let egress = egress.filter(|_| target.check.egress.is_some());
        inner.last += 1;
        let mut watched = Watched {
            watch: inner.last,
            course: Course::known(state),
            due,
            egress: None,
            maybe: None,
            egress_due: now + self.dice.between(Duration::ZERO, target.check.egress_period.min(first)),
            report: Report::default(),
            serial: inner.last,
            target,
        };
        if let Ask::Nothing(why) = &watched.target.check.ask {
            watched.course = Course::known(State::Untold(why.clone()));
        } else {
            inner.due.insert((due, key.clone()));
        }
        inner.tally(&watched.target.entry, watched.course.state(), 1);
        inner.proxies.insert(key.clone(), watched);
        inner.settle(key, egress);
        if is_known {
            // That is where it was read.
            inner.changed.remove(key);
        }
        drop(inner);
        self.stirred.notify_one();
    }

    /// It is not to be probed any more.
    pub fn leave(&self, key: &ProxyKey) {
        self.inner().leave(key);
    }

    /// Nobody is watched, and nothing known.
    pub fn clear(&self) {
        let mut inner = self.inner();
        let last = inner.last;
        for tally in inner.tallies.values_mut() {
            *tally = Tally::default();
        }
        let tallies = std::mem::take(&mut inner.tallies);
        *inner = Inner { last, tallies, ..Inner::default() };
    }

    /// What was found out; none while it is not watched.
    pub fn report(&self, key: &ProxyKey, uid: &str) -> Option<Report> {
        let inner = self.inner();
        inner.proxies.get(key).filter(|watched| watched.target.uid == uid).map(|w| w.report.clone())
    }

    /// Whether an unhealthy one failed when it was asked last, by this process: what its status says may be of an hour ago.
    pub fn still_fails(&self, key: &ProxyKey) -> bool {
        self.inner().proxies.get(key).is_some_and(|watched| watched.course.still_fails())
    }

    /// Changes with what was found out.
    pub fn serial(&self, key: &ProxyKey) -> u64 {
        self.inner().proxies.get(key).map_or(0, |watched| watched.serial)
    }

    /// Why an unhealthy one of this entry is not to be replaced now: the fault may not be its own, or its successor could
    /// not be judged.
    pub fn keeps(&self, key: &ProxyKey, entry: &str) -> Option<String> {
        let inner = self.inner();
        if let Some(Ask::Through(url)) = inner.proxies.get(key).map(|watched| &watched.target.check.ask)
            && inner.evidence.is_down(url)
        {
            return Some("what it is probed with answers nobody".to_owned());
        }
        let tally = inner.tallies.get(entry).copied().unwrap_or_default();
        let most = ((tally.healthy + tally.unhealthy) / 2).max(1);
        (tally.unhealthy > most).then(|| {
            format!(
                "more than half of the Proxies of entry {entry} are unhealthy, so the fault may not be theirs"
            )
        })
    }

    pub(super) async fn stirred(&self) {
        self.stirred.notified().await;
    }

    /// Whose reports changed.
    pub(super) fn changed(&self) -> BTreeSet<ProxyKey> {
        std::mem::take(&mut self.inner().changed)
    }

    pub(super) fn tallies(&self) -> BTreeMap<String, Tally> {
        self.inner().tallies.clone()
    }

    /// The probe to begin now.
    pub(super) fn take(&self, now: Instant) -> Option<Job> {
        let mut inner = self.inner();
        loop {
            if inner.due.first()?.0 > now {
                return None;
            }
            let (_, key) = inner.due.pop_first()?;
            let Inner { proxies, lanes, .. } = &mut *inner;
            let Some(watched) = proxies.get(&key) else { continue };
            let Target { entry, at, check, .. } = &watched.target;
            let lane = lanes.entry(entry.clone()).or_default();
            if lane.running >= usize::try_from(check.at_once).unwrap_or(usize::MAX) {
                lane.waiting.push_back(key);
                continue;
            }
            lane.running += 1;
            let egress = check.egress.clone().filter(|_| watched.egress_due <= now);
            return Some(Job {
                watch: watched.watch,
                entry: entry.clone(),
                at: *at,
                check: check.clone(),
                began: now,
                egress,
                key,
            });
        }
    }

    /// When there is one to begin.
    pub(super) fn next(&self) -> Option<Instant> {
        self.inner().due.first().map(|(at, _)| *at)
    }

    /// Whether the operator is to ask for the URL by itself, to judge this probe.
    pub(super) fn ask_directly(&self, url: &Uri, job: &Job, now: Instant) -> bool {
        self.inner().evidence.ask_directly(url, job.began, job.check.period / 2, now)
    }

    /// The operator asked by itself, and was answered.
    pub(super) fn is_up(&self, url: &Uri, began: Instant) -> Option<News> {
        self.inner().evidence.passed(url, began)
    }

    /// A probe ended; without an end if it broke down.
    pub(super) fn ended(&self, job: &Job, done: Option<Done>, now: Instant) -> Option<News> {
        let mut inner = self.inner();
        inner.give_back(&job.entry, now);
        let news = done.as_ref().and_then(|done| inner.learn(job, &done.outcome));
        let up = match &job.check.ask {
            Ask::Through(url) => inner.evidence.up(url),
            Ask::Connect | Ask::Nothing(_) => None,
        };
        let Some(watched) = inner.proxies.get_mut(&job.key).filter(|w| w.watch == job.watch) else {
            return news;
        };
        let (check, before) = (watched.target.check.clone(), watched.course.state().clone());
        match done.as_ref().map(|done| done.outcome.clone()) {
            Some(Outcome::Passed(_)) => watched.course.passed(&check),
            Some(Outcome::Broken(fault)) => watched.course.failed(fault, &check),
            Some(Outcome::Doubtful(fault)) => watched.course.doubtful(fault, job.began, up, &check),
            Some(Outcome::UrlAtFault(fault)) => watched.course.in_vain(fault),
            None => {}
        }
        let mut egress = watched.egress;
        if let Some(seen) = done.and_then(|done| done.egress) {
            // One that differs is asked for once more: behind some gateways each request has another address.
            let believed = egress.is_none() || egress == Some(seen) || watched.maybe == Some(seen);
            watched.maybe = Some(seen).filter(|_| !believed);
            let wait = if believed { self.spread(check.egress_period) } else { Duration::ZERO };
            watched.egress_due = now + wait;
            if believed {
                egress = Some(seen);
            }
        }
        let pause = if watched.course.is_new(&check) { SOON.min(check.period) } else { check.period };
        watched.due = now + self.spread(pause);
        let (due, after) = (watched.due, watched.course.state().clone());
        inner.due.insert((due, job.key.clone()));
        inner.tally(&job.entry, &before, -1);
        inner.tally(&job.entry, &after, 1);
        inner.settle(&job.key, egress);
        news
    }

    fn spread(&self, interval: Duration) -> Duration {
        self.dice.between(interval.mul_f64(0.9), interval.mul_f64(1.1))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn leave(&mut self, key: &ProxyKey) {
        let Some(left) = self.proxies.remove(key) else { return };
        self.due.remove(&(left.due, key.clone()));
        if let Some(lane) = self.lanes.get_mut(&left.target.entry) {
            lane.waiting.retain(|waiting| waiting != key);
        }
        self.changed.remove(key);
        self.tally(&left.target.entry, left.course.state(), -1);
        let touched = self.outside.moved(key, left.egress, None);
        self.tell(touched);
    }

    /// One of an entry ended: another that waits has its turn.
    fn give_back(&mut self, entry: &str, now: Instant) {
        let Some(lane) = self.lanes.get_mut(entry) else { return };
        lane.running = lane.running.saturating_sub(1);
        if let Some(key) = lane.waiting.pop_front()
            && let Some(watched) = self.proxies.get_mut(&key)
        {
            watched.due = now;
            self.due.insert((now, key));
        }
    }

    /// What the end of a probe says of its URL.
    fn learn(&mut self, job: &Job, outcome: &Outcome) -> Option<News> {
        let Ask::Through(url) = &job.check.ask else { return None };
        match outcome {
            Outcome::Passed(_) => self.evidence.passed(url, job.began),
            Outcome::Doubtful(_) | Outcome::UrlAtFault(_) => {
                self.evidence.failed(url, job.began, job.check.period * job.check.failures)
            }
            Outcome::Broken(_) => None,
        }
    }

    /// After its course or its address may have changed.
    fn settle(&mut self, key: &ProxyKey, egress: Option<IpAddr>) {
        let Some(watched) = self.proxies.get_mut(key) else { return };
        let before = std::mem::replace(&mut watched.egress, egress);
        let mut touched = self.outside.moved(key, before, egress);
        touched.insert(key.clone());
        self.tell(touched);
    }

    /// Makes reports anew, and notes those that changed.
    fn tell(&mut self, keys: BTreeSet<ProxyKey>) {
        for key in keys {
            let Some(watched) = self.proxies.get_mut(&key) else { continue };
            let report = Report {
                state: watched.course.state().clone(),
                egress: watched.egress,
                shared_with: watched.egress.map(|at| self.outside.others(&key, at)).unwrap_or_default(),
            };
            if watched.report != report {
                watched.report = report;
                self.last += 1;
                watched.serial = self.last;
                self.changed.insert(key);
            }
        }
    }

    fn tally(&mut self, entry: &str, state: &State, by: isize) {
        let tally = self.tallies.entry(entry.to_owned()).or_default();
        let count = match state {
            State::Healthy => &mut tally.healthy,
            State::Unhealthy(_) => &mut tally.unhealthy,
            State::Unknown | State::Untold(_) => &mut tally.unknown,
        };
        *count = count.saturating_add_signed(by);
    }
}
