//! One component with one config, one set of grants and one set of limits.

use std::fmt;

use async_trait::async_trait;
use egress_contract::{Created, Deleted, Description, Error, Health, Instance, Page, Provider, Spec, Target};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    call::Linked,
    failure::Failure,
    limits::Limits,
    module::Digest,
    operations::{Check, Create, Delete, Get, List, Operation},
    shadow::Comparison,
    slot::Candidate,
};

/// 12 hexadecimal digits over component, config, grants and limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId(String);

impl RevisionId {
    pub(crate) fn of(candidate: &Candidate) -> Self {
        let mut hasher = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        part(candidate.module.digest().as_bytes());
        part(canonical(&candidate.config).as_bytes());
        part(canonical(&candidate.grants).as_bytes());
        // Field by field in the order of its declaration; it can't fail, having only numbers.
        part(serde_json::to_string(&candidate.limits).unwrap_or_default().as_bytes());
        for mark in &candidate.legacy {
            part(serde_json::to_string(mark).unwrap_or_default().as_bytes());
        }
        let digest = hasher.finalize();
        Self(hex::encode(digest.get(..6).unwrap_or_default()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same text for the same value, whatever order its keys came in: a program that embeds this crate may
/// switch on serde_json's `preserve_order`.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let mut pairs: Vec<_> = object.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            let pairs: Vec<String> = pairs
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(","))
        }
        other => other.to_string(),
    }
}

/// A candidate that passed every stage. Each call runs in a fresh store and instance.
pub struct Revision {
    pub(crate) linked: Linked,
    pub(crate) description: Description,
    pub(crate) places: Vec<String>,
    pub(crate) compared: Comparison,
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revision")
            .field("id", &self.linked.revision)
            .field("digest", &self.linked.digest)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl Revision {
    /// Its id.
    pub fn id(&self) -> &RevisionId {
        &self.linked.revision
    }
    /// The component's digest.
    pub fn digest(&self) -> Digest {
        self.linked.digest
    }
    /// Who the component says it is.
    pub fn description(&self) -> &Description {
        &self.description
    }
    /// What `configure` answered.
    pub fn places(&self) -> &[String] {
        &self.places
    }
    /// How it looked beside what was active before it.
    pub fn compared(&self) -> &Comparison {
        &self.compared
    }
    /// The interfaces that the component imports.
    pub fn imports(&self) -> &[String] {
        &self.linked.compiled.inspection.imports
    }
    /// What its calls may use.
    pub fn limits(&self) -> &Limits {
        &self.linked.setup.limits
    }

    async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, Error> {
        let setup = &self.linked.setup;
        let told = |failure: Failure| failure.into_error(&setup.entry, O::NAME.as_str(), &setup.limits);
        self.linked.run(&operation).await.map_err(told)
    }
}

#[async_trait]
impl Provider for Revision {
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        self.run(Create { target, spec, user_data }).await
    }

    async fn get(&self, target: &Target) -> Result<Instance, Error> {
        self.run(Get { target }).await
    }

    async fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        self.run(Delete { target }).await
    }

    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        self.run(List { place, cursor }).await
    }

    async fn check(&self, place: &str) -> Result<Health, Error> {
        self.run(Check { place }).await
    }
}
