//! Whether the cluster could serve a create: it answers, and lets us do what we do.

use provider_sdk::{
    Clock, Error, Health, HealthReason, Kubernetes,
    kubernetes::{Access, FailureKind, Resource},
};
use serde_json::Map;

use crate::{
    cluster::{CONFIG_MAPS, PODS},
    config::Config,
    failure::{Request, health_reason},
};

/// What the provider does.
const RIGHTS: [(Resource, &[&str]); 2] = [
    (PODS, &["get", "list", "create", "delete"]),
    (CONFIG_MAPS, &["get", "list", "create", "patch", "delete"]),
];

/// See `Provider::check`.
pub fn check<H: Clock + Kubernetes>(
    host: &H,
    config: Result<Config, Error>,
    place: &str,
) -> Health {
    let mut details = Map::new();
    let unready = |reason, message, details| Health {
        ready: false,
        reason,
        message,
        details,
    };
    let config = match config {
        Ok(config) if config.cluster == place => config,
        Ok(config) => {
            let message = format!(
                "the config has cluster {}, and no place {place}",
                config.cluster
            );
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
    details.insert("serverVersion".to_owned(), server.version.clone().into());
    details.insert(
        "latencyMs".to_owned(),
        host.monotonic_ms().saturating_sub(start).into(),
    );
    let namespace = &config.namespace;
    let (mut rights, mut grants) = (Vec::new(), Vec::new());
    for (resource, verbs) in RIGHTS {
        for verb in verbs {
            let access = Access {
                verb,
                resource,
                namespace: namespace.clone(),
            };
            match host.allowed(place, &access) {
                Ok(true) => {}
                Ok(false) => rights.push(format!("{verb} {}", resource.plural)),
                Err(failed) if failed.kind == FailureKind::Denied => {
                    grants.push(format!("{verb} {}", resource.plural));
                }
                Err(failed) => {
                    let asked = Request::many(verb, resource, place, namespace);
                    return unready(
                        health_reason(&failed),
                        asked.error(&failed).message,
                        details,
                    );
                }
            }
        }
    }
    let mut missing = Vec::new();
    if !grants.is_empty() {
        missing.push(format!(
            "the grant does not reach: {} in namespace {namespace}; add rules under \
             grants.kubernetes.clusters.{place}.rules",
            grants.join(", ")
        ));
        details.insert("missingGrants".to_owned(), grants.join(", ").into());
    }
    if !rights.is_empty() {
        let who = if server.user.is_empty() {
            "the entry's identity"
        } else {
            &server.user
        };
        missing.push(format!(
            "{who} may not: {} in namespace {namespace}; allow it by a Role and a RoleBinding",
            rights.join(", ")
        ));
        details.insert("missingRights".to_owned(), rights.join(", ").into());
    }
    if !missing.is_empty() {
        return unready(HealthReason::RightsMissing, missing.join("; "), details);
    }
    let message = format!("Kubernetes {}", server.version);
    Health {
        ready: true,
        reason: HealthReason::Reachable,
        message,
        details,
    }
}
