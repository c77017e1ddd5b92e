//! The seed of a machine: an ISO image on a storage, told by its name alone.

use provider_sdk::{Error, nocloud::Seed, reason};

use crate::config::Config;

/// One that a ConfigMap or Secret can fill many times over.
const LARGEST: usize = 4 * 1024 * 1024;

/// What the file is called; the server leaves such names as they are.
pub fn file(name: &str) -> String {
    format!("{name}.iso")
}

/// Its volume id.
pub fn volume(storage: &str, name: &str) -> String {
    format!("{storage}:iso/{}", file(name))
}

/// The machine's name, where a volume is the seed of one of this installation's.
pub fn machine_of<'a>(volume: &'a str, installation: &str) -> Option<&'a str> {
    let (_, file) = volume.split_once(":iso/")?;
    file.strip_suffix(".iso").filter(|name| is_ours(name, installation))
}

/// Whether a name is one of this installation's instances: `proxy-<slug>-<installation>-<instance>`.
pub fn is_ours(name: &str, installation: &str) -> bool {
    let mut parts = name.rsplit('-');
    let (instance, of) = (parts.next(), parts.next());
    name.starts_with("proxy-") && of == Some(installation) && instance.is_some_and(|hash| !hash.is_empty())
}

/// Its bytes.
pub fn image(config: &Config, name: &str, user_data: &[u8]) -> Result<Vec<u8>, Error> {
    let seed = Seed {
        name,
        user_data,
        vendor_data: config.vendor_data.as_deref(),
        install_guest_agent: config.install_guest_agent,
        network_config: config.network_config.as_deref(),
    };
    let image = seed.image();
    if image.len() > LARGEST {
        return Err(Error::permanent(
            reason::UNSUPPORTED,
            format!(
                "spec.cloudInit makes a seed of {} bytes, and {LARGEST} is the most; fetch the rest from within the \
                 machine",
                image.len()
            ),
        ));
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_told_by_its_name_and_whose_it_is() {
        let name = "proxy-web-1-abc123-0f0f0f";
        let volume = volume("local", name);
        assert_eq!(volume, "local:iso/proxy-web-1-abc123-0f0f0f.iso");
        assert_eq!(machine_of(&volume, "abc123"), Some(name));
        assert_eq!(machine_of(&volume, "other1"), None);
        assert_eq!(machine_of("local:iso/debian.iso", "abc123"), None);
        assert_eq!(machine_of("local:iso/proxy-.iso", "abc123"), None);
    }
}
