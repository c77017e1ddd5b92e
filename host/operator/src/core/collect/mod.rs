//! Collecting: what an installation has at its backends and nobody owns any more is removed.
//!
//! Removing is the one thing here that can't be undone, so everything guards it. An owner is a Proxy that was
//! read live, before the backend was listed and again right before the removal. What has no owner must have
//! none in two sweeps running, and be older than a grace. When many instances have none at once, or some that
//! are older than the kind Proxy itself, then something else is wrong (a kind that was made anew, a state that
//! was restored), and people are asked first. What could not be read is left alone, and said.

mod census;
mod fate;
mod sweep;

#[cfg(test)]
mod tests;

pub use census::{Census, NoCensus, Owner, Owners};
pub use fate::{Fate, Verdict, judge};
pub use sweep::{Asks, Collector, Judged, Policy, Removes, Report, Unread};
