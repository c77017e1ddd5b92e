//! Volumes filled from URLs, by one operator's process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use egress_runtime::capability::{
    Fill, Offer, Progress, Transfer, TransferFailure, TransferFailureKind as Kind,
};

use super::{
    hosts::Hosts,
    pool::{RUNNING, Volume},
    state::{Served, World},
};

type Key = (String, String, String);

#[derive(Clone, Debug)]
struct Running {
    fill: Fill,
    began_ms: u64,
    /// All of it was written.
    done: Option<Progress>,
}

/// See the module. Clones are the same process'.
#[derive(Clone)]
pub struct Transfers {
    hosts: Hosts,
    known: Arc<Mutex<BTreeMap<Key, Running>>>,
}

impl Transfers {
    /// Of a process that was just started.
    pub fn new(hosts: Hosts) -> Self {
        Self { hosts, known: Arc::default() }
    }

    /// One that is done counts for as long as its volume stands there.
    fn forget_gone(&self, key: &Key) {
        let (host, pool, volume) = key;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let world = self.hosts.lock();
        let pool = world.hosts.get(host).and_then(|host| host.pools.get(pool));
        if !pool.is_some_and(|pool| pool.volumes.contains_key(volume)) {
            known.retain(|known, running| known != key || running.done.is_none());
        }
    }

    /// How far one is; a failed one is told once.
    fn look(&self, key: &Key) -> Result<Option<Progress>, TransferFailure> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = known.get_mut(key) else { return Ok(None) };
        if let Some(done) = &running.done {
            return Ok(Some(done.clone()));
        }
        let mut world = self.hosts.lock();
        let looked = advance(&mut world, running);
        match &looked {
            Ok(progress) if progress.sha256.is_some() => running.done = Some(progress.clone()),
            Ok(_) => {}
            Err(_) => drop(known.remove(key)),
        }
        looked.map(Some)
    }
}

fn failed(kind: Kind, message: impl Into<String>) -> TransferFailure {
    TransferFailure { kind, status: None, code: None, message: message.into() }
}

fn libvirt(code: i32, message: String) -> TransferFailure {
    TransferFailure { code: Some(code), ..failed(Kind::Libvirt, message) }
}

fn served(world: &World, url: &str) -> Result<Served, TransferFailure> {
    let served = world.served.get(url).cloned().unwrap_or_else(|| Served::by_default(url));
    if served.status == 200 {
        return Ok(served);
    }
    let message = format!("GET: status {}", served.status);
    Err(TransferFailure { status: Some(served.status), ..failed(Kind::Status, message) })
}

fn advance(world: &mut World, running: &Running) -> Result<Progress, TransferFailure> {
    let Fill { host, pool, volume, url, sha256, .. } = &running.fill;
    let served = served(world, url)?;
    let elapsed = world.clock.monotonic_ms().saturating_sub(running.began_ms);
    let bytes = elapsed.saturating_mul(world.rate).min(served.size);
    let pool = world.hosts.get_mut(host).and_then(|host| host.pools.get_mut(pool));
    let Some(stands) = pool.and_then(|pool| pool.volumes.get_mut(volume)) else {
        return Err(libvirt(
            50,
            format!("Storage volume not found: no storage vol with matching name '{volume}'"),
        ));
    };
    stands.allocation = bytes;
    if bytes < served.size {
        return Ok(Progress { bytes, total: served.says_size.then_some(served.size), sha256: None });
    }
    if let Some(wanted) = sha256.as_ref().filter(|wanted| **wanted != served.sha256) {
        if let Some(pool) = world.hosts.get_mut(host).and_then(|host| host.pools.get_mut(&running.fill.pool))
        {
            pool.volumes.remove(volume);
        }
        let message = format!("the image has sha256 {}, and {wanted} was asked for", served.sha256);
        return Err(failed(Kind::DigestMismatch, message));
    }
    stands.sha256 = Some(served.sha256.clone());
    Ok(Progress { bytes, total: Some(served.size), sha256: Some(served.sha256) })
}

#[async_trait]
impl Transfer for Transfers {
    async fn probe(&self, url: &str) -> Result<Offer, TransferFailure> {
        let served = served(&self.hosts.lock(), url)?;
        let etag = served.sha256.get(..16).map(|part| format!("\"{part}\""));
        Ok(Offer { size: served.says_size.then_some(served.size), etag, last_modified: None })
    }

    async fn ensure(&self, fill: &Fill) -> Result<Progress, TransferFailure> {
        let key = (fill.host.clone(), fill.pool.clone(), fill.volume.clone());
        self.forget_gone(&key);
        if let Some(progress) = self.look(&key)? {
            return Ok(progress);
        }
        let mut world = self.hosts.lock();
        let served = served(&world, &fill.url)?;
        let now = world.clock.monotonic_ms();
        let host = world.hosts.get_mut(&fill.host);
        let host = host.ok_or_else(|| failed(Kind::Denied, format!("host {}: not granted", fill.host)))?;
        let no_pool =
            || format!("Storage pool not found: no storage pool with matching name '{}'", fill.pool);
        let pool = host.pools.get_mut(&fill.pool).ok_or_else(|| libvirt(49, no_pool()))?;
        if pool.state != RUNNING {
            let message =
                format!("Requested operation is not valid: storage pool '{}' is not active", fill.pool);
            return Err(libvirt(55, message));
        }
        if pool.volumes.contains_key(&fill.volume) {
            let message = format!("the volume {} stands there, and is not being filled", fill.volume);
            return Err(failed(Kind::Exists, message));
        }
        if pool.available() < served.size {
            return Err(failed(Kind::NoSpace, "cannot write to stream: No space left on device"));
        }
        let volume = Volume { capacity: served.size, format: fill.format.clone(), ..Volume::default() };
        pool.volumes.insert(fill.volume.clone(), volume);
        let running = Running { fill: fill.clone(), began_ms: now, done: None };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, running);
        Ok(Progress { bytes: 0, total: served.says_size.then_some(served.size), sha256: None })
    }

    async fn status(
        &self,
        host: &str,
        pool: &str,
        volume: &str,
    ) -> Result<Option<Progress>, TransferFailure> {
        let key = (host.to_owned(), pool.to_owned(), volume.to_owned());
        self.forget_gone(&key);
        self.look(&key)
    }
}
