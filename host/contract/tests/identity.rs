//! What names and marks promise, for whatever people call their Proxies.

#[cfg(test)]
mod properties {
    use std::collections::{BTreeMap, HashMap};

    use egress_contract::{
        EntryName, Installation, InstanceName, MARK_INCARNATION, MARK_INSTALLATION, MARK_MANAGED, MARK_UID,
    };
    use proptest::{prelude::*, test_runner::RngSeed};

    /// What an API server takes as a name, and what it doesn't: a folder of YAML is read as well.
    fn proxy() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?",
            1 => "[-.]{0,40}(base)?-?[a-z0-9.-]{0,40}",
            1 => any::<String>(),
        ]
    }

    fn uid() -> impl Strategy<Value = String> {
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    }

    fn fits(text: &str) -> bool {
        text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    }

    /// The same cases each time, unless PROPTEST_RNG_SEED or PROPTEST_CASES ask for others.
    fn config() -> ProptestConfig {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        match config.rng_seed {
            RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(1), ..config },
            RngSeed::Fixed(_) => config,
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn every_name_fits_every_backend(
            id: String, proxy in proxy(), uid in any::<String>(), incarnation: u32,
        ) {
            let name = Installation::new(id).instance_name(&proxy, &uid, incarnation).to_string();
            prop_assert!(name.len() <= 40 && name.starts_with("proxy-") && fits(&name), "{name}");
            prop_assert!(!name.ends_with('-'), "{name}: no host name ends so");
            let read = InstanceName::read_back(&name).unwrap();
            prop_assert_eq!(read.as_str(), name.as_str());
        }

        #[test]
        fn a_name_shows_whose_it_is_and_never_claims_to_be_shared(
            id: String, other: String, proxy in proxy(), uid in uid(), incarnation: u32,
        ) {
            let (ours, other) = (Installation::new(id.clone()), Installation::new(other));
            let name = ours.instance_name(&proxy, &uid, incarnation);
            prop_assert!(ours.made(&name) && !name.as_str().starts_with("proxy-base-"), "{name}");
            prop_assert_eq!(other.made(&name), other.hash() == ours.hash(), "{}", name);
        }

        #[test]
        fn whoever_differs_in_uid_incarnation_or_installation_differs_in_name(
            proxy in proxy(), a in uid(), b in uid(), i in 1u32..1000, j in 1u32..1000,
            id: String, other: String,
        ) {
            let of = |installation: &str, uid: &str, incarnation| {
                Installation::new(installation).instance_name(&proxy, uid, incarnation)
            };
            prop_assert_eq!(of(&id, &a, i), of(&id, &a, i));
            prop_assert_eq!(of(&id, &a, i) == of(&id, &b, j), (&a, i) == (&b, j));
            prop_assert_eq!(of(&id, &a, i) == of(&other, &a, i), id == other);
        }

        #[test]
        fn every_mark_fits_the_narrowest_labels(
            id: String, uid in uid(), incarnation: u32, namespace in proxy(), proxy in proxy(),
        ) {
            let installation = Installation::new(id);
            let mark = installation.mark(&uid, incarnation, &namespace, &proxy);
            prop_assert!(mark.starts_with(&installation.installation_mark()));
            for (key, value) in &mark {
                prop_assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{key}");
                prop_assert!(value.len() <= 63 && fits(value), "{key}={value}");
                prop_assert!(!value.starts_with('-') && !value.ends_with('-'), "{key}={value}");
            }
            let read: BTreeMap<_, _> = mark.iter().cloned().collect();
            prop_assert_eq!(read.len(), mark.len(), "no key stands there twice");
            let expected = [
                (MARK_MANAGED, "true"),
                (MARK_INSTALLATION, installation.hash()),
                (MARK_UID, &uid),
                (MARK_INCARNATION, &incarnation.to_string()),
            ];
            for (key, value) in expected {
                prop_assert_eq!(read.get(key).map(String::as_str), Some(value));
            }
        }

        #[test]
        fn what_is_read_back_is_taken_by_its_form_alone(text: String, tail in "[a-z0-9-]{0,80}") {
            for text in [text, format!("proxy-{tail}")] {
                let good = text.starts_with("proxy-") && text.len() <= 63 && fits(&text);
                prop_assert_eq!(InstanceName::read_back(&text).is_ok(), good, "{}", text);
            }
        }

        #[test]
        fn an_entry_name_is_what_its_rule_says(text in prop_oneof![any::<String>(), "[a-z0-9_A-]{0,25}"]) {
            let good = (1..=20).contains(&text.len()) && fits(&text);
            prop_assert_eq!(text.parse::<EntryName>().is_ok(), good, "{}", text);
        }
    }

    #[test]
    fn what_is_shared_shows_whose_it_is() {
        let ours = Installation::new("ours");
        let read = |name: String| InstanceName::read_back(&name).unwrap();
        assert!(ours.made(&read(format!("proxy-base-{}-kvm-debian-13", ours.hash()))));
        assert!(!ours.made(&read(format!("proxy-base-other1-{}-abcdefgh", ours.hash()))));
        assert!(!ours.made(&read("proxy-base".to_owned())));
        // Hand-made: our hash, but not where it stands.
        assert!(!ours.made(&read(format!("proxy-{}-web-abcdefgh", ours.hash()))));
        assert!(!ours.made(&read(format!("proxy-web-{}-abc", ours.hash()))));
    }

    #[test]
    fn a_fleet_of_a_hundred_thousand_shares_no_name() {
        let installation = Installation::new("fleet");
        let mut seen = HashMap::new();
        for number in 0..100_000_u32 {
            // One Proxy name in many namespaces, so that only the hash tells them apart.
            let uid = format!("00000000-0000-4000-8000-{:012x}", number / 4);
            let name = installation.instance_name("web", &uid, number % 4 + 1);
            assert_eq!(seen.insert(name.clone(), number), None, "{name}");
        }
    }

    #[test]
    fn names_stay_as_they_are() {
        // A changed hash would make strangers of all instances that stand.
        let name = Installation::new("8c2f0a4e").instance_name(
            "squid.example",
            "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33",
            3,
        );
        assert_eq!(name.as_str(), "proxy-squid-example-4wdrui-kmevjgam");
    }
}
