//! The loop over a store in memory and a plain double of a provider, in virtual time.
//!
//! The doubles pend exactly once before and once after each of their effects and never wait for anything
//! else, so a test that polls by hand can end a pass at every such point, or interleave two hosts there.

mod budgets;
mod canary;
mod cuts;
mod failures;
mod health;
mod leadership;
mod life;
mod places;
mod provider;
mod stories;
mod told;
mod troubleshooting;
mod two_hosts;
mod world;
