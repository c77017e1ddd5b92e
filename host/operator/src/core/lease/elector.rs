//! Getting a lease, keeping it up, and giving it back.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Claim, Leadership, LeaseError, LeaseRecord, Leases, Monotonic, Proof, Terms};

/// Between two looks of one who waits, at most: a lease that was given back is to be taken up at once.
const LOOK: Duration = Duration::from_millis(500);
/// The longest that one read or write may take.
const CALL: Duration = Duration::from_secs(5);
/// The longest that giving back may take: who waits for it can take over without it, a little later.
const RELEASE: Duration = Duration::from_millis(500);

/// One process' part in it.
pub struct Elector<L> {
    leases: L,
    terms: Terms,
    clock: Arc<dyn Monotonic>,
    proof: Proof,
    leads: watch::Sender<Option<u32>>,
    /// The lease as this process wrote it last, while nobody else is known to have it.
    held: Option<LeaseRecord>,
    /// Somebody else's: its version, and since when it is known, by the own clock.
    seen: Option<(String, Duration)>,
}

impl<L: Leases> Elector<L> {
    /// One that does not lead yet.
    pub fn new(leases: L, terms: Terms, clock: Arc<dyn Monotonic>) -> Self {
        let proof = Proof::new(Arc::clone(&clock));
        Self { leases, terms, clock, proof, leads: watch::Sender::new(None), held: None, seen: None }
    }

    /// For everything that writes.
    pub fn proof(&self) -> Proof {
        self.proof.clone()
    }

    /// For the loops.
    pub fn leadership(&self) -> Leadership {
        self.leads.subscribe()
    }

    /// Until the token is cancelled. What is held then is held on; see [`Self::release`].
    pub async fn run(&mut self, stop: &CancellationToken) {
        loop {
            let wait = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                wait = self.step() => wait,
            };
            self.tell();
            // The loops hear of a proof that ran out when it does.
            let wait = self.proof.left().map_or(wait, |left| wait.min(left));
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => self.tell(),
            }
        }
    }

    /// Gives the lease back, if it is held. Nothing may be written by this process from here on.
    pub async fn release(&mut self) {
        self.proof.close();
        self.held = None;
        self.tell();
        let given_back = async {
            match self.give_back().await {
                // By a renewal of one's own that was on its way.
                Err(LeaseError::Overtaken) => self.give_back().await,
                other => other,
            }
        };
        match timeout(RELEASE, given_back).await {
            Ok(Ok(true)) => info!(holder = self.terms.identity, "the lease was given back"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => warn!(%error, "the lease was not given back; it runs out by itself"),
            Err(_) => warn!("the lease was not given back in time; it runs out by itself"),
        }
    }

    async fn give_back(&self) -> Result<bool, LeaseError> {
        // Read, since a renewal that was cut off may have landed.
        let Some(record) = self.leases.read().await?.filter(|record| record.holder == self.terms.identity)
        else {
            return Ok(false);
        };
        let claim = Claim { holder: String::new(), acquired: false, ..self.claim(record.transitions) };
        self.leases.write(Some(&record), claim).await.map(|_| true)
    }

    /// One read or write, or two; answers when the next is due.
    async fn step(&mut self) -> Duration {
        match self.held.clone() {
            Some(record) => self.renew(record).await,
            None => self.look().await,
        }
    }

    async fn renew(&mut self, record: LeaseRecord) -> Duration {
        // Before the write: it may land at any time after this.
        let begun = self.clock.elapsed();
        let claim = self.claim(record.transitions);
        match self.bounded(self.leases.write(Some(&record), claim)).await {
            Ok(newer) => {
                self.hold(newer, begun);
                // The process may have stood still meanwhile.
                if self.proof.holds() { self.terms.renewal } else { Duration::ZERO }
            }
            Err(LeaseError::Overtaken) => match self.bounded(self.leases.read()).await {
                // By oneself: a renewal that was given up on landed.
                Ok(Some(found)) if found.holder == self.terms.identity => {
                    self.held = Some(found);
                    Duration::ZERO
                }
                Ok(found) => {
                    let by = found.as_ref().map(|found| found.holder.as_str());
                    warn!(by, "the lease was taken by somebody else");
                    self.lose();
                    found.map_or(Duration::ZERO, |found| self.wait_for(&found))
                }
                Err(error) => self.failed(&error),
            },
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &LeaseError) -> Duration {
        let left = self.proof.left().unwrap_or_default();
        warn!(%error, ?left, "the lease was not renewed; without it nothing is written after that time");
        self.terms.renewal.min(LOOK)
    }

    /// Without the lease.
    async fn look(&mut self) -> Duration {
        let found = match self.bounded(self.leases.read()).await {
            Ok(found) => found,
            Err(error) => {
                debug!(%error, "the lease could not be read");
                return LOOK;
            }
        };
        match found {
            Some(record) if !self.may_take(&record) => self.wait_for(&record),
            free => self.take(free).await,
        }
    }

    fn may_take(&mut self, record: &LeaseRecord) -> bool {
        if record.holder.is_empty() || record.holder == self.terms.identity {
            return true;
        }
        // After it was read: its holder counts from before it was written, so from earlier.
        let now = self.clock.elapsed();
        match &self.seen {
            Some((version, since)) if *version == record.version => {
                now.saturating_sub(*since) >= self.duration_of(record)
            }
            _ => {
                self.seen = Some((record.version.clone(), now));
                false
            }
        }
    }

    fn duration_of(&self, record: &LeaseRecord) -> Duration {
        record.duration.filter(|duration| !duration.is_zero()).unwrap_or(self.terms.duration)
    }

    fn wait_for(&self, record: &LeaseRecord) -> Duration {
        let Some((_, since)) = self.seen.as_ref().filter(|(version, _)| *version == record.version) else {
            return LOOK.min(self.terms.renewal);
        };
        let ends = since.saturating_add(self.duration_of(record));
        ends.saturating_sub(self.clock.elapsed()).min(LOOK).min(self.terms.renewal)
    }

    async fn take(&mut self, free: Option<LeaseRecord>) -> Duration {
        let before = free.as_ref().map(|record| record.holder.clone()).unwrap_or_default();
        let own = before == self.terms.identity;
        let transitions = free.as_ref().map_or(0, |record| record.transitions);
        let transitions = if own { transitions } else { transitions.saturating_add(1) };
        let begun = self.clock.elapsed();
        let claim = Claim { acquired: !own, ..self.claim(transitions) };
        match self.bounded(self.leases.write(free.as_ref(), claim)).await {
            Ok(record) => {
                info!(holder = self.terms.identity, before, transitions, "the lease was taken");
                self.hold(record, begun);
                self.terms.renewal
            }
            Err(error) => {
                debug!(%error, "the lease was not taken");
                LOOK.min(self.terms.renewal)
            }
        }
    }

    fn claim(&self, transitions: u32) -> Claim {
        let Terms { identity, duration, .. } = &self.terms;
        Claim { holder: identity.clone(), duration: *duration, transitions, acquired: false }
    }

    fn hold(&mut self, record: LeaseRecord, begun: Duration) {
        self.proof.prove(begun.saturating_add(self.terms.deadline));
        self.held = Some(record);
        self.seen = None;
    }

    fn lose(&mut self) {
        self.proof.withdraw();
        self.held = None;
    }

    fn tell(&self) {
        let leads = self.held.as_ref().filter(|_| self.proof.holds()).map(|record| record.transitions);
        self.leads.send_if_modified(|told| {
            if *told == leads {
                return false;
            }
            let holder = &self.terms.identity;
            match leads {
                Some(term) => info!(holder, term, "this process leads"),
                None => info!(holder, "this process leads no longer"),
            }
            *told = leads;
            true
        });
        metrics::gauge!("egress_leader").set(if leads.is_some() { 1.0 } else { 0.0 });
    }

    /// A server that is frozen holds a call for a minute. Twice in the time that is left there must be a try.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, LeaseError>>) -> Result<T, LeaseError> {
        let most = CALL.min(self.terms.deadline / 2);
        let most = self.proof.left().map_or(most, |left| left.min(most));
        let late = || LeaseError::Failed(format!("no answer within {} ms", most.as_millis()));
        timeout(most, call).await.unwrap_or_else(|_| Err(late()))
    }
}
