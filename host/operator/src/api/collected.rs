//! What a ProviderHealth says of the collector.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What the last sweep found that people may want to know.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CollectorStatus {
    /// Why nothing is collected now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
    /// Set when so many instances have no owner that none is removed before somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<AsksStatus>,
    /// What no Proxy owns, and what becomes of it; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ownerless: Vec<OrphanStatus>,
    /// What may be somebody's who can't be seen from here, and is kept; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<OrphanStatus>,
    /// What could not be read, and is left alone; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadStatus>,
    /// How many more there are than are listed here.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub more: i32,
}

/// A question to people.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AsksStatus {
    /// What the answer names: the value of the annotation `egressproxies.dev/collect`.
    pub sweep: String,
    /// What is asked, and how to answer.
    pub message: String,
}

/// Something at a backend that no Proxy owns, as far as can be seen.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OrphanStatus {
    /// Where.
    pub place: String,
    /// Its id at the backend.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is, when it is no instance but what one left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// When it was made, if the backend knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// What becomes of it, and why.
    pub message: String,
}

/// Something that could not be read.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UnreadStatus {
    /// Where.
    pub place: String,
    /// What, and why.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
