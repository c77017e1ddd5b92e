//! Many Proxies of one entry: how many of them go at once, or come back, and how often one of them does.

use std::{collections::BTreeMap, time::Duration};

use egress_contract::{Error, State};
use jiff::Timestamp;

use crate::{
    api::{Phase, ProxyPlacement},
    core::{
        clock::Clock,
        conditions::READY,
        reconcile::Next,
        store::ProxyKey,
        tests::world::{Host, World, drive, spec},
    },
};

const MINUTE: Duration = Duration::from_secs(60);

/// A world with many Proxies, each passed over when it is due.
struct Fleet {
    world: World,
    host: Host,
    due: BTreeMap<ProxyKey, Timestamp>,
}

impl Fleet {
    fn new(size: usize) -> Self {
        let world = World::new();
        world.store.request_delete(&world.key);
        let now = world.clock.now();
        let key = |n| ProxyKey { namespace: "team-a".to_owned(), name: format!("p{n}") };
        let due: BTreeMap<_, _> = (0..size).map(|n| (key(n), now)).collect();
        due.keys().for_each(|key| drop(world.store.apply(key, spec())));
        world.entries.change("one", |active| active.replace.at_once = 3);
        let host = world.host();
        Self { world, host, due }
    }

    fn running(size: usize) -> Self {
        let mut fleet = Self::new(size);
        fleet.run(MINUTE, |_| ());
        assert_eq!(fleet.serving(), size);
        fleet
    }

    /// For so long; `look` sees what is after every pass.
    fn run(&mut self, time: Duration, mut look: impl FnMut(&Self)) {
        let end = self.world.clock.now() + time;
        while let Some((key, at)) = self.due.iter().min_by_key(|(_, at)| **at).map(|(k, at)| (k.clone(), *at))
        {
            if at > end {
                break;
            }
            let now = self.world.clock.now();
            self.world.clock.advance(Duration::try_from(at.duration_since(now)).unwrap_or_default());
            let next = drive(self.host.reconcile(&key), None).0.unwrap();
            let now = self.world.clock.now();
            match next {
                Next::Requeue(after) => self.due.insert(key, now + after),
                Next::Wait => self.due.remove(&key),
            };
            for turn in self.host.take_turns() {
                self.due.insert(turn, now);
            }
            look(self);
        }
        let left = end.duration_since(self.world.clock.now());
        self.world.clock.advance(Duration::try_from(left).unwrap_or_default());
    }

    /// People change what they want of all, or of those for which it is so.
    fn apply(&mut self, port: u16, of: impl Fn(&ProxyKey) -> bool) {
        let now = self.world.clock.now();
        for (key, due) in self.due.iter_mut().filter(|(key, _)| of(key)) {
            let mut spec = self.world.store.peek(key).unwrap().spec;
            spec.port = port;
            self.world.store.apply(key, spec);
            *due = now;
        }
    }

    fn count(&self, wanted: impl Fn(&crate::core::store::ProxyRecord) -> bool) -> usize {
        self.due.keys().filter(|key| self.world.store.peek(key).is_some_and(|record| wanted(&record))).count()
    }

    fn serving(&self) -> usize {
        self.count(|record| record.status.conditions.iter().any(|c| c.type_ == READY && c.status == "True"))
    }

    fn served_on(&self, port: u16) -> usize {
        self.world.backend.inner().machines.values().filter(|machine| machine.port == port).count()
    }
}

#[test]
fn a_change_of_many_takes_down_so_many_at_once_and_reaches_all() {
    let mut fleet = Fleet::running(20);
    fleet.apply(8080, |_| true);
    let mut least = 20;
    fleet.run(MINUTE * 4, |fleet| least = least.min(fleet.serving()));
    assert_eq!(least, 17, "three of twenty at once");
    assert_eq!((fleet.serving(), fleet.served_on(8080)), (20, 20));
    assert_eq!(fleet.world.backend.inner().faults, Vec::<String>::new());
}

#[test]
fn a_change_that_fails_ends_with_those_it_took_down_and_the_others_say_whom_they_wait_for() {
    let mut fleet = Fleet::running(20);
    fleet.world.backend.refuse_port(9999, Error::permanent("bad-port", "no such port"));
    fleet.apply(9999, |_| true);
    fleet.run(MINUTE * 30, |fleet| assert!(fleet.serving() >= 17));
    assert_eq!(fleet.count(|record| record.status.phase == Some(Phase::Failed)), 3);
    assert_eq!(fleet.served_on(3128), 17);
    let waiting = fleet.count(|record| {
        let status = &record.status;
        let told = status
            .message
            .as_ref()
            .is_some_and(|message| message.contains("replace.atOnce") && message.contains("team-a/p"));
        told && status.phase == Some(Phase::Running) && status.address.is_some()
    });
    assert_eq!(waiting, 17);
    // What does not serve needs no turn to be mended, and then the others have theirs.
    fleet.apply(8080, |_| true);
    fleet.run(MINUTE * 10, |_| ());
    assert_eq!((fleet.serving(), fleet.served_on(8080)), (20, 20));
}

#[test]
fn a_process_that_begins_in_the_middle_of_it_takes_down_no_more() {
    let mut fleet = Fleet::running(20);
    fleet.world.backend.refuse_port(9999, Error::permanent("bad-port", "no such port"));
    fleet.apply(9999, |_| true);
    fleet.run(MINUTE, |_| ());
    assert_eq!(fleet.serving(), 17);
    fleet.host = fleet.world.host();
    fleet.host.begin_anew();
    let now = fleet.world.clock.now();
    fleet.due.values_mut().for_each(|due| *due = now);
    fleet.run(Duration::from_secs(1), |fleet| assert_eq!(fleet.serving(), 17));
    fleet.host.seen_all();
    fleet.run(MINUTE * 30, |fleet| assert_eq!(fleet.serving(), 17));
}

#[test]
fn what_a_place_sets_free_comes_back_one_after_the_other() {
    let mut fleet = Fleet::new(60);
    fleet.world.backend.fail_always(&Error::permanent("down", "host h is broken"));
    fleet.run(MINUTE * 10, |_| ());
    assert_eq!(fleet.count(|record| record.status.phase == Some(Phase::Failed)), 60);
    fleet.world.backend.unfail();
    fleet.world.recover("home");
    let (began, mut most, mut seconds) = (fleet.world.clock.now(), 0, BTreeMap::<i64, usize>::new());
    let mut before = 0;
    fleet.run(MINUTE * 5, |fleet| {
        let making = |record: &crate::core::store::ProxyRecord| {
            record.status.instance.as_ref().is_some_and(|i| i.progress.is_some() && !i.created)
        };
        most = most.max(fleet.count(making));
        let begun = fleet.count(|record| record.status.failure.is_none());
        let second = fleet.world.clock.now().duration_since(began).as_secs();
        *seconds.entry(second).or_default() += begun - before;
        before = begun;
    });
    assert_eq!(fleet.serving(), 60);
    assert_eq!(most, 3, "so many at once as the entry says");
    let busy = seconds.values().filter(|begun| **begun > 0).count();
    assert!(busy >= 15 && seconds.values().all(|begun| *begun <= 6), "{seconds:?}");
}

#[test]
fn a_recovery_of_another_place_than_the_one_it_names_frees_nothing() {
    let world = World::new();
    world.apply(|spec| {
        spec.placement = Some(ProxyPlacement { zone: Some("here".to_owned()), ..ProxyPlacement::default() });
    });
    world.backend.fail_always(&Error::permanent("down", "host here is broken"));
    let host = world.host();
    world.pass_for(&host, MINUTE * 5);
    let now = world.clock.now();
    world.entries.change("one", |active| {
        let long_ago = now - MINUTE * 60;
        let seen = [("here".to_owned(), long_ago), ("there".to_owned(), now)];
        active.recoveries = std::sync::Arc::new(seen.into());
    });
    world.pass_for(&host, MINUTE * 5);
    assert_eq!(world.backend.calls("create"), 1);
    world.recover("here");
    world.pass_for(&host, MINUTE * 5);
    assert_eq!(world.backend.calls("create"), 2, "once, and not again for the same recovery");
}

#[test]
fn one_proxy_is_replaced_so_often_within_an_hour_and_then_when_that_is_over_or_somebody_asks() {
    let (world, host) = World::running();
    world.entries.change("one", |active| active.replace.per_hour = 3);
    let begun = world.clock.now();
    let ends = || {
        let name = world.name();
        world.backend.machine(&name, |machine| machine.state = State::Deleting);
        world.backend.inner().machines.remove(&name);
        world.pass_for(&host, Duration::from_secs(40));
    };
    for _ in 0..3 {
        ends();
        world.pass_for(&host, MINUTE * 11);
        assert_eq!(world.status().phase, Some(Phase::Running));
    }
    assert_eq!(world.status().incarnation, 4);
    ends();
    let status = world.status();
    assert_eq!((status.phase, status.instance), (Some(Phase::Failed), None));
    assert_eq!(world.condition(READY), ("False".into(), "ReplacedTooOften".into()));
    assert!(status.message.unwrap().contains("3 times within an hour"));
    world.recover("home");
    world.pass_for(&host, MINUTE * 10);
    assert_eq!(world.status().incarnation, 4, "it waits, also where its host comes and goes");
    world.until(&host, |record| record.status.phase == Some(Phase::Running));
    let waited = world.clock.now().duration_since(begun).as_secs();
    assert!((3600..3800).contains(&waited), "until the first of them was an hour ago: {waited} s");

    ends();
    world.pass_for(&host, MINUTE);
    let failed = world.status().phase;
    world.store.set_retry(&world.key, "now");
    world.pass_for(&host, MINUTE);
    assert_eq!((failed, world.status().phase), (Some(Phase::Failed), Some(Phase::Running)));
    world.backend.assert_only(&world.name());
}
