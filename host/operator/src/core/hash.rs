//! Whether an instance was made from this spec: a versioned hash over the fields that are set.
//!
//! A field that is not set adds nothing, so one that a later version introduces replaces no instance; one
//! that comes with a default must add itself only when it differs from that default. The provider is left
//! out: its change is seen by itself, because the old instance must go by the old entry. What a `secretRef`
//! or `configMapRef` points to is left out too: the reference is hashed, not the content, so a rotated
//! Secret replaces nothing.

use sha2::{Digest, Sha256};

use crate::api::{CloudInit, KeyRef, ProxyPlacement, ProxySpec};

const VERSION: &str = "1";

/// `1:` and 16 hexadecimal digits.
pub fn spec_hash(spec: &ProxySpec) -> String {
    // Taken apart in full: whoever adds a field must decide here what it means for what already runs.
    let ProxySpec { provider: _, port, placement, cloud_init, health_check: _ } = spec;
    let mut fields = Fields(Sha256::new());
    fields.add("port", &port.to_string());
    if let Some(ProxyPlacement { region, zone, machine_type, image }) = placement {
        fields.add_set("placement.region", region.as_deref());
        fields.add_set("placement.zone", zone.as_deref());
        fields.add_set("placement.machineType", machine_type.as_deref());
        fields.add_set("placement.image", image.as_deref());
    }
    if let Some(CloudInit { inline, secret_ref, config_map_ref }) = cloud_init {
        fields.add_set("cloudInit.inline", inline.as_deref());
        fields.add_reference("cloudInit.secretRef", secret_ref.as_ref());
        fields.add_reference("cloudInit.configMapRef", config_map_ref.as_ref());
    }
    let digest: String = hex::encode(fields.0.finalize()).chars().take(16).collect();
    format!("{VERSION}:{digest}")
}

/// Whether a stored hash is that of this spec. A hash of a version that is not known here was written by
/// another version of the operator; it counts as equal, since an up- or downgrade must replace nothing.
pub fn made_from(stored: &str, spec: &ProxySpec) -> bool {
    match stored.split_once(':') {
        Some((VERSION, _)) => stored == spec_hash(spec),
        Some(_) | None => true,
    }
}

struct Fields(Sha256);

impl Fields {
    fn add(&mut self, name: &str, value: &str) {
        for part in [name, value] {
            // With its length before it, so that no two lists of fields read alike.
            self.0.update((part.len() as u64).to_be_bytes());
            self.0.update(part);
        }
    }

    fn add_set(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    fn add_reference(&mut self, name: &str, reference: Option<&KeyRef>) {
        if let Some(KeyRef { name: object, key }) = reference {
            self.add(name, object);
            self.add(name, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::api::HealthCheck;

    fn full() -> ProxySpec {
        ProxySpec {
            provider: "kubernetes".into(),
            port: 3128,
            placement: Some(ProxyPlacement {
                region: Some("eu".into()),
                zone: Some("a".into()),
                machine_type: Some("small".into()),
                image: Some("squid".into()),
            }),
            cloud_init: Some(CloudInit { inline: Some("#cloud-config\n".into()), ..Default::default() }),
            health_check: Some(HealthCheck { period_seconds: Some(60), ..Default::default() }),
        }
    }

    /// A changed value here replaces every instance of every user at the next upgrade: raise VERSION and keep
    /// the old computation instead.
    #[test]
    fn the_hash_of_a_spec_never_changes() {
        assert_eq!(spec_hash(&ProxySpec { port: 3128, ..Default::default() }), "1:dac2bb4f316eccf3");
        assert_eq!(spec_hash(&full()), "1:06f25f45c6a53448");
    }

    #[test]
    fn what_is_not_set_adds_nothing() {
        let bare = ProxySpec { provider: "a".into(), port: 1, ..Default::default() };
        let empty = ProxySpec {
            provider: "b".into(),
            placement: Some(ProxyPlacement::default()),
            cloud_init: Some(CloudInit::default()),
            ..bare.clone()
        };
        assert_eq!(spec_hash(&bare), spec_hash(&empty));
    }

    #[test]
    fn every_field_that_is_set_counts() {
        type Change = fn(&mut ProxySpec);
        let changes: [Change; 9] = [
            |_| {},
            |s| s.port = 8080,
            |s| s.placement.get_or_insert_default().region = Some("us".into()),
            |s| s.placement.get_or_insert_default().zone = Some("us".into()),
            |s| s.placement.get_or_insert_default().machine_type = Some("us".into()),
            |s| s.placement.get_or_insert_default().image = Some("us".into()),
            |s| s.cloud_init = Some(CloudInit { inline: Some("us".into()), ..Default::default() }),
            |s| {
                s.cloud_init =
                    Some(CloudInit { secret_ref: Some(reference("us", "k")), ..Default::default() })
            },
            |s| {
                s.cloud_init =
                    Some(CloudInit { config_map_ref: Some(reference("us", "k")), ..Default::default() })
            },
        ];
        for base in [full(), ProxySpec { port: 3128, ..Default::default() }] {
            let hashes: HashSet<String> = changes
                .iter()
                .map(|change| {
                    let mut spec = base.clone();
                    change(&mut spec);
                    spec_hash(&spec)
                })
                .collect();
            assert_eq!(hashes.len(), changes.len());
        }
    }

    fn reference(name: &str, key: &str) -> KeyRef {
        KeyRef { name: name.into(), key: key.into() }
    }

    #[test]
    fn a_hash_of_another_version_replaces_nothing() {
        assert!(made_from(&spec_hash(&full()), &full()));
        assert!(!made_from("1:0000000000000000", &full()));
        assert!(made_from("2:0000000000000000", &full()));
    }
}
