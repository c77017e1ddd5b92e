//! The component kvm: asks the host's neighbours first for a guest's address, so that images without an agent
//! do as well.
//!
//! What it does stands in `libvirt-provider`; here is what tells it from kvm2.

use libvirt_provider::{Flavour, LibvirtProvider, libvirt::Source};

/// A build can be told apart from others of the same source, as a release or a test of swaps needs it.
const VERSION: &str = match option_env!("PROVIDER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// What tells it from kvm2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kvm;

impl Flavour for Kvm {
    const NAME: &'static str = "kvm";
    const VERSION: &'static str = VERSION;
    const NAMESPACE: &'static str = "https://egressproxies.dev/kvm";
    const SIBLING: &'static str = "https://egressproxies.dev/kvm2";
    const SOURCES: [Source; 3] = [Source::Arp, Source::Agent, Source::Lease];
}

/// The provider, over whatever it is lent.
pub type KvmProvider<H> = LibvirtProvider<H, Kvm>;

#[cfg(feature = "component")]
provider_sdk::export!(KvmProvider<provider_sdk::Imports>);
