//! Google Compute Engine in memory, behind the HTTP that a host lends: what it answers, status by status and text by
//! text, as it was recorded and documented, in virtual time.
//!
//! Projects with regions and zones hold instances ([`state`]); writes begin operations, which end later and may fail
//! then ([`operations`]); lists over all zones leave zones out and say so ([`aggregated`]). An administrator and a bad
//! day stand in [`admin`]. Beside it answers Resource Manager's permission test. What can't be seen behind the trait
//! (a missing length, a refused connection) is the host's and not here.

mod admin;
mod aggregated;
mod answers;
mod api;
mod fields;
mod filter;
mod instances;
mod operations;
mod others;
#[cfg(test)]
mod schema;
mod state;
#[cfg(test)]
mod tests;

pub use admin::{Seen, Trouble};
pub use api::{Compute, ComputeSpec};
pub use state::{OpError, Vm, Weather};
