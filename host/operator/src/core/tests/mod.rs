//! The loop over a store in memory and a plain double of a provider, in virtual time.
//!
//! The doubles yield exactly once before and once after each of their effects and never wait for anything
//! else, so a test that polls by hand can end a pass at every such point, or interleave two hosts there.

#![expect(dead_code, reason = "the failures that the double can play are for the tests of cuts")]
mod life;
mod provider;
mod world;
