//! A sweep: everything that an entry has is listed, and what nobody owns is removed, if it may be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use egress_contract::{
    Deleted, Error, Installation, InstanceName, Item, MARK_INCARNATION, MARK_NAMESPACE, MARK_PROXY, MARK_UID,
    Provider, Target,
};
use futures::future::join_all;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{
    census::{NoCensus, Owners},
    fate::{Fate, Verdict, judge, made, value},
};
use crate::core::clock::Clock;

/// A place that never ends its list is unread.
const MOST_PAGES: usize = 10_000;
/// Between two looks at a removal that goes on.
const POLL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// How an entry is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How old something must be.
    pub grace: Duration,
    /// Whether anything is removed at all.
    pub removes: Removes,
}

/// Whether a collector removes, or only tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removes {
    /// It does.
    Yes,
    /// The entry wants to be told only.
    DryRun,
    /// The entry stands there no longer. It is kept for the Proxies that need it; nobody answers for the rest.
    EntryRemoved,
}

/// Something at a backend, identified.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    id: String,
    name: String,
    leftover: Option<String>,
}

impl Key {
    fn of(item: &Item) -> Self {
        Self { id: item.id.clone(), name: item.name.clone(), leftover: item.leftover.clone() }
    }
}

/// What is remembered of something that nobody owns.
#[derive(Clone, Debug)]
struct Seen {
    place: String,
    first: Timestamp,
    sweeps: u32,
}

/// A removal under way.
#[derive(Clone, Debug)]
struct Removal {
    place: String,
    item: Item,
    progress: Option<String>,
}

/// Something that nobody owns, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Where.
    pub place: String,
    /// What.
    pub item: Item,
    /// See [`Fate`].
    pub fate: Fate,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Where.
    pub place: String,
    /// What, and why.
    pub why: String,
}

/// People are asked before anything goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// What the answer must name: it stands for exactly these instances.
    pub sweep: String,
    /// How many of them have no owner.
    pub ownerless: usize,
    /// How many of those are older than the kind Proxy in this cluster.
    pub before_kind: usize,
    /// How many there are in all.
    pub instances: usize,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instances of this installation, owned or not.
    pub instances: usize,
    /// What nobody owns.
    pub ownerless: Vec<Judged>,
    /// What may be somebody's who can't be seen from here: place, item, why.
    pub kept: Vec<(String, Item, Verdict)>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Set when people are asked.
    pub asks: Option<Asks>,
}

/// The collector of one entry; it remembers between sweeps.
pub struct Collector<O> {
    owners: O,
    installation: Installation,
    clock: Arc<dyn Clock>,
    seen: BTreeMap<Key, Seen>,
    removals: BTreeMap<Key, Removal>,
}

/// What one place showed. What somebody owns is only counted: there may be a hundred thousand of them.
#[derive(Default)]
struct Listed {
    instances: usize,
    judged: Vec<(Item, Verdict)>,
    unread: Vec<String>,
}

impl<O: Owners> Collector<O> {
    /// That has seen nothing yet.
    pub fn new(owners: O, installation: Installation, clock: Arc<dyn Clock>) -> Self {
        Self { owners, installation, clock, seen: BTreeMap::new(), removals: BTreeMap::new() }
    }

    /// Nothing was seen yet.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.removals.clear();
    }

    /// One sweep. `confirmed` is the sweep that people said yes to.
    pub async fn sweep(
        &mut self,
        provider: &dyn Provider,
        places: &[String],
        policy: Policy,
        confirmed: Option<&str>,
    ) -> Result<Report, NoCensus> {
        let census = self.owners.census().await?;
        let now = self.clock.now();
        let judge = |item: &Item| {
            let first = self.seen.get(&Key::of(item)).map_or(now, |seen| seen.first);
            judge(item, first, &census, &self.installation)
        };
        let listed = join_all(places.iter().map(|place| list(provider, place, &judge))).await;
        let mut report = Report::default();
        let mut found = BTreeMap::new();
        let mut before_kind = 0;
        for (place, listed) in places.iter().zip(listed) {
            report.instances += listed.instances;
            report.unread.extend(listed.unread.into_iter().map(|why| Unread { place: place.clone(), why }));
            for (item, verdict) in listed.judged {
                match verdict {
                    Verdict::Ownerless { before_kind: older } => {
                        before_kind += usize::from(older && item.leftover.is_none());
                        found.insert(Key::of(&item), (place.clone(), item));
                    }
                    kept => report.kept.push((place.clone(), item, kept)),
                }
            }
        }
        self.remember(&found, &report.unread, now);
        report.asks = asks(&found, before_kind, report.instances);
        // A removed entry removes nothing whatever people say, so they are not asked.
        report.asks = report
            .asks
            .filter(|asks| Some(asks.sweep.as_str()) != confirmed && policy.removes != Removes::EntryRemoved);
        // What goes is this sweep's to say, also of what was on its way out.
        let mut under_way = std::mem::take(&mut self.removals);
        for (key, (place, item)) in found {
            let fate = self.fate(&key, &item, policy, report.asks.is_some(), now);
            if matches!(fate, Fate::Going(_)) {
                let progress = under_way.remove(&key).and_then(|removal| removal.progress);
                self.removals.insert(key, Removal { place: place.clone(), item: item.clone(), progress });
            }
            report.ownerless.push(Judged { place, item, fate });
        }
        Ok(report)
    }

    /// What is there no more, and was looked for, is forgotten: the two sweeps begin anew.
    fn remember(&mut self, found: &BTreeMap<Key, (String, Item)>, unread: &[Unread], now: Timestamp) {
        let unread: BTreeSet<&str> = unread.iter().map(|unread| unread.place.as_str()).collect();
        self.seen.retain(|key, seen| found.contains_key(key) || unread.contains(seen.place.as_str()));
        for (key, (place, _)) in found {
            let seen =
                self.seen.entry(key.clone()).or_insert(Seen { place: place.clone(), first: now, sweeps: 0 });
            seen.sweeps = seen.sweeps.saturating_add(1);
        }
    }

    fn fate(&self, key: &Key, item: &Item, policy: Policy, asked: bool, now: Timestamp) -> Fate {
        if policy.removes == Removes::EntryRemoved {
            return Fate::EntryRemoved;
        }
        if asked {
            return Fate::Asked;
        }
        let Some(seen) = self.seen.get(key).filter(|seen| seen.sweeps > 1) else { return Fate::SeenOnce };
        let age =
            Duration::try_from(now.duration_since(made(item).unwrap_or(seen.first))).unwrap_or_default();
        match policy.grace.checked_sub(age) {
            Some(left) if !left.is_zero() => Fate::Grace(left),
            _ if policy.removes == Removes::DryRun => Fate::DryRun,
            _ => Fate::Going(String::new()),
        }
    }

    /// One step of every removal that a sweep began; answers when the next is due. Owners are read once more
    /// before anything is removed: one may have come.
    pub async fn remove(&mut self, provider: &dyn Provider) -> (Vec<Judged>, Option<Duration>) {
        if self.removals.is_empty() {
            return (Vec::new(), None);
        }
        let removals = std::mem::take(&mut self.removals);
        let census = match self.owners.census().await {
            Ok(census) => census,
            // The next sweep begins them again.
            Err(_) => return (Vec::new(), None),
        };
        let (mut told, mut due) = (Vec::new(), None::<Duration>);
        for (key, removal) in removals {
            let now = self.clock.now();
            let first = self.seen.get(&key).map_or(now, |seen| seen.first);
            let verdict = judge(&removal.item, first, &census, &self.installation);
            let Verdict::Ownerless { .. } = verdict else { continue };
            let fate = match self.target(&removal) {
                Ok(target) => match provider.delete(&target).await {
                    Ok(Deleted::Done) => Fate::Removed,
                    Ok(Deleted::Pending(pending)) => {
                        let wait = pending.poll.clamp(POLL.0, POLL.1);
                        due = Some(due.map_or(wait, |due| due.min(wait)));
                        let progress = Some(pending.progress);
                        self.removals.insert(key, Removal { progress, ..removal.clone() });
                        Fate::Going(pending.message)
                    }
                    Err(error) => Fate::Failed(error.to_string()),
                },
                Err(error) => Fate::Failed(error.to_string()),
            };
            told.push(Judged { place: removal.place, item: removal.item, fate });
        }
        (told, due)
    }

    fn target(&self, removal: &Removal) -> Result<Target, Error> {
        let item = &removal.item;
        let name = InstanceName::read_back(&item.name)
            .map_err(|error| Error::permanent("foreign", format!("{}: {error}", item.name)))?;
        let marked = |key| value(&item.mark, key).unwrap_or_default();
        Ok(Target {
            name,
            uid: marked(MARK_UID).to_owned(),
            incarnation: marked(MARK_INCARNATION).parse().unwrap_or_default(),
            namespace: marked(MARK_NAMESPACE).to_owned(),
            proxy: marked(MARK_PROXY).to_owned(),
            id: Some(item.id.clone()),
            progress: removal.progress.clone(),
        })
    }
}

/// All pages of one place.
async fn list(provider: &dyn Provider, place: &str, judge: &impl Fn(&Item) -> Verdict) -> Listed {
    let mut listed = Listed::default();
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let page = match provider.list(place, cursor.as_deref()).await {
            Ok(page) => page,
            Err(error) => {
                listed.unread.push(error.to_string());
                return listed;
            }
        };
        listed.unread.extend(page.unread);
        for item in page.items {
            let verdict = judge(&item);
            listed.instances += usize::from(verdict != Verdict::Foreign && item.leftover.is_none());
            if !matches!(verdict, Verdict::Owned(_) | Verdict::Foreign) {
                listed.judged.push((item, verdict));
            }
        }
        if page.next.is_none() {
            return listed;
        }
        cursor = page.next;
    }
    listed.unread.push(format!("its list did not end after {MOST_PAGES} pages"));
    listed
}

/// Whether so many have no owner that something else must be wrong.
fn asks(found: &BTreeMap<Key, (String, Item)>, before_kind: usize, instances: usize) -> Option<Asks> {
    let ownerless: Vec<&Key> = found.keys().filter(|key| key.leftover.is_none()).collect();
    if before_kind == 0 && ownerless.len() <= (instances / 10).max(1) {
        return None;
    }
    let mut hasher = Sha256::new();
    for key in &ownerless {
        for part in [&key.id, &key.name] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
    }
    let sweep = hex::encode(hasher.finalize()).chars().take(12).collect();
    Some(Asks { sweep, ownerless: ownerless.len(), before_kind, instances })
}
