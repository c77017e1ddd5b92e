//! `health` of an entry.

use serde_json::{Map, Value};

use super::Faults;
use crate::core::probe::HealthConfig;

/// None within for an entry without it; none only together with a fault.
pub(super) fn read(fields: &mut Map<String, Value>, faults: &mut Faults) -> Option<Option<HealthConfig>> {
    let Some(health) = fields.remove("health") else { return Some(None) };
    // `health:` with nothing below it asks for all defaults.
    let health: HealthConfig = faults.read("health", Some(health))?;
    faults.extend("health", health.faults());
    Some(Some(health))
}

#[cfg(test)]
mod tests {
    use super::super::read_entry;

    fn read(health: &str) -> Result<super::HealthConfig, Vec<String>> {
        let entry = "one".parse().unwrap();
        let text = format!("module: {{ file: a.wasm }}\nhealth: {health}\n");
        let read = read_entry(&entry, &text);
        let told =
            |refused: crate::config::InvalidEntry| refused.faults.iter().map(ToString::to_string).collect();
        read.map(|entry| entry.health.expect("it stands there")).map_err(told)
    }

    #[test]
    fn nothing_below_it_asks_for_the_defaults_and_leaving_it_out_for_no_probes() {
        for nothing in ["", "{}"] {
            assert_eq!(read(nothing).unwrap(), super::HealthConfig::default());
        }
        let without = read_entry(&"one".parse().unwrap(), "module: { file: a.wasm }").unwrap();
        assert_eq!(without.health, None);
    }

    #[test]
    fn a_fault_is_told_with_its_path() {
        let faults = read("{ url: 'example.com', periodSeconds: 0 }").unwrap_err();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(
            faults[0].starts_with("health.url") && faults[1].starts_with("health.periodSeconds"),
            "{faults:?}"
        );
        let faults = read("{ interval: 5 }").unwrap_err();
        assert!(faults[0].starts_with("health.interval"), "{faults:?}");
    }
}
