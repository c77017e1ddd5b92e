//! A task's handle: what a create or delete leaves behind to be asked about later.

use std::fmt;

/// `UPID:node:pid:pstart:starttime:type:id:user:`, kept as it came, with what we need of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upid {
    text: String,
    /// Whom to ask.
    pub node: String,
    /// `qmclone`, `imgcopy` ...
    pub kind: String,
    /// A VMID, or what the kind is about; empty for an upload.
    pub id: String,
}

impl Upid {
    /// None for what is no handle: it may have been written by another revision.
    pub fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split(':').collect();
        let ["UPID", node, pid, pstart, starttime, kind, id, user, ""] = fields.as_slice() else {
            return None;
        };
        let hex = |field: &&str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_hexdigit());
        let named = !node.is_empty() && !kind.is_empty() && !user.is_empty();
        (named && [pid, pstart, starttime].into_iter().all(hex)).then(|| Self {
            text: text.to_owned(),
            node: (*node).to_owned(),
            kind: (*kind).to_owned(),
            id: (*id).to_owned(),
        })
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLONE: &str = "UPID:pve1:0000013E:0001CE28:6B0C2D44:qmclone:9000:root@pam!tt:";

    #[test]
    fn a_handle_says_which_node_to_ask_and_comes_back_unchanged() {
        let upid = Upid::read(CLONE).unwrap();
        assert_eq!((upid.node.as_str(), upid.kind.as_str(), upid.id.as_str()), ("pve1", "qmclone", "9000"));
        assert_eq!(upid.to_string(), CLONE);
    }

    #[test]
    fn an_uploads_handle_has_no_id() {
        let upid = Upid::read("UPID:pve1:0000013E:1001CE281:6B0C2D44:imgcopy::root@pam!tt:").unwrap();
        assert_eq!(upid.id, "");
    }

    #[test]
    fn what_is_no_handle_is_none() {
        for text in ["", "UPID:pve1", "UPID::1:2:3:qmclone:9000:u:", "UPID:pve1:x:2:3:qmclone:9000:u:"] {
            assert_eq!(Upid::read(text), None, "{text}");
        }
    }
}
