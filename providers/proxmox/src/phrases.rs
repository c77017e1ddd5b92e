//! The texts that must be read because nothing else tells the cases apart.
//!
//! Proxmox VE answers nearly everything with 500 and a sentence. Every sentence that a decision rests on
//! stands here and nowhere else, with the call that it was seen at; it counts only with its status.

/// What a sentence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// No machine of that number on that node: gone, elsewhere, or a clone not yet written.
    Missing,
    /// The machine bears a lock; it is named in the sentence.
    Locked,
    /// Another worker holds the machine's file.
    Contended,
    /// The number is in use.
    Taken,
    /// The machine runs where it must not.
    Running,
    /// The machine doesn't run where it must.
    NotRunning,
    /// The guest's agent does not answer: normal while it boots.
    AgentSilent,
    /// The machine is configured without an agent: it will never answer.
    AgentOff,
    /// Somebody set the protection flag.
    Protected,
    /// No such storage, or it can't be used there.
    Storage,
    /// The cluster has no majority.
    NoQuorum,
    /// It runs already.
    AlreadyRunning,
    /// A disk or an image that the machine's config names is not there.
    NoVolume,
    /// The storage is full.
    NoSpace,
    /// A clone onto another node, and the storage is not shared.
    NotShared,
    /// No such resource pool.
    NoPool,
}

/// A sentence: with what it begins, with what it ends.
struct Phrase(&'static str, &'static str, Meaning);

/// Where two match, the first one counts.
const PHRASES: [Phrase; 19] = [
    // Config, status and agent of what is not there; delete; in tasks of start and stop.
    Phrase("Configuration file '", " does not exist", Meaning::Missing),
    // Clone, of the source.
    Phrase("unable to find configuration file for VM ", "", Meaning::Missing),
    // Clone, onto a number of the same node.
    Phrase("unable to create VM ", "config file already exists", Meaning::Taken),
    // Clone's task, onto a number of another node.
    Phrase("close (rename) atomic file ", "File exists", Meaning::Taken),
    // Clone's source, config; in the tasks of start and destroy.
    Phrase("VM is locked (", ")", Meaning::Locked),
    // Config; in the tasks of clone and destroy.
    Phrase("can't lock file ", "got timeout", Meaning::Contended),
    // Agent.
    Phrase("No QEMU guest agent configured", "", Meaning::AgentOff),
    Phrase("QEMU guest agent is not running", "", Meaning::AgentSilent),
    Phrase("VM ", " is not running", Meaning::NotRunning),
    // Delete.
    Phrase("VM ", " is running - destroy failed", Meaning::Running),
    Phrase("can't remove VM ", "protection mode enabled", Meaning::Protected),
    // Upload and clone.
    Phrase("storage '", " does not exist", Meaning::Storage),
    Phrase("storage '", " is disabled", Meaning::Storage),
    // Clone. From the source code, never seen on the wire.
    Phrase("cluster not ready - no quorum", "", Meaning::NoQuorum),
    // In the task of start.
    Phrase("VM ", " already running", Meaning::AlreadyRunning),
    // Clone onto another node. From the source code.
    Phrase("can't clone to non-shared storage '", "'", Meaning::NotShared),
    Phrase("can't clone VM to node '", "(VM uses local storage)", Meaning::NotShared),
    // Clone. From the source code.
    // Config, and in the task of start. From memory.
    Phrase("volume '", "' does not exist", Meaning::NoVolume),
    Phrase("start failed: volume '", "' does not exist", Meaning::NoVolume),
];

/// Sentences of tools that stand somewhere in a task's. From memory.
const NO_SPACE: [&str; 3] = ["No space left on device", "not enough free space", "insufficient free space"];

/// What a message of a 500, or a failed task's exit status, means; none where no decision rests on it.
pub fn meaning(text: &str) -> Option<Meaning> {
    let text = text.trim_end();
    let fits = |phrase: &&Phrase| {
        let rest = text.strip_prefix(phrase.0);
        rest.is_some_and(|rest| rest.ends_with(phrase.1))
    };
    let full = || NO_SPACE.iter().any(|words| text.contains(words)).then_some(Meaning::NoSpace);
    PHRASES.iter().find(fits).map(|phrase| phrase.2).or_else(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_is_told_apart_by_its_whole_shape() {
        let told = [
            ("Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n", Meaning::Missing),
            ("unable to find configuration file for VM 9999 on node 'pve1'", Meaning::Missing),
            ("unable to create VM 101: config file already exists", Meaning::Taken),
            (
                "close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/201.conf' failed: File exists",
                Meaning::Taken,
            ),
            ("VM is locked (clone)", Meaning::Locked),
            ("can't lock file '/var/lock/qemu-server/lock-104.conf' - got timeout", Meaning::Contended),
            ("No QEMU guest agent configured", Meaning::AgentOff),
            ("QEMU guest agent is not running", Meaning::AgentSilent),
            ("VM 102 is not running", Meaning::NotRunning),
            ("VM 102 is running - destroy failed", Meaning::Running),
            ("can't remove VM 301 - protection mode enabled", Meaning::Protected),
            ("storage 'nope' does not exist", Meaning::Storage),
            ("storage 'nope' is disabled", Meaning::Storage),
            ("cluster not ready - no quorum?", Meaning::NoQuorum),
            ("VM 102 already running", Meaning::AlreadyRunning),
            ("can't clone to non-shared storage 'local'", Meaning::NotShared),
            ("can't clone VM to node 'pve2' (VM uses local storage)", Meaning::NotShared),
            ("volume 'local:iso/x.iso' does not exist", Meaning::NoVolume),
            ("clone failed: copy failed: dd: No space left on device", Meaning::NoSpace),
        ];
        for (text, expected) in told {
            assert_eq!(meaning(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_sentence_inside_another_is_not_believed() {
        for text in ["clone failed: VM is locked (clone)", "snapshot 's' does not exist", ""] {
            assert_eq!(meaning(text), None, "{text}");
        }
    }
}
