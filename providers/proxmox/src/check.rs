//! Whether a node could serve a create: all that one needs, looked at and not tried.

use provider_sdk::{Error, Health, HealthReason, http::FailureKind};
use serde_json::{Map, Value};

use crate::{
    Host,
    cluster::{Cause, Cluster, Trouble, number, text},
    config::{Config, NodeConfig},
    rights::{self, Rights},
};

const GIB: u64 = 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// Taken where the server does not say.
const NEWEST: u64 = 9;

type Unwell = (HealthReason, String);

/// See `Provider::check`.
pub fn check<H: Host>(host: &H, config: Result<Config, Error>, place: &str) -> Health {
    let mut details = Map::new();
    let unready = |(reason, message), details| Health { ready: false, reason, message, details };
    let config = match config {
        Ok(config) => config,
        Err(error) => return unready((HealthReason::ApiError, error.message), details),
    };
    let Some(node) = config.node(place) else {
        let message =
            format!("the entry's config has the nodes {}, and no place {place}", config.node_names());
        return unready((HealthReason::ApiError, message), details);
    };
    match look(&Cluster::new(host, &config), node, &mut details) {
        Ok(message) => Health { ready: true, reason: HealthReason::Reachable, message, details },
        Err(unwell) => unready(unwell, details),
    }
}

fn look<H: Host>(
    cluster: &Cluster<'_, H>,
    node: &NodeConfig,
    details: &mut Map<String, Value>,
) -> Result<String, Unwell> {
    let mut put = |key: &str, value: Value| details.insert(key.to_owned(), value);
    let version = cluster.version(&node.endpoint).map_err(unwell)?;
    let release = text(&version, "version").unwrap_or("unknown").to_owned();
    put("pveVersion", release.as_str().into());
    if let Ok(info) = cluster.host.info(&node.endpoint)
        && let Some(principal) = text(&info, "principal")
    {
        put("tokenID", principal.into());
    }
    let major = release.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(NEWEST);
    let rights = Rights::read(&cluster.permissions(&node.endpoint).map_err(unwell)?);
    let templates = templates(cluster.config, node);
    let needs = rights::needed(cluster.config, node, &templates, major);
    let lacking: Vec<String> =
        needs.iter().filter(|need| !rights.covers(need)).map(ToString::to_string).collect();
    if !lacking.is_empty() {
        put("rightsMissing", lacking.join(", ").into());
        let told =
            format!("node {}: the token lacks {}; give it a role with them", node.name, lacking.join(", "));
        return Err((HealthReason::RightsMissing, told));
    }
    let state = cluster.node_status(&node.name).map_err(unwell)?;
    if let Some(kernel) = state.get("current-kernel").and_then(|kernel| text(kernel, "release")) {
        put("kernel", kernel.into());
    }
    let memory = state.get("memory");
    let said = |key: &str| number(memory.and_then(|memory| memory.get(key)));
    let free = said("available").or_else(|| said("free")).unwrap_or_default() / MIB;
    put("freeMemoryMiB", free.into());
    let mut told = format!("Proxmox VE {release}, {free} MiB of memory free");
    for (storage, content, key) in
        [(Some(&node.iso_storage), "iso", "isoStorage"), (node.storage.as_ref(), "images", "storage")]
    {
        let Some(storage) = storage else { continue };
        put(key, storage.as_str().into());
        let gib = room(cluster, node, storage, content)?;
        put(&format!("{key}AvailableGiB"), gib.into());
        told.push_str(&format!(", {gib} GiB left on {storage}"));
    }
    put("templates", templates.iter().map(u32::to_string).collect::<Vec<_>>().join(", ").into());
    for template in &templates {
        is_template(cluster, node, *template)?;
    }
    Ok(told)
}

/// The templates that creates at this node use.
fn templates(config: &Config, node: &NodeConfig) -> Vec<u32> {
    let of = |image: &crate::config::Image| image.templates.get(&node.name).copied().or(image.template);
    let mut templates: Vec<u32> = config.images.values().filter_map(of).collect();
    templates.sort_unstable();
    templates.dedup();
    templates
}

fn room<H: Host>(
    cluster: &Cluster<'_, H>,
    node: &NodeConfig,
    storage: &str,
    content: &str,
) -> Result<u64, Unwell> {
    let lacks =
        |why: &str| (HealthReason::StorageNotFound, format!("node {}: storage {storage} {why}", node.name));
    let state = cluster.storage(&node.name, storage).map_err(|trouble| {
        if trouble.lacks_storage() {
            lacks("is not there; name one that the node has")
        } else {
            unwell(trouble)
        }
    })?;
    if number(state.get("active")) != Some(1) {
        return Err(lacks("is not active; mount or enable it"));
    }
    let holds = text(&state, "content").unwrap_or_default();
    if !holds.split(',').any(|kind| kind == content) {
        return Err(lacks(&format!("takes {holds}, and not {content}; let it take that, or name another")));
    }
    Ok(number(state.get("avail")).unwrap_or_default() / GIB)
}

/// Wherever in the cluster it is, as long as the config is for one template a node.
fn is_template<H: Host>(cluster: &Cluster<'_, H>, node: &NodeConfig, template: u32) -> Result<(), Unwell> {
    let missing = |why: &str| {
        (HealthReason::TemplateNotFound, format!("node {}: template {template} {why}", node.name))
    };
    let config = match cluster.machine_config(&node.name, template) {
        Ok(config) => config,
        Err(trouble) if trouble.meaning() == Some(crate::phrases::Meaning::Missing) => {
            let guests = cluster.guests_by(&node.endpoint).map_err(unwell)?;
            let guest = guests.iter().find(|guest| guest.vmid == template && guest.is_machine);
            let guest =
                guest.ok_or_else(|| missing("is nowhere in the cluster; make it, or name another"))?;
            cluster.machine_config(&guest.node, template).map_err(unwell)?
        }
        Err(trouble) => return Err(unwell(trouble)),
    };
    match number(config.get("template")) {
        Some(1) => Ok(()),
        _ => Err(missing("is no template; convert it (qm template)")),
    }
}

fn unwell(trouble: Trouble) -> Unwell {
    let reason = match &trouble.cause {
        Cause::Said(refusal) => match refusal.status {
            401 => HealthReason::Unauthorized,
            403 => HealthReason::Forbidden,
            595..=599 => HealthReason::Unreachable,
            _ => HealthReason::ApiError,
        },
        Cause::Failed(failure) => match failure.kind {
            FailureKind::Credentials => HealthReason::CredentialsUnavailable,
            FailureKind::Name | FailureKind::Connect | FailureKind::Cut => HealthReason::Unreachable,
            FailureKind::Tls => HealthReason::CertificateInvalid,
            FailureKind::Timeout => HealthReason::Timeout,
            FailureKind::Denied => HealthReason::Forbidden,
            FailureKind::TooLarge | FailureKind::Invalid | FailureKind::Unknown(_) => HealthReason::ApiError,
        },
    };
    (reason, Error::from(trouble).message)
}
