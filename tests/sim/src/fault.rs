//! What can go wrong between a host and a backend, and where.
//!
//! A fault stands before the effect (the backend never heard of the request) or after it (the backend did as
//! it was asked, and the answer is what went wrong).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Before: no connection. After: something in between says that it can't serve now.
    Refused,
    /// The connection broke before an answer.
    Lost,
    /// No answer in this time.
    Timeout(Duration),
    /// The connection broke within the answer.
    CutShort,
    /// The answer takes so long, and is right.
    Slow(Duration),
    /// Asked too much; come back after this.
    RateLimited(Duration),
    /// An answer that can be read and has not what it should have.
    Garbage,
    /// Something in between answers with a page of its own, and a 404.
    WrongContentType,
    /// Before: the host has no credentials. After: the backend does not know them any more.
    NoCredentials,
    /// The whole host dies: the call never comes back.
    Death,
}

/// The deadline that a simulated capability gives a request.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

impl Fault {
    /// Every kind but slowness and death, which don't make a call fail.
    pub fn failures() -> Vec<Self> {
        vec![
            Self::Refused,
            Self::Lost,
            Self::Timeout(REQUEST_DEADLINE),
            Self::CutShort,
            Self::RateLimited(Duration::from_secs(7)),
            Self::Garbage,
            Self::WrongContentType,
            Self::NoCredentials,
        ]
    }

    /// For people and journals.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Lost => "answer lost",
            Self::Timeout(_) => "timeout",
            Self::CutShort => "answer cut short",
            Self::Slow(_) => "slow",
            Self::RateLimited(_) => "rate-limited",
            Self::Garbage => "garbage",
            Self::WrongContentType => "wrong content type",
            Self::NoCredentials => "credentials gone",
            Self::Death => "the host dies",
        }
    }
}

/// On which side of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// The backend never hears of the request.
    Before,
    /// The backend has done it.
    After,
}

impl When {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];

    /// As it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A point of a run: the number of a call in the journal, and the side of its effect. `7:before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// As in the journal.
    pub number: u64,
    /// Which side.
    pub when: When,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.when.as_str())
    }
}

/// What is no point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no point of a run; write the number of a call as the journal counts them, and a side: 7:before or 7:after"
)]
pub struct InvalidPoint(String);

impl FromStr for Point {
    type Err = InvalidPoint;

    fn from_str(text: &str) -> Result<Self, InvalidPoint> {
        let invalid = || InvalidPoint(text.to_owned());
        let (number, when) = text.split_once(':').ok_or_else(invalid)?;
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(invalid)?;
        let when = When::BOTH.into_iter().find(|side| side.as_str() == when).ok_or_else(invalid)?;
        Ok(Self { number, when })
    }
}

/// Which faults a run has. Clones are the same plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    set: Arc<Mutex<Set>>,
}

#[derive(Debug, Default)]
struct Set {
    points: BTreeMap<u64, (When, Fault)>,
    places: BTreeMap<String, Fault>,
    stops: BTreeSet<u64>,
    stops_always: bool,
    /// What a page of a list holds at most, whatever is asked for.
    page: Option<u32>,
}

impl Plan {
    fn lock(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call goes wrong.
    pub fn at(&self, point: Point, fault: Fault) {
        self.lock().points.insert(point.number, (point.when, fault));
    }

    /// From now on every call to a place goes wrong.
    pub fn place(&self, place: &str, fault: Fault) {
        self.lock().places.insert(place.to_owned(), fault);
    }

    /// The host that comes to this call waits there until it is let on.
    pub fn stop_before(&self, number: u64) {
        self.lock().stops.insert(number);
    }

    /// From now on a host waits before each call until it is let on.
    pub fn stop_always(&self, always: bool) {
        self.lock().stops_always = always;
    }

    /// From now on a page of a list holds at most so much, whatever is asked for.
    pub fn pages_of(&self, most: u32) {
        self.lock().page = Some(most);
    }

    /// A plan of its own in which nothing goes wrong, with pages as small as here.
    #[must_use]
    pub fn fresh(&self) -> Self {
        let fresh = Self::default();
        fresh.lock().page = self.page();
        fresh
    }

    /// From now on nothing goes wrong.
    pub fn clear(&self) {
        let mut set = self.lock();
        *set = Set { page: set.page, ..Set::default() };
    }

    pub(crate) fn of(&self, number: u64, place: &str) -> Option<(When, Fault)> {
        let set = self.lock();
        let anywhere = || set.places.get(place).map(|fault| (When::Before, fault.clone()));
        set.points.get(&number).cloned().or_else(anywhere)
    }

    pub(crate) fn page(&self) -> Option<u32> {
        self.lock().page
    }

    pub(crate) fn stops(&self, number: u64) -> bool {
        let set = self.lock();
        set.stops_always || set.stops.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_reads_as_it_is_printed() {
        let point = Point { number: 7, when: When::After };
        assert_eq!(point.to_string().parse(), Ok(point));
        for bad in ["", "7", "7:", "7:during", "0:before", "-1:after", "x:before"] {
            let error = bad.parse::<Point>().unwrap_err().to_string();
            assert!(error.contains("7:before"), "{error}");
        }
    }

    #[test]
    fn a_point_goes_before_its_place() {
        let plan = Plan::default();
        plan.place("home", Fault::Refused);
        plan.at(Point { number: 3, when: When::After }, Fault::Lost);
        assert_eq!(plan.of(3, "home"), Some((When::After, Fault::Lost)));
        assert_eq!(plan.of(4, "home"), Some((When::Before, Fault::Refused)));
        assert_eq!(plan.of(4, "far"), None);
        plan.clear();
        assert_eq!(plan.of(3, "home"), None);
    }
}
