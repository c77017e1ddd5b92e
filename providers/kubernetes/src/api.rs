//! The few requests that are made, with their failures classified.

use provider_sdk::{
    Context, Error, Kubernetes,
    kubernetes::{DeleteOptions, PatchKind, Resource},
};
use serde_json::{Value, json};

use crate::{
    failure::{self, Request, Scope},
    id::Location,
    observe::{self, ConfigMap, Found, Owned, Pod},
};

pub const PODS: Resource = Resource { api_version: "v1", plural: "pods" };
pub const CONFIG_MAPS: Resource = Resource { api_version: "v1", plural: "configmaps" };
pub const QUOTAS: Resource = Resource { api_version: "v1", plural: "resourcequotas" };

/// The Pod at a place, read live.
pub fn pod<H: Context + Kubernetes>(host: &H, at: &Location) -> Result<Found<Pod>, Error> {
    find(host, at, PODS, Pod::read)
}

/// The ConfigMap at a place, read live.
pub fn config_map<H: Context + Kubernetes>(host: &H, at: &Location) -> Result<Found<ConfigMap>, Error> {
    find(host, at, CONFIG_MAPS, ConfigMap::read)
}

fn find<H: Context + Kubernetes, T>(
    host: &H,
    at: &Location,
    resource: Resource,
    read: fn(Owned, &Value) -> T,
) -> Result<Found<T>, Error> {
    match host.get(&at.cluster, resource, &at.namespace, &at.name) {
        // What has not even our name is no stranger's object: it is none.
        Ok(object) if observe::text(&object, "/metadata/name") != at.name => {
            Err(request("get", resource, at).garbled())
        }
        Ok(object) => Ok(Found::sort(&object, &host.mark(), |mark| host.verify(mark), read)),
        Err(failed) if failure::is_not_found(&failed) => Ok(Found::Nothing),
        Err(failed) => Err(request("get", resource, at).error(&failed)),
    }
}

/// Whether a create made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Now,
    /// Something of that name is there.
    Before,
}

/// Makes an object.
pub fn make<H: Kubernetes>(host: &H, at: &Location, resource: Resource, body: &Value) -> Result<Made, Error> {
    match host.create(&at.cluster, resource, &at.namespace, body) {
        Ok(_) => Ok(Made::Now),
        Err(failed) if failure::is_already_exists(&failed) => Ok(Made::Before),
        Err(failed) => Err(request("create", resource, at).error(&failed)),
    }
}

/// Writes a ConfigMap of ours anew, unless somebody changed it since it was read.
pub fn rewrite<H: Kubernetes>(host: &H, at: &Location, owned: &Owned, data: &Value) -> Result<(), Error> {
    let body = json!({ "metadata": { "resourceVersion": owned.version() }, "data": data });
    host.patch(&at.cluster, CONFIG_MAPS, &at.namespace, &at.name, PatchKind::Merge, &body)
        .map(|_| ())
        .map_err(|failed| request("patch", CONFIG_MAPS, at).error(&failed))
}

/// Deletes what was read back as ours, and no successor of it. Gone already is well.
pub fn destroy<H: Kubernetes>(
    host: &H,
    at: &Location,
    resource: Resource,
    owned: &Owned,
) -> Result<(), Error> {
    let options = DeleteOptions { uid: Some(owned.uid().to_owned()), ..DeleteOptions::default() };
    match host.delete(&at.cluster, resource, &at.namespace, &at.name, &options) {
        Ok(_) => Ok(()),
        Err(failed) if failure::is_not_found(&failed) => Ok(()),
        Err(failed) => Err(request("delete", resource, at).error(&failed)),
    }
}

/// Whether the cluster is the one that holds the Proxies.
pub fn is_home<H: Kubernetes>(host: &H, at: &Location) -> Result<bool, Error> {
    match host.about(&at.cluster) {
        Ok(server) => Ok(server.home),
        Err(failed) => Err(Request::reach(&at.cluster).error(&failed)),
    }
}

fn request<'a>(verb: &'static str, resource: Resource, at: &'a Location) -> Request<'a> {
    let scope = Scope::Object { namespace: &at.namespace, name: &at.name };
    Request { verb, resource, cluster: &at.cluster, scope }
}
