//! The places of an entry: each is checked by a task of its own, and its last answer is kept.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use egress_contract::{EntryName, Error, Health, Provider};
use egress_runtime::Revision;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    api::{PlaceStatus, ProviderHealthStatus},
    view::cut,
};

/// Between two checks of a place.
const CHECK: Duration = Duration::from_secs(30);
const MOST_PLACES: usize = 200;
const MOST_DETAILS: usize = 32;
const LONGEST_DETAIL: usize = 256;
const LONGEST_MESSAGE: usize = 1024;

type Answer = (String, Result<Health, Error>);

/// Checks the places of the active revision, each on its own.
pub(super) struct Places {
    revision: Option<Arc<Revision>>,
    pub(super) last: BTreeMap<String, PlaceStatus>,
    checks: JoinSet<()>,
    answer: mpsc::Sender<Answer>,
    pub(super) answers: mpsc::Receiver<Answer>,
}

impl Places {
    pub(super) fn new(before: Vec<PlaceStatus>) -> Self {
        let (answer, answers) = mpsc::channel(16);
        let last = BTreeMap::new();
        let mut places = Self { revision: None, last, checks: JoinSet::new(), answer, answers };
        places.remember(before);
        places
    }

    /// What somebody else was answered.
    pub(super) fn remember(&mut self, seen: Vec<PlaceStatus>) {
        self.last = seen.into_iter().map(|place| (place.name.clone(), place)).collect();
    }

    pub(super) fn follow(&mut self, revision: Option<Arc<Revision>>) {
        let same = match (&self.revision, &revision) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if same {
            return;
        }
        self.checks.abort_all();
        if let Some(revision) = &revision {
            self.last.retain(|name, _| revision.places().contains(name));
            for place in revision.places().iter().take(MOST_PLACES) {
                self.checks.spawn(check(Arc::clone(revision), place.clone(), self.answer.clone()));
            }
        }
        self.revision = revision;
    }

    /// How many could serve a create, and how many not.
    pub(super) fn count(&self, entry: &EntryName) {
        let ready = self.last.values().filter(|place| place.ready).count();
        for (state, count) in [("ready", ready), ("not-ready", self.last.len().saturating_sub(ready))] {
            let count = u32::try_from(count).map_or(f64::MAX, f64::from);
            metrics::gauge!("egress_places", "entry" => entry.to_string(), "state" => state).set(count);
        }
    }

    pub(super) fn learn(&mut self, place: &str, answer: Result<Health, Error>) {
        let before = self.last.get(place);
        let recovered = match (before, &answer) {
            (Some(PlaceStatus { ready: false, .. }), Ok(Health { ready: true, .. })) => {
                Some(Time(Timestamp::now()))
            }
            (before, _) => before.and_then(|before| before.recovered.clone()),
        };
        let status = match answer {
            Ok(health) => PlaceStatus {
                name: place.to_owned(),
                ready: health.ready,
                reason: cut(&health.reason, 128),
                message: cut(&health.message, LONGEST_MESSAGE),
                recovered,
                details: details(&health.details),
            },
            Err(error) => PlaceStatus {
                name: place.to_owned(),
                ready: false,
                reason: cut(&error.reason, 128),
                message: cut(&error.message, LONGEST_MESSAGE),
                recovered,
                details: BTreeMap::new(),
            },
        };
        self.last.insert(place.to_owned(), status);
    }

    /// In config order.
    pub(super) fn show(&self) -> Vec<PlaceStatus> {
        let Some(revision) = &self.revision else { return Vec::new() };
        let unchecked = |name: &String| PlaceStatus {
            name: name.clone(),
            reason: "unchecked".to_owned(),
            message: "it has not answered yet".to_owned(),
            ..PlaceStatus::default()
        };
        let shown = revision.places().iter().take(MOST_PLACES);
        shown.map(|name| self.last.get(name).cloned().unwrap_or_else(|| unchecked(name))).collect()
    }
}

/// One place, for as long as the revision is active.
async fn check(revision: Arc<Revision>, place: String, answer: mpsc::Sender<Answer>) {
    loop {
        let health = revision.check(&place).await;
        if answer.send((place.clone(), health)).await.is_err() {
            return;
        }
        tokio::time::sleep(CHECK).await;
    }
}

/// Whether they differ at most in what was measured.
pub(super) fn same_but_measured(one: &ProviderHealthStatus, other: &ProviderHealthStatus) -> bool {
    let aside = |status: &ProviderHealthStatus| ProviderHealthStatus {
        places: status.places.iter().map(without_numbers).collect(),
        ..status.clone()
    };
    aside(one) == aside(other)
}

/// As it is when nobody measured anything; that there is a figure stays.
fn without_numbers(place: &PlaceStatus) -> PlaceStatus {
    let mut place = place.clone();
    for value in place.details.values_mut().filter(|value| value.parse::<f64>().is_ok()) {
        value.clear();
    }
    place
}

pub(super) fn details(details: &Value) -> BTreeMap<String, String> {
    let fields = details.as_object().into_iter().flatten().take(MOST_DETAILS);
    let text = |value: &Value| match value {
        Value::String(text) => cut(text, LONGEST_DETAIL),
        other => cut(&other.to_string(), LONGEST_DETAIL),
    };
    fields.map(|(key, value)| (cut(key, 64), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_moves_is_no_news_and_anything_else_is() {
        let shows = |details: &[(&str, &str)], message: &str| {
            let details = details.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let (details, message) = (details.collect(), message.to_owned());
            let places =
                vec![PlaceStatus { name: "home".to_owned(), details, message, ..PlaceStatus::default() }];
            ProviderHealthStatus { places, ..ProviderHealthStatus::default() }
        };
        let before = shows(&[("latencyMs", "12"), ("version", "v1.36.3")], "");
        for (other, news) in [
            (shows(&[("latencyMs", "250.5"), ("version", "v1.36.3")], ""), false),
            (shows(&[("latencyMs", "12"), ("version", "v1.37.0")], ""), true),
            (shows(&[("latencyMs", "12"), ("version", "v1.36.3")], "slow"), true),
            (shows(&[("version", "v1.36.3")], ""), true),
        ] {
            assert_eq!(!same_but_measured(&before, &other), news, "{:?}", other.places);
        }
    }

    #[test]
    fn details_are_short_values() {
        let told = details(&json!({ "version": "v1", "pods": 3, "long": "x".repeat(1000) }));
        assert_eq!(told["version"], "v1");
        assert_eq!(told["pods"], "3");
        assert!(told["long"].len() <= LONGEST_DETAIL);
        let many: Value =
            (0..100).map(|n| (n.to_string(), json!(n))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(details(&many).len(), MOST_DETAILS);
    }

    #[test]
    fn a_place_that_can_not_be_asked_is_not_ready() {
        let mut places = Places::new(Vec::new());
        places
            .learn("a", Err(Error::transient("limit-time", "check took longer than limits.checkMs, 20000")));
        assert_eq!((places.last["a"].ready, places.last["a"].reason.as_str()), (false, "limit-time"));
    }

    #[test]
    fn a_place_recovers_when_it_is_ready_after_it_was_not() {
        let mut places = Places::new(Vec::new());
        let ready = || {
            Ok(Health { ready: true, reason: "ready".to_owned(), message: String::new(), details: json!({}) })
        };
        places.learn("a", ready());
        assert_eq!(places.last["a"].recovered, None, "it was never seen otherwise");
        places.learn("a", Err(Error::transient("timeout", "no answer")));
        places.learn("a", ready());
        let recovered = places.last["a"].recovered.clone();
        assert!(recovered.is_some());
        places.learn("a", ready());
        assert_eq!(places.last["a"].recovered, recovered, "it stays ready");
        let mut successor = Places::new(places.last.into_values().collect());
        successor.learn("a", ready());
        assert_eq!(successor.last["a"].recovered, recovered, "over a start, too");
    }
}
