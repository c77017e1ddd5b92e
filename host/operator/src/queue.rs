//! Which Proxy comes next: first due, first served, and each at most once at a time.
//!
//! Order is a promise here. Where work is taken in any order, a host that has more to do than it can do
//! looks at some Proxies again and again and at others never.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio::time::Instant;

use crate::core::store::ProxyKey;

/// Pure: it is told the time.
#[derive(Default)]
pub struct Queue {
    due: BTreeSet<(Instant, u64, ProxyKey)>,
    at: HashMap<ProxyKey, (Instant, u64)>,
    running: HashSet<ProxyKey>,
    /// Asked for while it ran.
    again: HashSet<ProxyKey>,
    /// Those due at one time come in the order they were asked for.
    asked: u64,
}

impl Queue {
    /// Asks for a pass at that time; an earlier one that was asked for stays.
    pub fn ask(&mut self, key: ProxyKey, at: Instant) {
        if self.running.contains(&key) {
            self.again.insert(key);
            return;
        }
        if let Some((before, asked)) = self.at.get(&key).copied() {
            if before <= at {
                return;
            }
            self.due.remove(&(before, asked, key.clone()));
        }
        self.asked += 1;
        self.at.insert(key.clone(), (at, self.asked));
        self.due.insert((at, self.asked, key));
    }

    /// What runs now is to run once more: it may have looked before something changed.
    pub fn ask_running(&mut self) {
        self.again.extend(self.running.iter().cloned());
    }

    /// All that wait are due now.
    pub fn hurry(&mut self, now: Instant) {
        let waiting = self.due.split_off(&(now, u64::MAX, ProxyKey::default()));
        for (_, asked, key) in waiting {
            self.at.insert(key.clone(), (now, asked));
            self.due.insert((now, asked, key));
        }
    }

    /// All that wait or run.
    pub fn keys(&self) -> HashSet<ProxyKey> {
        self.at.keys().chain(&self.running).cloned().collect()
    }

    /// The one to begin now.
    pub fn take(&mut self, now: Instant) -> Option<ProxyKey> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, _, key) = self.due.pop_first()?;
        self.at.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// When there is one to begin.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// A pass has ended, and asks for the next one, or not.
    pub fn ended(&mut self, key: ProxyKey, next: Option<Instant>, now: Instant) {
        self.running.remove(&key);
        let next = if self.again.remove(&key) { Some(now) } else { next };
        if let Some(at) = next {
            self.ask(key, at);
        }
    }

    /// It is gone.
    pub fn forget(&mut self, key: &ProxyKey) {
        self.again.remove(key);
        if let Some((at, asked)) = self.at.remove(key) {
            self.due.remove(&(at, asked, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> ProxyKey {
        ProxyKey { namespace: "a".to_owned(), name: name.to_owned() }
    }

    fn take_all(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.take(now)).map(|key| key.name).collect()
    }

    #[test]
    fn what_is_due_first_is_served_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (name, seconds) in [("c", 3), ("a", 1), ("b", 2), ("x", 9)] {
            queue.ask(key(name), now + SECOND * seconds);
        }
        assert_eq!(queue.next(), Some(now + SECOND));
        assert_eq!(take_all(&mut queue, now), [""; 0]);
        assert_eq!(take_all(&mut queue, now + SECOND * 3), ["a", "b", "c"]);
    }

    #[test]
    fn under_more_work_than_can_be_done_nobody_is_passed_over() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["a", "b", "c", "d", "e"] {
            queue.ask(key(name), now);
        }
        let mut order = String::new();
        for _ in 0..10 {
            // One at a time, and each is due again at once.
            let next = queue.take(now).unwrap();
            order.push_str(&next.name);
            queue.ended(next, Some(now), now);
        }
        assert_eq!(order, "abcdeabcde");
    }

    #[test]
    fn a_proxy_never_runs_twice_at_once_and_what_came_meanwhile_is_not_lost() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.ask(key("a"), now);
        let running = queue.take(now).unwrap();
        queue.ask(key("a"), now);
        queue.ask(key("a"), now);
        assert_eq!(queue.take(now), None);
        queue.ended(running, Some(now + SECOND * 3600), now);
        assert_eq!(take_all(&mut queue, now), ["a"], "once, and not in an hour");
        queue.ended(key("a"), None, now);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.ask(key("a"), now + SECOND * 30);
        queue.ask(key("a"), now);
        queue.ask(key("a"), now + SECOND * 60);
        assert_eq!(take_all(&mut queue, now), ["a"]);
        assert_eq!(take_all(&mut queue, now + SECOND * 60), [""; 0]);
    }

    #[test]
    fn who_waits_can_be_hurried_and_keeps_his_turn() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (name, seconds) in [("a", 9), ("b", 3), ("c", 0)] {
            queue.ask(key(name), now + SECOND * seconds);
        }
        queue.hurry(now);
        assert_eq!(take_all(&mut queue, now), ["a", "b", "c"], "as they were asked for");
        queue.ended(key("a"), None, now);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_proxy_that_is_gone_asks_for_nothing() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.ask(key("a"), now);
        queue.ask(key("b"), now);
        let running = queue.take(now).unwrap();
        queue.ask_running();
        queue.forget(&running);
        queue.forget(&key("b"));
        queue.ended(running, None, now);
        assert_eq!(queue.next(), None);
    }
}
