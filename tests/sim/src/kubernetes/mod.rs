//! The Kubernetes API in memory: API server, scheduler, kubelet and garbage collector in virtual time.
//!
//! A [`Cluster`] implements the runtime's capability, so it stands where the real capability does. Before each
//! request, whatever is due by its clock happens: Pods are scheduled, pulled, started, probed, ended.

mod admin;
mod admission;
mod apply;
mod cluster;
mod clusters;
mod defaults;
mod due;
mod eviction;
mod faults;
mod fields;
mod garbage;
mod identity;
mod json;
mod kinds;
mod kubelet;
mod names;
mod node;
mod paging;
mod patch;
mod pod_status;
mod quantity;
mod quota;
mod requests;
mod rights;
mod scheduler;
mod schema;
mod security;
mod selectors;
mod state;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod time;
mod update;
mod validation;

pub use cluster::Cluster;
pub use clusters::Clusters;
pub use kinds::Kind;
pub use node::{Image, Node, Pace};
pub use rights::{Right, Rights};
