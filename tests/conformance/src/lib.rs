//! The provider contract as a test suite: any component, any backend, simulated or real.
//!
//! A [`Suite`] loads a component in the real runtime, with its grants and limits, against a [`kind`] of backend,
//! and tries every promise of the table ([`promise`]): undisturbed, with something going wrong at every call,
//! with the host dying at every call, with another revision taking over, with two hosts at once. Against a
//! simulated backend time is virtual and every run is the same for one seed.
//!
//! No promise knows a kind of backend: it sees one through [`egress_sim::backend::Backend`].
//!
//! Beside the suite stands what tools call a provider with: single calls ([`session`]), what they asked of the host
//! as a file ([`recording`]), and that file answered again ([`replay`](mod@replay)).

pub mod call;
pub mod halt;
pub mod host;
pub mod kind;
mod loaded;
pub mod patience;
pub mod profile;
pub mod promise;
pub mod proxy;
pub mod recording;
pub mod replay;
pub mod report;
mod scenario;
pub mod session;
pub mod sight;
pub mod stage;
mod suite;
pub mod sweep;
pub mod trial;

pub use report::{Outcome, Report};
pub use suite::{CannotRun, Entry, Progress, Settings, Suite};
pub use trial::{Breach, Counts, Verdict};
