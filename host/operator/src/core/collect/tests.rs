mod leftovers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::{
    Created, Deleted, Error, Health, Installation, Instance, Item, Page, Pending, Provider, Spec, Target,
};
use jiff::Timestamp;

use super::*;
use crate::core::{clock::Clock, store::ProxyKey};

const HOUR: Duration = Duration::from_secs(3600);
const POLICY: Policy = Policy { grace: HOUR, removes: Removes::Yes };
const PAGE: usize = 3;

/// A backend, the Proxies, and the time, all in one.
#[derive(Default)]
struct State {
    now: i64,
    since: i64,
    items: BTreeMap<String, (String, Item)>,
    owners: BTreeMap<String, Owner>,
    namespaces: BTreeSet<String>,
    no_census: Option<NoCensus>,
    dead: BTreeSet<String>,
    unread: Vec<String>,
    delete_steps: u32,
    deletes: Vec<Target>,
    delete_error: Option<Error>,
}

#[derive(Clone, Default)]
struct World(Arc<Mutex<State>>);

impl World {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn pass(&self, time: Duration) {
        self.with(|state| state.now += i64::try_from(time.as_secs()).unwrap());
    }

    /// An instance as create makes it, and, if it is owned, its Proxy.
    fn make(&self, proxy: &str, owned: bool) -> Item {
        let uid = format!("uid-{proxy}");
        let name = installation().instance_name(proxy, &uid, 1).to_string();
        let mark = installation().mark(&uid, 1, "team-a", proxy);
        self.with(|state| {
            let created_ms = Some(u64::try_from(state.now * 1000).unwrap());
            let item =
                Item { id: format!("id-{proxy}"), name: name.clone(), leftover: None, mark, created_ms };
            state.items.insert(proxy.to_owned(), ("here".to_owned(), item.clone()));
            if owned {
                state.owners.insert(uid, owner(proxy, Some(&name)));
            }
            item
        })
    }

    fn leftover(&self, proxy: &str) {
        let item = self.make(proxy, false);
        let bare = Item { leftover: Some("a seed".into()), mark: Vec::new(), created_ms: None, ..item };
        self.with(|state| state.items.insert(proxy.to_owned(), ("here".to_owned(), bare)));
    }

    fn there(&self) -> Vec<String> {
        self.with(|state| state.items.keys().cloned().collect())
    }
}

fn owner(proxy: &str, instance: Option<&str>) -> Owner {
    Owner {
        key: ProxyKey { namespace: "team-a".into(), name: proxy.into() },
        entry: instance.map(|_| "entry".to_owned()),
        instance: instance.map(str::to_owned),
        id: None,
        readable: true,
    }
}

fn installation() -> Installation {
    Installation::new("ours")
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        self.with(|state| Timestamp::from_second(state.now).unwrap())
    }
}

#[async_trait]
impl Owners for World {
    async fn census(&self) -> Result<Census, NoCensus> {
        self.with(|state| match &state.no_census {
            Some(why) => Err(why.clone()),
            None => Ok(Census::new(
                state.owners.clone(),
                state.namespaces.clone(),
                Timestamp::from_second(state.since).unwrap(),
            )),
        })
    }
}

#[async_trait]
impl Provider for World {
    async fn create(&self, _: &Target, _: &Spec, _: &[u8]) -> Result<Created, Error> {
        unreachable!("a collector makes nothing")
    }

    async fn get(&self, _: &Target) -> Result<Instance, Error> {
        unreachable!("a collector lists")
    }

    async fn check(&self, _: &str) -> Result<Health, Error> {
        unreachable!("a collector checks nothing")
    }

    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        self.with(|state| {
            if state.dead.contains(place) {
                return Err(Error::transient("connect", format!("{place} does not answer")));
            }
            let begin: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let here: Vec<Item> =
                state.items.values().filter(|(at, _)| at == place).map(|(_, item)| item.clone()).collect();
            let items: Vec<Item> = here.iter().skip(begin).take(PAGE).cloned().collect();
            let end = begin + items.len();
            let next = (end < here.len()).then(|| end.to_string());
            Ok(Page { items, unread: state.unread.clone(), next })
        })
    }

    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        self.with(|state| {
            state.deletes.push(target.clone());
            if let Some(error) = state.delete_error.take() {
                return Err(error);
            }
            let step: u32 = target.progress.as_deref().map_or(0, |progress| progress.parse().unwrap());
            if step < state.delete_steps {
                let progress = (step + 1).to_string();
                let message = "it is on its way out".into();
                let poll = Duration::ZERO;
                return Ok(Deleted::Pending(Pending { progress, message, poll, id: None }));
            }
            state.items.retain(|_, (_, item)| Some(&item.id) != target.id.as_ref());
            Ok(Deleted::Done)
        })
    }
}

struct Sweeps {
    world: World,
    collector: Collector<World>,
    policy: Policy,
    confirmed: Option<String>,
}

impl Sweeps {
    fn new() -> (World, Self) {
        let world = World::default();
        world.with(|state| state.now = 1_000_000);
        let collector = Collector::new(world.clone(), installation(), Arc::new(world.clone()));
        (world.clone(), Self { world, collector, policy: POLICY, confirmed: None })
    }

    /// A sweep of two places, and all removals that it begins, to their end.
    async fn sweep(&mut self) -> Report {
        let places = ["here".to_owned(), "there".to_owned()];
        let report =
            self.collector.sweep(&self.world, &places, self.policy, self.confirmed.as_deref()).await.unwrap();
        while self.collector.remove(&self.world).await.1.is_some() {}
        report
    }

    async fn sweeps(&mut self, n: usize) -> Report {
        let mut last = Report::default();
        for _ in 0..n {
            self.world.pass(HOUR);
            last = self.sweep().await;
        }
        last
    }
}

fn fates(report: &Report) -> Vec<&Fate> {
    report.ownerless.iter().map(|judged| &judged.fate).collect()
}

#[tokio::test]
async fn what_nobody_owns_goes_after_two_sweeps_and_its_grace_and_nothing_else_does() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("owned", true);
    world.make("orphan", false);
    world.pass(Duration::from_secs(1800));
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce]);
    world.pass(Duration::from_secs(600));
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::Grace(Duration::from_secs(1200))]);
    assert_eq!(world.there(), ["orphan", "owned"]);
    world.pass(Duration::from_secs(1200));
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::Going(String::new())]);
    assert_eq!(world.there(), ["owned"]);
    let target = world.with(|state| state.deletes[0].clone());
    assert_eq!(
        (target.uid.as_str(), target.incarnation, target.id.as_deref()),
        ("uid-orphan", 1, Some("id-orphan"))
    );
    assert_eq!(sweeps.sweeps(3).await.ownerless, []);
}

#[tokio::test]
async fn an_old_orphan_is_not_removed_by_the_first_sweep_of_a_process() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("orphan", false);
    world.pass(HOUR * 100);
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce]);
    assert_eq!(world.there(), ["orphan"]);
}

#[tokio::test]
async fn an_unknown_age_is_counted_from_the_first_sight() {
    let (world, mut sweeps) = Sweeps::new();
    world.leftover("seed");
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce]);
    world.pass(HOUR / 2);
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::Grace(HOUR / 2)]);
    world.pass(HOUR / 2);
    sweeps.sweep().await;
    assert_eq!(world.there(), Vec::<String>::new());
    // Without a mark there is no UID to name.
    assert_eq!(world.with(|state| state.deletes[0].uid.clone()), "");
}

#[tokio::test]
async fn two_sweeps_running_begin_anew_when_an_owner_was_seen_between_them() {
    let (world, mut sweeps) = Sweeps::new();
    let item = world.make("web", false);
    world.pass(HOUR * 2);
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce]);
    world.with(|state| state.owners.insert("uid-web".into(), owner("web", Some(&item.name))));
    assert_eq!(sweeps.sweep().await.ownerless, []);
    world.with(|state| state.owners.clear());
    assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce]);
}

#[tokio::test]
async fn an_owner_that_comes_at_the_last_moment_keeps_its_instance() {
    let (world, mut sweeps) = Sweeps::new();
    let item = world.make("web", false);
    world.pass(HOUR * 2);
    sweeps.sweep().await;
    let places = ["here".to_owned()];
    sweeps.collector.sweep(&world, &places, POLICY, None).await.unwrap();
    world.with(|state| state.owners.insert("uid-web".into(), owner("web", Some(&item.name))));
    assert_eq!(sweeps.collector.remove(&world).await, (Vec::new(), None));
    assert_eq!(world.there(), ["web"]);
}

#[tokio::test]
async fn an_earlier_incarnation_of_a_proxy_is_nobodys() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("web", false);
    let next = installation().instance_name("web", "uid-web", 2).to_string();
    world.with(|state| state.owners.insert("uid-web".into(), owner("web", Some(&next))));
    sweeps.sweeps(2).await;
    assert_eq!(world.there(), Vec::<String>::new());
}

#[tokio::test]
async fn a_proxy_that_can_not_be_read_keeps_all_that_bears_its_uid() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("web", false);
    let unreadable = Owner { readable: false, ..owner("web", None) };
    world.with(|state| state.owners.insert("uid-web".into(), unreadable));
    let report = sweeps.sweeps(3).await;
    assert_eq!(world.there(), ["web"]);
    assert!(matches!(report.kept.as_slice(), [(_, _, Verdict::Unreadable(_))]));
}

#[tokio::test]
async fn another_installations_are_never_touched_nor_counted() {
    let (world, mut sweeps) = Sweeps::new();
    let item = world.make("web", false);
    let theirs = Installation::new("theirs");
    let marked = Item { mark: theirs.mark("uid-web", 1, "team-a", "web"), ..item.clone() };
    let name = theirs.instance_name("web", "uid-web", 1).to_string();
    let named = Item { mark: Vec::new(), name, id: "other".into(), ..item };
    world.with(|state| {
        state.items.clear();
        state.items.insert("marked".into(), ("here".into(), marked));
        state.items.insert("named".into(), ("here".into(), named));
    });
    let report = sweeps.sweeps(3).await;
    assert_eq!((report.instances, report.ownerless.len()), (0, 0));
    assert_eq!(world.there(), ["marked", "named"]);
}

#[tokio::test]
async fn namespaces_that_are_not_watched_may_hold_the_owner() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("web", false);
    world.leftover("seed");
    world.with(|state| state.namespaces.insert("team-b".into()));
    let report = sweeps.sweeps(3).await;
    assert_eq!(world.there(), ["seed", "web"]);
    assert!(report.kept.iter().all(|(_, _, verdict)| *verdict == Verdict::Unwatched));
    world.with(|state| state.namespaces.insert("team-a".into()));
    sweeps.sweeps(2).await;
    assert_eq!(world.there(), ["seed"], "whose a leftover without a mark is, is still not known");
}

#[tokio::test]
async fn what_is_shared_goes_though_not_all_namespaces_are_watched() {
    let (world, mut sweeps) = Sweeps::new();
    world.leftover("image");
    world.with(|state| {
        state.namespaces.insert("team-b".into());
        let (_, image) = state.items.get_mut("image").unwrap();
        image.name = format!("proxy-base-{}-entry-debian", installation().hash());
    });
    sweeps.sweeps(3).await;
    assert_eq!(world.there(), [""; 0]);
}

#[tokio::test]
async fn without_a_census_nothing_is_removed() {
    for why in [NoCensus::KindGoing, NoCensus::Unread("proxies is forbidden".into())] {
        let (world, mut sweeps) = Sweeps::new();
        world.make("orphan", false);
        world.pass(HOUR * 2);
        sweeps.sweep().await;
        let places = ["here".to_owned()];
        // Also when it goes away between the sweep and the removal.
        sweeps.collector.sweep(&world, &places, POLICY, None).await.unwrap();
        world.with(|state| state.no_census = Some(why.clone()));
        assert_eq!(sweeps.collector.remove(&world).await, (Vec::new(), None));
        assert_eq!(sweeps.collector.sweep(&world, &places, POLICY, None).await, Err(why));
        assert_eq!(world.there(), ["orphan"]);
        world.with(|state| state.no_census = None);
        sweeps.sweep().await;
        assert_eq!(world.there(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn more_orphans_than_the_brake_allows_wait_for_a_word_about_exactly_them() {
    let (world, mut sweeps) = Sweeps::new();
    for n in 0..25 {
        world.make(&format!("proxy-{n}"), n > 2);
    }
    // Three of 25 are more than a tenth.
    let report = sweeps.sweeps(3).await;
    let asks = report.asks.clone().unwrap();
    assert_eq!((asks.ownerless, asks.instances), (3, 25));
    assert_eq!(fates(&report), [&Fate::Asked; 3]);
    assert_eq!(world.there().len(), 25);
    // One more, and the word was about others.
    world.make("late", false);
    sweeps.confirmed = Some(asks.sweep.clone());
    let report = sweeps.sweeps(1).await;
    assert_ne!(report.asks.as_ref().unwrap().sweep, asks.sweep);
    assert_eq!(world.there().len(), 26);
    sweeps.confirmed = report.asks.map(|asks| asks.sweep);
    sweeps.sweeps(2).await;
    assert_eq!(world.there().len(), 22);
}

#[tokio::test]
async fn two_of_twenty_go_without_a_word() {
    let (world, mut sweeps) = Sweeps::new();
    for n in 0..20 {
        world.make(&format!("proxy-{n}"), n > 1);
    }
    sweeps.sweeps(2).await;
    assert_eq!(world.there().len(), 18);
}

#[tokio::test]
async fn a_removal_under_way_stops_when_a_later_sweep_asks() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("first", false);
    world.with(|state| state.delete_steps = 1);
    world.pass(HOUR * 2);
    sweeps.sweep().await;
    let places = ["here".to_owned()];
    sweeps.collector.sweep(&world, &places, POLICY, None).await.unwrap();
    assert!(sweeps.collector.remove(&world).await.1.is_some());
    world.make("second", false);
    world.make("third", false);
    let report = sweeps.sweep().await;
    assert!(report.asks.is_some());
    assert_eq!(world.there(), ["first", "second", "third"]);
    sweeps.confirmed = report.asks.map(|asks| asks.sweep);
    sweeps.sweeps(2).await;
    assert_eq!(world.there(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_older_than_the_kind_itself_waits_for_a_word_however_few() {
    let (world, mut sweeps) = Sweeps::new();
    for n in 0..20 {
        world.make(&format!("proxy-{n}"), n > 0);
    }
    world.pass(Duration::from_secs(1));
    // The CRD was deleted and made anew, or the state was lost.
    world.with(|state| state.since = state.now);
    let report = sweeps.sweeps(3).await;
    let asks = report.asks.unwrap();
    assert_eq!((asks.ownerless, asks.before_kind), (1, 1));
    assert_eq!(world.there().len(), 20);
    sweeps.confirmed = Some(asks.sweep);
    sweeps.sweeps(2).await;
    assert_eq!(world.there().len(), 19);
}

#[tokio::test]
async fn an_unread_place_is_told_and_left_alone_and_the_others_go_on() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("here", false);
    let item = world.make("there", false);
    world.with(|state| {
        state.items.insert("there".into(), ("there".into(), item));
        (0..18).for_each(|n| drop(state.owners.insert(format!("{n}"), owner("x", None))));
    });
    for n in 0..18 {
        world.make(&format!("owned-{n}"), true);
    }
    world.pass(HOUR * 2);
    sweeps.sweep().await;
    world.with(|state| state.dead.insert("there".into()));
    let report = sweeps.sweep().await;
    assert_eq!(report.unread, [Unread { place: "there".into(), why: report.unread[0].why.clone() }]);
    assert!(report.unread[0].why.contains("there does not answer"));
    assert!(!world.there().contains(&"here".to_owned()) && world.there().contains(&"there".to_owned()));
    // It was not seen to have gone: back again, the sweeps are not counted anew.
    world.with(|state| state.dead.clear());
    sweeps.sweep().await;
    assert!(!world.there().contains(&"there".to_owned()));
}

#[tokio::test]
async fn a_dry_run_tells_and_removes_nothing() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("orphan", false);
    sweeps.policy.removes = Removes::DryRun;
    let report = sweeps.sweeps(3).await;
    assert_eq!(fates(&report), [&Fate::DryRun]);
    assert_eq!(world.with(|state| state.deletes.len()), 0);
}

#[tokio::test]
async fn a_removed_entry_tells_what_nobody_owns_and_neither_asks_nor_removes_until_it_is_back() {
    let (world, mut sweeps) = Sweeps::new();
    for proxy in ["one", "two", "three"] {
        world.make(proxy, false);
    }
    sweeps.policy.removes = Removes::EntryRemoved;
    let report = sweeps.sweeps(3).await;
    assert_eq!((report.asks.clone(), fates(&report)), (None, vec![&Fate::EntryRemoved; 3]));
    assert_eq!((world.with(|state| state.deletes.len()), world.there().len()), (0, 3));
    sweeps.policy.removes = Removes::Yes;
    assert_eq!(sweeps.sweeps(1).await.asks.map(|asks| asks.ownerless), Some(3));
}

#[tokio::test]
async fn a_removal_takes_its_steps_and_one_that_fails_is_begun_again() {
    let (world, mut sweeps) = Sweeps::new();
    world.make("orphan", false);
    world.with(|state| {
        state.delete_steps = 3;
        state.delete_error = Some(Error::transient("busy", "it is locked"));
    });
    world.pass(HOUR * 2);
    sweeps.sweep().await;
    let places = ["here".to_owned()];
    sweeps.collector.sweep(&world, &places, POLICY, None).await.unwrap();
    let (told, due) = sweeps.collector.remove(&world).await;
    assert!(matches!(&told[0].fate, Fate::Failed(why) if why.contains("it is locked")), "{told:?}");
    assert_eq!(due, None);
    sweeps.sweep().await;
    assert_eq!(world.there(), Vec::<String>::new());
    let steps: Vec<_> = world.with(|state| state.deletes.iter().map(|t| t.progress.clone()).collect());
    assert_eq!(steps, [None, None, Some("1".into()), Some("2".into()), Some("3".into())]);
}
