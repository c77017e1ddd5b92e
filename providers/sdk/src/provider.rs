//! The trait that a provider implements.

use serde_json::Value;

use crate::{
    config::Fault,
    error::Error,
    types::{Created, Deleted, Description, Health, Instance, Page, Spec, Target},
};

/// A provider. `wit/provider.wit` says what each method promises.
///
/// A fresh value serves each call, so nothing is remembered from one call to the next.
pub trait Provider {
    /// Who this is. It is lent nothing.
    fn describe() -> Description;

    /// The places of this config, in its order, or every fault in it. It is lent nothing.
    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>>;

    /// One step towards a running instance. Idempotent, and never `not-found`.
    fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error>;

    /// What the backend shows now.
    fn get(&self, target: &Target) -> Result<Instance, Error>;

    /// One step towards nothing. Idempotent.
    fn delete(&self, target: &Target) -> Result<Deleted, Error>;

    /// What this installation owns at one place.
    fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error>;

    /// Whether the place could serve a create.
    fn check(&self, place: &str) -> Health;
}
