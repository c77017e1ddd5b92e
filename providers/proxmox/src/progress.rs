//! What one call leaves behind for the next.
//!
//! It saves a look and remembers a task; whatever it says can be found again without it, and what can't be read is
//! ignored.

use serde::{Deserialize, Serialize};

use crate::upid::Upid;

/// What is next, or what a task is the work of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// What stands there.
    Look,
    /// Whether the template can be cloned.
    Template,
    /// Whether the storage holds the clone.
    Room,
    /// Whether the node has the memory.
    Memory,
    Seed,
    Clone,
    Settings,
    Resize,
    Firewall,
    Start,
    /// Started: whether it runs.
    Settle,
    /// It runs, and its seed can go.
    Eject,
    /// Of a delete: ours, by the call before.
    Off,
    /// It is off.
    Erase,
    /// It has no seed.
    Destroy,
    /// It was destroyed.
    Gone,
    /// Nothing stands there: whether something is on its way.
    Flight,
    /// Nothing was on its way.
    Sweep,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Progress {
    pub stage: Stage,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Of a delete: the machine, where the target's id does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The task of this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Where the template is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Where the clone's disk goes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub storage: String,
    /// What of it the disk may come to need.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gib: u64,
    /// The machine stands there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cloned: bool,
    /// And its config is set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
    /// A start failed, and is tried once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Numbers that are taken, as the server said: the token may not see by whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<u32>,
    /// The lock that is waited for, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<(String, u64)>,
    /// Tasks that may make what is not there yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flight: Vec<String>,
    /// Of the nodes, how many were swept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swept: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Progress {
    /// With nothing done.
    pub fn at(stage: Stage) -> Self {
        Self {
            stage,
            node: String::new(),
            id: None,
            task: None,
            source: String::new(),
            storage: String::new(),
            gib: 0,
            cloned: false,
            made: false,
            again: false,
            taken: Vec::new(),
            lock: None,
            flight: Vec::new(),
            swept: 0,
        }
    }

    /// None for what another revision wrote, or for what was never one.
    pub fn read(text: Option<&str>) -> Option<Self> {
        serde_json::from_str(text?).ok()
    }

    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The task, if it is one.
    pub fn upid(&self) -> Option<Upid> {
        self.task.as_deref().and_then(Upid::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_was_written_and_strangers_are_none() {
        let mut progress = Progress::at(Stage::Clone);
        progress.task = Some("UPID:pve1:0000013E:0001CE28:6B0C2D44:qmclone:9000:root@pam!tt:".to_owned());
        progress.lock = Some(("clone".to_owned(), 7));
        assert_eq!(Progress::read(Some(&progress.write())), Some(progress.clone()));
        assert_eq!(progress.upid().unwrap().kind, "qmclone");
        assert_eq!(Progress::at(Stage::Look).write(), r#"{"stage":"look"}"#);
        for strange in ["", "?", r#"{"stage":"clone","v":9}"#, r#"{"stage":"melt"}"#] {
            assert_eq!(Progress::read(Some(strange)), None, "{strange}");
        }
    }
}
