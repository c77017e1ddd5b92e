//! Egress proxies as virtual machines of Proxmox VE.
//!
//! So far what is decided without asking anything: which number a machine gets, what an answer means, how
//! a task ended. No component is made of it yet.

pub mod agent;
pub mod answer;
pub mod id;
pub mod phrases;
pub mod task;
pub mod upid;
pub mod vmid;
