//! Where an instance stands, and its id: `<cluster>/<namespace>/<name>`.

use provider_sdk::{Error, Target, reason};

use crate::config::{Config, Namespaces};

/// Where an instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl Location {
    /// By the target's id; without one, by the config.
    ///
    /// An id outlives the config that it was made under: an instance stays where it is when the entry's
    /// namespace changes.
    pub fn of(target: &Target, config: &Config) -> Result<Self, Error> {
        let Some(id) = &target.id else {
            let namespace = match &config.namespaces {
                Namespaces::Fixed(namespace) => namespace,
                Namespaces::Own(_) | Namespaces::AnyOwn => &target.namespace,
            };
            return Ok(Self {
                cluster: config.cluster.clone(),
                namespace: namespace.clone(),
                name: target.name.clone(),
            });
        };
        let at = Self::parse(id)?;
        if at.name != target.name {
            return Err(Error::permanent(
                reason::FOREIGN,
                format!("the id {id} names {}, but this Proxy's instance is {}", at.name, target.name),
            ));
        }
        if at.cluster != config.cluster {
            return Err(Error::permanent(
                reason::CONFIG,
                format!(
                    "the instance {id} stands in cluster {}, but the entry's config says cluster {}; \
                     put the cluster back, and make an entry of its own for the other one",
                    at.cluster, config.cluster
                ),
            ));
        }
        Ok(at)
    }

    /// Reads an id.
    pub fn parse(id: &str) -> Result<Self, Error> {
        match id.split('/').collect::<Vec<_>>().as_slice() {
            [cluster, namespace, name] if ![cluster, namespace, name].iter().any(|part| part.is_empty()) => {
                Ok(Self {
                    cluster: (*cluster).to_owned(),
                    namespace: (*namespace).to_owned(),
                    name: (*name).to_owned(),
                })
            }
            _ => Err(Error::permanent(
                "malformed-id",
                format!("the id {id:?} is not CLUSTER/NAMESPACE/NAME; this provider has not made it"),
            )),
        }
    }

    /// The id.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.namespace, self.name)
    }
}
