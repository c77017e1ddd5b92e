//! The stage `shadow`: what a candidate sees of its places, beside what the active revision sees.
//!
//! Both are asked to `check` and to `list` every place, the candidate with every write denied. Worse is: a place
//! that is ready for the active one alone, a list that it alone can read, a part that the candidate alone can't
//! read, and an instance of this installation that the candidate does not list although it was there the whole
//! time: the active one lists it before and after. What is down for both blames neither.
//!
//! The world moves while it is looked at, so whatever differs is looked at twice.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use egress_contract::{EntryName, Fault, Health};
use futures::{StreamExt, future::join, stream};

use crate::{
    failure::Failure,
    operations::{Check, List},
    revision::{Revision, RevisionId},
};

/// Between the two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Places that are asked side by side.
const AT_ONCE: usize = 16;
/// A list that goes on for longer leads in circles.
const MOST_PAGES: usize = 10_000;

/// What becomes of a candidate that sees less than the active revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shadow {
    /// It is refused.
    #[default]
    Refuse,
    /// It becomes active, and what it does not see is told.
    Warn,
    /// They are not compared: somebody decided already.
    Skip,
}

/// What the stage `shadow` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What was active; none where nothing was, or nothing was compared.
    pub against: Option<RevisionId>,
    /// What the candidate sees worse: `places.NAME.check`, `.list`, `.unread`, `.instances.INSTANCE`.
    pub differences: Vec<Fault>,
    /// What is different and no worse, for people.
    pub notes: Vec<String>,
}

/// Of two revisions of one entry.
pub(crate) async fn compare(active: &Revision, candidate: &Revision) -> Comparison {
    let pair = Pair { active, candidate };
    let first = pair.look().await;
    if first.differences.is_empty() {
        return first;
    }
    candidate.linked.setup.clock.sleep(PAUSE).await;
    let mut again = pair.look().await;
    let seen: HashSet<&str> = first.differences.iter().map(|fault| fault.path.as_str()).collect();
    again.differences.retain(|fault| seen.contains(fault.path.as_str()));
    again
}

/// An instance or something else of this installation, by its name and id.
type Named = (String, String);

/// All pages of one place.
#[derive(Default)]
struct Listing {
    instances: BTreeSet<Named>,
    leftovers: BTreeSet<Named>,
    unread: Vec<String>,
}

type Listings<'a> = BTreeMap<&'a str, Result<Listing, Failure>>;
type Checked = Result<Health, Failure>;

struct Pair<'a> {
    active: &'a Revision,
    candidate: &'a Revision,
}

impl<'a> Pair<'a> {
    async fn look(&self) -> Comparison {
        let shared: Vec<&str> = self
            .candidate
            .places()
            .iter()
            .filter(|place| self.active.places().contains(place))
            .map(String::as_str)
            .collect();
        let (checked, before) = join(self.check(&shared), listings(self.active, &names(self.active))).await;
        let now = listings(self.candidate, &names(self.candidate)).await;
        let mut found = Findings { pair: self, differences: Vec::new(), notes: Vec::new() };
        for (place, before, now) in &checked {
            found.check(place, before, now);
        }
        // A machine may be listed by another place than before.
        let listed: HashSet<&Named> = now.values().flatten().flat_map(|listing| &listing.instances).collect();
        let mut missing: Vec<(&str, &Named)> = Vec::new();
        for place in &shared {
            match (before.get(place), now.get(place)) {
                (Some(before), Some(Err(failure))) => found.list(place, before, failure),
                (Some(Ok(before)), Some(Ok(now))) => {
                    found.parts(place, before, now);
                    missing.extend(
                        before.instances.iter().filter(|one| !listed.contains(one)).map(|one| (*place, one)),
                    );
                }
                (Some(Err(_)) | None, Some(Ok(_))) | (None, _) | (_, None) => {}
            }
        }
        if !missing.is_empty() {
            let asked: BTreeSet<&str> = missing.iter().map(|(place, _)| *place).collect();
            let after = listings(self.active, &asked.into_iter().collect::<Vec<_>>()).await;
            let stands = |place: &str, one: &Named| {
                after
                    .get(place)
                    .is_some_and(|after| after.as_ref().is_ok_and(|after| after.instances.contains(one)))
            };
            for (place, one) in missing.into_iter().filter(|(place, one)| stands(place, one)) {
                found.instance(place, one);
            }
        }
        found.places(&before, &listed);
        Comparison {
            against: Some(self.active.id().clone()),
            differences: found.differences,
            notes: found.notes,
        }
    }

    async fn check(&self, places: &[&'a str]) -> Vec<(&'a str, Checked, Checked)> {
        let checks: Vec<_> = places
            .iter()
            .map(|place| async move {
                let (active, candidate) = (Check { place }, Check { place });
                let (before, now) =
                    join(self.active.linked.run(&active), self.candidate.linked.run(&candidate)).await;
                (*place, before, now)
            })
            .collect();
        stream::iter(checks).buffer_unordered(AT_ONCE).collect().await
    }
}

fn names(revision: &Revision) -> Vec<&str> {
    revision.places().iter().map(String::as_str).collect()
}

async fn listings<'a>(revision: &Revision, places: &[&'a str]) -> Listings<'a> {
    // Collected first: a closure in the stream would keep the whole load from being spawned.
    let lists: Vec<_> = places.iter().map(|place| listing(revision, place)).collect();
    stream::iter(lists).buffer_unordered(AT_ONCE).collect().await
}

async fn listing<'a>(revision: &Revision, place: &'a str) -> (&'a str, Result<Listing, Failure>) {
    (place, pages(revision, place).await)
}

async fn pages(revision: &Revision, place: &str) -> Result<Listing, Failure> {
    let ours = revision.linked.setup.installation.installation_mark();
    let (mut listing, mut cursor) = (Listing::default(), None);
    for _ in 0..MOST_PAGES {
        let page = revision.linked.run(&List { place, cursor: cursor.as_deref() }).await?;
        listing.unread.extend(page.unread);
        for item in page.items {
            let kind = match &item.leftover {
                None if ours.iter().all(|pair| item.mark.contains(pair)) => &mut listing.instances,
                // Another's, or nobody's: no loss if it is no longer listed.
                None => continue,
                Some(_) => &mut listing.leftovers,
            };
            kind.insert((item.name, item.id));
        }
        match page.next {
            None => return Ok(listing),
            next => cursor = next,
        }
    }
    Err(Failure::Violation(format!("list has more than {MOST_PAGES} pages")))
}

struct Findings<'a> {
    pair: &'a Pair<'a>,
    differences: Vec<Fault>,
    notes: Vec<String>,
}

impl Findings<'_> {
    fn entry(&self) -> &EntryName {
        &self.pair.candidate.linked.setup.entry
    }

    fn differ(&mut self, path: String, message: String) {
        self.differences.push(Fault { path, message });
    }

    fn said(&self, failure: &Failure, operation: &str) -> String {
        failure.message(self.entry(), operation, self.pair.candidate.limits())
    }

    fn check(&mut self, place: &str, before: &Checked, now: &Checked) {
        if !before.as_ref().is_ok_and(|health| health.ready) {
            return;
        }
        let says = match now {
            Ok(health) if health.ready => return,
            Ok(health) => format!("{}: {}", health.reason, health.message),
            Err(failure) => self.said(failure, "check"),
        };
        let active = self.pair.active.id();
        self.differ(
            format!("places.{place}.check"),
            format!("it is ready for revision {active}, and for this one it is not: {says}"),
        );
    }

    /// A candidate's own fault differs also where the active one fails for another reason.
    fn list(&mut self, place: &str, before: &Result<Listing, Failure>, now: &Failure) {
        let blamed = now.blames_component();
        match before {
            Ok(_) => {}
            Err(before) if blamed && !before.blames_component() => {}
            Err(_) => {
                let says = self.said(now, "list");
                return self.notes.push(format!("places.{place}: it can't be compared, both fail: {says}"));
            }
        }
        let says = self.said(now, "list");
        let active = self.pair.active.id();
        self.differ(
            format!("places.{place}.list"),
            format!("revision {active} does not fail in it, and this one does: {says}"),
        );
    }

    fn parts(&mut self, place: &str, before: &Listing, now: &Listing) {
        if now.unread.len() > before.unread.len() {
            let known: HashSet<&String> = before.unread.iter().collect();
            let newly: Vec<&str> =
                now.unread.iter().filter(|part| !known.contains(part)).map(String::as_str).collect();
            let active = self.pair.active.id();
            self.differ(
                format!("places.{place}.unread"),
                format!("revision {active} can read what this one can't: {}", newly.join("; ")),
            );
        }
        let fewer = before.leftovers.difference(&now.leftovers).count();
        if fewer > 0 {
            self.notes.push(format!("places.{place}: {fewer} leftovers are not listed any more"));
        }
    }

    fn instance(&mut self, place: &str, (name, id): &Named) {
        let active = self.pair.active.id();
        self.differ(
            format!("places.{place}.instances.{name}"),
            format!("revision {active} lists it (id {id}), and this one does not"),
        );
    }

    /// A place less, a place more.
    fn places(&mut self, before: &Listings<'_>, listed: &HashSet<&Named>) {
        let (active, candidate) = (self.pair.active.places(), self.pair.candidate.places());
        for place in active.iter().filter(|place| !candidate.contains(place)) {
            let left = match before.get(place.as_str()) {
                Some(Ok(before)) => {
                    let left = before.instances.iter().filter(|one| !listed.contains(one)).count();
                    format!("{left} instances of this installation stand there")
                }
                Some(Err(_)) | None => "what stands there can't be read".to_owned(),
            };
            self.notes.push(format!("places.{place}: it is removed; {left}"));
        }
        for place in candidate.iter().filter(|place| !active.contains(place)) {
            self.notes.push(format!("places.{place}: it is new"));
        }
    }
}
