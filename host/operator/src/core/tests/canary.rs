//! A revision on trial makes so many Proxies, and everything else stays where it was.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use egress_contract::{
    Created, Deleted, Error, ErrorClass, Health, Instance, Page, Pending, Provider, Spec, Target,
};
use jiff::Timestamp;

use super::{
    provider::Backend,
    world::{Host, World, drive, spec},
};
use crate::{
    api::{Phase, ProxyStatus},
    core::{
        canary::{Canary, Candidate, Place, Rollout, Verdict},
        reconcile::Next,
        store::ProxyKey,
    },
};

/// What a revision does in create.
#[derive(Clone, Copy, PartialEq)]
enum Makes {
    Well,
    Trapped,
    Latched,
    /// It says that it is at work, and never ends.
    Slowly,
}

/// Another revision over the same backend.
struct Revised {
    backend: Arc<Backend>,
    makes: Makes,
    /// Whether calls other than create are to come here.
    creates_only: bool,
}

impl Revised {
    fn only_creates(&self) {
        assert!(!self.creates_only, "it gets steps of create and nothing else");
    }
}

#[async_trait]
impl Provider for Revised {
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        match self.makes {
            Makes::Well => self.backend.create(target, spec, user_data).await,
            Makes::Trapped => Err(Error::transient("trap", "the component failed in create")),
            Makes::Latched => Err(Error::permanent("misread", "it can't read its own config")),
            Makes::Slowly => Ok(Created::Pending(Pending {
                id: None,
                progress: "slow".to_owned(),
                poll: Duration::from_secs(5),
                message: "at work".to_owned(),
            })),
        }
    }
    async fn get(&self, target: &Target) -> Result<Instance, Error> {
        self.only_creates();
        self.backend.get(target).await
    }
    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        self.only_creates();
        self.backend.delete(target).await
    }
    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        self.only_creates();
        self.backend.list(place, cursor).await
    }
    async fn check(&self, place: &str) -> Result<Health, Error> {
        self.only_creates();
        self.backend.check(place).await
    }
}

struct Trial {
    world: World,
    makes: Makes,
    rollout: Rollout,
    since: Timestamp,
    canary: Arc<Canary>,
}

impl Trial {
    /// Entry `one` runs on `r1`, and `r2` is on trial.
    fn new(makes: Makes, first_proxies: u32, within_seconds: u32) -> Self {
        let world = World::new();
        world.store.request_delete(&world.key);
        let rollout = Rollout { first_proxies, within_seconds };
        let since = world.clock_now();
        let mut trial = Self { canary: canary(&world, makes, rollout), world, makes, rollout, since };
        trial.begin();
        trial
    }

    /// As whoever takes over does: what he knows is when it began, and what the store says.
    fn begin(&mut self) {
        self.canary = canary(&self.world, self.makes, self.rollout);
        let canary = Arc::clone(&self.canary);
        self.world.entries.change("one", |active| active.canary = Some(canary));
        self.canary.begin(self.since);
        self.canary.open(self.world.store.keys().into_iter().filter_map(|key| {
            let record = self.world.store.peek(&key)?;
            Some((key, record.status, record.deleting))
        }));
    }

    fn apply(&self, name: &str) -> ProxyKey {
        let key = ProxyKey { namespace: "team-a".into(), name: name.into() };
        self.world.store.apply(&key, spec());
        key
    }

    fn status(&self, key: &ProxyKey) -> ProxyStatus {
        self.world.store.peek(key).unwrap().status
    }

    fn made_by(&self, key: &ProxyKey) -> Option<String> {
        self.status(key).instance?.created_by
    }

    fn verdict(&self) -> Verdict {
        self.canary.verdict(self.world.clock_now())
    }

    /// Passes over all, as time goes by, until something holds.
    fn until(&self, host: &Host, keys: &[&ProxyKey], holds: impl Fn(&Self) -> bool) {
        for _ in 0..400 {
            if holds(self) {
                return;
            }
            self.passes(host, keys);
        }
        panic!("not reached: {:#?}", keys.iter().map(|key| self.world.store.peek(key)).collect::<Vec<_>>());
    }

    fn passes(&self, host: &Host, keys: &[&ProxyKey]) {
        for key in keys {
            let next = drive(host.reconcile(key), None).0.unwrap();
            assert!(next != Next::Wait || self.world.store.peek(key).is_none());
        }
        self.world.clock.advance(Duration::from_millis(500));
    }

    fn all_run(&self, keys: &[&ProxyKey]) -> bool {
        keys.iter().all(|key| self.status(key).phase == Some(Phase::Running))
    }
}

fn canary(world: &World, makes: Makes, rollout: Rollout) -> Arc<Canary> {
    let revised = Revised { backend: world.backend.clone(), makes, creates_only: true };
    let of = Candidate { entry: "one".to_owned(), revision: "r2".to_owned() };
    Arc::new(Canary::new(Some(Arc::new(revised)), of, rollout))
}

fn put_aside(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::PutAside(why) => why,
        Verdict::Wait(_) | Verdict::Adopt => panic!("{verdict:?}"),
    }
}

#[test]
fn the_next_proxies_are_made_by_the_candidate_and_no_more_and_then_it_is_adopted() {
    let trial = Trial::new(Makes::Well, 2, 600);
    let host = trial.world.host();
    let keys = ["a", "b", "c"].map(|name| trial.apply(name));
    let all: Vec<_> = keys.iter().collect();
    trial.until(&host, &all, |trial| trial.all_run(&all));
    let made_by = keys.each_ref().map(|key| trial.made_by(key).unwrap());
    assert_eq!(made_by, ["r2", "r2", "r1"]);
    trial.passes(&host, &all);
    assert_eq!((trial.verdict(), trial.canary.figures()), (Verdict::Adopt, (2, 2)));
    assert_eq!(trial.world.backend.inner().faults, Vec::<String>::new());
}

#[test]
fn what_runs_already_and_what_is_being_made_stays_with_the_active_revision() {
    let (world, host) = World::running();
    let half = ProxyKey { namespace: "team-a".into(), name: "half".into() };
    world.store.apply(&half, spec());
    while world.store.peek(&half).unwrap().status.instance.is_none() {
        drive(host.reconcile(&half), None).0.unwrap();
    }
    let rollout = Rollout { first_proxies: 1, within_seconds: 600 };
    let canary = canary(&world, Makes::Trapped, rollout);
    world.entries.change("one", |active| active.canary = Some(canary.clone()));
    canary.begin(world.clock_now());
    canary.open([]);
    for _ in 0..100 {
        drive(host.reconcile(&half), None).0.unwrap();
        drive(host.reconcile(&world.key), None).0.unwrap();
        world.clock.advance(Duration::from_secs(1));
    }
    let status = world.store.peek(&half).unwrap().status;
    assert_eq!((status.phase, status.revision.as_deref()), (Some(Phase::Running), Some("r1")));
    assert_eq!(canary.verdict(world.clock_now()), Verdict::Wait(None));
    // Its replacement is a create as any other, and the delete before it is not.
    world.store.apply(&world.key, crate::api::ProxySpec { port: 8080, ..spec() });
    world.until(&host, |record| record.status.failure.is_some());
    assert_eq!(world.status().instance.unwrap().created_by.as_deref(), Some("r2"));
    assert!(put_aside(&canary.verdict(world.clock_now())).starts_with("team-a/web: create failed (trap)"));
}

#[test]
fn a_candidate_that_fails_in_create_is_put_aside_and_its_proxy_goes_on_by_the_active_revision() {
    for (makes, reason) in [(Makes::Trapped, "(trap)"), (Makes::Latched, "(misread)")] {
        let trial = Trial::new(makes, 2, 600);
        let host = trial.world.host();
        let key = trial.apply("a");
        trial.until(&host, &[&key], |trial| matches!(trial.verdict(), Verdict::PutAside(_)));
        let verdict = trial.verdict();
        let why = put_aside(&verdict);
        assert!(why.starts_with("team-a/a: create failed") && why.contains(reason), "{why}");
        trial.canary.end();
        trial.world.entries.change("one", |active| active.canary = None);
        let began = trial.world.clock_now();
        trial.until(&host, &[&key], |trial| trial.all_run(&[&key]));
        assert_eq!(trial.made_by(&key).as_deref(), Some("r1"));
        let took = trial.world.clock_now().duration_since(began);
        assert!(took.as_secs() < 60, "what the candidate failed with holds nothing up: {took:?}");
    }
}

#[test]
fn who_takes_over_finds_a_trap_of_the_candidate_too() {
    let mut trial = Trial::new(Makes::Trapped, 2, 600);
    let host = trial.world.host();
    let key = trial.apply("a");
    trial.until(&host, &[&key], |trial| trial.status(&key).failure.is_some());
    let verdict = trial.verdict();
    assert!(put_aside(&verdict).contains("(trap)"));
    trial.begin();
    assert_eq!(trial.verdict(), verdict);
}

#[test]
fn a_proxy_that_the_active_revision_refuses_too_is_no_word_on_the_candidate() {
    for error in [
        Error::permanent("placement", "no such zone"),
        Error::new(ErrorClass::QuotaExceeded, "quota", "none is left"),
    ] {
        let trial = Trial::new(Makes::Well, 1, 60);
        let host = trial.world.host();
        trial.world.backend.refuse_port(1, error.clone());
        let wrong = ProxyKey { namespace: "team-a".into(), name: "wrong".into() };
        trial.world.store.apply(&wrong, crate::api::ProxySpec { port: 1, ..spec() });
        trial.until(&host, &[&wrong], |trial| {
            let failure = trial.status(&wrong).failure;
            failure.is_some_and(|failure| failure.key.contains("revision=r1"))
        });
        assert_eq!(trial.world.backend.calls("create"), 2, "both were asked, one after the other");
        assert_eq!((trial.verdict(), trial.canary.figures()), (Verdict::Wait(None), (0, 0)), "{error:?}");
        trial.world.clock.advance(Duration::from_secs(120));
        trial.canary.reread();
        trial.canary.open([(wrong.clone(), trial.status(&wrong), false)]);
        assert_eq!(trial.verdict(), Verdict::Wait(None), "nor when all are read anew");
        // Its place is another's.
        let right = trial.apply("right");
        trial.until(&host, &[&wrong, &right], |trial| trial.all_run(&[&right]));
        trial.passes(&host, &[&right]);
        assert_eq!((trial.made_by(&right).as_deref(), trial.verdict()), (Some("r2"), Verdict::Adopt));
    }
}

#[test]
fn a_refusal_holds_its_place_until_the_active_revision_has_said_what_it_makes_of_it() {
    let trial = Trial::new(Makes::Latched, 1, 60);
    let host = trial.world.host();
    let (first, second) = (trial.apply("a"), trial.apply("b"));
    let unreachable = Error::transient("unreachable", "no route to host");
    trial.world.backend.fail_always(&unreachable);
    for _ in 0..300 {
        trial.passes(&host, &[&first, &second]);
        trial.canary.reread();
        trial.canary.open([&first, &second].map(|key| (key.clone(), trial.status(key), false)));
        assert_eq!((trial.verdict(), trial.canary.figures()), (Verdict::Wait(None), (1, 0)));
    }
    assert_eq!(trial.made_by(&second).as_deref(), Some("r1"), "the candidate refuses no other one meanwhile");
    trial.world.backend.unfail();
    trial.until(&host, &[&first], |trial| matches!(trial.verdict(), Verdict::PutAside(_)));
    assert!(put_aside(&trial.verdict()).ends_with("the active revision makes it"), "{:?}", trial.verdict());
    trial.until(&host, &[&first, &second], |trial| trial.all_run(&[&first, &second]));
}

#[test]
fn a_candidate_that_is_too_slow_is_put_aside_also_by_who_takes_over() {
    let mut trial = Trial::new(Makes::Slowly, 1, 120);
    let key = trial.apply("a");
    let host = trial.world.host();
    let limit = trial.since.checked_add(Duration::from_secs(60)).unwrap();
    trial.until(&host, &[&key], |trial| trial.world.clock_now() > limit);
    let Verdict::Wait(Some(late)) = trial.verdict() else { panic!("{:?}", trial.verdict()) };
    drop(host);
    trial.begin();
    let host = trial.world.host();
    assert_eq!(trial.verdict(), Verdict::Wait(Some(late)), "the time that went by counts");
    assert_eq!(trial.made_by(&key).as_deref(), Some("r2"));
    trial.until(&host, &[&key], |trial| trial.world.clock_now() >= late);
    assert_eq!(put_aside(&trial.verdict()), "team-a/a was not ready within 120 s");
    // It had begun, and another revision takes it up.
    trial.canary.end();
    trial.until(&host, &[&key], |trial| trial.all_run(&[&key]));
    assert_eq!(trial.status(&key).revision.as_deref(), Some("r1"));
}

#[test]
fn a_proxy_of_the_trial_goes_on_with_it_after_a_restart_and_another_one_gets_no_place_of_its() {
    let mut trial = Trial::new(Makes::Well, 1, 600);
    let (first, second) = (trial.apply("a"), trial.apply("b"));
    let host = trial.world.host();
    trial
        .until(&host, &[&first], |trial| trial.status(&first).instance.is_some_and(|i| i.progress.is_some()));
    drop(host);
    trial.begin();
    let host = trial.world.host();
    trial.until(&host, &[&second, &first], |trial| trial.all_run(&[&first, &second]));
    assert_eq!(
        (trial.made_by(&first).as_deref(), trial.made_by(&second).as_deref()),
        (Some("r2"), Some("r1"))
    );
    assert_eq!(trial.status(&first).revision.as_deref(), Some("r2"));
    trial.passes(&host, &[&first, &second]);
    assert_eq!(trial.verdict(), Verdict::Adopt);
}

#[test]
fn a_proxy_that_somebody_deletes_frees_its_place_and_blames_nobody() {
    let trial = Trial::new(Makes::Slowly, 1, 30);
    let host = trial.world.host();
    let key = trial.apply("a");
    trial.until(&host, &[&key], |trial| trial.made_by(&key).is_some());
    trial.world.store.request_delete(&key);
    trial.until(&host, &[&key], |trial| trial.world.store.peek(&key).is_none());
    trial.world.clock.advance(Duration::from_secs(60));
    assert_eq!((trial.verdict(), trial.canary.figures()), (Verdict::Wait(None), (0, 0)));
    let next = trial.apply("b");
    trial.until(&host, &[&next], |trial| trial.made_by(&next).is_some());
    assert_eq!(trial.made_by(&next).as_deref(), Some("r2"));
}

#[test]
fn an_instance_of_the_trial_that_ends_by_itself_puts_the_candidate_aside() {
    let trial = Trial::new(Makes::Well, 1, 600);
    trial.world.backend.inner().addresses = false;
    let host = trial.world.host();
    let key = trial.apply("a");
    trial.until(&host, &[&key], |trial| trial.status(&key).phase == Some(Phase::Provisioning));
    trial.world.backend.inner().machines.clear();
    trial.until(&host, &[&key], |trial| matches!(trial.verdict(), Verdict::PutAside(_)));
    assert!(put_aside(&trial.verdict()).contains("is gone at its backend"));
}

#[test]
fn creates_wait_while_it_is_found_out_who_has_a_place_and_not_longer() {
    let trial = Trial::new(Makes::Well, 1, 600);
    let host = trial.world.host();
    let key = trial.apply("a");
    trial.canary.close();
    for _ in 0..10 {
        trial.passes(&host, &[&key]);
    }
    assert_eq!(trial.status(&key).instance, None);
    trial.canary.shut();
    trial.until(&host, &[&key], |trial| trial.all_run(&[&key]));
    assert_eq!(trial.made_by(&key).as_deref(), Some("r1"));
}

#[test]
fn what_the_revision_made_before_its_trial_is_no_part_of_it() {
    let mut trial = Trial::new(Makes::Well, 1, 600);
    let host = trial.world.host();
    let key = trial.apply("a");
    trial.until(&host, &[&key], |trial| trial.all_run(&[&key]));
    trial.since = trial.world.clock_now();
    trial.begin();
    assert_eq!((trial.verdict(), trial.canary.figures()), (Verdict::Wait(None), (0, 0)));
}

#[test]
fn a_place_that_was_just_given_is_never_late_and_is_not_given_twice() {
    let trial = Trial::new(Makes::Well, 1, 30);
    let (first, second) = (trial.apply("a"), trial.apply("b"));
    trial.world.clock.advance(Duration::from_secs(3600));
    assert_eq!(trial.canary.take(&first), Place::Taken);
    assert!(
        matches!(trial.verdict(), Verdict::Wait(_)),
        "the trial waited, not the Proxy: {:?}",
        trial.verdict()
    );
    trial.canary.reread();
    trial.canary.open([]);
    assert_eq!((trial.canary.take(&second), trial.canary.take(&first)), (Place::None, Place::Taken));
}
