//! create, get and delete: each reads what stands there, and makes at most one step.

use provider_sdk::{
    Address, AddressKind, Clock, Context, Created, Deleted, Error, Instance, Kubernetes, Pending,
    Spec, State, Target, reason,
};
use serde_json::{Map, Value};

use crate::{
    NAME,
    cluster::{self, CONFIG_MAPS, Found, Location, Made, PODS, foreign, text},
    config::Config,
    manifest::Wanted,
    pod::{self, Next, Pod},
};

/// See `Provider::create`.
pub fn create<H: Context + Clock + Kubernetes>(
    host: &H,
    config: &Config,
    target: &Target,
    spec: &Spec,
    user_data: &[u8],
) -> Result<Created, Error> {
    refuse(spec, user_data)?;
    let at = Location::of(target, config)?;
    if target.id.is_none() {
        // Where it goes is the config's to say, and the config may be another by the next call. The
        // host keeps the id before anything is made that only the id finds.
        return Ok(pending(&at, 100, "starts"));
    }
    let mark = host.mark();
    let wanted = Wanted {
        at: &at,
        config,
        mark: &mark,
        port: spec.port,
    };
    let owned = match cluster::find(host, PODS, &at)? {
        Found::Nothing => return make(host, &wanted),
        Found::Foreign(found) => return Err(foreign("Pod", &at, &found, &mark)),
        Found::Ours(owned) => owned,
    };
    let pod = Pod::read(&owned);
    match pod::next(&at, &owned, &pod) {
        Next::Done => Ok(Created::Done(at.id())),
        Next::Fail(error) => Err(error),
        Next::Wait => {
            if pod.may_lack_its_config() {
                ensure_config_map(host, &wanted)?;
            }
            // A Pod is up within seconds; one that is not waits for somebody.
            let created = owned.created_ms().unwrap_or_default();
            let young = host.now_ms().saturating_sub(created) < 20_000;
            Ok(pending(&at, if young { 500 } else { 5_000 }, &pod.why()))
        }
    }
}

/// What can't be honoured is refused before any call: ignoring it would make something else than
/// was asked for.
fn refuse(spec: &Spec, user_data: &[u8]) -> Result<(), Error> {
    if !user_data.is_empty() {
        return Err(Error::permanent(
            reason::UNSUPPORTED,
            "spec.cloudInit is set, but a Pod runs no cloud-init; remove it",
        ));
    }
    match spec.placement.set().first() {
        Some(field) => Err(Error::permanent(
            reason::PLACEMENT,
            format!("spec.placement.{field} is set, but {NAME} honours no placement; remove it"),
        )),
        None => Ok(()),
    }
}

/// The ConfigMap first, since the Pod mounts it. Both bear the mark, so whatever is cut off here is
/// listed.
fn make<H: Context + Kubernetes>(host: &H, wanted: &Wanted<'_>) -> Result<Created, Error> {
    let at = wanted.at;
    ensure_config_map(host, wanted)?;
    match cluster::make(host, PODS, at, &wanted.pod())? {
        Made::Now => Ok(pending(at, 500, "Pod created")),
        // Whose it is, the next look says.
        Made::Before => Ok(pending(at, 100, "a Pod of that name came meanwhile")),
    }
}

/// Makes the ConfigMap, or takes up one that an earlier call left: another revision, or another
/// config, may have written that.
fn ensure_config_map<H: Context + Kubernetes>(host: &H, wanted: &Wanted<'_>) -> Result<(), Error> {
    let at = wanted.at;
    let owned = match cluster::find(host, CONFIG_MAPS, at)? {
        Found::Foreign(found) => return Err(foreign("ConfigMap", at, &found, wanted.mark)),
        Found::Ours(owned) => owned,
        Found::Nothing => {
            return match cluster::make(host, CONFIG_MAPS, at, &wanted.config_map())? {
                Made::Now => Ok(()),
                Made::Before => {
                    let message =
                        format!("a ConfigMap {} came meanwhile: looked at again", at.id());
                    Err(Error::transient(reason::BUSY, message))
                }
            };
        }
    };
    if let Some(waits_for) = owned.deleting() {
        let message = format!(
            "ConfigMap {} is being deleted and waits for {waits_for}",
            at.id()
        );
        return Err(Error::transient(reason::DELETING, message));
    }
    let data = wanted.data();
    if owned.object().get("data") == Some(&data) {
        return Ok(());
    }
    cluster::rewrite(host, at, &owned, &data)
}

fn pending(at: &Location, poll_ms: u32, message: &str) -> Created {
    Created::Pending(Pending {
        id: Some(at.id()),
        progress: String::new(),
        poll_ms,
        message: message.to_owned(),
    })
}

/// See `Provider::get`.
pub fn get<H: Context + Kubernetes>(
    host: &H,
    config: &Config,
    target: &Target,
) -> Result<Instance, Error> {
    let at = Location::of(target, config)?;
    let owned = match cluster::find(host, PODS, &at)? {
        Found::Nothing => return Err(Error::not_found(format!("there is no Pod {}", at.id()))),
        Found::Foreign(mark) => return Err(foreign("Pod", &at, &mark, &host.mark())),
        Found::Ours(owned) => owned,
    };
    let pod = Pod::read(&owned);
    let state = pod::state(&owned, &pod);
    let addresses = match state {
        State::Running => pod.ips,
        State::Provisioning | State::Stopped | State::Deleting => Vec::new(),
    };
    let mut details = Map::new();
    let node = text(owned.object(), "/spec/nodeName");
    if !node.is_empty() {
        details.insert("node".to_owned(), Value::from(node));
    }
    Ok(Instance {
        id: at.id(),
        state,
        addresses: addresses
            .into_iter()
            .map(|ip| Address {
                kind: AddressKind::Internal,
                ip,
            })
            .collect(),
        mark: owned.mark().clone(),
        created_ms: owned.created_ms(),
        reason: pod.reason,
        message: pod.message,
        details,
    })
}

/// See `Provider::delete`.
///
/// Both objects are read before either is touched: where one is not ours, somebody has to look
/// first. What was deleted just now may still stand, so only a look that finds neither is done.
pub fn delete<H: Context + Kubernetes>(
    host: &H,
    config: &Config,
    target: &Target,
) -> Result<Deleted, Error> {
    let at = Location::of(target, config)?;
    let mut ours = Vec::new();
    for (kind, resource) in [("Pod", PODS), ("ConfigMap", CONFIG_MAPS)] {
        match cluster::find(host, resource, &at)? {
            Found::Nothing => {}
            Found::Foreign(mark) => return Err(foreign(kind, &at, &mark, &host.mark())),
            Found::Ours(owned) => ours.push((kind, resource, owned)),
        }
    }
    if ours.is_empty() {
        return Ok(Deleted::Done);
    }
    let mut told = Vec::new();
    for (kind, resource, owned) in &ours {
        match owned.deleting() {
            Some(waits_for) => told.push(format!("{kind} waits for {waits_for}")),
            None => {
                cluster::destroy(host, *resource, &at, owned)?;
                told.push(format!("{kind} deleted"));
            }
        }
    }
    Ok(Deleted::Pending(Pending {
        id: None,
        progress: String::new(),
        poll_ms: 1_000,
        message: told.join("; "),
    }))
}
