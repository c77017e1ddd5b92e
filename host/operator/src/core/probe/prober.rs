//! The loop that asks those who are due.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::{Id, JoinSet},
    time::{Instant, timeout},
};
use tracing::{debug, error, info, warn};

use super::{
    Ask, Fault, Fleet, Outcome, Probe,
    evidence::News,
    fleet::{Done, Job},
};
use crate::core::{
    lease::Leadership,
    store::{Notice, ProxyKey},
};

/// Who is told.
pub trait Teller: Send + Sync + 'static {
    /// There is news of these Proxies.
    fn changed(&self, keys: BTreeSet<ProxyKey>) -> impl Future<Output = ()> + Send;

    /// People should see this of an entry.
    fn tell(&self, entry: &str, notice: Notice) -> impl Future<Output = ()> + Send;
}

/// Longer than a probe takes that keeps its time: twice, and a little.
fn most(within: Duration) -> Duration {
    within * 2 + Duration::from_secs(1)
}

/// Until nobody says any more who leads. Without the lead nobody is asked, and what was known is forgotten.
pub async fn run<P: Probe, T: Teller>(
    fleet: Arc<Fleet>,
    probe: Arc<P>,
    teller: T,
    mut leadership: Leadership,
) {
    let mut probes: JoinSet<(Done, Option<News>)> = JoinSet::new();
    let mut jobs: HashMap<Id, Job> = HashMap::new();
    let mut term = *leadership.borrow_and_update();
    loop {
        let mut next = None;
        if term.is_some() {
            while let Some(job) = fleet.take(Instant::now()) {
                let (fleet, probe, of) = (Arc::clone(&fleet), Arc::clone(&probe), job.clone());
                let task = probes.spawn(async move { attend(&fleet, &*probe, &of).await });
                jobs.insert(task.id(), job);
            }
            next = fleet.next();
        }
        tokio::select! {
            biased;
            changed = leadership.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = *leadership.borrow_and_update();
                if now != term && now.is_none() {
                    fleet.clear();
                    probes.abort_all();
                    count(&fleet);
                }
                term = now;
            }
            Some(ended) = probes.join_next_with_id() => {
                let (id, done) = match ended {
                    Ok((id, done)) => (id, Some(done)),
                    Err(broke) => {
                        if broke.is_panic() {
                            error!(error = %broke, "a probe broke down; this is a fault of the operator");
                        }
                        (broke.id(), None)
                    }
                };
                let Some(job) = jobs.remove(&id) else { continue };
                let (done, direct) = done.map_or((None, None), |(done, direct)| (Some(done), direct));
                let before = fleet.ended(&job, done, Instant::now());
                for news in [direct, before].into_iter().flatten() {
                    tell(&teller, &job, news).await;
                }
            }
            () = fleet.stirred() => {}
            () = until(next) => {}
        }
        let changed = fleet.changed();
        if !changed.is_empty() {
            count(&fleet);
            teller.changed(changed).await;
        }
    }
}

/// One probe, with what it takes to judge it.
async fn attend<P: Probe>(fleet: &Fleet, probe: &P, job: &Job) -> (Done, Option<News>) {
    let within = job.check.timeout;
    let asked = async {
        match &job.check.ask {
            Ask::Connect => probe.connect(job.at, within).await,
            Ask::Through(url) => probe.through(job.at, url, within).await,
            Ask::Nothing(_) => std::future::pending().await,
        }
    };
    let outcome = timeout(most(within), asked).await.unwrap_or_else(|_| {
        Outcome::Doubtful(Fault::new("no-answer", format!("{} does not answer in time", job.at)))
    });
    record(job, &outcome);
    let mut news = None;
    if let (Outcome::Doubtful(_), Ask::Through(url)) = (&outcome, &job.check.ask) {
        let began = Instant::now();
        if fleet.ask_directly(url, job, began)
            && timeout(most(within), probe.direct(url, within)).await.unwrap_or(false)
        {
            news = fleet.is_up(url, began);
        }
    }
    let egress = match (&outcome, &job.egress) {
        (Outcome::Passed(_), Some(url)) => {
            let asked = timeout(most(within), probe.through(job.at, url, within)).await;
            address(job, asked.ok())
        }
        _ => None,
    };
    (Done { outcome, egress }, news)
}

fn address(job: &Job, asked: Option<Outcome>) -> Option<IpAddr> {
    match asked {
        Some(Outcome::Passed(text)) => {
            let read = text.trim().parse().ok();
            if read.is_none() {
                debug!(entry = job.entry, proxy = %job.key, "the egress address URL answers with no IP address");
            }
            read
        }
        Some(Outcome::Broken(fault) | Outcome::Doubtful(fault) | Outcome::UrlAtFault(fault)) => {
            debug!(entry = job.entry, proxy = %job.key, reason = fault.reason, "the egress address was not told");
            None
        }
        None => None,
    }
}

fn record(job: &Job, outcome: &Outcome) {
    let (outcome, reason) = match outcome {
        Outcome::Passed(_) => ("passed", "passed".to_owned()),
        Outcome::Broken(fault) => ("failed", fault.reason.clone()),
        Outcome::Doubtful(fault) => ("doubtful", fault.reason.clone()),
        Outcome::UrlAtFault(fault) => ("url-at-fault", fault.reason.clone()),
    };
    debug!(entry = job.entry, proxy = %job.key, outcome, reason, "probed");
    let labels = [("entry", job.entry.clone()), ("outcome", outcome.to_owned())];
    metrics::histogram!("egress_probe_seconds", &labels).record(job.began.elapsed().as_secs_f64());
}

fn count(fleet: &Fleet) {
    for (entry, tally) in fleet.tallies() {
        for (state, count) in
            [("healthy", tally.healthy), ("unhealthy", tally.unhealthy), ("unknown", tally.unknown)]
        {
            let labels = [("entry", entry.clone()), ("state", state.to_owned())];
            let count = u32::try_from(count).map_or(f64::MAX, f64::from);
            metrics::gauge!("egress_proxies_probed", &labels).set(count);
        }
    }
}

async fn tell<T: Teller>(teller: &T, job: &Job, news: News) {
    let Ask::Through(url) = &job.check.ask else { return };
    let entry = &job.entry;
    let notice = match news {
        News::Down => {
            warn!(entry, %url, "the probe URL answers nobody");
            Notice {
                warning: true,
                reason: "ProbeUrlDown".to_owned(),
                message: format!(
                    "{url} answers no Proxy that asks for it, nor the operator itself: no Proxy is blamed for that or \
                     replaced; mend it, or name another one as health.url"
                ),
            }
        }
        News::Up => {
            info!(entry, %url, "the probe URL answers again");
            let message = format!("{url} answers again");
            Notice { warning: false, reason: "ProbeUrlUp".to_owned(), message }
        }
    };
    teller.tell(entry, notice).await;
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
