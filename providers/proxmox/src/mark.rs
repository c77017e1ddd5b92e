//! The mark in a machine's description: a line `egressproxies.dev/KEY=VALUE` for each pair.
//!
//! The clone call writes it, so that it comes with the machine. Beside it stand when the machine was made, where its
//! seed was uploaded to, and, once its config is set, that it is: a machine that was cloned and no more is told from
//! one that somebody stopped.

use provider_sdk::{
    Mark,
    mark::{PREFIX, show},
    time,
};

const CREATED_AT: &str = "created-at";
const SEED: &str = "seed";
const MADE: &str = "made";

/// What stands in a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Where no line is ours, all lines of the kind: an earlier operator's mark is told by them.
    pub mark: Mark,
    pub created_ms: Option<u64>,
    /// `NODE STORAGE`.
    pub seed: Option<(String, String)>,
    pub made: bool,
    is_ours: bool,
}

impl Marked {
    /// Whether it was written by this provider, and not by an earlier operator.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// For people: nothing that somebody else wrote into a description of his own.
    pub fn show(&self) -> String {
        if self.is_ours { show(&self.mark) } else { show(&Mark::new()) }
    }
}

/// The description of a machine of this mark.
pub fn write(mark: &Mark, created_ms: u64, seed: (&str, &str), made: bool) -> String {
    let mut lines: Vec<String> = mark.iter().map(|(key, value)| format!("{PREFIX}{key}={value}")).collect();
    lines.push(format!("{PREFIX}{CREATED_AT}={}", time::rfc3339(created_ms)));
    lines.push(format!("{PREFIX}{SEED}={} {}", seed.0, seed.1));
    if made {
        lines.push(format!("{PREFIX}{MADE}=true"));
    }
    lines.join("\n")
}

/// Reads a description, pairs in the order of `like`.
pub fn read(description: &str, like: &Mark) -> Marked {
    let mut marked = Marked::default();
    let lines = description.lines().filter_map(|line| line.trim().split_once('='));
    let mut others = Mark::new();
    for (key, value) in lines {
        match key.strip_prefix(PREFIX) {
            Some(CREATED_AT) => marked.created_ms = time::rfc3339_ms(value),
            Some(SEED) => {
                marked.seed =
                    value.split_once(' ').map(|(node, storage)| (node.to_owned(), storage.to_owned()));
            }
            Some(MADE) => marked.made = value == "true",
            Some(key) => marked.mark.push((key.to_owned(), value.to_owned())),
            None => others.push((key.to_owned(), value.to_owned())),
        }
    }
    let place = |key: &str| like.iter().position(|(known, _)| known == key).unwrap_or(like.len());
    marked.mark.sort_by_key(|(key, _)| place(key));
    marked.is_ours = !marked.mark.is_empty();
    if !marked.is_ours {
        marked.created_ms = others
            .iter()
            .find(|(key, _)| key.ends_with(CREATED_AT))
            .and_then(|(_, value)| time::rfc3339_ms(value));
        marked.mark = others;
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        [("managed", "true"), ("uid", "u-1"), ("incarnation", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .to_vec()
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let text = write(&mark(), 1_770_091_506_789, ("pve1", "local"), false);
        let marked = read(&text, &mark());
        assert_eq!((&marked.mark, marked.created_ms, marked.made), (&mark(), Some(1_770_091_506_000), false));
        assert_eq!(marked.seed, Some(("pve1".to_owned(), "local".to_owned())));
        assert!(read(&write(&mark(), 0, ("a", "b"), true), &mark()).made);
    }

    #[test]
    fn lines_in_another_order_and_words_between_them_change_nothing() {
        let text = write(&mark(), 0, ("a", "b"), false);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.reverse();
        let text = format!("# proxy of team a\n\n{}\n", lines.join("\n\n"));
        assert_eq!(read(&text, &mark()).mark, mark());
    }

    #[test]
    fn an_earlier_operators_lines_are_a_mark_and_are_shown_to_nobody() {
        let text = "proxy-operator-managed=true\nproxy-operator-created-at=2026-02-03T04:05:06Z";
        let marked = read(text, &mark());
        assert_eq!(marked.mark.len(), 2);
        assert_eq!((marked.created_ms, marked.show().as_str()), (Some(1_770_091_506_000), "no mark"));
    }
}
