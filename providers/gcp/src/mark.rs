//! The mark as labels. Compute Engine's keys hold neither dots nor slashes, so the prefix is one of its own.

use provider_sdk::Mark;
use serde_json::{Map, Value};

/// The prefix of our labels.
pub const PREFIX: &str = "egressproxies-";
/// Beside the mark: the firewall rule that lets clients in to this instance.
pub const FIREWALL: &str = "egressproxies-firewall";

/// Of the earlier operator's labels: a machine that was taken over is not to be collected by it.
pub const LEGACY: &str = "proxy-operator-";

/// The mark as labels.
pub fn to_labels(mark: &Mark) -> Map<String, Value> {
    mark.iter().map(|(key, value)| (format!("{PREFIX}{key}"), Value::from(value.as_str()))).collect()
}

/// The mark that labels bear, in the order of `like`; pairs that `like` does not know follow.
///
/// Where no label is ours, all are given as they are: an earlier operator's mark is told by them.
pub fn from_labels(labels: &Map<String, Value>, like: &Mark) -> Mark {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut mark: Mark = labels
        .iter()
        .filter(|(key, _)| *key != FIREWALL)
        .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), text(value))))
        .collect();
    if mark.is_empty() {
        return labels.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    }
    let place = |key: &str| like.iter().position(|(known, _)| known == key).unwrap_or(like.len());
    mark.sort_by_key(|(key, _)| place(key));
    mark
}

/// The filter of a list for what bears these pairs.
pub fn filter(mark: &Mark) -> String {
    mark.iter().map(|(key, value)| format!("(labels.{PREFIX}{key}={value})")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_from_labels_as_it_was_written() {
        let mark: Mark = [("managed", "true"), ("installation", "abc"), ("uid", "u")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec();
        let mut labels = to_labels(&mark);
        labels.insert("team".to_owned(), "web".into());
        labels.insert(FIREWALL.to_owned(), "proxy-base-x".into());
        assert_eq!(from_labels(&labels, &mark), mark);
        assert_eq!(
            filter(&mark),
            "(labels.egressproxies-managed=true) (labels.egressproxies-installation=abc) (labels.egressproxies-uid=u)"
        );
    }
}
