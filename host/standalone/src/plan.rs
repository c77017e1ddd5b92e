//! What the directory's documents ask for, beside what is known: decided without touching anything.
//!
//! A Proxy that stands in no file any more is to go, and that is where a mistake costs most. So three things are told
//! apart from it: a file that can't be read (it stands for what it said last), a directory without any document (it was
//! emptied, or something is not mounted), and many Proxies that are gone at once (as at the collector, more than one and
//! more than a tenth). Of those none is removed before somebody says so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{objects::Key, scan::Taken};

/// On an object: the file that it was read from.
pub const FILE: &str = "egressproxies.dev/file";

/// A Proxy as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The file that it was last read from.
    pub file: String,
    /// Its end was asked for.
    pub deleting: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is wanted, each with its file.
    pub wanted: BTreeMap<Key, (String, Value)>,
    /// Proxies whose end is asked for.
    pub removed: BTreeSet<Key>,
    /// Documents, which are no Proxies, that are not there any more.
    pub forgotten: BTreeSet<Key>,
    /// Proxies that are in no file, and stay until somebody says so.
    pub asks: BTreeSet<Key>,
    /// For people: what is wrong in which file, and what is asked.
    pub notes: Vec<String>,
}

/// Pure. `known` are the documents that are no Proxies, each with its file; `rested` says whether what is not in `files`
/// is not there; so many were removed `lately`.
pub fn plan(
    files: &BTreeMap<String, Taken>,
    rested: bool,
    kept: &BTreeMap<Key, Kept>,
    known: &BTreeMap<Key, String>,
    lately: usize,
) -> Plan {
    let mut plan = Plan::default();
    let mut stands_in: BTreeMap<&Key, Vec<(&String, &Value)>> = BTreeMap::new();
    let mut untouchable: BTreeSet<&Key> = BTreeSet::new();
    for (name, taken) in files {
        plan.notes.extend(taken.said.faults.iter().map(|fault| format!("{name}: {fault}")));
        untouchable.extend(&taken.said.faulty);
        for (key, object) in &taken.said.objects {
            stands_in.entry(key).or_default().push((name, object));
        }
    }
    for (key, found) in stands_in {
        match found.as_slice() {
            [(file, object)] => {
                plan.wanted.insert(key.clone(), ((*file).clone(), (*object).clone()));
            }
            several => {
                untouchable.insert(key);
                let names: BTreeSet<&str> = several.iter().map(|(file, _)| file.as_str()).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(" and ");
                plan.notes.push(format!(
                    "{key} stands {} times in {names}: none of them is taken up; keep one",
                    several.len()
                ));
            }
        }
    }
    let speaks = |file: &String| files.get(file).is_none_or(|taken| taken.said.faults.is_empty());
    let is_gone = |key: &Key, file: &String| {
        rested && !plan.wanted.contains_key(key) && !untouchable.contains(key) && speaks(file)
    };
    let of_people = known.iter().filter(|(key, file)| is_gone(key, file)).map(|(key, _)| key.clone());
    let forgotten: BTreeSet<Key> = of_people.collect();
    let alive = kept.iter().filter(|(_, kept)| !kept.deleting);
    let all = alive.clone().count();
    let gone: BTreeSet<Key> =
        alive.filter(|(key, kept)| is_gone(key, &kept.file)).map(|(key, _)| key.clone()).collect();
    plan.forgotten = forgotten;
    if files.is_empty() && !gone.is_empty() {
        plan.notes.push(format!(
            "the directory holds no document at all, and of {all} Proxies none is removed for that: mount it, or put the \
             files back; what is really to go, say so: epo delete proxy NAME"
        ));
        plan.asks = gone;
        // Nor is anything else forgotten that stood there.
        plan.forgotten.clear();
    } else if gone.len() + lately > most(all + lately) && !gone.is_empty() {
        plan.notes.push(format!(
            "{} of {} Proxies are in no file any more, and so many at once are not removed: put the files back, or say \
             that they are to go: epo delete proxy {}",
            gone.len() + lately,
            all + lately,
            gone.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(" ")
        ));
        plan.asks = gone;
    } else {
        plan.removed = gone;
    }
    plan
}

/// How many may go at once because they are in no file.
fn most(all: usize) -> usize {
    (all / 10).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{documents::Said, kinds::Kind};

    fn key(name: &str) -> Key {
        Key::new(Kind::Proxy, "default", name)
    }

    fn file(names: &[&str], faults: &[&str]) -> Taken {
        let objects = names.iter().map(|name| (key(name), json!({ "spec": {} }))).collect();
        let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
        Taken::of(Said { objects, faults, faulty: Vec::new() })
    }

    fn files(of: &[(&str, Taken)]) -> BTreeMap<String, Taken> {
        of.iter().map(|(name, taken)| ((*name).to_owned(), taken.clone())).collect()
    }

    fn kept(of: &[(&str, &str)]) -> BTreeMap<Key, Kept> {
        let kept = |file: &str| Kept { file: file.to_owned(), deleting: false };
        of.iter().map(|(name, file)| (key(name), kept(file))).collect()
    }

    fn decide(files: &BTreeMap<String, Taken>, kept: &BTreeMap<Key, Kept>) -> Plan {
        plan(files, true, kept, &BTreeMap::new(), 0)
    }

    #[test]
    fn one_whose_file_is_gone_is_removed_and_one_that_moved_to_another_file_is_not() {
        let kept = kept(&[("web", "web.yaml"), ("db", "db.yaml")]);
        let plan = decide(&files(&[("all.yaml", file(&["db"], &[]))]), &kept);
        assert_eq!(plan.removed, BTreeSet::from([key("web")]));
        assert_eq!(plan.wanted.keys().collect::<Vec<_>>(), [&key("db")]);
        assert!(plan.notes.is_empty() && plan.asks.is_empty());
    }

    #[test]
    fn a_file_that_can_not_be_read_stands_for_what_it_said_last() {
        let kept = kept(&[("web", "web.yaml"), ("db", "db.yaml")]);
        let plan = decide(
            &files(&[("web.yaml", file(&[], &["is not YAML"])), ("db.yaml", file(&["db"], &[]))]),
            &kept,
        );
        assert!(plan.removed.is_empty() && plan.asks.is_empty());
        assert_eq!(plan.notes, ["web.yaml: is not YAML"]);
    }

    #[test]
    fn a_directory_without_documents_removes_nothing_however_few_there_were() {
        let plan = decide(&BTreeMap::new(), &kept(&[("web", "web.yaml")]));
        assert!(plan.removed.is_empty());
        assert_eq!(plan.asks, BTreeSet::from([key("web")]));
        assert!(plan.notes[0].contains("no document at all"), "{:?}", plan.notes);
    }

    #[test]
    fn many_that_are_gone_at_once_stay_until_somebody_says_so() {
        let some: Vec<String> = (0..20).map(|n| format!("p{n}")).collect();
        let kept = kept(&some.iter().map(|name| (name.as_str(), "all.yaml")).collect::<Vec<_>>());
        let left = |count: usize| {
            let names: Vec<&str> = some.iter().skip(count).map(String::as_str).collect();
            decide(&files(&[("all.yaml", file(&names, &[]))]), &kept)
        };
        assert_eq!((left(2).removed.len(), left(2).asks.len()), (2, 0));
        assert_eq!((left(3).removed.len(), left(3).asks.len()), (0, 3));
        assert!(left(3).notes[0].contains("epo delete proxy p0 p1 p2"), "{:?}", left(3).notes);
    }

    #[test]
    fn who_goes_right_after_another_counts_with_it() {
        let kept = kept(&[("web", "web.yaml"), ("db", "db.yaml")]);
        let files = files(&[("db.yaml", file(&["db"], &[]))]);
        let after = |lately: usize| plan(&files, true, &kept, &BTreeMap::new(), lately);
        assert_eq!(after(0).removed.len(), 1);
        assert_eq!((after(1).removed.len(), after(1).asks.len()), (0, 1));
    }

    #[test]
    fn before_all_was_looked_at_twice_nothing_is_known_to_be_gone() {
        let kept = kept(&[("web", "web.yaml"), ("db", "db.yaml")]);
        let plan = plan(&files(&[("db.yaml", file(&["db"], &[]))]), false, &kept, &BTreeMap::new(), 0);
        assert!(plan.removed.is_empty() && plan.asks.is_empty());
    }

    #[test]
    fn one_that_stands_twice_is_left_as_it_is() {
        let kept = kept(&[("web", "web.yaml")]);
        let plan = decide(&files(&[("a.yaml", file(&["web"], &[])), ("b.yaml", file(&["web"], &[]))]), &kept);
        assert!(plan.wanted.is_empty() && plan.removed.is_empty());
        assert!(plan.notes[0].contains("stands 2 times in a.yaml and b.yaml"), "{:?}", plan.notes);
    }

    #[test]
    fn one_whose_end_was_asked_for_already_counts_for_nothing() {
        let mut kept = kept(&[("web", "web.yaml"), ("db", "db.yaml")]);
        kept.values_mut().for_each(|kept| kept.deleting = true);
        let plan = decide(&files(&[("other.yaml", file(&["other"], &[]))]), &kept);
        assert!(plan.removed.is_empty() && plan.asks.is_empty());
    }
}
