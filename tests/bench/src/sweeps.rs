//! What a sweep of the collector costs with so many instances, each of them owned: nothing is kept of those but what
//! says who owns them. The backend's pages are made when they are asked for, so they are not what is measured.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use egress_contract::{
    Created, Deleted, Error, Health, Installation, Instance, Item, Page, Provider, Spec, Target,
};
use egress_operator::core::{
    clock::SystemClock,
    collect::{Census, Collector, NoCensus, Owner, Owners, Policy, Removes},
    store::ProxyKey,
};
use jiff::Timestamp;

use crate::{Failure, live::mib, report::Report, waiting::resident_of};

const COUNTS: [(usize, &str); 3] = [
    // First: what a sweep gives back to the allocator, the next one takes without asking the kernel.
    (100_000, "a sweep over 100,000 instances"),
    (50_000, "a sweep over 50,000 instances"),
    (25_000, "a sweep over 25,000 instances"),
];
const PAGE: usize = 500;

/// Instances and their Proxies, by number.
struct Many {
    installation: Installation,
    count: usize,
}

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let mut each = Vec::new();
    for (count, name) in COUNTS {
        let (took, more) = sweep(count).await?;
        report.figure(name, "ms", took.as_secs_f64() * 1e3, None);
        each.push(took.as_secs_f64() / count as f64);
        if count == 100_000 {
            report.figure("the same: memory over what there was before", "MiB", mib(more), Some(64.0));
        }
    }
    let ratio = each.first().copied().unwrap_or(f64::NAN) / each.last().copied().unwrap_or(f64::NAN);
    report.figure("an instance of 100,000 against one of 25,000", "ratio", ratio, Some(1.5));
    Ok(())
}

/// How long it takes, and how much memory at its most.
async fn sweep(count: usize) -> Result<(Duration, u64), Failure> {
    let many = |count| Many { installation: Installation::new("bench"), count };
    let mut collector = Collector::new(many(count), Installation::new("bench"), Arc::new(SystemClock));
    let before = resident_of("self")?;
    let (most, over) = (Arc::new(AtomicU64::new(before)), Arc::new(AtomicBool::new(false)));
    let (seen, ended) = (Arc::clone(&most), Arc::clone(&over));
    let watching = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            seen.fetch_max(resident_of("self").unwrap_or_default(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let policy = Policy { grace: Duration::from_secs(600), removes: Removes::Yes };
    let begun = Instant::now();
    let swept = collector.sweep(&many(count), &["bench".to_owned()], policy, None).await;
    let took = begun.elapsed();
    over.store(true, Ordering::Relaxed);
    let watched = watching.join().is_ok();
    let found = swept.map_err(|error| Failure::new("a sweep", error.to_string()))?;
    if !watched || found.instances != count || !found.ownerless.is_empty() {
        let why = format!("{} instances, {} without an owner", found.instances, found.ownerless.len());
        return Err(Failure::new("a sweep", why));
    }
    Ok((took, most.load(Ordering::Relaxed).saturating_sub(before)))
}

impl Many {
    fn uid(number: usize) -> String {
        format!("00000000-0000-4000-8000-{number:012}")
    }

    fn name(&self, number: usize) -> String {
        self.installation.instance_name(&format!("bench-{number}"), &Self::uid(number), 1).to_string()
    }

    fn id(&self, number: usize) -> String {
        format!("home/egress-bench/{}", self.name(number))
    }

    fn owner(&self, number: usize) -> (String, Owner) {
        let key = ProxyKey { namespace: "egress-bench".to_owned(), name: format!("bench-{number}") };
        let owner = Owner {
            key,
            entry: Some("bench".to_owned()),
            instance: Some(self.name(number)),
            id: Some(self.id(number)),
            readable: true,
        };
        (Self::uid(number), owner)
    }

    fn item(&self, number: usize) -> Item {
        let mark = self.installation.mark(&Self::uid(number), 1, "egress-bench", &format!("bench-{number}"));
        let (id, name) = (self.id(number), self.name(number));
        Item { id, name, leftover: None, mark, created_ms: Some(1_800_000_000_000) }
    }
}

#[async_trait]
impl Owners for Many {
    async fn census(&self) -> Result<Census, NoCensus> {
        let owners = (0..self.count).map(|number| self.owner(number));
        Ok(Census::new(owners, BTreeSet::new(), Timestamp::UNIX_EPOCH))
    }
}

#[async_trait]
impl Provider for Many {
    async fn list(&self, _: &str, cursor: Option<&str>) -> Result<Page, Error> {
        let begin = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let end = self.count.min(begin + PAGE);
        let items = (begin..end).map(|number| self.item(number)).collect();
        Ok(Page { items, unread: Vec::new(), next: (end < self.count).then(|| end.to_string()) })
    }

    async fn create(&self, _: &Target, _: &Spec, _: &[u8]) -> Result<Created, Error> {
        Err(not_asked())
    }

    async fn get(&self, _: &Target) -> Result<Instance, Error> {
        Err(not_asked())
    }

    async fn check(&self, _: &str) -> Result<Health, Error> {
        Err(not_asked())
    }

    async fn delete(&self, _: &Target) -> Result<Deleted, Error> {
        Err(not_asked())
    }
}

fn not_asked() -> Error {
    Error::permanent("bench", "a sweep only lists")
}
