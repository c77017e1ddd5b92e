//! What is to happen by itself, and when.

use std::collections::BTreeMap;

use super::{kubelet::Step, store::Key};

/// A Pod as it was when something was planned about it: a successor of its name is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Something that happens by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The scheduler looks for a node.
    Schedule(PodRef),
    /// The kubelet goes on with a Pod.
    Kubelet(PodRef, Step),
    /// The garbage collector looks at an object's owners.
    Collect(Key),
    /// A namespace gets what every namespace has.
    FillNamespace(String),
    /// What is in a namespace that ends is deleted.
    EndNamespace(String),
    /// The controller of a Deployment or a ReplicaSet looks at it.
    Sync(Key),
    /// A node has been silent for too long.
    LoseNode(String),
    /// Pods have tolerated that for long enough.
    EvictFrom(String),
    /// A namespace's quotas are counted anew.
    CountQuota(String),
}

/// What is due when; at one time in the order in which it was planned.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    planned: BTreeMap<(u64, u64), Due>,
    serial: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at_ms: u64, due: Due) {
        self.serial += 1;
        self.planned.insert((at_ms, self.serial), due);
    }

    /// The next that is due by then, with its time.
    pub(super) fn next(&mut self, by_ms: u64) -> Option<(u64, Due)> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= by_ms)?;
        let ((at, _), due) = entry.remove_entry();
        Some((at, due))
    }

    /// When something happens next.
    pub(super) fn at(&self) -> Option<u64> {
        self.planned.keys().next().map(|(at, _)| *at)
    }
}
