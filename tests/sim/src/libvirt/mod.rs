//! Hosts that run libvirt, in memory and in virtual time.
//!
//! [`Hosts`] implements the runtime's capability `Libvirt`; [`Transfers`] implements `Transfer` for one operator's
//! process, over the same hosts: what a process that died was filling stays as far as it came. Nobody waits for
//! real: guests boot, show addresses, and images arrive as the clock says.
//!
//! # What is simulated
//!
//! - Pools of a size and a state; volumes with format, capacity, backing file and content; what libvirt answers when
//!   one is missing, is there, lies in a pool that is not active, or backs onto nothing.
//! - Domains: defined by name and UUID, started, destroyed, undefined (with NVRAM only by flag, running ones become
//!   transient), suspended; metadata by namespace, answered without its declaration; autostart; addresses by source,
//!   that come up after the boot; memory that running guests take.
//! - Servers of images: a size and a digest for each URL, a status, a rate.
//!
//! Codes, domains and messages are those that libvirtd 11.3 answered; a test for each pins them.
//!
//! # What is not simulated
//!
//! Networks and leases, snapshots, migration, jobs, what a guest does, AppArmor, permissions within a host, the
//! allow-list of documents and the prefix of names, which are the real capability's.

mod admin;
mod answers;
mod connection;
mod domain;
mod hosts;
mod pool;
mod state;
#[cfg(test)]
mod tests;
mod transfers;

pub use hosts::{HostSpec, Hosts};
pub use pool::Volume;
pub use state::{Dom, Served};
pub use transfers::Transfers;
