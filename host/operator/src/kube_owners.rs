//! Owners as an API server keeps them: every Proxy read live, never from a watch.

use std::collections::BTreeSet;

use async_trait::async_trait;
use egress_contract::EntryName;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt, ResourceExt,
    api::ListParams,
    core::{DeserializeGuard, PartialObjectMeta},
};

use crate::{
    api::{Proxy, ProxyStatus},
    cluster::{CallError, call},
    core::{
        collect::{Census, NoCensus, Owner, Owners},
        store::ProxyKey,
    },
};

const PAGE: u32 = 500;

/// The Proxies of some namespaces, or of all.
#[derive(Clone)]
pub struct KubeOwners {
    client: Client,
    /// None for all.
    namespaces: Vec<String>,
}

/// When the kind Proxy came into this cluster, and whether it is on its way out.
pub struct Kind {
    pub since: Timestamp,
    pub going: bool,
}

/// Proxies that could not be read.
#[derive(Debug)]
pub struct Unread {
    /// `namespace team-a`.
    pub of: String,
    pub cause: CallError,
}

/// Looks at the CRD itself.
pub async fn kind(client: &Client) -> Result<Kind, CallError> {
    let crds: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let found = call(crds.get_metadata(Proxy::crd_name())).await?;
    let since = found.creation_timestamp().map_or(Timestamp::MAX, |time| time.0);
    Ok(Kind { since, going: found.metadata.deletion_timestamp.is_some() })
}

impl KubeOwners {
    pub fn new(client: Client, namespaces: Vec<String>) -> Self {
        Self { client, namespaces }
    }

    /// All of them, as (UID, owner).
    pub async fn all(&self) -> Result<Vec<(String, Owner)>, Unread> {
        self.each(|found| Some(owner(found))).await
    }

    /// Those of an entry that have an instance: each with its status, and whether its end was asked for.
    pub async fn of_entry(&self, entry: &EntryName) -> Result<Vec<(ProxyKey, ProxyStatus, bool)>, Unread> {
        self.each(|found| {
            // Who can't be read is nobody's canary: nothing was made for it that its status could tell.
            let proxy = found.0.ok()?;
            let key = ProxyKey { namespace: proxy.namespace().unwrap_or_default(), name: proxy.name_any() };
            let deleting = proxy.metadata.deletion_timestamp.is_some();
            let status = proxy.status?;
            let of_entry = status.instance.as_ref().is_some_and(|i| i.provider == entry.as_str());
            of_entry.then_some((key, status, deleting))
        })
        .await
    }

    async fn each<T>(&self, take: impl Fn(DeserializeGuard<Proxy>) -> Option<T>) -> Result<Vec<T>, Unread> {
        if self.namespaces.is_empty() {
            let read = self.read(None, &take).await;
            return read.map_err(|cause| Unread { of: "all namespaces".to_owned(), cause });
        }
        let mut all = Vec::new();
        for namespace in &self.namespaces {
            let read = self.read(Some(namespace), &take).await;
            all.extend(read.map_err(|cause| Unread { of: format!("namespace {namespace}"), cause })?);
        }
        Ok(all)
    }

    async fn read<T>(
        &self,
        namespace: Option<&String>,
        take: impl Fn(DeserializeGuard<Proxy>) -> Option<T>,
    ) -> Result<Vec<T>, CallError> {
        let api: Api<DeserializeGuard<Proxy>> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let found = call(api.list(&page)).await?;
            all.extend(found.items.into_iter().filter_map(&take));
            match found.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

fn owner(found: DeserializeGuard<Proxy>) -> (String, Owner) {
    let (uid, namespace, name) = (found.uid(), found.namespace(), found.name_any());
    let key = ProxyKey { namespace: namespace.unwrap_or_default(), name };
    let readable = found.0.is_ok();
    let instance = found.0.ok().and_then(|proxy| proxy.status).and_then(|status| status.instance);
    let entry = instance.as_ref().map(|instance| instance.provider.clone());
    let (id, instance) = instance.map(|instance| (instance.id, instance.name)).unzip();
    (uid.unwrap_or_default(), Owner { key, entry, instance, id: id.flatten(), readable })
}

#[async_trait]
impl Owners for KubeOwners {
    async fn census(&self) -> Result<Census, NoCensus> {
        let unread = |what: &str, error: &CallError| NoCensus::Unread(format!("{what}: {error}"));
        let kind = kind(&self.client).await.map_err(|error| unread("their CRD", &error))?;
        if kind.going {
            return Err(NoCensus::KindGoing);
        }
        let owners = self.all().await.map_err(|error| unread(&error.of, &error.cause))?;
        let namespaces: BTreeSet<String> = self.namespaces.iter().cloned().collect();
        Ok(Census::new(owners, namespaces, kind.since))
    }
}
