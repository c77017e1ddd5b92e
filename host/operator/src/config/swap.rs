//! How an entry takes up something new.

use egress_runtime::Shadow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Faults;
use crate::core::canary::Rollout;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapConfig {
    /// What becomes of a candidate that sees less than what is active.
    pub shadow: Shadow,
    /// The Proxies that a candidate makes first; none where it gets all calls at once.
    pub rollout: Option<Rollout>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnDifference {
    /// It is refused, with the differences.
    #[default]
    Refuse,
    /// It becomes active, and the differences are told.
    Warn,
}

/// Takes its keys out of an entry.
pub(super) fn read(fields: &mut Map<String, Value>, faults: &mut Faults) -> Option<SwapConfig> {
    let rollout = match fields.remove("rollout") {
        None => Some(None),
        // `rollout:` with nothing below it asks for the defaults.
        Some(said) => faults.read("rollout", Some(said)).map(Some),
    };
    if let Some(Some(Rollout { first_proxies, within_seconds })) = rollout {
        let bounds = [("firstProxies", first_proxies, 1000), ("withinSeconds", within_seconds, 86_400)];
        for (name, value, most) in bounds {
            if !(1..=most).contains(&value) {
                faults.add(&format!("rollout.{name}"), format!("must be from 1 to {most}"));
            }
        }
    }
    let shadow = match faults.read("shadow", fields.remove("shadow"))? {
        OnDifference::Refuse => Shadow::Refuse,
        OnDifference::Warn => Shadow::Warn,
    };
    Some(SwapConfig { shadow, rollout: rollout? })
}

#[cfg(test)]
mod tests {
    use super::{super::read_entry, *};

    fn read(rollout: &str) -> Result<Option<Rollout>, Vec<String>> {
        let text = format!("module: {{ file: a.wasm }}\n{rollout}\n");
        let read = read_entry(&"one".parse().unwrap(), &text);
        let told =
            |refused: crate::config::InvalidEntry| refused.faults.iter().map(ToString::to_string).collect();
        read.map(|entry| entry.swap.rollout).map_err(told)
    }

    #[test]
    fn a_rollout_is_what_it_says_and_none_where_it_is_left_out() {
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("rollout:").unwrap(), Some(Rollout::default()));
        let three = Rollout { first_proxies: 3, within_seconds: 90 };
        assert_eq!(read("rollout: { firstProxies: 3, withinSeconds: 90 }").unwrap(), Some(three));
    }

    #[test]
    fn a_rollout_that_could_never_end_is_refused_with_its_path() {
        for (rollout, path) in [
            ("{ firstProxies: 0 }", "rollout.firstProxies"),
            ("{ withinSeconds: 86401 }", "rollout.withinSeconds"),
            ("{ firstProxies: many }", "rollout.firstProxies"),
            ("{ percent: 5 }", "rollout.percent"),
        ] {
            let faults = read(&format!("rollout: {rollout}")).unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(path), "{faults:?}");
        }
    }
}
