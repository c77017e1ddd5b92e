//! What every provider written in Rust needs.
//!
//! A provider's logic is plain Rust over traits: [`Context`], [`Clock`], [`Log`], [`Locks`] and one trait
//! per kind of backend ([`Kubernetes`]). So the same logic runs in a component, where [`Imports`] stands
//! behind the traits, and natively, where a test or a benchmark stands there. [`export!`] binds an
//! implementation of [`Provider`] to a component's exports.
//!
//! ```text
//! struct Mine<H> { host: H }
//! impl<H> From<H> for Mine<H> { .. }
//! impl<H: Context + Clock + Kubernetes> Provider for Mine<H> { .. }
//!
//! provider_sdk::export!(Mine<provider_sdk::Imports>);
//! ```
//!
//! A component imports what it calls and nothing else: what is bound here and not called is left out when
//! the component is linked and encoded.

pub mod bindings;
pub mod component;
pub mod config;
pub mod error;
mod host;
mod imports;
pub mod kubernetes;
pub mod mark;
mod profile;
mod provider;
pub mod time;
mod types;

pub use config::Fault;
pub use error::{Error, ErrorClass, reason};
pub use host::{Clock, Context, Level, Lock, Locks, Log, Verdict};
pub use imports::Imports;
pub use kubernetes::Kubernetes;
pub use mark::Mark;
pub use profile::{
    BackendTest, CreatedAt, GcMark, IpSource, NotFound, PrimaryKey, Profile, ProvisioningState, Quota,
    Readiness, SecondaryResources,
};
pub use provider::Provider;
pub use types::{
    Address, AddressKind, Created, Deleted, Description, Health, HealthReason, Instance, Item, Page, Pending,
    Placement, Spec, State, Target,
};

/// The contract's line that this crate speaks.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// Binds a provider to the component's exports: `export!(Mine<provider_sdk::Imports>)`.
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
