//! Who of several processes may write: the holder of a lease, for as long as it can prove it.
//!
//! Nobody who waits can tell a holder that is dead from one that is cut off or stands still. So a holder gives up by its
//! own clock before anybody may take over by his: what it believes does not count, only that its last renewal
//! began less than a *deadline* ago, and the deadline is shorter than the lease. The clock goes on while the
//! process, or the machine, is suspended. Nobody compares times of two machines: who waits counts for how long,
//! by his own clock, the lease has not changed.
//!
//! [`Proof`] is what every write asks; [`Elector`] keeps it up; [`Leadership`] tells the loops, which may be late.

mod elector;
mod led;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use egress_runtime::capability::{Withheld, Writes};
use tokio::sync::watch;

pub use elector::Elector;
pub use led::Led;

/// Time from some start on, that never goes back and counts also while the process or the machine is suspended.
pub trait Monotonic: Send + Sync {
    /// Since the start.
    fn elapsed(&self) -> Duration;
}

/// What the processes of one installation agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Who this is: no two processes may share it, not even one and its successor.
    pub identity: String,
    /// How long a lease that does not change keeps others off. Whole seconds.
    pub duration: Duration,
    /// How long after a renewal began its holder may write. Shorter than the lease: what lies between is for
    /// clocks that run unevenly, and for what a write that just began takes to arrive.
    pub deadline: Duration,
    /// Between two renewals.
    pub renewal: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            identity: String::new(),
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            renewal: Duration::from_secs(2),
        }
    }
}

/// A lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Empty for nobody.
    pub holder: String,
    /// What its holder promised; none when it says nothing.
    pub duration: Option<Duration>,
    /// How often it changed hands.
    pub transitions: u32,
    /// Opaque: changes with every write.
    pub version: String,
}

/// What is to stand in a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Empty for nobody.
    pub holder: String,
    /// See [`Terms`].
    pub duration: Duration,
    /// How often it changed hands, with this time.
    pub transitions: u32,
    /// Whether it changes hands now.
    pub acquired: bool,
}

/// Why a lease was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Somebody wrote first; it may have been oneself, with a write that had been given up on.
    #[error("somebody else wrote the lease first")]
    Overtaken,
    /// Whether it happened is unknown.
    #[error("{0}")]
    Failed(String),
}

/// Where the lease is kept.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Read live. None when there is none.
    async fn read(&self) -> Result<Option<LeaseRecord>, LeaseError>;

    /// Writes it if it still is as `before`; without one, if there is none.
    async fn write(&self, before: Option<&LeaseRecord>, claim: Claim) -> Result<LeaseRecord, LeaseError>;
}

/// Whether this process leads, and under which number; none while it does not. It comes late, and [`Proof`] alone
/// guards writes.
pub type Leadership = watch::Receiver<Option<u32>>;

const NEVER: u64 = u64::MAX;

/// That this process holds the lease; clones share it.
#[derive(Clone)]
pub struct Proof(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Monotonic>,
    /// Nanoseconds of the clock; zero for not at all.
    until: AtomicU64,
    closed: AtomicBool,
}

impl Proof {
    /// Not proven yet.
    pub fn new(clock: Arc<dyn Monotonic>) -> Self {
        Self(Arc::new(Inner { clock, until: AtomicU64::new(0), closed: AtomicBool::new(false) }))
    }

    /// Where there is no lease, because there is one process.
    pub fn always() -> Self {
        struct Still;
        impl Monotonic for Still {
            fn elapsed(&self) -> Duration {
                Duration::ZERO
            }
        }
        let proof = Self::new(Arc::new(Still));
        proof.0.until.store(NEVER, Ordering::SeqCst);
        proof
    }

    /// Whether it stands now.
    pub fn holds(&self) -> bool {
        self.left().is_some()
    }

    /// For how long it stands if nothing comes to it.
    pub fn left(&self) -> Option<Duration> {
        let until = self.0.until.load(Ordering::SeqCst);
        if until == 0 || self.0.closed.load(Ordering::SeqCst) {
            return None;
        }
        Duration::from_nanos(until).checked_sub(self.0.clock.elapsed()).filter(|left| !left.is_zero())
    }

    fn prove(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(NEVER);
        self.0.until.store(until, Ordering::SeqCst);
    }

    fn withdraw(&self) {
        self.0.until.store(0, Ordering::SeqCst);
    }

    /// It stands never again.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }
}

impl Writes for Proof {
    fn may_begin(&self) -> Result<(), Withheld> {
        if self.holds() {
            return Ok(());
        }
        let why =
            "this process can't prove that it leads, so it changes nothing; who leads stands in the Lease";
        Err(Withheld(why.to_owned()))
    }
}
