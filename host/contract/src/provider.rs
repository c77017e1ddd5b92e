//! The trait that the control loops call.

use async_trait::async_trait;

use crate::types::{Created, Deleted, Error, Health, Instance, Page, Spec, Target};

/// A provider that was loaded and configured: what the loops know of a backend.
///
/// The methods keep the promises that `wit/provider.wit` documents. Dropping a future gives the call up;
/// its outcome at the backend is then unknown, and the next call finds out.
#[async_trait]
pub trait Provider: Send + Sync {
    /// One step towards a running instance.
    async fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error>;

    /// What the backend shows now.
    async fn get(&self, target: &Target) -> Result<Instance, Error>;

    /// One step towards nothing.
    async fn delete(&self, target: &Target) -> Result<Deleted, Error>;

    /// What this installation owns at one place. An error is "unread", never "empty".
    async fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error>;

    /// Whether the place could serve a create. A trap or a limit is an error, not a health.
    async fn check(&self, place: &str) -> Result<Health, Error>;
}
