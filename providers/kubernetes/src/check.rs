//! Whether the cluster could serve a create: version, latency, rights, room.

use provider_sdk::{
    Clock, Error, Health, HealthReason, Kubernetes,
    kubernetes::{Access, Failure, FailureKind, ListOptions, Resource, Server},
};
use serde_json::{Map, Value, json};

use crate::{
    api::{CONFIG_MAPS, PODS, QUOTAS},
    config::Config,
    failure::{Answer, Request, Scope},
    observe::text,
};

/// What the provider does.
const RIGHTS: [(Resource, &[&str]); 2] = [
    (PODS, &["get", "list", "create", "delete"]),
    (CONFIG_MAPS, &["get", "list", "create", "patch", "delete"]),
];

/// See `Provider::check`.
pub fn check<H: Clock + Kubernetes>(host: &H, config: Result<Config, Error>, place: &str) -> Health {
    let mut details = Map::new();
    let unready = |reason, message, details| Health { ready: false, reason, message, details };
    let config = match config {
        Ok(config) if config.cluster == place => config,
        Ok(config) => {
            let message = format!("the entry's config has cluster {}, and no place {place}", config.cluster);
            return unready(HealthReason::ApiError, message, details);
        }
        Err(error) => return unready(HealthReason::ApiError, error.message, details),
    };
    let start = host.monotonic_ms();
    let server = match host.about(place) {
        Ok(server) => server,
        Err(failed) => {
            let message = Request::reach(place).error(&failed).message;
            return unready(health_reason(&failed), message, details);
        }
    };
    details.insert("latencyMs".to_owned(), host.monotonic_ms().saturating_sub(start).into());
    details.insert("serverVersion".to_owned(), server.version.clone().into());
    if !server.user.is_empty() {
        details.insert("user".to_owned(), server.user.clone().into());
    }
    let namespaces = config.namespaces.looked_at();
    match missing_rights(host, place, &namespaces) {
        Err((reason, message)) => return unready(reason, message, details),
        Ok(Missing { rights, grants }) if !rights.is_empty() || !grants.is_empty() => {
            let message = missing_message(place, &server, &rights, &grants);
            for (key, missing) in [("missingRights", rights), ("missingGrants", grants)] {
                if !missing.is_empty() {
                    details.insert(key.to_owned(), missing.join("; ").into());
                }
            }
            return unready(HealthReason::RightsMissing, message, details);
        }
        Ok(_) => {}
    }
    let quotas = quotas(host, place, &namespaces);
    let full: Vec<&str> = quotas.iter().filter(|quota| quota.full).map(|quota| quota.text.as_str()).collect();
    let message = match full.as_slice() {
        [] => format!("Kubernetes {}", server.version),
        full => format!("Kubernetes {}; no room: {}", server.version, full.join(", ")),
    };
    if !quotas.is_empty() {
        let quotas: Vec<&str> = quotas.iter().map(|quota| quota.text.as_str()).collect();
        details.insert("quota".to_owned(), json!(quotas.join(", ")));
    }
    Health { ready: true, reason: HealthReason::Reachable, message, details }
}

/// `get, list pods in namespace team-a`, each.
#[derive(Default)]
struct Missing {
    /// What the API server would not let us do.
    rights: Vec<String>,
    /// What the entry's grant does not reach: the API server is not even asked.
    grants: Vec<String>,
}

fn missing_rights<H: Kubernetes>(
    host: &H,
    place: &str,
    namespaces: &[String],
) -> Result<Missing, (HealthReason, String)> {
    let mut missing = Missing::default();
    for namespace in namespaces {
        for (resource, verbs) in RIGHTS {
            let (mut rights, mut grants) = (Vec::new(), Vec::new());
            for verb in verbs {
                match host.allowed(place, &Access { verb, resource, namespace: namespace.clone() }) {
                    Ok(true) => {}
                    Ok(false) => rights.push(*verb),
                    Err(failed) if failed.kind == FailureKind::Denied => grants.push(*verb),
                    Err(failed) => {
                        let asked = Request { verb, resource, cluster: place, scope: Scope::of(namespace) };
                        return Err((health_reason(&failed), asked.error(&failed).message));
                    }
                }
            }
            for (verbs, missing) in [(rights, &mut missing.rights), (grants, &mut missing.grants)] {
                if !verbs.is_empty() {
                    let within = Scope::of(namespace).within();
                    missing.push(format!("{} {}{within}", verbs.join(", "), resource.plural));
                }
            }
        }
    }
    Ok(missing)
}

fn missing_message(place: &str, server: &Server, rights: &[String], grants: &[String]) -> String {
    let mut told = Vec::new();
    if !grants.is_empty() {
        told.push(format!(
            "the entry's grant does not reach: {}; add rules under grants.kubernetes.clusters.{place}.rules",
            grants.join("; ")
        ));
    }
    if !rights.is_empty() {
        let who = if server.user.is_empty() { "the entry's identity" } else { server.user.as_str() };
        told.push(format!("{who} may not: {}; allow it by a Role and a RoleBinding", rights.join("; ")));
    }
    told.join("; ")
}

fn health_reason(failed: &Failure) -> HealthReason {
    match &failed.kind {
        FailureKind::Denied => HealthReason::Forbidden,
        FailureKind::Status => match Answer::read(failed) {
            Answer::Unauthorized => HealthReason::Unauthorized,
            Answer::RightMissing
            | Answer::Forbidden
            | Answer::PodSecurity
            | Answer::Quota
            | Answer::QuotaNeedsResources
            | Answer::Terminating => HealthReason::Forbidden,
            Answer::NamespaceMissing
            | Answer::Invalid
            | Answer::Conflict
            | Answer::Expired
            | Answer::TooMany
            | Answer::Other(_) => HealthReason::ApiError,
        },
        FailureKind::Timeout => HealthReason::Timeout,
        FailureKind::Name | FailureKind::Connect | FailureKind::Cut => HealthReason::Unreachable,
        FailureKind::Tls => HealthReason::CertificateInvalid,
        FailureKind::Credentials => HealthReason::CredentialsUnavailable,
        FailureKind::TooLarge | FailureKind::Invalid | FailureKind::Unknown(_) => HealthReason::ApiError,
    }
}

struct Quota {
    /// `team-a/proxies pods 3/10`.
    text: String,
    full: bool,
}

/// The room for Pods, where the entry may look. Where it may not, the first refused create tells.
fn quotas<H: Kubernetes>(host: &H, place: &str, namespaces: &[String]) -> Vec<Quota> {
    let mut found = Vec::new();
    for namespace in namespaces.iter().filter(|namespace| !namespace.is_empty()) {
        let options = ListOptions { limit: 20, ..ListOptions::default() };
        let Ok(list) = host.list(place, QUOTAS, namespace, &options) else { return found };
        let quotas = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        found.extend(quotas.iter().filter_map(|quota| pods_quota(namespace, quota)));
    }
    found
}

fn pods_quota(namespace: &str, quota: &Value) -> Option<Quota> {
    let hard = amount(quota.pointer("/status/hard")?)?;
    let used = quota.pointer("/status/used").and_then(amount).unwrap_or_default();
    let text = format!("{namespace}/{} pods {used}/{hard}", text(quota, "/metadata/name"));
    Some(Quota { text, full: used >= hard })
}

fn amount(of: &Value) -> Option<u64> {
    ["pods", "count/pods"].iter().find_map(|key| of.get(*key)?.as_str()?.parse().ok())
}
