//! The control loops ([`core`], free of Kubernetes), and around them the resources, controllers and module
//! sources.

pub mod api;
pub mod core;
