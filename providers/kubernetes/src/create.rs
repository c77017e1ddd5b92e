//! One step towards a running Pod.

use provider_sdk::{Clock, Context, Created, Error, Kubernetes, Pending, Spec, Target, reason};
use serde_json::json;

use crate::{
    api::{self, Made},
    config::{Config, Namespaces},
    decide::{self, ConfigStep, CreateStep},
    id::Location,
    manifest::{SQUID_CONF, Wanted, ZONE_LABEL},
    observe::{Found, Pod, Why},
};

/// A Pod is up within a second or two; one that is not waits for somebody.
const POLL_YOUNG_MS: u32 = 500;
const POLL_OLD_MS: u32 = 5_000;
const YOUNG_MS: u64 = 20_000;
/// Of the first two steps alike: other words would be another write of the Proxy's status.
const MAKING: &str = "the Pod is made";

/// See `Provider::create`.
pub fn create<H: Context + Clock + Kubernetes>(
    host: &H,
    config: &Config,
    target: &Target,
    spec: &Spec,
    user_data: &[u8],
) -> Result<Created, Error> {
    let zone = placement(config, target, spec, user_data)?;
    let at = Location::of(target, config)?;
    if target.id.is_none() {
        // Where it goes is the config's to say, and the config may be another by the next call: the host
        // keeps the id before anything is made that only the id finds.
        return Ok(pending(&at, 100, MAKING.to_owned()));
    }
    let found = api::pod(host, &at)?;
    match decide::create(&at, &found, &host.mark()) {
        CreateStep::Make => make(host, config, &at, target, spec, zone),
        CreateStep::Wait(why) if decide::may_lack_its_config(&found) => {
            make_lost_config_map(host, config, &at, target, spec)?;
            Ok(wait(host, &at, &found, &why))
        }
        step => settle(host, &at, &found, step),
    }
}

/// What can't be honoured is refused before any call: ignoring it would make something else than asked.
fn placement<'a>(
    config: &Config,
    target: &Target,
    spec: &'a Spec,
    user_data: &[u8],
) -> Result<Option<&'a str>, Error> {
    if !user_data.is_empty() {
        return Err(Error::permanent(
            reason::UNSUPPORTED,
            "spec.cloudInit is set, but a Pod runs no cloud-init; remove it, or use a provider of machines",
        ));
    }
    if let Some(field) = spec.placement.set().into_iter().find(|field| field != "zone") {
        return Err(Error::permanent(
            reason::PLACEMENT,
            format!(
                "spec.placement.{field} is set, but the kubernetes provider honours only zone; remove it"
            ),
        ));
    }
    if let (None, Namespaces::Own(namespaces)) = (&target.id, &config.namespaces)
        && !namespaces.contains(&target.namespace)
    {
        return Err(Error::permanent(
            reason::PLACEMENT,
            format!(
                "the Proxy's namespace {} is not among the entry's namespaces ({}); add it there, or use \
                 another provider",
                target.namespace,
                namespaces.join(", ")
            ),
        ));
    }
    let zone = spec.placement.zone.as_deref();
    if let Some(zone) = zone {
        let fault = zone_fault(config, zone);
        if let Some(fault) = fault {
            return Err(Error::permanent(reason::PLACEMENT, format!("spec.placement.zone {zone:?} {fault}")));
        }
    }
    Ok(zone)
}

fn zone_fault(config: &Config, zone: &str) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = zone.as_bytes();
    if bytes.len() > 63 || !bytes.iter().copied().all(legal) || !ends(bytes.first()) || !ends(bytes.last()) {
        return Some(format!("can't be the value of a node's label {ZONE_LABEL}"));
    }
    let fixed = config.node_selector.get(ZONE_LABEL)?;
    (fixed != zone).then(|| format!("contradicts the entry's nodeSelector, which says {fixed}"))
}

fn make<H: Context + Clock + Kubernetes>(
    host: &H,
    config: &Config,
    at: &Location,
    target: &Target,
    spec: &Spec,
    zone: Option<&str>,
) -> Result<Created, Error> {
    let mark = host.mark();
    // An owner reference reaches a Proxy in the same cluster and namespace alone.
    let owned = at.namespace == target.namespace && api::is_home(host, at)?;
    let wanted = Wanted { at, config, target, mark: &mark, port: spec.port, zone, owned };
    // The Pod mounts the ConfigMap. Both bear the mark, so whatever is cut off here is listed.
    if api::make(host, at, api::CONFIG_MAPS, &wanted.config_map())? == Made::Before {
        take_up_config_map(host, at, &wanted)?;
    }
    match api::make(host, at, api::PODS, &wanted.pod())? {
        Made::Now => Ok(pending(at, POLL_YOUNG_MS, MAKING.to_owned())),
        Made::Before => {
            let found = api::pod(host, at)?;
            let step = decide::create(at, &found, &mark);
            settle(host, at, &found, step)
        }
    }
}

/// A host that deletes beside us takes the ConfigMap away under a Pod that is not up yet.
fn make_lost_config_map<H: Context + Kubernetes>(
    host: &H,
    config: &Config,
    at: &Location,
    target: &Target,
    spec: &Spec,
) -> Result<(), Error> {
    let mark = host.mark();
    let found = api::config_map(host, at)?;
    match decide::config_map(at, &found, &mark, SQUID_CONF, "") {
        ConfigStep::Make => {
            let owned = at.namespace == target.namespace && api::is_home(host, at)?;
            let wanted = Wanted { at, config, target, mark: &mark, port: spec.port, zone: None, owned };
            api::make(host, at, api::CONFIG_MAPS, &wanted.config_map()).map(|_| ())
        }
        ConfigStep::Fail(error) => Err(error),
        // What it says fits the Pod that was made with it.
        ConfigStep::Keep | ConfigStep::Rewrite => Ok(()),
    }
}

fn take_up_config_map<H: Context + Kubernetes>(
    host: &H,
    at: &Location,
    wanted: &Wanted<'_>,
) -> Result<(), Error> {
    let found = api::config_map(host, at)?;
    let conf = wanted.squid_conf();
    match (decide::config_map(at, &found, wanted.mark, SQUID_CONF, &conf), &found) {
        (ConfigStep::Keep, _) => Ok(()),
        (ConfigStep::Fail(error), _) => Err(error),
        (ConfigStep::Rewrite, Found::Ours(map)) => {
            api::rewrite(host, at, &map.owned, &json!({ SQUID_CONF: conf }))
        }
        (ConfigStep::Make | ConfigStep::Rewrite, _) => Err(Error::transient(
            reason::BUSY,
            format!("ConfigMap {} went while it was read; tried again", at.id()),
        )),
    }
}

fn settle<H: Clock>(host: &H, at: &Location, found: &Found<Pod>, step: CreateStep) -> Result<Created, Error> {
    match step {
        CreateStep::Done => Ok(Created::Done(at.id())),
        CreateStep::Fail(error) => Err(error),
        CreateStep::Wait(why) => Ok(wait(host, at, found, &why)),
        CreateStep::Make => Err(Error::transient(
            reason::BUSY,
            format!("Pod {} went while it was read; tried again", at.id()),
        )),
    }
}

fn wait<H: Clock>(host: &H, at: &Location, found: &Found<Pod>, why: &Why) -> Created {
    let created = match found {
        Found::Ours(pod) => pod.owned.created_ms(),
        Found::Nothing | Found::Foreign(_) => None,
    };
    let age = created.map_or(0, |created| host.now_ms().saturating_sub(created));
    let poll = if age < YOUNG_MS { POLL_YOUNG_MS } else { POLL_OLD_MS };
    pending(at, poll, why.told())
}

fn pending(at: &Location, poll_ms: u32, message: String) -> Created {
    Created::Pending(Pending { id: Some(at.id()), progress: String::new(), poll_ms, message })
}
