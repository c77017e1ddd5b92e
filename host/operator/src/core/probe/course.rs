//! One Proxy's course from probe to probe.
//!
//! Pure. A Proxy that passes and fails by turns stays what it was: only a row of either kind changes it.

use tokio::time::Instant;

use super::{Check, Fault};

/// What a Proxy counts as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is known yet; with a fault, why that is so.
    #[default]
    Unknown,
    /// Nothing is known, and this is why.
    Untold(Fault),
    /// It does what it is for.
    Healthy,
    /// It does not.
    Unhealthy(Fault),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    state: State,
    failures: u32,
    successes: u32,
    /// When the last failure began that only others can explain.
    doubt: Option<Instant>,
    /// Probes since it began, up to a few.
    asked: u32,
}

impl Course {
    /// As it was when the last process left it.
    pub fn known(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    /// What it counts as.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the last probe that told anything failed.
    pub fn still_fails(&self) -> bool {
        self.failures > 0
    }

    /// Whether nothing is known although it was asked only a few times.
    pub fn is_new(&self, check: &Check) -> bool {
        matches!(self.state, State::Unknown | State::Untold(_)) && self.asked <= check.failures
    }

    /// A probe passed.
    pub fn passed(&mut self, check: &Check) {
        self.count();
        self.failures = 0;
        self.doubt = None;
        self.successes = self.successes.saturating_add(1);
        // One that was never known is not made to prove itself.
        let enough = match self.state {
            State::Unhealthy(_) => self.successes >= check.successes,
            State::Unknown | State::Untold(_) => true,
            State::Healthy => false,
        };
        if enough {
            self.state = State::Healthy;
        }
    }

    /// A probe failed, and the proxy is at fault.
    pub fn failed(&mut self, fault: Fault, check: &Check) {
        self.count();
        self.doubt = None;
        self.blame(fault, check);
    }

    /// A probe that began then failed, and who is at fault is seen by when the URL last answered anybody: a request
    /// that began later than the failing one and passed.
    pub fn doubtful(&mut self, fault: Fault, began: Instant, up: Option<Instant>, check: &Check) {
        self.count();
        self.successes = 0;
        let up_since = |began: Instant| up.is_some_and(|up| up >= began);
        if self.doubt.take().is_some_and(up_since) {
            self.blame(fault.clone(), check);
        }
        if up_since(began) {
            self.blame(fault, check);
        } else {
            self.doubt = Some(began);
            self.untold(fault);
        }
    }

    /// It was asked in vain, through no fault of its own.
    pub fn in_vain(&mut self, fault: Fault) {
        self.count();
        self.untold(fault);
    }

    fn untold(&mut self, fault: Fault) {
        if self.state == State::Unknown {
            self.state = State::Untold(fault);
        }
    }

    fn count(&mut self) {
        self.asked = self.asked.saturating_add(1);
    }

    fn blame(&mut self, fault: Fault, check: &Check) {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        // The first fault stays told: others while it lasts would be written one by one.
        if self.failures >= check.failures && !matches!(self.state, State::Unhealthy(_)) {
            self.state = State::Unhealthy(fault);
        }
    }
}
