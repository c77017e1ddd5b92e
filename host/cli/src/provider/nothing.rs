//! What a component is lent when it is only looked at: every capability is there, so that it links, and
//! none leads anywhere.

use std::sync::Arc;

use async_trait::async_trait;
use egress_contract::EntryName;
use egress_runtime::{
    Candidate, Lent, Limits, Module,
    capability::{
        Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions, PatchKind,
        Resource, Server,
    },
};
use serde_json::{Value, json};

use crate::failure::Failure;

/// For a component that stands in no entry.
pub fn entry() -> Result<EntryName, Failure> {
    "none".parse().map_err(|error: egress_contract::InvalidName| Failure::Setup(error.to_string()))
}

/// Every capability, each of which refuses.
pub fn lent() -> Lent {
    Lent { kubernetes: Some(Arc::new(Nowhere)), ..Lent::default() }
}

/// A component with everything granted and no config.
pub fn candidate(module: Module) -> Candidate {
    Candidate {
        module,
        pinned: None,
        config: json!({}),
        lent: lent(),
        grants: json!({}),
        limits: Limits::default(),
        legacy: Vec::new(),
    }
}

/// Answers every call as a cluster that can't be reached would be answered.
pub struct Nowhere;

fn nowhere<T>(cluster: &str) -> Result<T, KubernetesFailure> {
    Err(KubernetesFailure {
        kind: KubernetesFailureKind::Connect,
        code: 0,
        reason: String::new(),
        message: format!("cluster {cluster} is not asked while a component is only looked at"),
        details: json!({}),
        retry_after: None,
        sent: false,
    })
}

#[async_trait]
impl Kubernetes for Nowhere {
    async fn about(&self, cluster: &str) -> Result<Server, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn get(&self, cluster: &str, _: &Resource, _: &str, _: &str) -> Result<Value, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn list(
        &self,
        cluster: &str,
        _: &Resource,
        _: &str,
        _: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn allowed(&self, cluster: &str, _: &Access) -> Result<bool, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn create(
        &self,
        cluster: &str,
        _: &Resource,
        _: &str,
        _: Value,
    ) -> Result<Value, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn patch(
        &self,
        cluster: &str,
        _: &Resource,
        _: &str,
        _: &str,
        _: PatchKind,
        _: Value,
    ) -> Result<Value, KubernetesFailure> {
        nowhere(cluster)
    }

    async fn delete(
        &self,
        cluster: &str,
        _: &Resource,
        _: &str,
        _: &str,
        _: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        nowhere(cluster)
    }
}
