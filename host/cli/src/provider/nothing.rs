//! What a component is lent when it is only looked at: every capability is there, so that it links, and
//! none leads anywhere.

use std::sync::Arc;

use async_trait::async_trait;
use egress_contract::EntryName;
use egress_runtime::{
    Candidate, Lent, Limits, Module,
    capability::{
        Access, Allowed, DeleteOptions, Fill, Http, HttpFailure, HttpFailureKind, HttpRequest, HttpResponse,
        Kubernetes, KubernetesFailure, KubernetesFailureKind, Libvirt, LibvirtConnection, LibvirtFailure,
        LibvirtStage, ListOptions, Offer, PatchKind, Progress, Resource, Server, Transfer, TransferFailure,
        TransferFailureKind,
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
    let nowhere = Arc::new(Nowhere);
    Lent {
        http: Some(Arc::clone(&nowhere) as Arc<_>),
        kubernetes: Some(Arc::clone(&nowhere) as Arc<_>),
        libvirt: Some(Arc::clone(&nowhere) as Arc<_>),
        transfer: Some(nowhere),
        clock: None,
    }
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

/// Answers every call as a backend that can't be reached would be answered.
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

fn no_endpoint<T>(endpoint: &str) -> Result<T, HttpFailure> {
    Err(HttpFailure {
        kind: HttpFailureKind::Connect,
        message: format!("endpoint {endpoint} is not asked while a component is only looked at"),
        sent: false,
    })
}

#[async_trait]
impl Http for Nowhere {
    fn is_read(&self, request: &HttpRequest) -> bool {
        matches!(request.method.as_str(), "GET" | "HEAD")
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        no_endpoint(&request.endpoint)
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        no_endpoint(endpoint)
    }
}

fn no_host<T>(host: &str) -> Result<T, LibvirtFailure> {
    Err(LibvirtFailure {
        stage: LibvirtStage::Connect,
        code: 0,
        domain: 0,
        errno: 0,
        message: format!("host {host} is not asked while a component is only looked at"),
        sent: false,
    })
}

#[async_trait]
impl Libvirt for Nowhere {
    async fn granted(&self, host: &str) -> Result<Allowed, LibvirtFailure> {
        no_host(host)
    }

    async fn open(&self, host: &str, _: bool) -> Result<Arc<dyn LibvirtConnection>, LibvirtFailure> {
        no_host(host)
    }
}

fn no_transfer<T>() -> Result<T, TransferFailure> {
    Err(TransferFailure {
        kind: TransferFailureKind::Connect,
        status: None,
        code: None,
        message: "no server is asked while a component is only looked at".to_owned(),
    })
}

#[async_trait]
impl Transfer for Nowhere {
    async fn probe(&self, _: &str) -> Result<Offer, TransferFailure> {
        no_transfer()
    }

    async fn ensure(&self, _: &Fill) -> Result<Progress, TransferFailure> {
        no_transfer()
    }

    async fn status(&self, _: &str, _: &str, _: &str) -> Result<Option<Progress>, TransferFailure> {
        no_transfer()
    }
}
