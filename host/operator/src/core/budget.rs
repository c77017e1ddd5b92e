//! How much of an entry may be taken down, or come back, at once, and how often one Proxy may be replaced.
//!
//! A change that reaches many Proxies is also a mistake that reaches many. So of one entry only so many that serve are
//! taken down for a changed spec until they serve again; one whose successor fails keeps its place, and the mistake
//! ends there. What comes back after failures (a place that was down) has places of its own, which it keeps only
//! while it is worked on: a Proxy that can't come back holds up no other.
//!
//! Places are counted in memory. A process that begins finds who is under way by looking at each Proxy once, and
//! gives no place before it has.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::core::store::ProxyKey;

/// The time in which replacements of one Proxy are counted.
pub const WINDOW: Duration = Duration::from_secs(3600);

/// How an entry's instances are replaced, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ReplaceConfig {
    /// Proxies that are taken down for a changed spec, and as many that come back after failures.
    pub at_once: u32,
    /// How often within an hour one Proxy gets another instance because the one before ended by itself.
    pub per_hour: u32,
}

impl Default for ReplaceConfig {
    fn default() -> Self {
        Self { at_once: 10, per_hour: 10 }
    }
}

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It served, and is taken down.
    Replacing,
    /// It failed, and tries again.
    Returning,
}

#[derive(Default)]
struct Places {
    taken: BTreeSet<ProxyKey>,
    /// By their turns; thousands may wait.
    waiting: BTreeMap<u64, ProxyKey>,
    turns: HashMap<ProxyKey, u64>,
    last: u64,
}

impl Places {
    fn wait(&mut self, key: &ProxyKey) {
        if !self.turns.contains_key(key) {
            self.last += 1;
            self.turns.insert(key.clone(), self.last);
            self.waiting.insert(self.last, key.clone());
        }
    }

    fn wait_no_more(&mut self, key: &ProxyKey) {
        if let Some(turn) = self.turns.remove(key) {
            self.waiting.remove(&turn);
        }
    }

    fn next(&mut self) -> Option<ProxyKey> {
        let (_, key) = self.waiting.pop_first()?;
        self.turns.remove(&key);
        Some(key)
    }
}

#[derive(Default)]
struct State {
    closed: bool,
    entries: HashMap<(String, Kind), Places>,
    due: BTreeSet<ProxyKey>,
}

/// The places of all entries.
#[derive(Default)]
pub struct Budgets(Mutex<State>);

impl Budgets {
    /// Everything anew, and no place for a replacement until [`Self::open`].
    pub fn close(&self) {
        *self.state() = State { closed: true, ..State::default() };
    }

    /// Every Proxy was looked at.
    pub fn open(&self) {
        let mut state = self.state();
        state.closed = false;
        let State { entries, due, .. } = &mut *state;
        for places in entries.values_mut() {
            due.extend(std::iter::from_fn(|| places.next()));
        }
    }

    /// A place, or None and a turn; Some also for who has one.
    pub fn take(&self, entry: &str, kind: Kind, key: &ProxyKey, at_once: u32) -> bool {
        let mut state = self.state();
        let closed = state.closed && kind == Kind::Replacing;
        let places = state.entries.entry((entry.to_owned(), kind)).or_default();
        let room = places.taken.len() < usize::try_from(at_once.max(1)).unwrap_or(usize::MAX);
        if places.taken.contains(key) || (room && !closed) {
            places.wait_no_more(key);
            places.taken.insert(key.clone());
            return true;
        }
        places.wait(key);
        false
    }

    /// Somebody took it down before this process began.
    pub fn note(&self, entry: &str, key: &ProxyKey) {
        let mut state = self.state();
        state.entries.entry((entry.to_owned(), Kind::Replacing)).or_default().taken.insert(key.clone());
    }

    /// It needs no place of this kind now; a turn that it waits for stays its own.
    pub fn give_back(&self, kind: Kind, key: &ProxyKey) {
        let mut state = self.state();
        let State { entries, due, .. } = &mut *state;
        for (_, places) in entries.iter_mut().filter(|((_, of), _)| *of == kind) {
            if places.taken.remove(key) {
                due.extend(places.next());
            }
        }
    }

    /// It needs no place of any kind any more, nor a turn.
    pub fn leave(&self, key: &ProxyKey) {
        for places in self.state().entries.values_mut() {
            places.wait_no_more(key);
        }
        [Kind::Replacing, Kind::Returning].into_iter().for_each(|kind| self.give_back(kind, key));
    }

    /// Whose turn has come since this was asked last.
    pub fn due(&self) -> BTreeSet<ProxyKey> {
        std::mem::take(&mut self.state().due)
    }

    /// Some of those that have a place.
    pub fn some(&self, entry: &str, kind: Kind, most: usize) -> Vec<ProxyKey> {
        let state = self.state();
        let places = state.entries.get(&(entry.to_owned(), kind));
        places.map(|places| places.taken.iter().take(most).cloned().collect()).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a Proxy must go without another instance, with what ended by itself before, oldest first.
pub fn used_up(ends: &[Timestamp], per_hour: u32, now: Timestamp) -> Option<Duration> {
    let most = usize::try_from(per_hour.max(1)).unwrap_or(usize::MAX);
    let oldest = ends.get(ends.len().checked_sub(most)?)?;
    let over = oldest.checked_add(WINDOW).ok()?;
    Duration::try_from(over.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// Those that still count, with this one; no more than are ever asked for.
pub fn ends(before: impl IntoIterator<Item = Timestamp>, now: Timestamp, per_hour: u32) -> Vec<Timestamp> {
    let since = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
    let mut ends: Vec<_> = before.into_iter().filter(|end| *end > since && *end <= now).collect();
    ends.push(now);
    let most = usize::try_from(per_hour.max(1)).unwrap_or(usize::MAX);
    ends.split_off(ends.len().saturating_sub(most))
}

/// When each place of an entry was last found ready after it had not been.
pub type Recoveries = BTreeMap<String, Timestamp>;

/// The recovery that concerns a Proxy: of the place that it names, else of any, since only its provider knows where
/// it is.
pub fn recovery(recoveries: &Recoveries, named: Option<&str>) -> Option<Timestamp> {
    let of_named = named.and_then(|place| recoveries.get(place));
    of_named.or_else(|| recoveries.values().max()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ProxyKey {
        ProxyKey { namespace: "a".to_owned(), name: name.to_owned() }
    }

    fn names(keys: impl IntoIterator<Item = ProxyKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn so_many_have_a_place_and_the_next_gets_one_when_it_is_given_back() {
        let budgets = Budgets::default();
        let take = |name| budgets.take("one", Kind::Replacing, &key(name), 2);
        assert_eq!(["a", "b", "c", "d", "a"].map(take), [true, true, false, false, true]);
        assert!(budgets.take("two", Kind::Replacing, &key("c"), 2), "each entry has its own");
        assert!(budgets.take("one", Kind::Returning, &key("c"), 2), "each kind has its own");
        budgets.give_back(Kind::Replacing, &key("a"));
        assert_eq!(names(budgets.due()), ["c"], "who waits longest");
        assert_eq!(names(budgets.some("one", Kind::Replacing, 5)), ["b"]);
        budgets.leave(&key("d"));
        assert!(take("c") && !take("a"));
        budgets.give_back(Kind::Replacing, &key("b"));
        assert_eq!(names(budgets.due()), ["a"], "d wants none any more");
    }

    #[test]
    fn a_process_that_begins_gives_no_place_before_it_knows_who_has_one() {
        let budgets = Budgets::default();
        budgets.close();
        assert!(!budgets.take("one", Kind::Replacing, &key("a"), 1));
        assert!(budgets.take("one", Kind::Returning, &key("a"), 1), "nothing is taken down by that");
        budgets.note("one", &key("b"));
        budgets.open();
        assert_eq!(names(budgets.due()), ["a"]);
        assert!(!budgets.take("one", Kind::Replacing, &key("a"), 1));
    }

    #[test]
    fn so_many_within_an_hour_and_no_more() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let mut seen = Vec::new();
        for minute in [0, 10, 20] {
            assert_eq!(used_up(&seen, 3, at(minute)), None);
            seen = ends(seen, at(minute), 3);
        }
        assert_eq!(used_up(&seen, 3, at(30)), Some(Duration::from_secs(30 * 60)));
        assert_eq!(used_up(&seen, 3, at(60)), None);
        assert_eq!(ends(seen, at(65), 3), [10, 20, 65].map(at));
    }
}
