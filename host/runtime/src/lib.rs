//! Loads, checks, links, limits, calls and swaps provider components.
//!
//! The runtime knows what a component may import only as traits ([`capability`]); what stands behind them,
//! real or simulated, is its caller's. A [`Slot`] is one provider entry: it takes a [`Candidate`] through
//! every stage, and only one that passed them all becomes the active [`Revision`]. Calls go to the revision
//! that was active when they began, and end on it.

pub mod capability;
mod limits;
mod module;
mod refusal;
mod revision;
mod runtime;
mod slot;

pub use limits::Limits;
pub use module::{Digest, Module};
pub use refusal::{Refusal, Stage};
pub use revision::{Revision, RevisionId};
pub use runtime::{Compile, Runtime, RuntimeConfig, RuntimeError};
pub use slot::{Candidate, Lent, Slot};
