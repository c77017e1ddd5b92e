//! The provider contract in Rust: the types that `wit/` describes, and [`Provider`], what the control
//! loops call.
//!
//! It stands alone so that the loops can be tested without Wasm, a provider can be measured without it,
//! and the runtime is one implementation among others. Nothing here does I/O.

mod identity;
mod provider;
mod types;

pub use identity::{
    EntryName, Installation, InstanceName, InvalidName, MARK_INCARNATION, MARK_INSTALLATION, MARK_MANAGED,
    MARK_NAMESPACE, MARK_PROXY, MARK_UID, Mark,
};
pub use provider::Provider;
pub use types::{
    Address, Created, Deleted, Description, Error, ErrorClass, Fault, Health, Instance, Item, Page, Pending,
    Placement, Spec, State, Target,
};

/// The contract's line that this host serves.
pub const CONTRACT_VERSION: &str = "0.1.0";
