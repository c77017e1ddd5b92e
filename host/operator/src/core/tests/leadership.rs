//! Processes that share a lease, in virtual time: cut off, frozen, overtaken, killed. Every write is checked
//! against the lease's history.

mod site;

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use egress_contract::Installation;
use rand::Rng;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::site::{Host, Hosted, Noted, One, Reached, Site, SiteClock};
use crate::{
    api::Phase,
    core::{
        backoff::{Dice, Pace},
        lease::{Elector, Led, Proof},
        memory::MemoryStore,
        probe::Fleet,
        reconcile::{Next, Reconciler, Setup},
        store::ProxyKey,
        tests::{
            provider::Backend,
            world::{INSTALLATION, spec},
        },
    },
};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A whole process: its elector, and loops that don't care for what it says.
async fn process(
    host: Arc<Host>,
    store: Arc<MemoryStore>,
    backend: Arc<Backend>,
    proof: Option<Proof>,
    stop: CancellationToken,
) {
    let mut elector = host.elector();
    let proof = proof.unwrap_or_else(|| elector.proof());
    let hosted = Hosted { host: host.clone(), proof: proof.clone(), backend };
    let setup = Setup {
        fleet: Arc::new(Fleet::new(Dice::seeded(2))),
        installation: Installation::new(INSTALLATION),
        pace: Pace { running: SECOND, recheck: SECOND, transient_most: SECOND, ..Pace::default() },
        clock: Arc::new(SiteClock(host.site.clone())),
        dice: Dice::seeded(1),
    };
    let noted = Noted { host: host.clone(), store };
    let reconciler = Reconciler::new(Led::new(noted, proof), One(Arc::new(hosted)), setup);
    let loops = async {
        loop {
            match reconciler.reconcile(&key()).await {
                Next::Requeue(after) => sleep(after.min(SECOND)).await,
                Next::Wait => sleep(SECOND).await,
            }
        }
    };
    tokio::select! {
        () = elector.run(&stop) => {}
        () = loops => {}
    }
    elector.release().await;
}

fn key() -> ProxyKey {
    ProxyKey { namespace: "team-a".into(), name: "web".into() }
}

/// Two processes for ten minutes, in which the world does what it can to them, and people change their minds.
async fn ten_minutes(seed: u64, unguarded: bool) -> (Arc<Site>, Arc<MemoryStore>, Arc<Backend>) {
    let site = Site::new(seed);
    let store = Arc::new(MemoryStore::default());
    let backend = Arc::new(Backend::new(store.clone()));
    store.apply(&key(), spec());
    let hosts = [Host::new(&site, "a", 5), Host::new(&site, "b", -5)];
    let start = |host: &Arc<Host>| {
        let proof = unguarded.then(Proof::always);
        let process = process(host.clone(), store.clone(), backend.clone(), proof, CancellationToken::new());
        tokio::spawn(host.run(process))
    };
    let mut running = [start(&hosts[0]), start(&hosts[1])];
    let mut names = 0;
    let end = Instant::now() + SECOND * 600;
    while Instant::now() < end {
        let (which, what, ms) = {
            let mut chance = site.chance();
            (chance.random_range(0..2), chance.random_range(0..8), chance.random_range(50..20_000))
        };
        let host = &hosts[which];
        match what {
            0 | 1 => host.freeze(MS * ms * 2),
            2 => host.cut(true),
            3 => hosts.iter().for_each(|host| host.cut(false)),
            4 => {
                // Killed; its successor is somebody else.
                running[which].abort();
                names += 1;
                host.cut(true);
                let successor = Host::new(&site, &format!("{}{names}", host.name), host.drift);
                running[which] = start(&successor);
            }
            _ => {
                let mut spec = spec();
                spec.port = u16::try_from(1024 + ms).unwrap();
                store.apply(&key(), spec);
            }
        }
        sleep(MS * (ms / 4)).await;
    }
    hosts.iter().for_each(|host| host.cut(false));
    sleep(SECOND * 120).await;
    running.iter().for_each(|process| process.abort());
    (site, store, backend)
}

#[tokio::test(start_paused = true)]
async fn no_write_begins_that_the_lease_does_not_prove_whatever_the_loops_believe() {
    let (mut writes, mut withheld, mut changes) = (0, 0, 0);
    for seed in 0..8 {
        let (site, store, backend) = ten_minutes(seed, false).await;
        assert_eq!(site.unproven(), Vec::<String>::new(), "seed {seed}");
        let record = store.peek(&key()).unwrap();
        assert_eq!(record.status.phase, Some(Phase::Running), "seed {seed}: {:#?}", record.status);
        assert_eq!(record.status.observed_generation, Some(record.generation), "seed {seed}");
        backend.assert_only(&record.status.instance.unwrap().name);
        writes += site.journal.lock().unwrap().len();
        withheld += site.withheld.load(Ordering::SeqCst);
        changes += site.changes_of_hands();
    }
    println!("{writes} writes, {withheld} of the provider's withheld, {changes} changes of hands");
    assert!(writes > 1_000 && withheld > 20 && changes > 40, "{writes} {withheld} {changes}");
}

/// So that the test above can fail.
#[tokio::test(start_paused = true)]
async fn without_the_proof_writes_begin_that_the_lease_does_not_prove() {
    let (site, ..) = ten_minutes(1, true).await;
    assert!(site.unproven().len() > 100, "{}", site.unproven().len());
}

/// Until this elector leads; how long that took.
async fn leads(elector: &mut Elector<Reached>) -> Duration {
    let (mut leadership, stop, start) = (elector.leadership(), CancellationToken::new(), Instant::now());
    tokio::select! {
        () = elector.run(&stop) => {}
        led = leadership.wait_for(Option::is_some) => drop(led.unwrap()),
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_is_taken_up_within_a_second() {
    for seed in 0..50 {
        let site = Site::new(seed);
        let (mut one, mut other) = (Host::new(&site, "a", 0).elector(), Host::new(&site, "b", 0).elector());
        leads(&mut one).await;
        let waiting = tokio::spawn(async move { leads(&mut other).await });
        sleep(SECOND * 30 + MS * u32::try_from(seed).unwrap() * 13).await;
        assert!(one.proof().left().is_none() || !waiting.is_finished());
        let given_back = Instant::now();
        one.run(&stopped()).await;
        one.release().await;
        waiting.await.unwrap();
        assert!(given_back.elapsed() < SECOND, "{:?}", given_back.elapsed());
        assert!(!one.proof().holds());
    }
}

fn stopped() -> CancellationToken {
    let stop = CancellationToken::new();
    stop.cancel();
    stop
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_died_is_followed_when_its_lease_is_over_and_not_before() {
    let site = Site::new(7);
    let (a, b) = (Host::new(&site, "a", 0), Host::new(&site, "b", 0));
    let mut one = a.elector();
    leads(&mut one).await;
    let mut other = b.elector();
    let waiting = tokio::spawn(async move { leads(&mut other).await });
    let stop = CancellationToken::new();
    let _ = tokio::time::timeout(SECOND * 60, one.run(&stop)).await;
    let last = site.history.lock().unwrap().last().unwrap().at;
    assert!(!waiting.is_finished(), "it is renewed");
    waiting.await.unwrap();
    let after = site.now().saturating_sub(last);
    assert!((SECOND * 15..SECOND * 16).contains(&after), "{after:?} after the last renewal");
}

#[tokio::test(start_paused = true)]
async fn of_many_that_start_at_once_one_leads() {
    for seed in 0..20 {
        let site = Site::new(seed);
        let mut led = Vec::new();
        for name in 0..8 {
            let mut elector = Host::new(&site, &name.to_string(), 0).elector();
            led.push((elector.proof(), elector.leadership()));
            tokio::spawn(async move { elector.run(&CancellationToken::new()).await });
        }
        for _ in 0..60 {
            sleep(SECOND / 2).await;
            assert!(led.iter().filter(|(proof, _)| proof.holds()).count() <= 1, "seed {seed}");
        }
        assert_eq!(led.iter().filter(|(proof, told)| proof.holds() && told.borrow().is_some()).count(), 1);
        assert_eq!(site.changes_of_hands(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_gives_up_before_another_takes_over_and_goes_on_if_nobody_did() {
    for outage in [12, 40] {
        let site = Site::new(outage);
        let (a, b) = (Host::new(&site, "a", 0), Host::new(&site, "b", 0));
        let (mut one, mut other) = (a.elector(), b.elector());
        leads(&mut one).await;
        let (proof, told, others) = (one.proof(), one.leadership(), other.proof());
        tokio::spawn(async move { one.run(&CancellationToken::new()).await });
        if outage > 15 {
            tokio::spawn(async move { other.run(&CancellationToken::new()).await });
        }
        sleep(SECOND * 20).await;
        a.cut(true);
        sleep(SECOND * 8).await;
        assert!(proof.holds(), "a short outage costs nothing");
        sleep(SECOND * 2 + MS * 200).await;
        assert!(!proof.holds() && told.borrow().is_none() && !others.holds());
        sleep(SECOND * u32::try_from(outage).unwrap() - SECOND * 10 - MS * 200).await;
        assert_eq!(others.holds(), outage > 15);
        a.cut(false);
        sleep(SECOND * 6).await;
        assert_eq!(proof.holds(), outage < 15, "one of both leads");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_lease_knows_at_once() {
    let site = Site::new(3);
    let host = Host::new(&site, "a", 0);
    let mut elector = host.elector();
    leads(&mut elector).await;
    let proof = elector.proof();
    // Nothing of it runs: no timer, no renewal, no word to the loops.
    host.freeze(SECOND * 12);
    let first = host.run(async move { proof.holds() });
    assert!(!first.await);
}

/// The answer to a renewal is lost, not the renewal.
#[tokio::test(start_paused = true)]
async fn a_renewal_by_ones_own_hand_that_was_given_up_on_is_no_loss() {
    let site = Site::new(5);
    let host = Host::new(&site, "a", 0);
    let mut elector = host.elector();
    leads(&mut elector).await;
    {
        let mut lease = site.lease.lock().unwrap();
        lease.as_mut().unwrap().version = "landed late".to_owned();
    }
    let (proof, mut told) = (elector.proof(), elector.leadership());
    told.mark_unchanged();
    let stop = CancellationToken::new();
    let mut run = pin!(elector.run(&stop));
    for _ in 0..300 {
        assert!(tokio::time::timeout(MS * 100, run.as_mut()).await.is_err());
        assert!(proof.holds());
    }
    assert!(!told.has_changed().unwrap(), "nobody was told of a loss");
}
