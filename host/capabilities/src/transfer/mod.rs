//! Volumes filled from URLs.
//!
//! One transfer for each volume, whoever asks; it goes on between calls, on a connection of its own, over which
//! nothing leaves unless it may be written. What came is streamed, counted and hashed, and looked at before the
//! volume is made. A transfer that fails takes its volume with it.

pub mod address;
mod failure;
mod grant;
mod image;
mod job;
pub mod location;
mod web;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::Fault;
use egress_runtime::capability::{
    Fill, Offer, Progress, Transfer, TransferFailure, TransferFailureKind as Kind,
};
use http::{HeaderMap, Method, StatusCode, header};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub use self::grant::{Timeouts, TransferGrant};
use self::{job::Job, web::Web};
use crate::libvirt::{Host, LibvirtCapability};

/// How long a finished transfer is told.
const TOLD: Duration = Duration::from_secs(600);
/// Transfers of one entry at once.
const MOST: usize = 64;

/// What one entry's grant lends of transfers.
pub struct TransferCapability {
    libvirt: Arc<LibvirtCapability>,
    web: Arc<Web>,
    grant: TransferGrant,
    transfers: Mutex<HashMap<Key, Running>>,
}

/// Host, pool, volume.
type Key = (String, String, String);

struct Running {
    state: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

/// How far a transfer is.
enum State {
    Begun(Progress),
    Done(Progress, Instant),
    Failed(TransferFailure),
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TransferCapability {
    /// Into hosts of this grant. Or everything that is wrong with its own; paths begin at the grant.
    pub fn new(grant: TransferGrant, libvirt: Arc<LibvirtCapability>) -> Result<Self, Vec<Fault>> {
        let mut faults = grant.faults();
        let web = Web::new(grant.ranges(), grant.timeouts)
            .map_err(|error| Fault { path: String::new(), message: format!("TLS can't be set up: {error}") });
        match web {
            Ok(web) if faults.is_empty() => {
                Ok(Self { libvirt, web: Arc::new(web), grant, transfers: Mutex::default() })
            }
            Ok(_) => Err(faults),
            Err(fault) => {
                faults.push(fault);
                Err(faults)
            }
        }
    }

    /// Whether nothing is under way.
    pub fn is_at_rest(&self) -> bool {
        !locked(&self.transfers).values().any(|running| matches!(*locked(&running.state), State::Begun(_)))
    }

    /// One that is done counts for as long as its volume stands there.
    async fn forget_gone(&self, key: &Key, host: &Host) -> Result<(), TransferFailure> {
        let known = locked(&self.transfers).get(key).map(|running| Arc::clone(&running.state));
        let is_done = |state: &Mutex<State>| matches!(*locked(state), State::Done(..));
        let Some(done) = known.filter(|state| is_done(state)) else { return Ok(()) };
        let (_, pool, volume) = key;
        if !host.holds(pool, volume).await.map_err(failure::of_libvirt)? {
            let mut transfers = locked(&self.transfers);
            if transfers.get(key).is_some_and(|running| Arc::ptr_eq(&running.state, &done)) {
                transfers.remove(key);
            }
        }
        Ok(())
    }

    fn told(&self, key: &Key) -> Option<Result<Progress, TransferFailure>> {
        told(&mut locked(&self.transfers), key)
    }

    fn place(&self, host: &str, pool: &str, volume: &str) -> Result<&Arc<Host>, TransferFailure> {
        let host = self.libvirt.host(host).map_err(failure::of_libvirt)?;
        host.may_fill(pool, volume).map_err(failure::of_libvirt)?;
        Ok(host)
    }
}

#[async_trait]
impl Transfer for TransferCapability {
    async fn probe(&self, url: &str) -> Result<Offer, TransferFailure> {
        let url = web::url(url)?;
        let mut answer = self.web.ask(Method::HEAD, &url, &[]).await?;
        if matches!(answer.status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED) {
            answer = self.web.ask(Method::GET, &url, &[]).await?;
        }
        if answer.status != StatusCode::OK {
            return Err(failure::of_status(&location::server(&url), answer.status));
        }
        let size = text(&answer.headers, header::CONTENT_LENGTH).and_then(|size| size.parse().ok());
        let (etag, last_modified) =
            (text(&answer.headers, header::ETAG), text(&answer.headers, header::LAST_MODIFIED));
        Ok(Offer { size, etag, last_modified })
    }

    async fn ensure(&self, fill: &Fill) -> Result<Progress, TransferFailure> {
        let host = self.place(&fill.host, &fill.pool, &fill.volume)?;
        let url = web::url(&fill.url)?;
        if !matches!(fill.format.as_str(), "qcow2" | "raw" | "iso") {
            let message = format!("{:?} is no format of an image; there are qcow2, raw and iso", fill.format);
            return Err(failure::plain(Kind::Denied, message));
        }
        let is_digest = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if fill.sha256.as_ref().is_some_and(|digest| !is_digest(digest)) {
            let message = "a SHA-256 digest has 64 hexadecimal digits".to_owned();
            return Err(failure::plain(Kind::Denied, message));
        }
        let key = (fill.host.clone(), fill.pool.clone(), fill.volume.clone());
        self.forget_gone(&key, host).await?;
        if let Some(told) = self.told(&key) {
            return told;
        }
        // Told at once, so that whoever asks can remove it: of a transfer that failed later the caller may be gone.
        let stands = host.holds(&fill.pool, &fill.volume).await.map_err(failure::of_libvirt)?;
        let mut transfers = locked(&self.transfers);
        if let Some(told) = told(&mut transfers, &key) {
            return told;
        }
        if stands {
            return Err(failure::exists(fill));
        }
        if transfers.len() >= MOST {
            let message = format!("{MOST} transfers are under way; try again when one is done");
            return Err(failure::plain(Kind::Timeout, message));
        }
        let state = Arc::new(Mutex::new(State::Begun(Progress::default())));
        let job = Job {
            host: Arc::clone(host),
            web: Arc::clone(&self.web),
            fill: fill.clone(),
            url,
            grant: self.grant.clone(),
            state: Arc::clone(&state),
            made: AtomicBool::new(false),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(job.run()));
        transfers.insert(key, Running { state, _task: task });
        Ok(Progress::default())
    }

    async fn status(
        &self,
        host: &str,
        pool: &str,
        volume: &str,
    ) -> Result<Option<Progress>, TransferFailure> {
        let key = (host.to_owned(), pool.to_owned(), volume.to_owned());
        self.forget_gone(&key, self.place(host, pool, volume)?).await?;
        self.told(&key).transpose()
    }
}

impl Running {
    fn told(&self) -> Result<Progress, TransferFailure> {
        match &*locked(&self.state) {
            State::Begun(progress) | State::Done(progress, _) => Ok(progress.clone()),
            State::Failed(failure) => Err(failure.clone()),
        }
    }
}

/// How far a transfer is, if one is known; a failure is told once.
fn told(transfers: &mut HashMap<Key, Running>, key: &Key) -> Option<Result<Progress, TransferFailure>> {
    forget_old(transfers);
    let told = transfers.get(key)?.told();
    if told.is_err() {
        transfers.remove(key);
    }
    Some(told)
}

fn forget_old(transfers: &mut HashMap<Key, Running>) {
    transfers.retain(|_, running| match &*locked(&running.state) {
        State::Done(_, since) => since.elapsed() < TOLD,
        State::Begun(_) | State::Failed(_) => true,
    });
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
