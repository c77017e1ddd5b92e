//! What the tests share: the cluster, an installation of the operator in namespaces of its own, and waiting.

mod control;
mod epo;
mod https;
mod hypervisor;
mod kubectl;
mod lab;
mod modules;
mod recorder;
mod registry;
mod site;
mod squid;
mod wait;
mod web;
mod witness;

pub use control::Control;
pub use epo::{Epo, program};
pub use https::{Https, IN_PODS};
pub use hypervisor::{Hypervisor, ImageServer, Things};
pub use kubectl::{kubectl, shows, try_kubectl};
pub use lab::{Lab, Namespace, from};
pub use modules::{
    another_build, gcp_provider, kubernetes_provider, kvm_provider, kvm2_provider, misbehaving,
    misbehaving_from_the_start, mutants, proxmox_provider, slow_to_compile, with_text,
};
pub use recorder::{Asked, Record, Recorder};
pub use registry::{PASSWORD, Registry, USER, oras};
pub use site::{Site, Wanted, is_ready, prepare, role_rules};
pub use squid::Squid;
pub use wait::{Budget, eventually, eventually_within, seed};
pub use web::{Web, connect_through, get_through};
pub use witness::Witness;
