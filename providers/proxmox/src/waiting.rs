//! Locks: waited for while something works, and told as what they are when nobody clears them.

use provider_sdk::{Error, reason};

use crate::{Host, cluster::Cluster, progress::Progress};

const SHORTEST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 15_000;
const MINUTE_MS: u64 = 60_000;

/// What to say meanwhile.
pub struct Waited {
    pub poll_ms: u32,
    pub message: String,
}

/// Waits for a lock, `kept` from the call before, or says that it has been there for too long.
pub fn lock<H: Host>(
    cluster: &Cluster<'_, H>,
    progress: &mut Progress,
    kept: Option<(String, u64)>,
    lock: &str,
    of: &str,
    vmid: u32,
) -> Result<Waited, Error> {
    let now = cluster.host.now_ms();
    let since = kept.filter(|(name, _)| name == lock).map_or(now, |(_, since)| since.min(now));
    progress.lock = Some((lock.to_owned(), since));
    let waited = now - since;
    let out = format!("if nothing works on it any more, run qm unlock {vmid} there");
    if waited > cluster.config.lock_minutes * MINUTE_MS {
        let minutes = waited / MINUTE_MS;
        let mut error = Error::transient(
            reason::BUSY,
            format!(
                "{of} has borne the lock {lock} for {minutes} minutes, and a token can't clear it; {out}"
            ),
        )
        .detail("lock", lock)
        .detail("minutes", minutes);
        error.progress = Some(progress.write());
        return Err(error);
    }
    let poll_ms = u32::try_from((waited / 4).clamp(SHORTEST_MS, LONGEST_MS)).unwrap_or(u32::MAX);
    Ok(Waited { poll_ms, message: format!("{of} bears the lock {lock}: waits; {out}") })
}
