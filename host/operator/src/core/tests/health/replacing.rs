//! What stays unhealthy and is replaced, and what keeps it.

use super::town::{MINUTE, SECOND, Site, Squid, Town, key, requests};
use crate::{api::Phase, core::probe::HealthConfig};

#[tokio::test(start_paused = true)]
async fn what_stays_unhealthy_is_replaced_and_its_successor_is_judged_anew() {
    let town = Town::healthy(4, requests()).await;
    town.replace_after(120);
    town.pass(MINUTE).await;
    town.breaks(2, Squid::Dead);
    town.pass(MINUTE * 2).await;
    assert_eq!((town.healthy_is(2), town.status(2).incarnation), ("False ConnectRefused".into(), 1));
    let mut seen = Vec::new();
    for _ in 0..1200 {
        town.pass(SECOND / 4).await;
        let status = town.status(2);
        if seen.last() != Some(&status.phase) {
            seen.push(status.phase);
            if status.phase == Some(Phase::Replacing) {
                town.mend(2);
                assert!(town.healthy_is(2).starts_with("Unknown"), "{:?}", status.conditions);
            }
        }
    }
    assert_eq!(town.status(2).incarnation, 2);
    assert_eq!(town.healthy_is(2), "True Passed");
    assert!(seen.contains(&Some(Phase::Replacing)), "{seen:?}");
    let message = town.store.notices().into_iter().find(|(of, n)| *of == key(2) && n.reason == "Replacing");
    let message = message.unwrap().1.message;
    assert!(message.contains("stays unhealthy (10.0.0.7:2 connect-refused)"), "{message}");
    assert_eq!([1, 3, 4].map(|port| town.status(port).incarnation), [1, 1, 1]);
    assert_eq!(town.backend.inner().faults, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn as_many_are_replaced_at_once_as_the_entry_allows() {
    let town = Town::healthy(20, requests()).await;
    town.entries.change("one", |active| active.replace.at_once = 2);
    town.backend.inner().create_steps = 200;
    town.replace_after(60);
    town.pass(MINUTE).await;
    (1..=8).for_each(|port| town.breaks(port, Squid::Dead));
    let mut most = 0;
    for _ in 0..1000 {
        town.pass(SECOND).await;
        most = most.max(20 - town.count("Ready", "True"));
        (1..=8).filter(|port| town.status(*port).incarnation > 1).for_each(|port| town.mend(port));
    }
    town.pass(MINUTE * 20).await;
    assert_eq!(most, 2);
    assert_eq!(town.count("Healthy", "True"), 20);
    assert_eq!((1..=20).filter(|port| town.status(*port).incarnation == 2).count(), 8);
}

#[tokio::test(start_paused = true)]
async fn when_most_are_unhealthy_none_is_replaced_and_that_is_told() {
    let town = Town::healthy(10, requests()).await;
    town.replace_after(60);
    town.pass(MINUTE).await;
    (1..=6).for_each(|port| town.breaks(port, Squid::Dead));
    town.pass(MINUTE * 30).await;
    assert_eq!(town.count("Healthy", "False"), 6);
    assert_eq!(town.backend.calls("delete"), 0);
    let told = town.condition(1, "Healthy").unwrap().message;
    assert!(told.contains("it is not replaced now: more than half of the Proxies of entry one"), "{told}");
    let writes = town.store.status_writes();
    town.pass(MINUTE * 10).await;
    assert_eq!(town.store.status_writes(), writes);
    // One of them is mended by hand: what is left may be replaced.
    town.mend(6);
    town.pass(MINUTE * 3).await;
    assert!((1..=5).all(|port| town.status(port).incarnation >= 2));
    assert_eq!(town.status(6).incarnation, 1);
}

#[tokio::test(start_paused = true)]
async fn one_whose_successors_fail_too_is_replaced_so_often_within_an_hour() {
    let town = Town::healthy(4, requests()).await;
    town.entries.change("one", |active| active.replace.per_hour = 3);
    town.replace_after(60);
    town.breaks(1, Squid::Dead);
    town.pass(MINUTE * 50).await;
    assert_eq!(town.status(1).incarnation, 4);
    assert_eq!(town.status(1).phase, Some(Phase::Running), "one that is unhealthy is kept rather than none");
    assert!(town.condition(1, "Healthy").unwrap().message.contains("replace.perHour"));
    let writes = town.store.status_writes();
    town.pass(MINUTE * 5).await;
    assert_eq!(town.store.status_writes(), writes);
    town.pass(MINUTE * 20).await;
    assert!(town.status(1).incarnation > 4, "the hour is over");
}

#[tokio::test(start_paused = true)]
async fn one_that_recovers_before_its_time_is_not_replaced() {
    let town = Town::healthy(3, requests()).await;
    town.replace_after(300);
    town.pass(MINUTE).await;
    for _ in 0..5 {
        town.breaks(1, Squid::Hangs);
        town.pass(MINUTE * 4).await;
        town.mend(1);
        town.pass(MINUTE).await;
    }
    assert_eq!((town.healthy_is(1), town.status(1).incarnation), ("True Passed".into(), 1));
}

#[tokio::test(start_paused = true)]
async fn while_the_url_answers_nobody_not_even_one_is_replaced_that_was_blamed_before() {
    let town = Town::healthy(6, requests()).await;
    town.replace_after(120);
    town.pass(MINUTE).await;
    town.breaks(1, Squid::NoRoute);
    town.pass(SECOND * 45).await;
    assert_eq!(town.healthy_is(1), "False NoAnswer");
    town.net.at().site = Some(Site::Silent);
    town.pass(MINUTE * 30).await;
    let told = town.condition(1, "Healthy").unwrap().message;
    assert!(told.contains("it is not replaced now: what it is probed with answers nobody"), "{told}");
    assert_eq!(town.backend.calls("delete"), 0, "its successor could not be judged either");
    town.net.at().site = None;
    town.pass(MINUTE * 2).await;
    assert_eq!((1..=6).map(|port| town.status(port).incarnation).collect::<Vec<_>>(), [2, 1, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn another_process_replaces_nothing_on_the_word_of_an_old_status() {
    // Between two probes lie several looks of the reconciler.
    let mut town = Town::healthy(3, HealthConfig { period_seconds: 120, ..requests() }).await;
    town.replace_after(1800);
    town.breaks(1, Squid::Dead);
    town.pass(MINUTE * 10).await;
    assert_eq!(town.healthy_is(1), "False ConnectRefused");
    town.halt();
    town.mend(1);
    town.pass(MINUTE * 60).await;
    town.restart();
    town.pass(MINUTE * 10).await;
    assert_eq!((town.healthy_is(1), town.status(1).incarnation), ("True Passed".into(), 1));
    town.breaks(2, Squid::Dead);
    town.pass(MINUTE * 10).await;
    town.halt();
    town.pass(MINUTE * 60).await;
    town.restart();
    town.pass(MINUTE * 10).await;
    assert_eq!(town.status(2).incarnation, 2, "it still failed");
}
