//! Whether the project could serve a create: the regions and their quotas, the permissions, the images.

use provider_sdk::{Context, Error, Health, HealthReason, Http};
use serde_json::{Map, Value};

use crate::{
    Host,
    api::Api,
    config::{Config, External, region_of},
    failure::Trouble,
    image::Image,
    instance::{last, text},
};

/// What an instance takes of, as far as the config says.
const QUOTAS: [&str; 6] =
    ["INSTANCES", "CPUS", "PREEMPTIBLE_CPUS", "IN_USE_ADDRESSES", "SSD_TOTAL_GB", "DISKS_TOTAL_GB"];

/// Whatever the config is.
const PERMISSIONS: [&str; 12] = [
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.instances.start",
    "compute.zoneOperations.get",
    "compute.zoneOperations.list",
];

/// See `Provider::check`.
pub fn check<H: Host>(host: &H, config: Result<Config, Error>, place: &str) -> Health {
    let mut details = Map::new();
    let unready = |reason, message, details| Health { ready: false, reason, message, details };
    let config = match config {
        Ok(config) if config.project == place => config,
        Ok(config) => {
            let message =
                format!("the entry's config has the project {}, and no place {place}", config.project);
            return unready(HealthReason::ApiError, message, details);
        }
        Err(error) => return unready(HealthReason::ApiError, error.message, details),
    };
    let api = Api::new(host, &config);
    let start = host.monotonic_ms();
    let mut said: Vec<String> = Vec::new();
    for region in config.regions() {
        match look_at(&api, region) {
            Ok(seen) => {
                details.insert(format!("quota.{region}"), seen.headroom.into());
                said.extend(seen.full);
            }
            Err((reason, message)) => return unready(reason, message, details),
        }
    }
    details.insert("latencyMs".to_owned(), host.monotonic_ms().saturating_sub(start).into());
    match &config.resource_manager {
        None => {
            details
                .insert("permissions".to_owned(), "not tested: the config names no resourceManager".into());
        }
        Some(endpoint) => match missing(&api, endpoint) {
            Ok(missing) if missing.is_empty() => {
                details.insert("permissions".to_owned(), "tested".into());
            }
            Ok(missing) => {
                let missing = missing.join(", ");
                details.insert("missingPermissions".to_owned(), missing.clone().into());
                let message = format!(
                    "project {place}: the credentials' account lacks {missing}; give it a role that has them"
                );
                return unready(HealthReason::RightsMissing, message, details);
            }
            Err(trouble) => {
                let message = api.asked("test the permissions").error(&trouble).message;
                return unready(trouble.health(), message, details);
            }
        },
    }
    for (key, image) in &config.images {
        match seen(&api, image) {
            Ok(found) => {
                details.insert(format!("image.{key}"), found.name.into());
                said.extend(found.deprecated.map(|state| format!("image {key} is {state}")));
            }
            Err(trouble) if trouble.is_not_found() => {
                let message = format!(
                    "project {place}: image {key}: there is no {}; correct the entry's images",
                    image.source
                );
                return unready(HealthReason::TemplateNotFound, message, details);
            }
            Err(trouble) => {
                let message = api.asked(format!("look up the image {key}")).error(&trouble).message;
                return unready(trouble.health(), message, details);
            }
        }
        if !image.runs_cloud_init() {
            said.push(format!("image {key} ({}) is known to run no cloud-init", image.source));
        }
    }
    let message = match said.as_slice() {
        [] => format!("project {place}"),
        said => format!("project {place}; {}", said.join("; ")),
    };
    Health { ready: true, reason: HealthReason::Reachable, message, details }
}

struct Seen {
    /// `CPUS 3/8, INSTANCES 1/24`.
    headroom: String,
    full: Option<String>,
}

fn look_at<H: Context + Http>(api: &Api<'_, H>, region: &str) -> Result<Seen, (HealthReason, String)> {
    let asked = || api.asked(format!("look at the region {region}"));
    let told = |trouble: &Trouble| (trouble.health(), asked().error(trouble).message);
    let found = api.read(&["regions", region], &[]).map_err(|trouble| told(&trouble))?;
    if text(&found, "/kind") != "compute#region" || text(&found, "/name") != region {
        return Err(told(&Trouble::Garbled("the answer is not that region".to_owned())));
    }
    let down = text(&found, "/status");
    if down == "DOWN" {
        return Err((HealthReason::ApiError, asked().told("it is down", "")));
    }
    let zones: Vec<String> = found
        .get("zones")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(|zone| zone.as_str().map(|zone| last(zone).to_owned()))
        .collect();
    let mine = api.config().zones.iter().filter(|zone| region_of(zone) == region);
    let unknown: Vec<&str> = mine.filter(|zone| !zones.contains(zone)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let message = asked().told(
            &format!("it has no zone {}, but {}", unknown.join(", "), zones.join(", ")),
            "correct the entry's zones",
        );
        return Err((HealthReason::ApiError, message));
    }
    // Where quotas could not be fetched, none is known: that is not the same as none left.
    if let Some(warning) = found.get("quotaStatusWarning").filter(|warning| !warning.is_null()) {
        return Ok(Seen { headroom: format!("unknown ({})", text(warning, "/code")), full: None });
    }
    let quotas = found.get("quotas").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let number = |quota: &Value, key: &str| quota.get(key).and_then(Value::as_f64);
    let of = |metric: &str| {
        let quota = quotas.iter().find(|quota| text(quota, "/metric") == metric)?;
        Some((number(quota, "usage")?, number(quota, "limit")?))
    };
    let known: Vec<(&str, f64, f64)> =
        QUOTAS.iter().filter_map(|metric| of(metric).map(|(usage, limit)| (*metric, usage, limit))).collect();
    let needed = |metric: &str| match metric {
        "IN_USE_ADDRESSES" => api.config().external == External::Ephemeral,
        "PREEMPTIBLE_CPUS" => false,
        "CPUS" => api.config().spot.is_none(),
        _ => true,
    };
    let full: Vec<&str> = known
        .iter()
        .filter(|(metric, usage, limit)| usage >= limit && needed(metric))
        .map(|(metric, _, _)| *metric)
        .collect();
    Ok(Seen {
        headroom: known
            .iter()
            .map(|(metric, usage, limit)| format!("{metric} {usage}/{limit}"))
            .collect::<Vec<_>>()
            .join(", "),
        full: Some(format!("no room in {region}: {}", full.join(", "))).filter(|_| !full.is_empty()),
    })
}

fn missing<H: Context + Http>(api: &Api<'_, H>, endpoint: &str) -> Result<Vec<String>, Trouble> {
    let wanted = needed(api.config());
    let granted = api.permitted(endpoint, &wanted)?;
    Ok(wanted
        .into_iter()
        .filter(|permission| !granted.iter().any(|granted| granted == permission))
        .map(str::to_owned)
        .collect())
}

/// The permissions that this config needs in its own project.
pub fn needed(config: &Config) -> Vec<&'static str> {
    let mut all = PERMISSIONS.to_vec();
    let of_host = config.subnetworks.values().any(|subnetwork| subnetwork.contains('/'));
    if !of_host {
        all.push("compute.subnetworks.use");
        if config.external != External::None {
            all.push("compute.subnetworks.useExternalIp");
        }
    }
    if config.external == External::Reserved {
        all.extend(["compute.addresses.list", "compute.addresses.use"]);
    }
    if config.firewall.is_some() {
        all.extend([
            "compute.firewalls.create",
            "compute.firewalls.delete",
            "compute.firewalls.get",
            "compute.firewalls.list",
            "compute.globalOperations.get",
            "compute.networks.updatePolicy",
        ]);
    }
    if config.service_account.is_some() {
        all.extend(["compute.instances.setServiceAccount", "iam.serviceAccounts.actAs"]);
    }
    all
}

struct FoundImage {
    name: String,
    deprecated: Option<String>,
}

fn seen<H: Context + Http>(api: &Api<'_, H>, image: &Image) -> Result<FoundImage, Trouble> {
    let Some((project, below)) = image.path() else {
        return Err(Trouble::Garbled(format!("{} is no image's path", image.source)));
    };
    let path: Vec<&str> = ["global", "images"].into_iter().chain(below).collect();
    let found = api.read_elsewhere(project, &path)?;
    if text(&found, "/kind") != "compute#image" {
        return Err(Trouble::Garbled("the answer is no image".to_owned()));
    }
    let state = text(&found, "/deprecated/state");
    let deprecated = Some(state).filter(|state| !state.is_empty() && state != "ACTIVE");
    Ok(FoundImage { name: text(&found, "/name"), deprecated: deprecated.map(|state| state.to_lowercase()) })
}
