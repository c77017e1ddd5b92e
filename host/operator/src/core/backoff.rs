//! When to try again, and what sets a failure free before that.
//!
//! Each failure is stored with the *key* it was seen with. While the key is the same and the time has not
//! come, nothing is called; with another key (a changed spec, another revision of the provider, a new value
//! of the retry annotation, other user-data) the failure is void. A permanent one differs only in its
//! length: an hour, because a right granted at the backend is seen by nobody here.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use egress_contract::ErrorClass;
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};
use sha2::{Digest, Sha256};

use crate::{api::Failure, core::store::ProxyRecord};

/// How the loop paces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After the first transient failure; doubled with each in a row.
    pub transient: Duration,
    /// At most, after a transient failure.
    pub transient_most: Duration,
    /// After the first failure for want of room; doubled with each in a row.
    pub quota: Duration,
    /// At most, after a failure for want of room.
    pub quota_most: Duration,
    /// After a permanent failure whose key stays the same.
    pub permanent: Duration,
    /// Between two looks at a running instance.
    pub running: Duration,
    /// Between two looks at one that has no address yet.
    pub provisioning: Duration,
    /// Between two looks at what may set a failure free without telling: a Secret, an entry.
    pub recheck: Duration,
    /// Between two looks at whether a turn has come that nobody told.
    pub turn: Duration,
    /// Over this time spread what a place sets free that comes back.
    pub herd: Duration,
    /// An instance that ran so long is not the one that failed: the next failure counts from one.
    pub steady: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            transient: Duration::from_secs(1),
            transient_most: Duration::from_secs(300),
            quota: Duration::from_secs(60),
            quota_most: Duration::from_secs(900),
            permanent: Duration::from_secs(3600),
            running: Duration::from_secs(30),
            provisioning: Duration::from_secs(2),
            recheck: Duration::from_secs(30),
            turn: Duration::from_secs(120),
            herd: Duration::from_secs(30),
            steady: Duration::from_secs(600),
        }
    }
}

const LEAST_HINT: Duration = Duration::from_secs(1);

impl Pace {
    /// How long to rest after the `count`th failure in a row.
    pub fn rest(&self, class: ErrorClass, count: u32, hint: Option<Duration>, dice: &Dice) -> Duration {
        let (first, most) = match class {
            // Asked for by the backend: never earlier, a little later at times.
            ErrorClass::Transient | ErrorClass::NotFound | ErrorClass::QuotaExceeded if hint.is_some() => {
                let wait = hint.unwrap_or_default().clamp(LEAST_HINT, self.permanent);
                return dice.between(wait, wait.mul_f64(1.1));
            }
            ErrorClass::Transient | ErrorClass::NotFound => (self.transient, self.transient_most),
            ErrorClass::QuotaExceeded => (self.quota, self.quota_most),
            ErrorClass::Permanent => return dice.between(self.permanent, self.permanent.mul_f64(1.1)),
        };
        let doublings = count.saturating_sub(1).min(20);
        let whole = first.saturating_mul(1 << doublings).min(most);
        // Spread over the upper half: what failed together must not come back together.
        dice.between(whole / 2, whole)
    }

    /// An interval, spread so that Proxies that began together drift apart.
    pub fn spread(&self, interval: Duration, dice: &Dice) -> Duration {
        dice.between(interval.mul_f64(0.9), interval.mul_f64(1.1))
    }
}

/// Chance, seeded from outside.
pub struct Dice(Mutex<StdRng>);

impl Dice {
    /// The same seed throws the same.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// A time between the two, both possible.
    pub fn between(&self, least: Duration, most: Duration) -> Duration {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        least + most.saturating_sub(least).mul_f64(rng.random_range(0.0..=1.0))
    }
}

/// What a failure holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A step of create.
    Create,
    /// The create that follows an instance that ended by itself.
    Restart,
    /// A look.
    Get,
    /// A step of delete.
    Delete,
}

impl Call {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Restart => "restart",
            Self::Get => "get",
            Self::Delete => "delete",
        }
    }
}

/// Whether a failure holds up the create after an instance that ended by itself.
pub fn holds_up_restart(failure: &Failure) -> bool {
    failure.key.split(' ').next() == Some(Call::Restart.as_str())
}

/// The revision whose step of create failed so, if it was one.
pub fn failed_to_create(failure: &Failure) -> Option<&str> {
    let mut parts = failure.key.split(' ');
    parts.next().filter(|call| *call == Call::Create.as_str())?;
    parts.find_map(|part| part.strip_prefix("revision="))
}

/// What a failure of this call is seen with.
///
/// User-data goes in hashed together with the installation's identity, which a reader of the status does not
/// know: the hash alone could be searched for a short password.
pub fn key(call: Call, record: &ProxyRecord, revision: &str, user_data: &[u8], secret: &str) -> String {
    let mut hasher = Sha256::new();
    let retry = record.retry.as_deref().unwrap_or_default();
    for part in [secret.as_bytes(), record.uid.as_bytes(), retry.as_bytes(), user_data] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let digest: String = hex::encode(hasher.finalize()).chars().take(16).collect();
    format!("{} generation={} revision={revision} {digest}", call.as_str(), record.generation)
}

/// Whether two keys differ at most in what is hashed: the annotation and the user-data.
pub fn same_but_data(one: &str, other: &str) -> bool {
    one.rsplit_once(' ').map(|(rest, _)| rest) == other.rsplit_once(' ').map(|(rest, _)| rest)
}

/// How long the failure still holds up a call with this key.
pub fn held_up(failure: Option<&Failure>, key: &str, now: Timestamp) -> Option<Duration> {
    let failure = failure.filter(|f| f.key == key)?;
    let due = failure.retry_at.as_ref()?.0;
    Duration::try_from(due.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// How long until a place that came back sets the failure free: each Proxy has a moment of its own within `herd`, the
/// same whoever asks. None if the failure is from after that.
pub fn set_free(
    failure: Option<&Failure>,
    recovered: Option<Timestamp>,
    uid: &str,
    herd: Duration,
    now: Timestamp,
) -> Option<Duration> {
    let (at, recovered) = (failure?.at.as_ref()?.0, recovered?);
    // Times of failures are cut to seconds: one of the same second may be from before.
    if at > recovered {
        return None;
    }
    let digest = Sha256::digest(uid.as_bytes());
    let part = digest.first().copied().map_or(0.0, f64::from) / 255.0;
    let due = recovered.checked_add(herd.mul_f64(part)).ok()?;
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rests(class: ErrorClass, count: u32) -> Vec<Duration> {
        let dice = Dice::seeded(7);
        (0..100).map(|_| Pace::default().rest(class, count, None, &dice)).collect()
    }

    #[test]
    fn a_rest_doubles_up_to_its_most_and_is_spread() {
        for (class, count, most) in [
            (ErrorClass::Transient, 1, 1),
            (ErrorClass::Transient, 4, 8),
            (ErrorClass::Transient, 9, 256),
            (ErrorClass::Transient, 10, 300),
            (ErrorClass::Transient, u32::MAX, 300),
            (ErrorClass::QuotaExceeded, 1, 60),
            (ErrorClass::QuotaExceeded, 3, 240),
            (ErrorClass::QuotaExceeded, 50, 900),
        ] {
            let rests = rests(class, count);
            let whole = SECOND * most;
            assert!(rests.iter().all(|r| (whole / 2..=whole).contains(r)), "{class:?} {count}: {rests:?}");
            assert!(rests.iter().any(|r| *r < whole * 6 / 10) && rests.iter().any(|r| *r > whole * 9 / 10));
        }
    }

    #[test]
    fn a_hint_is_kept_and_never_undercut() {
        let dice = Dice::seeded(7);
        for (hint, least) in [(40, 40), (0, 1), (100_000, 3600)] {
            let rest = Pace::default().rest(ErrorClass::Transient, 5, Some(SECOND * hint), &dice);
            assert!((SECOND * least..=SECOND * least * 11 / 10).contains(&rest), "{hint}: {rest:?}");
        }
    }

    #[test]
    fn a_hint_on_a_permanent_failure_does_not_shorten_it() {
        let rest = Pace::default().rest(ErrorClass::Permanent, 1, Some(SECOND), &Dice::seeded(7));
        assert!((SECOND * 3600..=SECOND * 3960).contains(&rest), "{rest:?}");
    }
}
