//! Marks, in the forms that backends can bear.
//!
//! The host owns a mark's content; here it is only written and read back.

use serde_json::{Map, Value};

/// Ordered pairs that say whose an instance is.
pub type Mark = Vec<(String, String)>;

/// The prefix of our labels and metadata.
pub const PREFIX: &str = "egressproxies.dev/";

/// The mark as labels.
pub fn to_labels(mark: &Mark) -> Map<String, Value> {
    mark.iter().map(|(key, value)| (format!("{PREFIX}{key}"), Value::from(value.as_str()))).collect()
}

/// The mark that labels bear, in the order of `like`; pairs that `like` doesn't know follow.
///
/// Where no label is ours, all labels are given as they are: an earlier operator's mark is told by them.
pub fn from_labels(labels: &Map<String, Value>, like: &Mark) -> Mark {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut mark: Mark = labels
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), text(value))))
        .collect();
    if mark.is_empty() {
        return labels.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    }
    let place = |key: &str| like.iter().position(|(known, _)| known == key).unwrap_or(like.len());
    mark.sort_by_key(|(key, _)| place(key));
    mark
}

/// The label selector of everything that bears these pairs.
pub fn selector(mark: &Mark) -> String {
    mark.iter().map(|(key, value)| format!("{PREFIX}{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The mark for people: `uid=.. incarnation=1`, or `no mark`.
pub fn show(mark: &Mark) -> String {
    match mark.as_slice() {
        [] => "no mark".to_owned(),
        pairs => pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        [("managed", "true"), ("uid", "u"), ("incarnation", "1")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .to_vec()
    }

    #[test]
    fn a_mark_comes_back_from_labels_as_it_was_written() {
        let mut labels = to_labels(&mark());
        labels.insert("team".to_owned(), "web".into());
        assert_eq!(from_labels(&labels, &mark()), mark());
    }

    #[test]
    fn labels_of_an_earlier_operator_are_handed_on_whole() {
        let labels: Map<String, Value> =
            [("proxy-operator/managed".to_owned(), Value::from("yes"))].into_iter().collect();
        let expected = vec![("proxy-operator/managed".to_owned(), "yes".to_owned())];
        assert_eq!(from_labels(&labels, &mark()), expected);
    }

    #[test]
    fn a_selector_names_every_pair() {
        assert_eq!(
            selector(&mark()),
            "egressproxies.dev/managed=true,egressproxies.dev/uid=u,egressproxies.dev/incarnation=1"
        );
    }
}
