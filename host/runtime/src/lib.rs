//! Loads, checks, links, limits, calls and swaps provider components.
//!
//! The runtime knows what a component may import only as traits ([`capability`]); what stands behind them,
//! real or simulated, is its caller's. A [`Slot`] is one provider entry: it takes a [`Candidate`] through
//! every stage, and only one that passed them all becomes the active [`Revision`]. Calls go to the revision
//! that was active when they began, and end on it.

mod bindings;
mod call;
pub mod capability;
mod compile;
mod failure;
mod guest_log;
mod imports;
mod imports_kubernetes;
mod inert;
mod inspect;
mod limits;
mod load;
mod locks;
mod meter;
mod module;
mod operations;
mod outline;
mod refusal;
mod revision;
mod runtime;
mod scrub;
mod slot;
mod state;
mod telemetry;

pub use inspect::{Inspection, SERVED_CONTRACTS, inspect};
pub use limits::Limits;
pub use module::{Digest, InvalidDigest, Module};
pub use refusal::{Refusal, Stage};
pub use revision::{Revision, RevisionId};
pub use runtime::{Compile, Runtime, RuntimeConfig, RuntimeError};
pub use slot::{Candidate, Lent, Slot};
