//! The task that collects one entry, on the places of its active revision.
//!
//! It tells what it finds in the entry's view, and what it removed by an Event. A sweep comes at every
//! interval, and at once when somebody answers the question of the one before.

use std::{sync::Arc, time::Duration};

use egress_contract::EntryName;
use egress_runtime::Revision;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use crate::{
    api::{AsksStatus, COLLECT_ANNOTATION, CollectorStatus, OrphanStatus, UnreadStatus},
    core::{
        collect::{Asks, Collector, Fate, Judged, Owners, Policy, Removes, Report},
        lease::Leadership,
        store::Notice,
    },
    entry::Asked,
    view::{View, cut},
};

const MOST: usize = 50;
const LONGEST_MESSAGE: usize = 512;

/// How an entry is collected, as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CollectConfig {
    /// Between two sweeps.
    pub interval_seconds: u32,
    /// How old something without an owner must be.
    pub grace_seconds: u32,
    /// Nothing is removed, only told.
    pub dry_run: bool,
}

impl Default for CollectConfig {
    fn default() -> Self {
        Self { interval_seconds: 300, grace_seconds: 600, dry_run: false }
    }
}

/// What comes into the task.
pub struct Inlets {
    /// What the providers ConfigMap says of the entry.
    pub asked: watch::Receiver<Asked>,
    /// Which sweep people said yes to.
    pub confirmed: watch::Receiver<Option<String>>,
    /// Whether this process is the one to collect.
    pub leadership: Leadership,
}

/// The task.
pub struct Collecting<O> {
    entry: EntryName,
    collector: Collector<O>,
    inlets: Inlets,
    view: watch::Sender<View>,
    notices: mpsc::Sender<Notice>,
    config: CollectConfig,
    /// The entry was removed, and stays for the Proxies that need it.
    leaving: bool,
    /// The question that was told.
    asked: Option<String>,
    /// Under which lead the sweeps so far were.
    term: Option<u32>,
}

impl<O: Owners> Collecting<O> {
    /// Nothing was swept yet.
    pub fn new(
        entry: EntryName,
        collector: Collector<O>,
        inlets: Inlets,
        view: watch::Sender<View>,
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        Self {
            entry,
            collector,
            inlets,
            view,
            notices,
            config: CollectConfig::default(),
            leaving: false,
            asked: None,
            term: None,
        }
    }

    /// Until the entry is removed, or the process ends.
    pub async fn run(mut self) {
        while let Some(revision) = self.active().await {
            let next = Instant::now() + Duration::from_secs(self.config.interval_seconds.into());
            self.sweep(&revision, next).await;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                changed = self.inlets.confirmed.changed() => if changed.is_err() { return },
                changed = self.inlets.asked.changed() => if changed.is_err() { return },
                changed = self.inlets.leadership.changed() => if changed.is_err() { return },
            }
        }
    }

    /// What to call, and how; none at the end.
    async fn active(&mut self) -> Option<Arc<Revision>> {
        let mut seen = self.view.subscribe();
        loop {
            let listed = match &*self.inlets.asked.borrow_and_update() {
                Asked::Removed => return None,
                // How it is to be collected stands in the ConfigMap, which is missing.
                Asked::Unlisted => false,
                // Who removed it is to see what nobody will remove any more.
                Asked::Leaving => {
                    self.leaving = true;
                    true
                }
                Asked::Entry(read) => {
                    self.leaving = false;
                    // One that can't be read is collected as before.
                    if let Ok(entry) = read.as_ref() {
                        self.config = entry.collect.clone();
                    }
                    true
                }
            };
            let term = *self.inlets.leadership.borrow_and_update();
            if term != self.term {
                // What was seen before somebody else swept is no sweep before the next one.
                self.collector.forget();
                self.term = term;
            }
            let active = seen.borrow_and_update().active.as_ref().map(|(_, revision)| Arc::clone(revision));
            if listed && active.is_some() && term.is_some() {
                return active;
            }
            tokio::select! {
                changed = seen.changed() => changed.ok()?,
                changed = self.inlets.asked.changed() => changed.ok()?,
                changed = self.inlets.leadership.changed() => changed.ok()?,
            }
        }
    }

    /// And what follows from it, until the next one: a removal that never ends must not keep that off.
    async fn sweep(&mut self, revision: &Arc<Revision>, next: Instant) {
        let policy = Policy {
            grace: Duration::from_secs(self.config.grace_seconds.into()),
            removes: match (self.leaving, self.config.dry_run) {
                (true, _) => Removes::EntryRemoved,
                (false, true) => Removes::DryRun,
                (false, false) => Removes::Yes,
            },
        };
        let confirmed = self.inlets.confirmed.borrow_and_update().clone();
        let swept = self.collector.sweep(&**revision, revision.places(), policy, confirmed.as_deref()).await;
        let mut report = match swept {
            Ok(report) => report,
            Err(error) => {
                warn!(entry = %self.entry, %error, "nothing is collected");
                let halted = Some(error.to_string());
                return self.show(CollectorStatus { halted, ..CollectorStatus::default() });
            }
        };
        self.count(&report);
        self.ask(report.asks.as_ref()).await;
        loop {
            self.show(status(&self.entry, &report));
            let (told, due) = self.collector.remove(&**revision).await;
            for judged in told {
                self.tell(&judged).await;
                update(&mut report, judged);
            }
            match due.map(|due| Instant::now() + due) {
                Some(due) if due < next => tokio::time::sleep_until(due).await,
                _ => break,
            }
        }
        self.show(status(&self.entry, &report));
    }

    fn count(&self, report: &Report) {
        let entry = self.entry.to_string();
        metrics::gauge!("egress_collector_instances", "entry" => entry.clone()).set(number(report.instances));
        metrics::gauge!("egress_collector_ownerless", "entry" => entry.clone())
            .set(number(report.ownerless.len()));
        metrics::gauge!("egress_collector_unread", "entry" => entry).set(number(report.unread.len()));
    }

    async fn ask(&mut self, asks: Option<&Asks>) {
        let sweep = asks.map(|asks| asks.sweep.clone());
        if let Some(asks) = asks.filter(|_| self.asked != sweep) {
            let message = question(&self.entry, asks);
            warn!(entry = %self.entry, sweep = asks.sweep, message, "the collector asks");
            self.notice(Notice { warning: true, reason: "CollectorAsks".to_owned(), message }).await;
        }
        self.asked = sweep;
    }

    async fn tell(&self, judged: &Judged) {
        let Judged { place, item, fate } = judged;
        let what = what(judged);
        let notice = match fate {
            Fate::Removed => {
                metrics::counter!("egress_collector_removed_total", "entry" => self.entry.to_string())
                    .increment(1);
                info!(entry = %self.entry, place, name = item.name, id = item.id, "collected");
                let message = format!("removed {what} at {place}, which no Proxy owned");
                Notice { warning: false, reason: "Collected".to_owned(), message }
            }
            Fate::Failed(why) => {
                warn!(entry = %self.entry, place, name = item.name, id = item.id, why, "not collected");
                let message = format!("could not remove {what} at {place}, which no Proxy owns: {why}");
                Notice { warning: true, reason: "NotCollected".to_owned(), message }
            }
            _ => return,
        };
        self.notice(notice).await;
    }

    async fn notice(&self, notice: Notice) {
        // Its listener is gone only when the process ends.
        let _ = self.notices.send(notice).await;
    }

    fn show(&self, status: CollectorStatus) {
        self.view.send_if_modified(|view| {
            let changed = view.collector != status;
            view.collector = status;
            changed
        });
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn what(judged: &Judged) -> String {
    let item = &judged.item;
    match &item.leftover {
        Some(leftover) => format!("{leftover} of {} ({})", item.name, item.id),
        None => format!("{} ({})", item.name, item.id),
    }
}

/// What became of it since the sweep.
fn update(report: &mut Report, judged: Judged) {
    let same = |other: &Judged| other.place == judged.place && other.item == judged.item;
    if judged.fate == Fate::Removed {
        report.ownerless.retain(|other| !same(other));
    } else if let Some(other) = report.ownerless.iter_mut().find(|other| same(other)) {
        other.fate = judged.fate;
    }
}

fn question(entry: &EntryName, asks: &Asks) -> String {
    let Asks { sweep, ownerless, before_kind, instances } = asks;
    let older = match before_kind {
        0 => String::new(),
        older => format!(
            ", {older} of them older than the CRD of Proxies in this cluster, as if that had been made anew or \
             its state been restored"
        ),
    };
    format!(
        "{ownerless} of {instances} instances have no Proxy{older}; none is removed. If they are to go: kubectl \
         annotate --overwrite providerhealth {entry} {COLLECT_ANNOTATION}={sweep}. If not, say nothing, and they \
         stay; a Proxy that is created anew makes an instance of its own and takes over none of these"
    )
}

fn status(entry: &EntryName, report: &Report) -> CollectorStatus {
    let orphan = |place: &str, item: &egress_contract::Item, message: String| OrphanStatus {
        place: cut(place, LONGEST_MESSAGE),
        id: cut(&item.id, LONGEST_MESSAGE),
        name: cut(&item.name, LONGEST_MESSAGE),
        leftover: item.leftover.as_ref().map(|leftover| cut(leftover, LONGEST_MESSAGE)),
        created: item.created_ms.and_then(time),
        message: cut(&message, LONGEST_MESSAGE),
    };
    let ownerless = report.ownerless.iter().map(|j| orphan(&j.place, &j.item, j.fate.to_string()));
    let kept = report.kept.iter().map(|(place, item, verdict)| orphan(place, item, verdict.to_string()));
    let unread = report.unread.iter().map(|unread| UnreadStatus {
        place: cut(&unread.place, LONGEST_MESSAGE),
        message: cut(&unread.why, LONGEST_MESSAGE),
    });
    let more: usize = [report.ownerless.len(), report.kept.len(), report.unread.len()]
        .into_iter()
        .map(|count| count.saturating_sub(MOST))
        .sum();
    CollectorStatus {
        halted: None,
        asks: report
            .asks
            .as_ref()
            .map(|asks| AsksStatus { sweep: asks.sweep.clone(), message: question(entry, asks) }),
        ownerless: ownerless.take(MOST).collect(),
        kept: kept.take(MOST).collect(),
        unread: unread.take(MOST).collect(),
        more: i32::try_from(more).unwrap_or(i32::MAX),
    }
}

fn time(ms: u64) -> Option<Time> {
    let seconds = i64::try_from(ms / 1000).ok()?;
    Timestamp::from_second(seconds).ok().map(Time)
}
