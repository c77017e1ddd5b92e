//! The few requests that are made, and whose the answer is.

use provider_sdk::{
    Context, Error, Kubernetes, Mark, Target, Verdict,
    kubernetes::{DeleteOptions, PatchKind, Resource},
    mark, reason, time,
};
use serde_json::{Value, json};

use crate::{
    config::Config,
    failure::{self, Request},
};

pub const PODS: Resource = Resource {
    api_version: "v1",
    plural: "pods",
};
pub const CONFIG_MAPS: Resource = Resource {
    api_version: "v1",
    plural: "configmaps",
};

/// Where an instance stands. Its id is `CLUSTER/NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl Location {
    /// By the target's id; without one, by the config. An id outlives the config that it was made
    /// under: an instance stays where it is when the entry's namespace changes.
    pub fn of(target: &Target, config: &Config) -> Result<Self, Error> {
        let Some(id) = &target.id else {
            return Ok(Self {
                cluster: config.cluster.clone(),
                namespace: config.namespace.clone(),
                name: target.name.clone(),
            });
        };
        let parts: Vec<&str> = id.split('/').collect();
        let [cluster, namespace, name] = parts.as_slice() else {
            return Err(Error::permanent(
                "malformed-id",
                format!(
                    "the id {id:?} is not CLUSTER/NAMESPACE/NAME: this provider has not made it"
                ),
            ));
        };
        if *name != target.name {
            return Err(Error::permanent(
                reason::FOREIGN,
                format!(
                    "the id {id} names {name}, but this Proxy's instance is {}",
                    target.name
                ),
            ));
        }
        if *cluster != config.cluster {
            return Err(Error::permanent(
                reason::CONFIG,
                format!(
                    "the instance {id} stands in cluster {cluster}, but the entry's config says \
                     {}; put the cluster back, and make an entry of its own for the other one",
                    config.cluster
                ),
            ));
        }
        let [cluster, namespace, name] = [cluster, namespace, name].map(|part| (*part).to_owned());
        Ok(Self {
            cluster,
            namespace,
            name,
        })
    }

    /// The id.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.namespace, self.name)
    }
}

/// What stands at our name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Nothing,
    /// Under another mark, or none.
    Foreign(Mark),
    Ours(Owned),
}

/// An object that was read back as ours, by name, mark and UID. Only [`find`] makes one, and only
/// with one can something be changed or destroyed.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    object: Value,
    mark: Mark,
}

impl Owned {
    pub fn object(&self) -> &Value {
        &self.object
    }

    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    pub fn created_ms(&self) -> Option<u64> {
        created_ms(&self.object)
    }

    /// What it waits for, if it is being deleted.
    pub fn deleting(&self) -> Option<String> {
        self.object.pointer("/metadata/deletionTimestamp")?;
        Some(
            match (
                self.object.pointer("/metadata/finalizers"),
                text(&self.object, "/spec/nodeName"),
            ) {
                (Some(finalizers), _) => format!("its finalizers {finalizers}"),
                (None, "") => "the API server".to_owned(),
                (None, node) => format!("node {node} to end its containers"),
            },
        )
    }
}

/// Reads what stands at our name.
pub fn find<H: Context + Kubernetes>(
    host: &H,
    resource: Resource,
    at: &Location,
) -> Result<Found, Error> {
    let object = match host.get(&at.cluster, resource, &at.namespace, &at.name) {
        // What has not even our name is no stranger's object: it is none.
        Ok(object) if text(&object, "/metadata/name") != at.name => {
            return Err(Request::one("get", resource, at).garbled());
        }
        Ok(object) => object,
        Err(failed) if failure::is_not_found(&failed) => return Ok(Found::Nothing),
        Err(failed) => return Err(Request::one("get", resource, at).error(&failed)),
    };
    let mark = read_mark(&object, &host.mark());
    Ok(match host.verify(&mark) {
        Verdict::ThisTarget => Found::Ours(Owned { object, mark }),
        Verdict::ThisInstallation | Verdict::Legacy | Verdict::Foreign => Found::Foreign(mark),
    })
}

/// Whether a create made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Now,
    /// Something of that name was there already.
    Before,
}

pub fn make<H: Kubernetes>(
    host: &H,
    resource: Resource,
    at: &Location,
    body: &Value,
) -> Result<Made, Error> {
    match host.create(&at.cluster, resource, &at.namespace, body) {
        Ok(_) => Ok(Made::Now),
        Err(failed) if failure::is_already_exists(&failed) => Ok(Made::Before),
        Err(failed) => Err(Request::one("create", resource, at).error(&failed)),
    }
}

/// Writes the data of our ConfigMap anew, unless somebody changed it since it was read.
pub fn rewrite<H: Kubernetes>(
    host: &H,
    at: &Location,
    owned: &Owned,
    data: &Value,
) -> Result<(), Error> {
    let version = text(&owned.object, "/metadata/resourceVersion");
    let body = json!({ "metadata": { "resourceVersion": version }, "data": data });
    host.patch(
        &at.cluster,
        CONFIG_MAPS,
        &at.namespace,
        &at.name,
        PatchKind::Merge,
        &body,
    )
    .map(|_| ())
    .map_err(|failed| Request::one("patch", CONFIG_MAPS, at).error(&failed))
}

/// Deletes what was read back as ours, and no successor of it. Gone already is well.
pub fn destroy<H: Kubernetes>(
    host: &H,
    resource: Resource,
    at: &Location,
    owned: &Owned,
) -> Result<(), Error> {
    let uid = text(&owned.object, "/metadata/uid").to_owned();
    let options = DeleteOptions {
        uid: Some(uid),
        ..DeleteOptions::default()
    };
    match host.delete(&at.cluster, resource, &at.namespace, &at.name, &options) {
        Ok(_) => Ok(()),
        Err(failed) if failure::is_not_found(&failed) => Ok(()),
        Err(failed) => Err(Request::one("delete", resource, at).error(&failed)),
    }
}

/// Our name with another's mark, or none: nothing is touched until somebody has looked.
pub fn foreign(kind: &str, at: &Location, found: &Mark, ours: &Mark) -> Error {
    let (found, ours) = (mark::show(found), mark::show(ours));
    let id = at.id();
    Error::permanent(
        reason::FOREIGN,
        format!(
            "{kind} {id} bears {found}, not {ours}; remove it, or give it back its labels if it is \
             this Proxy's"
        ),
    )
}

/// The mark in an object's labels, in the order of `like`.
pub fn read_mark(object: &Value, like: &Mark) -> Mark {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    labels
        .map(|labels| mark::from_labels(labels, like))
        .unwrap_or_default()
}

pub fn created_ms(object: &Value) -> Option<u64> {
    time::rfc3339_ms(text(object, "/metadata/creationTimestamp"))
}

/// A text in an object; empty when it isn't there.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
