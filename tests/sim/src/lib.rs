//! Simulated backends behind the runtime's capability traits.
//!
//! What is the same for all of them stands here: time that nobody waits for ([`clock`]), the list of what was
//! asked of a backend ([`journal`]), what can go wrong on the way there ([`fault`]), the wrapper that does all
//! three around any capability, simulated or real ([`watched`]), what it writes down ([`recording`]) without
//! secrets ([`redactor`]) and answers again ([`replay`]), and what is known of a backend behind a provider's back
//! ([`backend`]). The backends are the Kubernetes API ([`kubernetes`]), hosts that run libvirt ([`libvirt`]), Google
//! Compute Engine ([`compute`]) and a Proxmox VE cluster ([`proxmox`]). A simulation knows no provider's logic, and
//! answers as the real thing was measured to answer.

pub mod backend;
pub mod clock;
pub mod compute;
pub mod difference;
pub mod fault;
pub mod journal;
pub mod kubernetes;
pub mod libvirt;
mod looks;
pub mod proxmox;
pub mod random;
pub mod recording;
pub mod redactor;
pub mod replay;
pub mod watched;
