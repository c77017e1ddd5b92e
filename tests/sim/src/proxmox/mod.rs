//! A Proxmox VE cluster, in memory and in virtual time.
//!
//! [`Pve`] implements the runtime's capability `Http` for several endpoints, each a node of one cluster that asks the
//! others for what is theirs. Nobody waits for real: tasks end, guests boot and statistics come as the clock says.
//!
//! # What is simulated
//!
//! - The envelope: `data`, `message` with its newline, `errors`; the reason phrase; empty bodies of 401 and 595; both
//!   `Connection` headers; a page of a proxy in between; parameters that are not known.
//! - Tasks with handle, state, log and end: clone in its two phases (without name and mark, then with the template's
//!   tags), upload, erase, resize, start, stop, destroy; each fails in its own words.
//! - Machines with config, lock, state and statistics, which come every ten seconds; the guest agent; templates and
//!   linked clones; a firewall.
//! - Storages with room, shared or of one node; privileges by path, and lists that are filtered by them.
//!
//! Texts are those that pve-manager 9.2 answered. What was never measured is marked so where it stands.
//!
//! # What is not simulated
//!
//! Containers' lives, high availability, replication, backups (locks stand for them), quorum, two-factor tickets, the
//! files behind volumes, and what a guest does.

mod admin;
mod answers;
mod cluster;
mod machines;
mod rights;
mod routes;
mod state;
mod storages;
mod tasks;
#[cfg(test)]
mod tests;

pub use admin::{Image, Seen};
pub use answers::{garbage, page, unauthorized};
pub use routes::Pve;
pub use state::{Line, NodeSpec, StorageSpec};
