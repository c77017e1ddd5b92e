//! A provider that is replaced while Proxies come and go: no call is lost, nothing is made twice.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use futures::future::join_all;

use crate::harness::{Budget, Lab, Site, Wanted, Witness, another_build, kubernetes_provider};

const PROXIES: Budget = Budget { usual: 20, soak: 100 };
const SWAPS: Budget = Budget { usual: 5, soak: 50 };
/// Proxies that are worked on at once.
const AT_ONCE: usize = 4;

/// When a revision was active, as wide as it can have been.
struct Active {
    revision: String,
    from: Instant,
    to: Option<Instant>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_under_load_loses_no_call() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "swap", 1).await;
    let builds = ["one", "two"].map(|note| another_build(&kubernetes_provider(), note));
    site.put_module(&builds[0]).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let before = site.objects().await;
    let start = Instant::now();
    let mut epo = site.start(&[]).await;
    let revision = site.active(&builds[0]).await;
    let timeline = Mutex::new(vec![Active { revision, from: start, to: None }]);
    let witness = Arc::new(Witness::default());
    witness.watch(&site);

    let (proxies, swaps) = (PROXIES.get(), SWAPS.get());
    let (begun, swapped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let made = Mutex::new(Vec::new());
    let swapping = async {
        for swap in 1..=swaps {
            // Evenly over the Proxies; and never before something is under way.
            let enough = swap * proxies / (swaps + 1);
            while begun.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let build = &builds[swap % 2];
            let from = Instant::now();
            site.put_module(build).await;
            let revision = site.active(build).await;
            let mut timeline = timeline.lock().unwrap();
            timeline.last_mut().unwrap().to = Some(Instant::now());
            timeline.push(Active { revision, from, to: None });
        }
        swapped.store(true, Ordering::SeqCst);
    };
    // They go on until both are done: so many Proxies, and the last swap.
    let working = join_all((0..AT_ONCE).map(async |_| {
        loop {
            let number = begun.fetch_add(1, Ordering::SeqCst);
            if number >= proxies && swapped.load(Ordering::SeqCst) {
                return;
            }
            let name = format!("p{number}");
            let asked = Instant::now();
            site.create(0, &name, Wanted::default()).await;
            let proxy = site.ready(0, &name).await;
            let by = proxy.status.unwrap().instance.unwrap().created_by.expect("who made it");
            made.lock().unwrap().push((name.clone(), by, asked, Instant::now()));
            site.delete(0, &name).await;
        }
    }));
    futures::join!(swapping, working);

    epo.assert_running();
    assert_eq!(witness.failures(), Vec::<String>::new());
    assert_eq!(witness.twice(), [], "Pods that were made twice");
    let (timeline, made) = (timeline.into_inner().unwrap(), made.into_inner().unwrap());
    assert_eq!(timeline.len(), swaps + 1);
    assert!(made.len() >= proxies, "{}", made.len());
    for (name, by, asked, ready) in &made {
        let active = timeline.iter().any(|active| {
            active.revision == *by && active.from <= *ready && active.to.is_none_or(|to| to >= *asked)
        });
        assert!(active, "{name} says that {by} made it, which was not active then");
    }
    let makers: std::collections::BTreeSet<_> = made.iter().map(|(_, by, ..)| by).collect();
    assert_eq!(makers.len(), 2, "both builds made some");
    assert_eq!(site.objects().await, before);
    let metrics = epo.metrics().await;
    let operations: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("egress_provider_operations_total{")).collect();
    let failed: Vec<_> = operations.iter().filter(|line| !line.contains("class=\"ok\"")).collect();
    assert!(!operations.is_empty() && failed.is_empty(), "{failed:#?}");
    println!("{} Proxies, {swaps} swaps in {:?}", made.len(), start.elapsed());
}

#[tokio::test]
async fn a_replacement_by_another_revision_is_finished_by_it() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "handover", 1).await;
    let builds = ["one", "two"].map(|note| another_build(&kubernetes_provider(), note));
    site.put_module(&builds[0]).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let before = site.objects().await;
    let _epo = site.start(&[]).await;
    let one = site.active(&builds[0]).await;
    site.create(0, "web", Wanted::default()).await;
    let proxy = site.ready(0, "web").await;
    assert_eq!(proxy.status.unwrap().instance.unwrap().created_by, Some(one.clone()));
    site.put_module(&builds[1]).await;
    assert_ne!(site.active(&builds[1]).await, one);
    site.ready(0, "web").await;
    site.delete(0, "web").await;
    assert_eq!(site.objects().await, before);
}
