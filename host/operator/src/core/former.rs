//! Places that an entry had and has no longer, and what still stands there.
//!
//! The active revision does not see them: it would answer that an instance there is gone, and a delete that nothing is
//! left. So what may stand there is looked for by a revision that had the place, and looked at, finished and removed by
//! it. Nothing new is made there.
//!
//! Whom that concerns is read from who began the instance; where it stands, only the providers can tell.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use egress_contract::{Created, Deleted, Error, ErrorClass, Health, Instance, Page, Provider, Spec, Target};

use crate::api::InstanceStatus;

/// A reason of the contract: what bears the name is somebody else's.
const FOREIGN: &str = "foreign";

/// A revision that had places which the active one has not.
#[derive(Clone)]
pub struct Was {
    /// Its id.
    pub revision: String,
    /// Those places.
    pub places: Vec<String>,
    /// What looks after them.
    pub provider: Arc<dyn Provider>,
}

/// Where an instance stands.
#[derive(Clone)]
enum Home {
    Active,
    Former(Arc<dyn Provider>),
}

/// What is left of an entry's earlier places, beside one active revision.
#[derive(Default)]
pub struct Former {
    /// The active revision that this is said of.
    pub beside: String,
    /// The places of that one.
    pub places: Vec<String>,
    /// Who had them, and which.
    pub had: Vec<Was>,
    /// Why it is not known, or can't be reached.
    pub unknown: Option<String>,
    /// Whether that is only because it is being found out just now.
    pub asks: bool,
    /// Revisions that had no place but those that there are now.
    pub harmless: BTreeSet<String>,
    homes: Mutex<HashMap<String, Home>>,
}

impl Former {
    /// As far as is known.
    pub fn new(beside: String, had: Vec<Was>, harmless: BTreeSet<String>, unknown: Option<String>) -> Self {
        let (places, homes) = (Vec::new(), Mutex::default());
        Self { beside, places, had, harmless, unknown, asks: false, homes }
    }

    /// The same, with the places of the active revision.
    #[must_use]
    pub fn with_places(self, places: &[String]) -> Self {
        Self { places: places.to_vec(), ..self }
    }

    /// Nothing is known yet.
    pub fn unknown(beside: String) -> Self {
        let why = "it is being found out whether places of the entry were removed".to_owned();
        Self { asks: true, ..Self::new(beside, Vec::new(), BTreeSet::new(), Some(why)) }
    }

    /// What is known for certain beside the next revision, before it was found out: whoever had no place that this one
    /// had not, had none that the next one has not, where that left none out.
    pub fn before(&self, next: String, places: &[String]) -> Self {
        let unknown = Self::unknown(next);
        if self.places.is_empty() || self.places.iter().any(|place| !places.contains(place)) {
            return unknown;
        }
        let harmless = self.harmless.iter().cloned().chain([self.beside.clone()]).collect();
        Self { harmless, ..unknown }
    }

    /// Whether the active revision is all that there is.
    pub fn is_nothing(&self) -> bool {
        self.had.is_empty() && self.unknown.is_none()
    }

    /// Whether an instance may stand at a place that was removed.
    pub fn concerns(&self, instance: &InstanceStatus) -> bool {
        if self.is_nothing() {
            return false;
        }
        match &instance.created_by {
            Some(by) => *by != self.beside && !self.harmless.contains(by),
            None => instance.id.is_some() || instance.progress.is_some(),
        }
    }

    fn known(&self, target: &Target) -> Option<Home> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner).get(target.name.as_str()).cloned()
    }

    fn keep(&self, target: &Target, home: Option<Home>) {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        match home {
            Some(home) => drop(homes.insert(target.name.to_string(), home)),
            None => drop(homes.remove(target.name.as_str())),
        }
    }
}

/// An id that names a place which is not in the config may be refused, instead of not being found.
fn is_not_here(error: &Error) -> bool {
    match error.class {
        ErrorClass::NotFound | ErrorClass::Permanent => true,
        ErrorClass::Transient | ErrorClass::QuotaExceeded => false,
    }
}

/// The active revision, and behind it those that had more places.
pub struct Whole {
    /// What is asked first.
    pub active: Arc<dyn Provider>,
    /// What is asked for the rest.
    pub former: Arc<Former>,
}

impl Whole {
    /// Who has the instance; none where nobody has it.
    async fn home(&self, target: &Target) -> Result<Option<Home>, Error> {
        if let Some(home) = self.former.known(target) {
            return Ok(Some(home));
        }
        let home = match self.active.get(target).await {
            Ok(_) => Some(Home::Active),
            Err(error) if is_not_here(&error) => self.elsewhere(target).await?.map(|(home, _)| home),
            Err(error) => return Err(error),
        };
        if let Some(home) = &home {
            self.former.keep(target, Some(home.clone()));
        }
        Ok(home)
    }

    async fn elsewhere(&self, target: &Target) -> Result<Option<(Home, Instance)>, Error> {
        if let Some(why) = &self.former.unknown {
            return Err(Error::transient(
                "place-removed",
                format!(
                    "{} is not seen at the entry's places, and may stand at one that was removed: {why}",
                    target.name
                ),
            ));
        }
        for was in &self.former.had {
            match was.provider.get(target).await {
                Ok(seen) => return Ok(Some((Home::Former(Arc::clone(&was.provider)), seen))),
                Err(error) if error.class == ErrorClass::NotFound => {}
                Err(error) => {
                    return Err(Error::transient(
                        "place-removed",
                        format!(
                            "{} is not seen at the entry's places, and may stand at one that was removed ({}), which \
                             revision {} can't look at: {}; bring the place back, or, if it is gone for good, delete the \
                             Proxy and abandon its instance",
                            target.name,
                            was.places.join(", "),
                            was.revision,
                            error.message
                        ),
                    ));
                }
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Provider for Whole {
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        match self.home(target).await? {
            Some(Home::Former(provider)) => provider.create(target, spec, user_data).await,
            Some(Home::Active) | None => self.active.create(target, spec, user_data).await,
        }
    }

    async fn get(&self, target: &Target) -> Result<Instance, Error> {
        match self.active.get(target).await {
            Err(error) if is_not_here(&error) => {
                let Some((home, seen)) = self.elsewhere(target).await? else { return Err(error) };
                self.former.keep(target, Some(home));
                Ok(seen)
            }
            seen => {
                if seen.is_ok() {
                    self.former.keep(target, Some(Home::Active));
                }
                seen
            }
        }
    }

    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        let gone = match self.home(target).await? {
            Some(Home::Former(provider)) => provider.delete(target).await?,
            Some(Home::Active) => self.active.delete(target).await?,
            // What belonged to it may be left at any of them.
            None => {
                for was in &self.former.had {
                    match was.provider.delete(target).await? {
                        Deleted::Done => {}
                        pending @ Deleted::Pending(_) => return Ok(pending),
                    }
                }
                match self.active.delete(target).await {
                    // It has no such place, and those that had it say that nothing is left.
                    Err(error)
                        if error.class == ErrorClass::Permanent
                            && error.reason != FOREIGN
                            && !self.former.had.is_empty() =>
                    {
                        Deleted::Done
                    }
                    answer => answer?,
                }
            }
        };
        if matches!(gone, Deleted::Done) {
            self.former.keep(target, None);
        }
        Ok(gone)
    }

    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        self.active.list(place, cursor).await
    }

    async fn check(&self, place: &str) -> Result<Health, Error> {
        self.active.check(place).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_that_leaves_no_place_out_holds_nothing_up() {
        let places = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let made_by = |revision: &str| InstanceStatus {
            id: Some("id".to_owned()),
            created_by: Some(revision.to_owned()),
            ..InstanceStatus::default()
        };
        let known = Former::new("r2".to_owned(), Vec::new(), BTreeSet::from(["r1".to_owned()]), None);
        let known = known.with_places(&places(&["a", "b"]));
        let more = known.before("r3".to_owned(), &places(&["b", "a", "c"]));
        for harmless in ["r1", "r2", "r3"] {
            assert!(!more.concerns(&made_by(harmless)), "{harmless}");
        }
        assert!(more.concerns(&made_by("r0")), "of whom nothing is known");
        let fewer = known.before("r3".to_owned(), &places(&["a"]));
        assert!(fewer.concerns(&made_by("r1")) && fewer.concerns(&made_by("r2")));
        let nothing_known = Former::unknown("r2".to_owned()).before("r3".to_owned(), &places(&["a"]));
        assert!(nothing_known.concerns(&made_by("r2")));
    }
}
