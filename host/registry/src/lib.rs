//! Components in OCI registries, in the layout that the tools for Wasm share: a config of
//! `application/vnd.wasm.config.v0+json`, and one layer of `application/wasm`.
//!
//! What a registry answers is bounded while it is read, hashed before it is used, and never quoted: an error holds
//! what was asked and what that means, so no registry can make a credential that it was shown come out in a log.
//! Nothing is repeated here but a request that a login was asked for.

mod access;
mod client;
mod failure;
mod layout;
mod login;
mod manifest;
mod reference;
mod web;

pub use access::{Access, Timeouts};
pub use client::{Client, Image, Pulled, Rights};
pub use failure::{Kind, RegistryError};
pub use layout::{Archive, ArchiveError};
pub use login::{DockerConfig, Login, LoginError, NeedsHelper};
pub use manifest::{About, artifact};
pub use reference::{Hash, InvalidReference, Reference};
