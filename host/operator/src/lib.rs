//! The control loops ([`core`], free of Kubernetes), and around them the resources, controllers and module
//! sources.
//!
//! [`run`] is the whole operator. What it needs besides an API server comes in [`Options`].

pub mod api;
pub mod cluster;
mod collecting;
pub mod config;
mod controller;
pub mod core;
mod entries;
mod entry;
mod events;
mod health;
mod identity;
mod kube_lease;
mod kube_owners;
mod kube_store;
pub mod lend;
mod modules;
pub mod orphans;
mod probing;
mod providers;
mod proxies;
mod queue;
mod revisions;
pub mod rollback;
mod run;
pub mod trial;
mod view;
mod waiting;

#[cfg(test)]
mod tests;

pub use cluster::ApiServer;
pub use core::lease::Terms;
pub use identity::{Identity, IdentityError};
pub use lend::Simulations;
pub use run::{LeaseOptions, Operator, OperatorError, Options, Readiness, run};
