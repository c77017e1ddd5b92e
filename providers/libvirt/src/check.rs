//! Whether a host could serve a create: on a connection of its own, so that a check that takes too long harms
//! nothing but itself.

use provider_sdk::{
    Error, Health, HealthReason,
    libvirt::{Failure, Stage, code},
};
use serde_json::{Map, Value};

use crate::{Host, config::Config, failure::Asked, site};

const GIB: u64 = 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
const POOL_RUNNING: i32 = 2;

/// See `Provider::check`.
pub fn check<H: Host>(host: &H, config: Result<Config, Error>, place: &str) -> Health {
    let mut details = Map::new();
    let unready = |(reason, message), details| Health { ready: false, reason, message, details };
    let config = match config {
        Ok(config) => config,
        Err(error) => return unready((HealthReason::ApiError, error.message), details),
    };
    let Some(known) = config.place(place) else {
        let message =
            format!("the entry's config has the hosts {}, and no place {place}", config.host_names());
        return unready((HealthReason::ApiError, message), details);
    };
    let pool = match site::pool(host, known) {
        Ok(pool) => pool,
        Err(error) => return unready((HealthReason::Forbidden, error.message), details),
    };
    put(&mut details, "pool", pool.as_str());
    match look(host, place, &pool, &mut details) {
        Ok(message) => Health { ready: true, reason: HealthReason::Reachable, message, details },
        Err(unwell) => unready(unwell, details),
    }
}

type Unwell = (HealthReason, String);

fn put(details: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    details.insert(key.to_owned(), value.into());
}

fn look<H: Host>(
    host: &H,
    place: &str,
    pool: &str,
    details: &mut Map<String, Value>,
) -> Result<String, Unwell> {
    let unwell = |what: &str, failure: Failure| {
        (health_reason(&failure), Asked { host: place, what: what.to_owned() }.error(&failure).message)
    };
    let connection = host.open(place, true).map_err(|failure| unwell("connect", failure))?;
    let info = connection.info().map_err(|failure| unwell("ask who answers", failure))?;
    let version = show_version(info.libvirt_version);
    put(details, "user", info.user);
    put(details, "hostname", info.hostname);
    put(details, "libvirtVersion", version.as_str());
    let what = format!("look at the pool {pool}");
    let room = connection.pool_info(pool).map_err(|failure| unwell(&what, failure))?;
    put(details, "poolState", pool_state(room.state));
    put(details, "poolCapacityGiB", room.capacity / GIB);
    put(details, "poolAvailableGiB", room.available / GIB);
    if room.state != POOL_RUNNING {
        let message = format!(
            "host {place}: the pool {pool} is {}; start it there (virsh pool-start {pool})",
            pool_state(room.state)
        );
        return Err((HealthReason::PoolNotActive, message));
    }
    let free = connection.free_memory().map_err(|failure| unwell("look how much memory is free", failure))?;
    put(details, "freeMemoryMiB", free / MIB);
    let domains = connection.domains().map_err(|failure| unwell("list the domains", failure))?;
    let ours = format!("-{}-", host.installation());
    put(details, "domains", domains.len());
    let is_ours = |name: &str| name.starts_with("proxy-") && name.contains(&ours);
    put(details, "machines", domains.iter().filter(|domain| is_ours(&domain.name)).count());
    Ok(format!(
        "libvirt {version}, {} GiB left in the pool {pool}, {} MiB of memory free",
        room.available / GIB,
        free / MIB
    ))
}

fn show_version(version: u64) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// virStoragePoolState.
fn pool_state(state: i32) -> &'static str {
    match state {
        0 => "inactive",
        1 => "building",
        2 => "running",
        3 => "degraded",
        4 => "inaccessible",
        _ => "unknown",
    }
}

fn health_reason(failure: &Failure) -> HealthReason {
    match &failure.stage {
        Stage::Credentials => HealthReason::CredentialsUnavailable,
        Stage::Name | Stage::Connect | Stage::Handshake | Stage::Cut => HealthReason::Unreachable,
        Stage::HostKey | Stage::Authentication => HealthReason::Unauthorized,
        Stage::Denied | Stage::Channel => HealthReason::Forbidden,
        Stage::Timeout => HealthReason::Timeout,
        Stage::TooLarge | Stage::Invalid | Stage::Unknown(_) => HealthReason::ApiError,
        Stage::Libvirt => match failure.code {
            code::AUTH_FAILED | code::ACCESS_DENIED | code::OPERATION_DENIED => HealthReason::Forbidden,
            code::NO_STORAGE_POOL => HealthReason::PoolNotFound,
            _ => HealthReason::ApiError,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_as_people_write_them() {
        assert_eq!(show_version(11_006_000), "11.6.0");
        assert_eq!(show_version(9_000_012), "9.0.12");
    }
}
