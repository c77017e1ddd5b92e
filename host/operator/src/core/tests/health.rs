//! What becomes of Proxies whose Squid, way out or probe URL fails, each in virtual time over the whole of controller,
//! reconciler and prober.

mod replacing;
pub mod town;

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use egress_contract::Error;
use tokio::{sync::watch, time::Instant};

use self::town::{EGRESS_URL, MINUTE, Net, SECOND, Site, Squid, Town, key, requests};
use crate::{
    api::{HealthCheck, Phase, ProbeType},
    core::{
        backoff::Dice,
        probe::{Check, Fleet, HealthConfig, Target, Teller, run},
        store::{Notice, ProxyKey},
    },
};

/// With the default thresholds, at ten seconds each: three that fail, two that pass.
const ENOUGH: Duration = Duration::from_secs(45);

fn with_egress() -> HealthConfig {
    HealthConfig { egress_address_url: Some(EGRESS_URL.to_owned()), egress_address_seconds: 60, ..requests() }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_squid_does_wrong_it_is_unhealthy_for_as_long_and_stays_ready() {
    for (squid, reason) in [
        (Squid::Dead, "ConnectRefused"),
        (Squid::Hangs, "Hangs"),
        (Squid::Answers(503), "ProxyAnswered503"),
        (Squid::NoRoute, "NoAnswer"),
        (Squid::Stuck, "NoAnswer"),
    ] {
        let town = Town::healthy(3, requests()).await;
        town.breaks(2, squid);
        town.pass(SECOND * 15).await;
        assert_eq!(town.healthy_is(2), "True Passed", "{squid:?}: one or two failures are none");
        town.pass(ENOUGH).await;
        assert_eq!(town.healthy_is(2), format!("False {reason}"));
        assert_eq!((town.healthy_is(1), town.healthy_is(3)), ("True Passed".into(), "True Passed".into()));
        assert_eq!(town.said(2, "Ready"), "True Running", "the instance runs");
        town.pass(MINUTE * 30).await;
        assert_eq!(town.status(2).incarnation, 1, "nobody asked for its replacement");
        town.mend(2);
        town.pass(ENOUGH).await;
        assert_eq!(town.healthy_is(2), "True Passed", "{squid:?}");
        let events = town.events(2);
        let told = |reason| events.iter().filter(|event| *event == reason).count();
        assert_eq!((told("Unhealthy"), told("Healthy")), (1, 1), "{events:?}");
        assert_eq!(town.told(), [""; 0], "the URL is up");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_is_probed_where_the_entry_gives_no_url() {
    let town = Town::healthy(2, HealthConfig { period_seconds: 10, ..HealthConfig::default() }).await;
    town.breaks(1, Squid::Answers(503));
    town.breaks(2, Squid::Dead);
    town.pass(ENOUGH).await;
    assert_eq!(
        (town.healthy_is(1), town.healthy_is(2)),
        ("True Passed".into(), "False ConnectRefused".into())
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_and_passes_by_turns_stays_what_it_is_and_nothing_is_written() {
    let town = Town::healthy(2, requests()).await;
    let writes = town.store.status_writes();
    for _ in 0..20 {
        town.breaks(1, Squid::Dead);
        town.pass(SECOND * 20).await;
        town.mend(1);
        town.pass(SECOND * 13).await;
    }
    assert_eq!((town.healthy_is(1), town.store.status_writes()), ("True Passed".into(), writes));
    town.breaks(1, Squid::Dead);
    town.pass(ENOUGH).await;
    assert_eq!(town.healthy_is(1), "False ConnectRefused");
    let writes = town.store.status_writes();
    for _ in 0..20 {
        town.mend(1);
        town.pass(SECOND * 9).await;
        town.breaks(1, Squid::Dead);
        town.pass(SECOND * 13).await;
    }
    assert_eq!((town.healthy_is(1), town.store.status_writes()), ("False ConnectRefused".into(), writes));
}

#[tokio::test(start_paused = true)]
async fn a_url_that_answers_nobody_is_told_once_and_blames_and_replaces_none() {
    for site in [Site::Silent, Site::Answers(503)] {
        let town = Town::healthy(20, requests()).await;
        town.replace_after(60);
        town.pass(MINUTE).await;
        let writes = town.store.status_writes();
        town.net.at().site = Some(site);
        town.pass(MINUTE * 60).await;
        assert_eq!(town.count("Healthy", "True"), 20);
        assert_eq!(town.store.status_writes(), writes, "{site:?}");
        assert_eq!(town.told(), ["ProbeUrlDown"]);
        assert!(town.net.at().directly < 1000, "the operator asks by itself now and then, not for each");
        town.net.at().site = None;
        town.pass(MINUTE).await;
        assert_eq!(town.told(), ["ProbeUrlDown", "ProbeUrlUp"]);
        assert_eq!(town.backend.calls("delete"), 0);
        assert_eq!(town.store.status_writes(), writes, "{site:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_squid_that_dies_while_the_url_is_down_is_blamed_all_the_same() {
    let town = Town::healthy(3, requests()).await;
    town.net.at().site = Some(Site::Silent);
    town.breaks(2, Squid::Dead);
    town.breaks(3, Squid::Hangs);
    town.pass(MINUTE).await;
    assert_eq!(
        [1, 2, 3].map(|port| town.healthy_is(port)),
        ["True Passed", "False ConnectRefused", "False Hangs"]
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_is_alone_is_judged_by_what_the_operator_gets_itself() {
    let town = Town::healthy(1, requests()).await;
    town.breaks(1, Squid::NoRoute);
    town.net.at().shut_in = true;
    town.pass(MINUTE * 10).await;
    assert_eq!(town.healthy_is(1), "True Passed", "nobody can tell whether the URL is up");
    assert_eq!(town.told(), ["ProbeUrlDown"]);
    town.net.at().shut_in = false;
    town.pass(MINUTE).await;
    assert_eq!(town.healthy_is(1), "False NoAnswer");
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_a_way_out_judges_one_by_the_others() {
    let town = Town::healthy(3, requests()).await;
    town.net.at().shut_in = true;
    town.breaks(1, Squid::Answers(503));
    town.pass(MINUTE * 2).await;
    assert_eq!(town.healthy_is(1), "False ProxyAnswered503");
    assert_eq!(town.count("Healthy", "True"), 2);
}

#[tokio::test(start_paused = true)]
async fn of_one_that_never_passed_it_is_said_why_nothing_is_known() {
    let town = Town::new(1, requests());
    town.net.at().site = Some(Site::Answers(503));
    town.pass(MINUTE * 5).await;
    assert_eq!(town.healthy_is(1), "Unknown UrlAnswered503");
    let asked = town.net.at().asked.len();
    assert!((25..45).contains(&asked), "soon at first, and then in its period: {asked}");
    town.net.at().site = None;
    town.pass(SECOND * 15).await;
    assert_eq!(town.healthy_is(1), "True Passed");
}

#[tokio::test(start_paused = true)]
async fn a_spec_may_ask_for_the_port_alone_or_for_what_its_entry_lacks() {
    let town = Town::healthy(2, requests()).await;
    let kind = |kind| Some(HealthCheck { kind: Some(kind), ..HealthCheck::default() });
    town.breaks(1, Squid::Answers(503));
    town.apply(1, |spec| spec.health_check = kind(ProbeType::Tcp));
    town.pass(MINUTE * 2).await;
    assert_eq!(town.healthy_is(1), "True Passed");
    assert_eq!(town.status(1).incarnation, 1, "a check that changes replaces nothing");
    town.entries.change("one", |active| active.health = None);
    town.apply(2, |spec| spec.health_check = kind(ProbeType::Http));
    town.pass(MINUTE).await;
    assert_eq!(town.healthy_is(2), "Unknown NoProbeUrl");
    town.apply(2, |spec| spec.health_check = None);
    town.pass(MINUTE).await;
    assert_eq!(town.healthy_is(2), "absent", "nobody asks any more");
}

#[tokio::test(start_paused = true)]
async fn ten_quiet_minutes_cause_no_write_and_another_process_none_either() {
    let mut town = Town::healthy(50, with_egress()).await;
    town.breaks(7, Squid::Dead);
    town.pass(MINUTE * 2).await;
    let writes = town.store.status_writes();
    town.pass(MINUTE * 10).await;
    assert_eq!(town.store.status_writes(), writes);
    town.restart();
    town.pass(MINUTE * 10).await;
    assert_eq!(town.store.status_writes(), writes);
    assert_eq!(town.healthy_is(7), "False ConnectRefused");
    let events = town.events(7);
    assert_eq!(events.iter().filter(|event| *event == "Unhealthy").count(), 1, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn two_that_come_from_one_address_are_both_flagged_until_one_moves() {
    let town = Town::healthy(3, with_egress()).await;
    town.pass(MINUTE * 2).await;
    assert_eq!(town.status(1).egress_address.as_deref(), Some("192.0.2.1"));
    assert_eq!(town.count("EgressAddressUnique", "True Unique"), 3);
    town.net.at().outside.insert(2, "192.0.2.1".parse().unwrap());
    town.pass(MINUTE * 3).await;
    for (port, other) in [(1, 2), (2, 1)] {
        let found = town.condition(port, "EgressAddressUnique").unwrap();
        assert_eq!((found.status.as_str(), found.reason.as_str()), ("False", "Shared"));
        assert!(found.message.contains(&key(other).to_string()), "{}", found.message);
        let events = town.events(port);
        assert_eq!(events.iter().filter(|event| *event == "EgressAddressShared").count(), 1, "{events:?}");
    }
    assert_eq!(town.said(3, "EgressAddressUnique"), "True Unique");
    assert_eq!(town.healthy_is(1), "True Passed", "what they are for they do");
    town.store.request_delete(&key(2));
    town.apply(2, |_| ());
    town.pass(MINUTE * 2).await;
    assert_eq!(town.said(1, "EgressAddressUnique"), "True Unique");
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_is_told_once_and_one_that_never_stays_is_not_written_each_time() {
    let town = Town::healthy(1, with_egress()).await;
    town.pass(MINUTE * 2).await;
    let moved = |to: &str| town.net.at().outside.extend([(1, to.parse::<IpAddr>().unwrap())]);
    let changes = || town.events(1).iter().filter(|event| *event == "EgressAddressChanged").count();
    moved("198.51.100.4");
    town.pass(MINUTE * 3).await;
    assert_eq!((town.status(1).egress_address.as_deref(), changes()), (Some("198.51.100.4"), 1));
    let writes = town.store.status_writes();
    for round in 0..30 {
        moved(&format!("203.0.113.{round}"));
        town.pass(SECOND * 10).await;
        moved("198.51.100.4");
        town.pass(SECOND * 51).await;
    }
    assert_eq!((changes(), town.store.status_writes()), (1, writes));
}

#[tokio::test(start_paused = true)]
async fn so_many_are_probed_at_once_and_all_have_their_turn() {
    let town = Town::healthy(40, HealthConfig { at_once: 4, ..requests() }).await;
    (1..=20).for_each(|port| town.breaks(port, Squid::Hangs));
    let before = {
        let mut net = town.net.at();
        net.most = 0;
        net.asked.len()
    };
    town.pass(MINUTE * 3).await;
    let net = town.net.at();
    assert_eq!(net.most, 4);
    for port in 1..=40 {
        assert!(net.asked[before..].iter().filter(|(_, of)| *of == port).count() >= 8, "{port}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_are_not_probed_in_one_moment_also_after_a_restart() {
    let size = 1000;
    let mut town =
        Town::healthy(size, HealthConfig { period_seconds: 30, at_once: 1000, ..requests() }).await;
    town.restart();
    let (began, before) = (tokio::time::Instant::now(), town.net.at().asked.len());
    town.pass(MINUTE * 5).await;
    let net = town.net.at();
    let mut seconds = vec![0_u32; 300];
    for (at, _) in &net.asked[before..] {
        let second = usize::try_from(at.duration_since(began).as_secs()).unwrap();
        seconds[second.min(299)] += 1;
    }
    let most = seconds.iter().max().unwrap();
    assert!(*most < 3 * u32::from(size) / 30, "about 33 a second: {seconds:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_vanished_is_not_asked_any_more() {
    let town = Town::healthy(2, requests()).await;
    town.vanish(1).await;
    town.pass(SECOND).await;
    let asked = town.net.at().asked.len();
    town.pass(MINUTE * 5).await;
    assert!(town.net.at().asked[asked..].iter().all(|(_, port)| *port == 2));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_asks_nobody() {
    let town = Town::healthy(3, requests()).await;
    town.leads.send_replace(None);
    town.pass(SECOND).await;
    let asked = town.net.at().asked.len();
    assert!(!town.is_known(1), "nor counts what somebody else counts");
    town.breaks(1, Squid::Dead);
    town.pass(MINUTE * 10).await;
    assert_eq!((town.net.at().asked.len(), town.healthy_is(1)), (asked, "True Passed".into()));
    town.leads.send_replace(Some(3));
    town.pass(MINUTE * 2).await;
    assert_eq!(town.healthy_is(1), "False ConnectRefused");
}

#[tokio::test(start_paused = true)]
async fn what_probes_find_is_told_also_while_the_backend_gives_no_answer() {
    let town = Town::healthy(2, requests()).await;
    town.backend.fail_always(&Error::transient("down", "no answer"));
    town.pass(MINUTE * 10).await;
    town.breaks(1, Squid::Dead);
    town.pass(MINUTE).await;
    assert_eq!(
        (town.healthy_is(1), town.status(1).phase),
        ("False ConnectRefused".into(), Some(Phase::Running))
    );
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_no_more_are_asked_at_once_than_allowed_and_each_has_its_turn() {
    // Two hundred a second, so that a round takes longer than a period.
    let config = HealthConfig { at_once: 4, ..HealthConfig::default() };
    let check = Check::of(Some(&config), None).unwrap();
    let (fleet, net, many) = (Arc::new(Fleet::new(Dice::seeded(5))), Net::default(), 10_000_u16);
    for port in 1..=many {
        let target = Target {
            uid: format!("uid-{port}"),
            instance: format!("proxy-{port}"),
            entry: "one".to_owned(),
            at: ([10, 0, 0, 1], port).into(),
            check: check.clone(),
        };
        fleet.watch(&key(port), target, None, Instant::now());
    }
    let (_leads, leadership) = watch::channel(Some(1));
    let told = Arc::default();
    let probing = tokio::spawn(run(fleet, Arc::new(net.clone()), Heard(Arc::clone(&told)), leadership));
    tokio::time::sleep(MINUTE * 5).await;
    probing.abort();
    let net = net.at();
    let mut turns = vec![0_u32; usize::from(many) + 1];
    net.asked.iter().for_each(|(_, port)| turns[usize::from(*port)] += 1);
    assert_eq!(net.most, 4);
    let fair = net.asked.len() as u32 / u32::from(many);
    let least = turns[1..].iter().min().copied().unwrap();
    assert!(fair > 4 && least >= fair / 2, "{least} of {fair}");
    assert_eq!(told.lock().unwrap().len(), usize::from(many), "once each: that it passes");
}

/// Who was told of.
struct Heard(Arc<Mutex<Vec<ProxyKey>>>);

impl Teller for Heard {
    async fn changed(&self, keys: BTreeSet<ProxyKey>) {
        self.0.lock().unwrap().extend(keys);
    }

    async fn tell(&self, _: &str, _: Notice) {}
}
