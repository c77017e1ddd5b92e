//! How a Proxy's health is found out: what its spec may say beside its entry.
//!
//! The URL is the entry's alone: whoever writes Proxies must not choose what the operator asks for.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How the Proxy is probed, where it differs from its entry.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.timeoutSeconds) || !has(self.periodSeconds) || self.timeoutSeconds <= self.periodSeconds", "timeoutSeconds must be at most periodSeconds"))]
pub struct HealthCheck {
    /// What a probe asks.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProbeType>,
    /// Seconds between two probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "period_schema")]
    pub period_seconds: Option<u32>,
    /// Seconds that a probe may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timeout_schema")]
    pub timeout_seconds: Option<u32>,
    /// Probes in a row that must fail before a healthy Proxy counts as unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "threshold_schema")]
    pub failure_threshold: Option<u32>,
    /// Probes in a row that must pass before an unhealthy Proxy counts as healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "threshold_schema")]
    pub success_threshold: Option<u32>,
    /// Seconds that the condition Healthy must have been False before the instance is replaced. It is never
    /// replaced for that where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "replace_schema")]
    pub replace_after_seconds: Option<u32>,
}

/// What a probe asks: `TCP`, whether its port takes connections, or `HTTP`, whether a request for the entry's URL passes
/// through it. The entry's where none is given: HTTP if the entry has a URL.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProbeType {
    /// Whether the port takes connections.
    Tcp,
    /// Whether a request for the entry's URL passes through.
    Http,
}

fn seconds(least: u32, most: u32) -> schemars::Schema {
    schemars::json_schema!({"type": "integer", "format": "int32", "minimum": least, "maximum": most})
}

fn period_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    seconds(1, 3600)
}

fn timeout_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    seconds(1, 60)
}

fn threshold_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    seconds(1, 100)
}

fn replace_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    seconds(30, 86_400)
}
