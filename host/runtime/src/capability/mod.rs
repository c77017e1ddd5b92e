//! What a component can be lent, as traits. The wire terms are those of `wit/`.
//!
//! An implementation owns addresses, trust, credentials and grants, gives every request a deadline, and
//! repeats nothing. The runtime times, counts, traces and logs each call, so an implementation need not.

mod http;
mod kubernetes;
mod libvirt;
mod transfer;

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use async_trait::async_trait;

pub use http::{Http, HttpBody, HttpFailure, HttpFailureKind, HttpPart, HttpRequest, HttpResponse, Pairs};
pub use kubernetes::{
    Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
    Resource, Server,
};
pub use libvirt::{
    Allowed, Domain, DomainState, HostInfo, InterfaceAddress, Libvirt, LibvirtConnection, LibvirtFailure,
    LibvirtStage, PoolInfo,
};
pub use transfer::{Fill, Offer, Progress, Transfer, TransferFailure, TransferFailureKind};

/// Why no write may begin now, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Withheld(pub String);

/// Whether this process may change anything, whatever its parts believe.
pub trait Writes: Send + Sync {
    /// Asked right before a write begins, and again each time that it goes on: one that was held up on its way
    /// (by a connection, by a process that stood still) must not leave once it may not begin any more.
    fn may_begin(&self) -> Result<(), Withheld>;
}

/// Nothing is ever withheld.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Writes for Always {
    fn may_begin(&self) -> Result<(), Withheld> {
        Ok(())
    }
}

/// Goes on with a write as long as it may begin.
pub async fn while_allowed<T>(writes: &dyn Writes, write: impl Future<Output = T>) -> Result<T, Withheld> {
    let mut write = pin!(write);
    poll_fn(|context| match writes.may_begin() {
        Ok(()) => write.as_mut().poll(context).map(Ok),
        Err(withheld) => Poll::Ready(Err(withheld)),
    })
    .await
}

/// Time, so that tests can own it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
    /// Milliseconds from an arbitrary start.
    fn monotonic_ms(&self) -> u64;
    /// Waits.
    async fn sleep(&self, time: Duration);
}

/// The machine's own time.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
