//! The id that create answers: `vms/<vmid>/<name>`.
//!
//! Without a node, since a machine may move. With the name, so that a number which somebody else got in
//! the meantime is not taken for ours.

use std::fmt;

use provider_sdk::{Error, Target};

/// Which machine, and which of those that ever had its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The number.
    pub vmid: u32,
    /// The target's name.
    pub name: String,
}

impl Id {
    /// None for what this provider never wrote.
    pub fn read(text: &str) -> Option<Self> {
        let segments: Vec<&str> = text.split('/').collect();
        let ["vms", number, name] = segments.as_slice() else { return None };
        let vmid: u32 = number.parse().ok()?;
        let id = Self { vmid, name: (*name).to_owned() };
        // Written back, a sign or a leading zero is no more there.
        ((100..=999_999_999).contains(&vmid) && !name.is_empty() && id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vms/{}/{}", self.vmid, self.name)
    }
}

/// What a seed without its machine is called: `seeds/<node>/<name>`.
pub fn seed(node: &str, name: &str) -> String {
    format!("seeds/{node}/{name}")
}

/// Whether an id is a seed's of this name.
pub fn is_seed(text: &str, name: &str) -> bool {
    matches!(text.split('/').collect::<Vec<_>>().as_slice(), ["seeds", node, of] if !node.is_empty() && *of == name)
}

/// The machine that a target's id names; none without an id.
pub fn machine(target: &Target) -> Result<Option<Id>, Error> {
    let Some(text) = &target.id else { return Ok(None) };
    Id::read(text).map(Some).ok_or_else(|| malformed(text, &target.name))
}

/// An id that was never made here.
pub fn malformed(text: &str, name: &str) -> Error {
    Error::permanent(
        "malformed-id",
        format!("{name}: the id {text:?} is not vms/NUMBER/NAME; this provider has not made it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        let id = Id { vmid: 100_007, name: "proxy-a".to_owned() };
        assert_eq!(Id::read(&id.to_string()), Some(id));
    }

    #[test]
    fn a_seeds_id_is_told_from_a_machines() {
        let text = seed("pve1", "proxy-a");
        assert!(is_seed(&text, "proxy-a") && !is_seed(&text, "proxy-b") && Id::read(&text).is_none());
        assert!(!is_seed("seeds//proxy-a", "proxy-a") && !is_seed("vms/100/proxy-a", "proxy-a"));
    }

    #[test]
    fn what_was_never_written_is_not_read() {
        for text in [
            "",
            "vms/99/a",
            "vms/+100/a",
            "vms/0100/a",
            "vms/100/",
            "vms/100/a/b",
            "hosts/100/a",
            "vms/1000000000/a",
        ] {
            assert_eq!(Id::read(text), None, "{text}");
        }
    }
}
