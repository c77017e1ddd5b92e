//! One component with one config, one set of grants and one set of limits.

use std::fmt;

use async_trait::async_trait;
use egress_contract::{Created, Deleted, Description, Error, Health, Instance, Page, Provider, Spec, Target};

use crate::{limits::Limits, module::Digest};

/// 12 hexadecimal digits over component, config, grants and limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId(String);

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A candidate that passed every stage. Each call runs in a fresh store and instance.
pub struct Revision {
    id: RevisionId,
    digest: Digest,
    description: Description,
    places: Vec<String>,
    imports: Vec<String>,
    limits: Limits,
}

impl Revision {
    /// Its id.
    pub fn id(&self) -> &RevisionId {
        &self.id
    }
    /// The component's digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }
    /// Who the component says it is.
    pub fn description(&self) -> &Description {
        &self.description
    }
    /// What `configure` answered.
    pub fn places(&self) -> &[String] {
        &self.places
    }
    /// The interfaces that the component imports.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }
    /// What its calls may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

#[async_trait]
impl Provider for Revision {
    async fn create(&self, _target: &Target, _spec: &Spec, _user_data: &[u8]) -> Result<Created, Error> {
        Err(Error::transient("scaffold", "not built yet"))
    }
    async fn get(&self, _target: &Target) -> Result<Instance, Error> {
        Err(Error::transient("scaffold", "not built yet"))
    }
    async fn delete(&self, _target: &Target) -> Result<Deleted, Error> {
        Err(Error::transient("scaffold", "not built yet"))
    }
    async fn list(&self, _place: &str, _cursor: Option<&str>) -> Result<Page, Error> {
        Err(Error::transient("scaffold", "not built yet"))
    }
    async fn check(&self, _place: &str) -> Result<Health, Error> {
        Err(Error::transient("scaffold", "not built yet"))
    }
}
