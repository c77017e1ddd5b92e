//! What every provider written in Rust needs.
//!
//! A provider's logic is plain Rust over traits: [`Context`], [`Clock`], [`Log`], [`Locks`] and one trait
//! per kind of backend ([`Kubernetes`], [`Http`], [`Libvirt`] with [`Transfer`]). So the same logic runs in
//! a component, where [`Imports`] stands behind the traits, and natively, where a test or a benchmark
//! stands there. [`export!`] binds an implementation of [`Provider`] to a component's exports.
//!
//! The smallest provider there can be, of machines that are never there:
//!
//! ```
//! use provider_sdk::*;
//! use serde_json::Value;
//!
//! struct Mirage<H> {
//!     host: H,
//! }
//!
//! impl<H> From<H> for Mirage<H> {
//!     fn from(host: H) -> Self {
//!         Self { host }
//!     }
//! }
//!
//! /// Read twice: by `configure`, and in every call, since a fresh instance has forgotten it.
//! fn oases(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
//!     config::read(config, |root| {
//!         let oases = root.required("oases", "a list of names").map(|field| field.list());
//!         oases.unwrap_or_default().iter().filter_map(|name| name.text().map(str::to_owned)).collect()
//!     })
//! }
//!
//! impl<H: Context + Clock + Log> Provider for Mirage<H> {
//!     fn describe() -> Description {
//!         Description {
//!             name: "mirage",
//!             version: "0.1.0",
//!             profile: Profile {
//!                 readiness: Readiness::ProvisioningWindow,
//!                 ip_source: IpSource::Discovered,
//!                 gc_mark: GcMark::WrittenMetadata,
//!                 created_at: CreatedAt::WrittenAtCreate,
//!                 quota: Quota::Absent,
//!                 not_found: NotFound::ErrorCode,
//!                 primary_key: PrimaryKey::NameIsKey,
//!                 provisioning_state: ProvisioningState::NoAddress,
//!                 secondary_resources: SecondaryResources::None,
//!                 backend_test: BackendTest::ManualRunbook,
//!             },
//!             config_schema: r#"{ "type": "object", "required": ["oases"] }"#,
//!         }
//!     }
//!
//!     fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
//!         oases(config)
//!     }
//!
//!     fn create(&self, target: &Target, spec: &Spec, _user_data: &[u8]) -> Result<Created, Error> {
//!         if let Some(field) = spec.placement.set().first() {
//!             let message = format!("spec.placement.{field} is set, but a mirage is everywhere; remove it");
//!             return Err(Error::permanent(reason::PLACEMENT, message));
//!         }
//!         self.host.write(Level::Info, "walks on", &[("name", &target.name)]);
//!         Ok(Created::Pending(Pending { poll_ms: 60_000, message: "almost there".to_owned(), ..Pending::default() }))
//!     }
//!
//!     fn get(&self, target: &Target) -> Result<Instance, Error> {
//!         Err(Error::not_found(format!("there is no {}", target.name)))
//!     }
//!
//!     fn delete(&self, _target: &Target) -> Result<Deleted, Error> {
//!         Ok(Deleted::Done)
//!     }
//!
//!     fn list(&self, _place: &str, _cursor: Option<&str>) -> Result<Page, Error> {
//!         Ok(Page::default())
//!     }
//!
//!     fn check(&self, place: &str) -> Health {
//!         let message = format!("{place} shimmers");
//!         Health { ready: true, reason: HealthReason::Reachable, message, details: Default::default() }
//!     }
//! }
//!
//! export!(Mirage<Imports>);
//! ```
//!
//! A component imports what it calls and nothing else: what is bound here and not called is left out when
//! the component is linked and encoded.

pub mod bindings;
pub mod component;
pub mod config;
pub mod error;
mod host;
pub mod http;
mod imports;
pub mod kubernetes;
pub mod libvirt;
pub mod mark;
pub mod nocloud;
pub mod placement;
mod profile;
mod provider;
pub mod time;
pub mod transfer;
mod types;

pub use config::Fault;
pub use error::{Error, ErrorClass, reason};
pub use host::{Clock, Context, Level, Lock, Locks, Log, Verdict};
pub use http::Http;
pub use imports::Imports;
pub use kubernetes::Kubernetes;
pub use libvirt::Libvirt;
pub use mark::Mark;
pub use profile::{
    BackendTest, CreatedAt, GcMark, IpSource, NotFound, PrimaryKey, Profile, ProvisioningState, Quota,
    Readiness, SecondaryResources,
};
pub use provider::Provider;
pub use transfer::Transfer;
pub use types::{
    Address, AddressKind, Created, Deleted, Description, Health, HealthReason, Instance, Item, Page, Pending,
    Placement, Spec, State, Target,
};

/// The contract's line that this crate speaks.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// Binds a provider to the component's exports: `export!(Mirage<provider_sdk::Imports>)`.
///
/// Outside Wasm it does nothing, so one native program can link several providers.
#[macro_export]
macro_rules! export {
    ($provider:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[expect(unsafe_code, reason = "the canonical ABI: exports that take and give raw memory")]
        mod component {
            #[allow(unused_imports, reason = "the provider's type may be written with a path")]
            use super::*;
            type Component = $crate::component::Component<$provider>;
            $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        }
    };
}
