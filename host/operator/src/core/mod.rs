//! The control loops, free of Kubernetes: they decide, and act through two traits.
//!
//! [`decide`] gives the next step of a Proxy, [`status`] what its status becomes, [`backoff`] when to try
//! again; [`reconcile`] acts on them, and [`lease`]
//! says whether it may. [`story`] says which passes belong together. [`probe`] finds out whether Proxies do what they are for. [`memory`] keeps Proxies for tests, and shows what a store must promise.

pub mod agenda;
pub mod backoff;
pub mod budget;
pub mod canary;
pub mod clock;
pub mod collect;
pub mod conditions;
pub mod decide;
pub mod former;
pub mod hash;
pub mod lease;
pub mod memory;
pub mod names;
pub mod notices;
pub mod probe;
pub mod reconcile;
pub mod status;
pub mod store;
pub mod story;
pub mod tally;
pub mod target;

#[cfg(test)]
mod tests;
