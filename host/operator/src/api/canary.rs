//! What a ProviderHealth says of a revision on trial.

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
