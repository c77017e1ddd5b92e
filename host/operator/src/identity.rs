//! Who this installation is: an identity, minted once, bound to its cluster.
//!
//! Names and marks of instances are made of it, so whoever has it can adopt and delete them. A backup that is
//! restored into a second cluster brings it along, and two operators would then remove each other's
//! instances. So the cluster stands beside it (the UID of its namespace kube-system), and another cluster's
//! identity is not used. It lies in a Secret because hashes that are published in statuses are salted with it.
//!
//! One that is lost is not silently replaced: with a new one, every instance that stands is somebody else's, and
//! each Proxy would get a second one.

use std::collections::BTreeMap;

use egress_contract::Installation;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use rand::RngCore;

use crate::{
    cluster::{CallError, Cluster, MANAGED_BY, call},
    kube_owners::KubeOwners,
};

/// The Secret's name.
pub const SECRET: &str = "egress-installation";
const ID: &str = "id";
const CLUSTER: &str = "cluster";
const ID_DIGITS: usize = 32;
/// How many Proxies an error names.
const SOME: usize = 5;

/// Who this installation is, and where.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Minted once.
    pub installation: Installation,
    /// The UID of the namespace kube-system.
    pub cluster: String,
}

/// Why there is no identity to work with.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// An object could not be read or made.
    #[error("can't {what}: {cause}")]
    Call {
        /// `read Secret egress-system/egress-installation`.
        what: String,
        /// Why.
        cause: CallError,
    },
    /// Not as this operator writes it.
    #[error(
        "Secret {namespace}/{SECRET} lacks {key}; restore it from a backup (a new one would make every \
         instance foreign)"
    )]
    Broken {
        /// The operator's namespace.
        namespace: String,
        /// What is missing in it.
        key: &'static str,
    },
    /// Not what is ever minted.
    #[error(
        "Secret {namespace}/{SECRET}: its {ID} is not {ID_DIGITS} hexadecimal digits, as the operator mints it; \
         restore it from a backup (another one would make every instance foreign)"
    )]
    NotMinted {
        /// The operator's namespace.
        namespace: String,
    },
    /// It is gone, and what was made with it is not.
    #[error(
        "Secret {namespace}/{SECRET} does not exist, but there are instances that were made with it, of {count} \
         Proxies: {some}. Restore it from a backup. If it is lost for good, the instances are foreign to a new \
         one, which never touches them: remove them at their backends yourself, then take each off its Proxy \
         (kubectl -n NAMESPACE patch proxy NAME --subresource=status --type=merge -p \
         '{{\"status\":{{\"instance\":null}}}}'), and a new one is minted"
    )]
    Lost {
        /// The operator's namespace.
        namespace: String,
        /// How many Proxies have an instance, or can't be read.
        count: usize,
        /// Some of them.
        some: String,
    },
    /// It was minted in another cluster.
    #[error(
        "Secret {namespace}/{SECRET} belongs to cluster {theirs}, and this is {ours}. If the other cluster is \
         gone for good, bind the identity to this one: kubectl -n {namespace} patch secret {SECRET} -p \
         '{{\"stringData\":{{\"{CLUSTER}\":\"{ours}\"}}}}'. If the other one lives, it owns the instances: \
         delete the Secret here, and a new identity is minted"
    )]
    OtherCluster {
        /// The operator's namespace.
        namespace: String,
        /// What it is bound to.
        theirs: String,
        /// Where it is now.
        ours: String,
    },
}

/// Reads the identity, or mints it. `watch` are the namespaces whose Proxies are looked after; empty for all.
pub async fn establish(cluster: &Cluster, watch: &[String]) -> Result<Identity, IdentityError> {
    let here = kube_system(cluster).await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let found = match read(&secrets, cluster).await? {
        Some(found) => found,
        None => match lost(cluster, watch).await? {
            None => mint(&secrets, cluster, &here).await?,
            // Another process may have minted it since, and begun.
            Some(lost) => read(&secrets, cluster).await?.ok_or(lost)?,
        },
    };
    let namespace = &cluster.namespace;
    check(&found, namespace, here)
}

/// Reads the identity for who makes nothing.
pub async fn find(cluster: &Cluster) -> Result<Identity, IdentityError> {
    let here = kube_system(cluster).await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let what = || format!("read Secret {}/{SECRET}", cluster.namespace);
    let found = call(secrets.get(SECRET)).await.map_err(|cause| failed(what(), cause))?;
    check(&found, &cluster.namespace, here)
}

fn check(found: &Secret, namespace: &str, here: String) -> Result<Identity, IdentityError> {
    let id = value(found, namespace, ID)?;
    if id.len() != ID_DIGITS || !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(IdentityError::NotMinted { namespace: namespace.to_owned() });
    }
    let theirs = value(found, namespace, CLUSTER)?;
    if theirs != here {
        return Err(IdentityError::OtherCluster { namespace: namespace.to_owned(), theirs, ours: here });
    }
    Ok(Identity { installation: Installation::new(id), cluster: here })
}

/// What tells clusters apart.
pub(crate) async fn kube_system(cluster: &Cluster) -> Result<String, IdentityError> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let found = call(namespaces.get("kube-system")).await;
    let found = found.map_err(|cause| failed("read Namespace kube-system".to_owned(), cause))?;
    Ok(found.metadata.uid.unwrap_or_default())
}

async fn read(secrets: &Api<Secret>, cluster: &Cluster) -> Result<Option<Secret>, IdentityError> {
    let found = call(secrets.get_opt(SECRET)).await;
    found.map_err(|cause| failed(format!("read Secret {}/{SECRET}", cluster.namespace), cause))
}

/// Whether somebody made instances before. A Proxy that can't be read may have one.
async fn lost(cluster: &Cluster, watch: &[String]) -> Result<Option<IdentityError>, IdentityError> {
    let owners = KubeOwners::new(cluster.client.clone(), watch.to_vec()).all().await;
    let owners =
        owners.map_err(|unread| failed(format!("list the Proxies of {}", unread.of), unread.cause))?;
    let having = owners.into_iter().filter(|(_, owner)| owner.instance.is_some() || !owner.readable);
    let mut having: Vec<_> = having.map(|(_, owner)| owner.key.to_string()).collect();
    having.sort_unstable();
    let count = having.len();
    having.truncate(SOME);
    let (namespace, some) = (cluster.namespace.clone(), having.join(", "));
    Ok((count > 0).then_some(IdentityError::Lost { namespace, count, some }))
}

/// Whoever comes second takes what the first one made.
async fn mint(secrets: &Api<Secret>, cluster: &Cluster, here: &str) -> Result<Secret, IdentityError> {
    let mut id = [0; ID_DIGITS / 2];
    rand::rng().fill_bytes(&mut id);
    let value = |text: String| ByteString(text.into_bytes());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            labels: Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            (ID.to_owned(), value(hex::encode(id))),
            (CLUSTER.to_owned(), value(here.to_owned())),
        ])),
        ..Secret::default()
    };
    let made = call(secrets.create(&PostParams::default(), &secret)).await;
    match made {
        Ok(made) => Ok(made),
        // What timed out may have happened: read before anything else is made.
        Err(cause) => match read(secrets, cluster).await? {
            Some(found) => Ok(found),
            None => Err(failed(format!("create Secret {}/{SECRET}", cluster.namespace), cause)),
        },
    }
}

fn value(secret: &Secret, namespace: &str, key: &'static str) -> Result<String, IdentityError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.clone());
    match bytes.map(String::from_utf8) {
        Some(Ok(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Some(_) | None => Err(IdentityError::Broken { namespace: namespace.to_owned(), key }),
    }
}

fn failed(what: String, cause: CallError) -> IdentityError {
    IdentityError::Call { what, cause }
}
