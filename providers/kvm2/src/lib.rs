//! The component kvm2: asks the guest's agent first for its address.
//!
//! What it does stands in `libvirt-provider`; here is what tells it from kvm.

use libvirt_provider::{Flavour, LibvirtProvider, libvirt::Source};

/// A build can be told apart from others of the same source, as a release or a test of swaps needs it.
const VERSION: &str = match option_env!("PROVIDER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// What tells it from kvm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kvm2;

impl Flavour for Kvm2 {
    const NAME: &'static str = "kvm2";
    const VERSION: &'static str = VERSION;
    const NAMESPACE: &'static str = "https://egressproxies.dev/kvm2";
    const SIBLING: &'static str = "https://egressproxies.dev/kvm";
    const SOURCES: [Source; 3] = [Source::Agent, Source::Arp, Source::Lease];
}

/// The provider, over whatever it is lent.
pub type Kvm2Provider<H> = LibvirtProvider<H, Kvm2>;

#[cfg(feature = "component")]
provider_sdk::export!(Kvm2Provider<provider_sdk::Imports>);
