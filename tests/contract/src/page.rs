//! `docs/contract.md` says what `wit/` says: its tables are compared with it.

use std::collections::{BTreeMap, BTreeSet};

use wit_parser::Resolve;

/// The rows of the first table below a heading, as cells.
pub fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    let section = below.take_while(|line| !line.starts_with('#'));
    section
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The words in backticks.
pub fn words(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The functions of each interface that a world imports, by what they do to a backend: those that read, those
/// that write. One whose effect depends on the request is in both.
pub fn effects(resolve: &Resolve) -> BTreeMap<String, [BTreeSet<String>; 2]> {
    let mut found: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for (_, interface) in resolve.interfaces.iter() {
        for function in interface.functions.values() {
            let docs = function.docs.contents.as_deref().unwrap_or_default();
            let Some(effect) = docs.lines().find_map(|line| line.trim().strip_prefix("Effect: ")) else {
                continue;
            };
            let name = interface.name.clone().unwrap_or_default();
            let [reads, writes] = found.entry(name).or_default();
            // `[method]connection.lookup` and `[static]lock.acquire`.
            let function = function.name.split_once(']').map_or(&*function.name, |(_, name)| name);
            if effect.contains("read") {
                reads.insert(function.to_owned());
            }
            if effect.contains("write") {
                writes.insert(function.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use provider_sdk as sdk;

    use super::*;
    use crate::{spelling::documented, tests::wit};

    fn page() -> String {
        fs::read_to_string(wit().join("../docs/contract.md")).unwrap()
    }

    fn first_column(heading: &str) -> BTreeSet<String> {
        let page = page();
        let rows = table(&page, heading);
        assert!(!rows.is_empty(), "docs/contract.md has no table below {heading:?}");
        rows.iter().flat_map(|row| words(row[0])).collect()
    }

    #[test]
    fn the_page_lists_every_import_with_its_effect() {
        let mut resolve = Resolve::default();
        resolve.push_dir(wit()).unwrap();
        let page = page();
        let listed: BTreeMap<_, _> = table(&page, "## Imports")
            .into_iter()
            .map(|row| (row[0].trim_matches('`').to_owned(), [words(row[2]), words(row[3])]))
            .collect();
        assert_eq!(listed, effects(&resolve));
    }

    #[test]
    fn the_page_lists_every_export() {
        let mut resolve = Resolve::default();
        resolve.push_dir(wit()).unwrap();
        let (_, provider) =
            resolve.interfaces.iter().find(|(_, i)| i.name.as_deref() == Some("provider")).unwrap();
        let exports: BTreeSet<String> = provider.functions.keys().cloned().collect();
        assert_eq!(first_column("## Exports"), exports);
    }

    #[test]
    fn the_page_lists_every_reason() {
        let reasons = documented(&wit(), "types", "error", "reason").unwrap();
        assert_eq!(first_column("### Reasons of a failure"), reasons);
        let reasons = documented(&wit(), "types", "health", "reason").unwrap();
        assert_eq!(first_column("### Reasons of a health"), reasons);
    }

    #[test]
    fn the_page_lists_every_field_of_a_spec() {
        let text = Some("x".to_owned());
        let placement = egress_contract::Placement {
            region: text.clone(),
            zone: text.clone(),
            machine_type: text.clone(),
            image: text,
        };
        let spec = serde_json::to_value(egress_contract::Spec { port: 1, placement }).unwrap();
        let mut fields = BTreeSet::new();
        for (name, value) in spec.as_object().unwrap() {
            match value.as_object() {
                Some(inner) => fields.extend(inner.keys().map(|field| format!("{name}.{field}"))),
                None => _ = fields.insert(name.clone()),
            }
        }
        assert_eq!(first_column("### Spec"), fields);
    }

    fn axis<T: serde::Serialize>(all: &[T]) -> BTreeSet<String> {
        all.iter().map(|value| serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_page_lists_every_axis_of_the_profile_and_its_values() {
        let profile = sdk::Profile {
            readiness: sdk::Readiness::ALL[0],
            ip_source: sdk::IpSource::ALL[0],
            gc_mark: sdk::GcMark::ALL[0],
            created_at: sdk::CreatedAt::ALL[0],
            quota: sdk::Quota::ALL[0],
            not_found: sdk::NotFound::ALL[0],
            primary_key: sdk::PrimaryKey::ALL[0],
            provisioning_state: sdk::ProvisioningState::ALL[0],
            secondary_resources: sdk::SecondaryResources::ALL[0],
            backend_test: sdk::BackendTest::ALL[0],
        };
        let axes: BTreeMap<_, _> = [
            ("readiness", axis(sdk::Readiness::ALL)),
            ("ip-source", axis(sdk::IpSource::ALL)),
            ("gc-mark", axis(sdk::GcMark::ALL)),
            ("created-at", axis(sdk::CreatedAt::ALL)),
            ("quota", axis(sdk::Quota::ALL)),
            ("not-found", axis(sdk::NotFound::ALL)),
            ("primary-key", axis(sdk::PrimaryKey::ALL)),
            ("provisioning-state", axis(sdk::ProvisioningState::ALL)),
            ("secondary-resources", axis(sdk::SecondaryResources::ALL)),
            ("backend-test", axis(sdk::BackendTest::ALL)),
        ]
        .into();
        let declared = serde_json::to_value(profile).unwrap();
        assert!(declared.as_object().unwrap().keys().eq(axes.keys()), "{declared}");
        let page = page();
        let listed: BTreeMap<_, _> = table(&page, "### Profile")
            .into_iter()
            .map(|row| (row[0].trim_matches('`'), words(row[1])))
            .collect();
        assert_eq!(listed, axes);
    }

    #[test]
    fn a_table_ends_where_its_section_ends() {
        let page = "# A\n\ntext\n\n| a | b |\n|---|---|\n| `x` | y |\n\n| c |\n|---|\n| `z` |\n# B\n";
        assert_eq!(table(page, "# A"), [["`x`", "y"]]);
        assert_eq!(table(page, "# B"), [[""; 0]; 0]);
    }
}
