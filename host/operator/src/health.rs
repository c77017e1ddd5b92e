//! ProviderHealth: what the operator knows of an entry, written where people look.
//!
//! One task an entry is the only writer of its object, and writes only what changed: each write is an event to
//! everybody who watches. Each place is checked by a task of its own, so a dead one costs only itself. What a
//! place answered last stays over a swap, until the new revision has asked it. What a process wrote that ended
//! passes as its successor's word only for a moment: then `Ready` is Unknown until the first pass has ended.

mod places;
mod watched;

use std::{sync::Arc, time::Duration};

use egress_contract::EntryName;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
    core::{DeserializeGuard, PartialObjectMeta},
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{debug, info, warn};

use self::places::{Places, same_but_measured};
pub use self::watched::{Seen, Shown, Wishes, watch};
use crate::{
    api::{Hold, PlaceStatus, ProviderHealth, ProviderHealthStatus},
    cluster::{CallError, Cluster, FIELD_MANAGER, MANAGED_BY, call},
    core::{budget::Recoveries, conditions::Truth, lease::Leadership, store::Notice},
    events::Events,
    providers::MISSING,
    view::{View, cut},
};

/// The label with the namespace of the operator that wrote it.
const NAMESPACE: &str = "egressproxies.dev/operator-namespace";
/// What changes together is written together.
const GATHER: Duration = Duration::from_millis(50);
/// How long a start may keep the last process' word: enough to take up the same revision out of the cache, which
/// then never shows as anything but ready.
const SETTLE: Duration = Duration::from_secs(2);
/// A write that failed is tried again after this.
const AGAIN: Duration = Duration::from_secs(2);
/// What is measured, such as a latency, differs each time: alone it is written no more often than this.
const MEASURED: Duration = Duration::from_secs(3600);
const LONGEST_MESSAGE: usize = 1024;

/// What comes into a health task.
pub struct Inlets {
    /// What is to be shown.
    pub view: watch::Receiver<View>,
    /// What is to be told once.
    pub notices: mpsc::Receiver<Notice>,
    /// Holds that are over.
    pub holds_over: mpsc::Receiver<Hold>,
    /// Raised when somebody removed the object.
    pub gone: watch::Receiver<u64>,
    /// Told when places came back.
    pub recoveries: watch::Sender<Arc<Recoveries>>,
    /// Whether this process is the one to write it.
    pub leadership: Leadership,
}

/// The task that keeps one entry's ProviderHealth.
pub struct Keeper {
    entry: EntryName,
    namespace: String,
    api: Api<ProviderHealth>,
    events: Events,
    inlets: Inlets,
    places: Places,
    /// What was written last; none when that is unknown.
    written: Option<ProviderHealthStatus>,
    written_at: Instant,
    about: Option<ObjectReference>,
    /// A hold that is over and still stands in the spec.
    over: Option<Hold>,
}

/// What was left of the last process' health object.
pub async fn read(cluster: &Cluster, entry: &EntryName) -> Result<Option<ProviderHealth>, CallError> {
    let api: Api<DeserializeGuard<ProviderHealth>> = Api::all(cluster.client.clone());
    // One that can't be read counts as none: it is written anew.
    Ok(call(api.get_opt(entry.as_str())).await?.and_then(|found| found.0.ok()))
}

/// All that any process of this operator wrote: they are the cluster's, and in another namespace there may be
/// another operator.
pub async fn left_behind(cluster: &Cluster) -> Result<Vec<PartialObjectMeta<ProviderHealth>>, CallError> {
    let api: Api<PartialObjectMeta<ProviderHealth>> = Api::all(cluster.client.clone());
    let (key, value) = MANAGED_BY;
    let ours = format!("{key}={value},{NAMESPACE}={}", cluster.namespace);
    let ours = ListParams::default().labels(&ours);
    Ok(call(api.list(&ours)).await?.items)
}

/// Removes one as it was seen, which nobody keeps.
pub async fn retire(cluster: &Cluster, left: &PartialObjectMeta<ProviderHealth>) -> Result<(), CallError> {
    let api: Api<ProviderHealth> = Api::all(cluster.client.clone());
    let (uid, resource_version) = (left.metadata.uid.clone(), left.metadata.resource_version.clone());
    let only_this = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
    match call(api.delete(&left.name_any(), &only_this)).await {
        Ok(_) => {
            info!(entry = left.name_any(), "the entry was removed while no operator ran");
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

impl Keeper {
    /// `before` is what the last process showed.
    pub fn new(
        cluster: &Cluster,
        entry: EntryName,
        events: Events,
        inlets: Inlets,
        before: Option<ProviderHealth>,
    ) -> Self {
        // One of another operator, or of none that said whose it is, is taken over as if it were not there.
        let ours = |found: &&ProviderHealth| found.labels().get(NAMESPACE) == Some(&cluster.namespace);
        let about = before.as_ref().filter(ours).map(|found| found.object_ref(&()));
        let written = before.and_then(|found| found.status);
        let places = Places::new(written.as_ref().map(|status| status.places.clone()).unwrap_or_default());
        Self {
            entry,
            namespace: cluster.namespace.clone(),
            api: Api::all(cluster.client.clone()),
            events,
            inlets,
            places,
            written,
            written_at: Instant::now(),
            about,
            over: None,
        }
    }

    /// Until the entry is removed: then its object goes, too. Without the lead it only listens: what is to be
    /// told is told by the one who has it.
    pub async fn run(mut self) {
        self.tell_recoveries();
        self.settle().await;
        let mut due = Some(Duration::ZERO);
        let mut term = *self.inlets.leadership.borrow_and_update();
        loop {
            let leads = term.is_some();
            tokio::select! {
                changed = self.inlets.view.changed() => if changed.is_err() { return },
                changed = self.inlets.leadership.changed() => {
                    if changed.is_err() { return }
                    let now = *self.inlets.leadership.borrow_and_update();
                    if now.is_some() && now != term {
                        self.take_over().await;
                    }
                    term = now;
                }
                Some(notice) = self.inlets.notices.recv() => if leads { self.tell(notice).await },
                Some(hold) = self.inlets.holds_over.recv() => self.over = Some(hold),
                Some((place, answer)) = self.places.answers.recv() => {
                    self.places.learn(&place, answer);
                    self.places.count(&self.entry);
                    self.tell_recoveries();
                }
                gone = self.inlets.gone.changed() => {
                    if gone.is_err() { return }
                    (self.about, self.written) = (None, None);
                }
                () = sleep(due), if leads => {
                    due = match self.write().await {
                        Ok(()) => None,
                        Err(error) => {
                            warn!(entry = %self.entry, %error, "the health of an entry was not written");
                            Some(AGAIN)
                        }
                    };
                    continue;
                }
            }
            let view = self.inlets.view.borrow_and_update().clone();
            if view.removed {
                // Without the lead: whoever has it removes the object, or whoever gets it.
                return if term.is_some() {
                    self.remove().await
                };
            }
            // Nor are backends asked by those who do nothing there.
            self.places.follow(view.active.filter(|_| term.is_some()).map(|(_, revision)| revision));
            due = Some(due.map_or(GATHER, |due| due.min(GATHER)));
        }
    }

    /// A new process knows nothing yet: what the last one showed stays for a moment.
    async fn settle(&mut self) {
        let settled = self.inlets.view.wait_for(|view| view.settled || view.removed || view.active.is_some());
        let _ = tokio::time::timeout(SETTLE, settled).await;
        self.inlets.view.mark_changed();
    }

    /// Somebody else may have written since.
    async fn take_over(&mut self) {
        let found = call(self.api.get_opt(self.entry.as_str())).await.ok().flatten();
        self.about = found.as_ref().map(|found| found.object_ref(&()));
        self.written = found.and_then(|found| found.status);
        if let Some(written) = &self.written {
            self.places.remember(written.places.clone());
        }
        self.tell_recoveries();
    }

    fn tell_recoveries(&self) {
        let last = self.places.last.values();
        let known: Recoveries =
            last.filter_map(|place| Some((place.name.clone(), place.recovered.as_ref()?.0))).collect();
        self.inlets.recoveries.send_if_modified(|told| {
            let changed = **told != known;
            *told = Arc::new(known);
            changed
        });
    }

    async fn write(&mut self) -> Result<(), CallError> {
        if let Some(hold) = self.over.clone() {
            self.clear(&hold).await?;
            self.over = None;
        }
        let view = self.inlets.view.borrow().clone();
        let before = self.written.clone().unwrap_or_default();
        let status = status(&view, self.places.show(), before);
        let told = self.written.as_ref().is_some_and(|written| {
            *written == status
                || (self.written_at.elapsed() < MEASURED && same_but_measured(written, &status))
        });
        if told {
            return Ok(());
        }
        self.ensure().await?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let body = json!({
            "apiVersion": ProviderHealth::api_version(&()),
            "kind": ProviderHealth::kind(&()),
            "metadata": { "name": self.entry },
            "status": status,
        });
        match call(self.api.patch_status(self.entry.as_str(), &params, &Patch::Apply(body))).await {
            Ok(_) => {
                self.written = Some(status);
                self.written_at = Instant::now();
                Ok(())
            }
            Err(error) => {
                // Perhaps somebody removed the object: it is made again.
                self.about = None;
                self.written = None;
                Err(error)
            }
        }
    }

    /// There is an object; whatever stands in its spec stays.
    async fn ensure(&mut self) -> Result<ObjectReference, CallError> {
        if let Some(about) = &self.about {
            return Ok(about.clone());
        }
        let body = json!({
            "apiVersion": ProviderHealth::api_version(&()),
            "kind": ProviderHealth::kind(&()),
            "metadata": { "name": self.entry, "labels": { (MANAGED_BY.0): MANAGED_BY.1, (NAMESPACE): self.namespace } },
            "spec": {},
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let made = call(self.api.patch(self.entry.as_str(), &params, &Patch::Apply(body))).await?;
        let about = made.object_ref(&());
        self.about = Some(about.clone());
        Ok(about)
    }

    async fn tell(&mut self, notice: Notice) {
        match self.ensure().await {
            // Without the version: the same words are the same Event.
            Ok(about) => {
                let about = ObjectReference { resource_version: None, ..about };
                self.events.publish(&about, "LoadProvider", &notice).await;
            }
            Err(error) => debug!(entry = %self.entry, %error, "an Event was not told"),
        }
    }

    /// Only the hold that is over: a newer one stays.
    async fn clear(&self, hold: &Hold) -> Result<(), CallError> {
        let Some(found) = call(self.api.get_opt(self.entry.as_str())).await? else { return Ok(()) };
        if found.spec.hold.as_ref() != Some(hold) {
            return Ok(());
        }
        let version = found.resource_version();
        let patch =
            Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "spec": { "hold": null } }));
        call(self.api.patch(self.entry.as_str(), &PatchParams::default(), &patch)).await.map(drop)
    }

    async fn remove(mut self) {
        while let Ok(notice) = self.inlets.notices.try_recv() {
            self.tell(notice).await;
        }
        loop {
            match call(self.api.delete(self.entry.as_str(), &DeleteParams::default())).await {
                Ok(_) => return,
                Err(error) if error.is_not_found() => return,
                Err(error) => {
                    warn!(entry = %self.entry, %error, "the health of a removed entry stays for now")
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

async fn sleep(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

fn status(view: &View, places: Vec<PlaceStatus>, before: ProviderHealthStatus) -> ProviderHealthStatus {
    let ready = ready(view, &places, &before.conditions);
    let listed = listed(view, &before.conditions);
    // Until this process knows better; what is told of it is that nobody knows.
    let (was_active, places) =
        if is_starting(view) { (before.active, before.places) } else { (None, places) };
    ProviderHealthStatus {
        active: view.active.as_ref().map(|(active, _)| active.clone()).or(was_active),
        history: view.history.clone(),
        offered: view.offered.clone(),
        canary: view.canary.clone(),
        shadow: view.shadow.clone(),
        refusal: view.refusal.clone(),
        collector: view.collector.clone(),
        places,
        conditions: vec![ready, listed],
    }
}

fn is_starting(view: &View) -> bool {
    view.active.is_none() && !view.settled
}

fn ready(view: &View, places: &[PlaceStatus], before: &[Condition]) -> Condition {
    let down: Vec<_> = places.iter().filter(|place| !place.ready).collect();
    let (ready, reason, message) = match (&view.active, down.first(), &view.refusal) {
        (None, _, _) if is_starting(view) => {
            let message = "the operator has just begun; what stands here is what the process before it knew";
            (Truth::Unknown, "Starting", message.to_owned())
        }
        (None, _, Some(refusal)) => (Truth::False, "NoRevision", refusal.message.clone()),
        (None, _, None) => (Truth::False, "Loading", "no revision is active yet".to_owned()),
        (Some(_), Some(first), _) => {
            let message = format!(
                "{} of {} places are not ready; {}: {}",
                down.len(),
                places.len(),
                first.name,
                first.message
            );
            (Truth::False, "PlaceNotReady", message)
        }
        (Some((active, _)), None, refusal) => {
            let refused =
                refusal.as_ref().map_or("", |_| "; a newer candidate is refused, see status.refusal");
            let on_trial = view.canary.as_ref().map_or_else(String::new, |canary| {
                format!(
                    "; revision {} makes the next {} Proxies first",
                    canary.revision, canary.first_proxies
                )
            });
            (Truth::True, "Ready", format!("revision {} is active{refused}{on_trial}", active.revision))
        }
    };
    condition("Ready", (ready, reason), &message, before)
}

fn listed(view: &View, before: &[Condition]) -> Condition {
    match (&view.missing, &view.left) {
        (None, Some(left)) => condition("Listed", (Truth::False, "EntryRemoved"), left, before),
        (None, None) => {
            condition("Listed", (Truth::True, "Listed"), "the providers ConfigMap has this entry", before)
        }
        (Some(config_map), _) => {
            let message = format!("there is no ConfigMap {config_map}: {MISSING}");
            condition("Listed", (Truth::False, "ProvidersMissing"), &message, before)
        }
    }
}

fn condition(kind: &str, (truth, reason): (Truth, &str), message: &str, before: &[Condition]) -> Condition {
    let status = truth.as_str();
    let since = before.iter().find(|condition| condition.type_ == kind && condition.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: cut(message, LONGEST_MESSAGE),
        last_transition_time: since
            .map_or_else(|| Time(Timestamp::now()), |c| c.last_transition_time.clone()),
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ActiveRevision;

    fn place(name: &str, ready: bool) -> PlaceStatus {
        PlaceStatus { name: name.to_owned(), ready, message: "down".to_owned(), ..PlaceStatus::default() }
    }

    #[test]
    fn an_entry_without_a_revision_says_why_it_is_not_ready() {
        let refusal = crate::view::invalid(&crate::config::InvalidEntry {
            reason: "EntryInvalid",
            message: "entry a: mend it".to_owned(),
            faults: Vec::new(),
        });
        let view = View { refusal: Some(refusal), settled: true, ..View::default() };
        let ready = ready(&view, &[], &[]);
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NoRevision"));
        assert_eq!(ready.message, "entry a: mend it");
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let view = View { settled: true, ..View::default() };
        let first = ready(&view, &[place("a", true)], &[]);
        let long_ago = Time("2020-01-01T00:00:00Z".parse().unwrap());
        let before = Condition { last_transition_time: long_ago.clone(), ..first };
        let same = ready(&view, &[place("a", false)], std::slice::from_ref(&before));
        assert_eq!(same.last_transition_time, long_ago);
        let other = Condition { status: "True".to_owned(), ..before };
        assert_ne!(ready(&view, &[], &[other]).last_transition_time, long_ago);
    }

    #[test]
    fn what_a_process_wrote_that_ended_passes_as_unknown_until_a_pass_has_ended() {
        let long_ago = Time("2020-01-01T00:00:00Z".parse().unwrap());
        let was = Condition {
            status: "True".to_owned(),
            last_transition_time: long_ago.clone(),
            ..ready(&View::default(), &[], &[])
        };
        let active = ActiveRevision { revision: "0123".to_owned(), ..ActiveRevision::default() };
        let before = ProviderHealthStatus {
            active: Some(active),
            places: vec![place("a", true)],
            conditions: vec![was],
            ..ProviderHealthStatus::default()
        };
        let starting = status(&View::default(), Vec::new(), before.clone());
        let [ready, _] = starting.conditions.as_slice() else { panic!() };
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "Starting"));
        assert_ne!(ready.last_transition_time, long_ago);
        assert_eq!((&starting.active, &starting.places), (&before.active, &before.places));
        let again = status(&View::default(), Vec::new(), starting.clone());
        assert_eq!(again, starting, "and it is written once");

        let settled = status(&View { settled: true, ..View::default() }, Vec::new(), starting);
        assert_eq!((settled.active, settled.conditions[0].status.as_str()), (None, "False"));
    }
}
