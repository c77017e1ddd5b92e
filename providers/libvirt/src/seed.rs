//! The seed of a machine, by the entry's config.

use provider_sdk::nocloud::Seed;

use crate::config::Config;

/// The image of a machine of this name.
pub fn image(config: &Config, name: &str, user_data: &[u8]) -> Vec<u8> {
    let seed = Seed {
        name,
        user_data,
        vendor_data: config.vendor_data.as_deref(),
        install_guest_agent: config.install_guest_agent,
        network_config: config.network_config.as_deref(),
    };
    seed.image()
}
