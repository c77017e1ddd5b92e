//! The runtime's promises, tried on a guest that misbehaves as it is told.
//!
//! One binary, since each links wasmtime.

mod cluster;

#[cfg(test)]
mod answers;
#[cfg(test)]
mod bad_modules;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod capture;
#[cfg(test)]
mod compiling;
#[cfg(test)]
mod context;
#[cfg(test)]
mod inert;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod shadow;
#[cfg(test)]
mod support;
#[cfg(test)]
mod swaps;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod user_data;
#[cfg(test)]
mod withheld;
#[cfg(test)]
mod worlds;
