//! Operations: what Compute Engine works on, how far it is, and what became of it.
//!
//! An insert is accepted with 200 and fails seconds later, here. One that is done with an error has failed, whatever
//! status it bears.

use provider_sdk::{Error, reason};
use serde_json::Value;

use crate::{
    failure::{Asked, blamed},
    instance::text,
};

/// Where there is no room in a zone: a minute later there may be.
const STOCKOUT_REST_MS: u32 = 60_000;

/// An operation as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    pub name: String,
    /// `insert`, `delete`.
    pub kind: String,
    pub done: bool,
    pub percent: u64,
    /// The link of what it works on.
    pub target: String,
    pub failed: Option<Failed>,
}

/// What went wrong in one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failed {
    pub code: String,
    pub message: String,
    pub status: u64,
    pub quota: Option<Quota>,
    /// Zones that have room, where Compute Engine says so.
    pub zones_available: String,
}

/// Which limit was hit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    pub metric: String,
    pub limit: Option<f64>,
    pub scope: String,
}

impl Operation {
    /// From the API's object; none for what is none.
    pub fn read(value: &Value) -> Option<Self> {
        if text(value, "/kind") != "compute#operation" {
            return None;
        }
        let name = text(value, "/name");
        let status = text(value, "/status");
        // A name that could be no segment of a path is none of Compute Engine's.
        if !crate::config::is_name(&name) || status.is_empty() {
            return None;
        }
        let failed =
            value.get("error").filter(|error| !error.is_null()).map(|error| Failed::read(error, value));
        Some(Self {
            name,
            kind: text(value, "/operationType"),
            done: status == "DONE",
            percent: value.get("progress").and_then(Value::as_u64).unwrap_or_default(),
            target: text(value, "/targetLink"),
            failed: failed.filter(|_| status == "DONE"),
        })
    }
}

impl Failed {
    fn read(error: &Value, operation: &Value) -> Self {
        let first = error.pointer("/errors/0").cloned().unwrap_or_default();
        let details =
            first.get("errorDetails").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let quota = details.iter().find_map(|detail| detail.get("quotaInfo")).map(|info| Quota {
            metric: text(info, "/metricName"),
            limit: info.get("limit").and_then(Value::as_f64),
            scope: text(info, "/dimensions/region"),
        });
        let message = text(&first, "/message");
        let code = text(&first, "/code");
        let quota = match (quota, code.as_str()) {
            (None, "QUOTA_EXCEEDED") => Quota::of_words(&message),
            (quota, _) => quota,
        };
        let zones = details.iter().map(|detail| text(detail, "/errorInfo/metadatas/zonesAvailable"));
        let zones = zones.into_iter().find(|zones| !zones.is_empty()).unwrap_or_default();
        let status = operation.get("httpErrorStatusCode").and_then(Value::as_u64).unwrap_or_default();
        Self { code, message, status, quota, zones_available: zones }
    }

    /// Whether the zone has no machines left: another may.
    pub fn is_stockout(&self) -> bool {
        self.code.starts_with("ZONE_RESOURCE_POOL_EXHAUSTED")
    }

    /// Whether the name is taken.
    pub fn is_already_exists(&self) -> bool {
        self.code == "RESOURCE_ALREADY_EXISTS"
    }

    /// Whether what it worked on was not there.
    pub fn is_not_found(&self) -> bool {
        self.code == "RESOURCE_NOT_FOUND"
    }

    /// Whether an address that was free when it was looked at is taken by now.
    pub fn is_address_in_use(&self) -> bool {
        self.code.starts_with("IP_IN_USE")
            || (self.code == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE" && self.message.contains("/addresses/"))
    }

    /// What it means. The set of codes is open: what is not known is transient.
    pub fn error(&self, asked: &Asked<'_>) -> Error {
        let told = |way_out: &str| {
            let code = if self.code.is_empty() { "an error without a code" } else { &self.code };
            asked.told(&format!("{code}: {}", self.message), way_out)
        };
        let (blame, way_out) = blamed(&self.message);
        match self.code.as_str() {
            "QUOTA_EXCEEDED" => {
                let mut error = Error::quota(told("ask for a higher quota, or free some"));
                if let Some(quota) = &self.quota {
                    error =
                        error.detail("metric", quota.metric.as_str()).detail("scope", quota.scope.as_str());
                    if let Some(limit) = quota.limit {
                        error = error.detail("limit", limit);
                    }
                }
                error
            }
            _ if self.is_stockout() => {
                let elsewhere = match self.zones_available.as_str() {
                    "" => String::new(),
                    zones => format!(" (Compute Engine says that there is room in {zones})"),
                };
                Error::transient(
                    "stockout",
                    told(&format!("choose another zone{elsewhere}, or a region instead of a zone")),
                )
                .retry_ms(Some(STOCKOUT_REST_MS))
            }
            "RESOURCE_NOT_FOUND" | "INVALID_FIELD_VALUE" | "INVALID_USAGE" | "UNSUPPORTED_OPERATION" => {
                Error::permanent(blame, told(way_out))
            }
            "PERMISSIONS_ERROR" => Error::permanent(
                reason::FORBIDDEN,
                told("give the credentials' account a role that has the permission"),
            ),
            "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
            | "CONFLICT"
            | "RESOURCE_NOT_READY"
            | "RESOURCE_ALREADY_EXISTS" => Error::transient(reason::BUSY, told("it is tried again")),
            _ if self.status == 403 => Error::permanent(
                reason::FORBIDDEN,
                told("give the credentials' account a role that has the permission"),
            ),
            _ => Error::transient(reason::BACKEND, told("")),
        }
    }
}

impl Quota {
    /// `Quota 'CPUS' exceeded.  Limit: 8.0 in region us-east1.`
    fn of_words(message: &str) -> Option<Self> {
        let (_, behind) = message.split_once("Quota '")?;
        let (metric, behind) = behind.split_once('\'')?;
        let (_, behind) = behind.split_once("Limit: ")?;
        let (limit, scope) = behind.split_once(' ')?;
        let scope = scope.trim_end_matches('.').trim_start_matches("in region ").to_owned();
        Some(Self { metric: metric.to_owned(), limit: limit.parse().ok(), scope })
    }
}

#[cfg(test)]
mod tests {
    use provider_sdk::ErrorClass;
    use serde_json::json;

    use super::*;

    fn ended(code: &str, message: &str, status: u64) -> Failed {
        let operation = json!({
            "kind": "compute#operation", "name": "operation-1-a-b-c", "operationType": "insert", "status": "DONE",
            "httpErrorStatusCode": status, "error": { "errors": [{ "code": code, "message": message }] },
        });
        Operation::read(&operation).unwrap().failed.unwrap()
    }

    #[test]
    fn each_code_has_its_class() {
        let asked = Asked { project: "p", what: "insert proxy-a".to_owned() };
        for (code, status, class, reason) in [
            ("QUOTA_EXCEEDED", 403, ErrorClass::QuotaExceeded, "quota"),
            ("ZONE_RESOURCE_POOL_EXHAUSTED", 503, ErrorClass::Transient, "stockout"),
            ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, ErrorClass::Transient, "stockout"),
            ("RESOURCE_NOT_FOUND", 404, ErrorClass::Permanent, "config"),
            ("INTERNAL_ERROR", 503, ErrorClass::Transient, "backend"),
            ("CONFLICT", 409, ErrorClass::Transient, "busy"),
            ("SOMETHING_NEW", 500, ErrorClass::Transient, "backend"),
            ("SOMETHING_NEW", 403, ErrorClass::Permanent, "forbidden"),
        ] {
            let error = ended(code, "m", status).error(&asked);
            assert_eq!((error.class, error.reason.as_str()), (class, reason), "{code} {status}");
        }
    }

    #[test]
    fn a_quota_is_told_with_metric_and_limit_in_either_form() {
        let words = ended("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-east1.", 403);
        let expected = Quota { metric: "CPUS".to_owned(), limit: Some(8.0), scope: "us-east1".to_owned() };
        assert_eq!(words.quota, Some(expected));
        let globally =
            ended("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.", 403);
        assert_eq!(globally.quota.map(|quota| quota.scope), Some("globally".to_owned()));
    }

    #[test]
    fn an_error_counts_only_once_it_is_done() {
        let mut operation = json!({
            "kind": "compute#operation", "name": "operation-1-a-b-c", "status": "RUNNING",
            "error": { "errors": [{ "code": "X" }] },
        });
        assert_eq!(Operation::read(&operation).unwrap().failed, None);
        operation["status"] = "DONE".into();
        operation["httpErrorStatusCode"] = 200.into();
        assert!(Operation::read(&operation).unwrap().failed.is_some(), "whatever status it bears");
        operation["name"] = "../../x".into();
        assert_eq!(Operation::read(&operation), None);
    }
}
