//! What a ProviderHealth says of a candidate: how it looked, whether it is on trial, why it was refused.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A revision that makes the next few Proxies, and nothing else yet.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Over component, config, grants and limits.
    pub revision: String,
    /// What the component calls itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// When its trial began: what it began since counts.
    pub since: Time,
    /// Proxies that it is to make.
    #[schemars(range(min = 1, max = 1000))]
    pub first_proxies: i32,
    /// How long each of them may take until it is ready.
    #[schemars(range(min = 1, max = 86_400))]
    pub within_seconds: i32,
    /// Those that it has begun so far.
    #[schemars(range(min = 0, max = 1000))]
    pub made: i32,
    /// Those of them that are ready.
    #[schemars(range(min = 0, max = 1000))]
    pub ready: i32,
}

/// A revision beside the one that was active before it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// The revision that was looked at.
    pub revision: String,
    /// The one before it.
    pub against: String,
    /// What it sees worse, each with its path; taken up nevertheless, since the entry says `shadow: warn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What is different and no worse: places that came or went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A candidate that was refused.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RefusalStatus {
    /// `fetch`, `digest`, `parse`, `compile`, `link`, `configure`, `check` or `shadow`; `entry` when the entry itself
    /// can't be read.
    pub stage: String,
    /// Stable.
    pub reason: String,
    /// The thing, the cause, the way out.
    pub message: String,
    /// What `configure` found, or what `shadow` saw worse than the active revision does, each with its path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The candidate's digest, where it got so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}
