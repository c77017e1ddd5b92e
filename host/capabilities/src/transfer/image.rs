//! What an image says of itself before it is let in.
//!
//! The header of an image of QEMU's own may name another file of the host as what lies beneath it, or as what holds
//! its data. QEMU would open it, and whoever made the image would read the host.

use egress_runtime::capability::{TransferFailure, TransferFailureKind as Kind};

use super::failure;
use crate::libvirt::QCOW2;

/// As much as is looked at.
pub(super) const HEAD: usize = 104;
const INCOMPATIBLE_FEATURES: std::ops::Range<usize> = 72..80;
const BACKING_FILE: std::ops::Range<usize> = 8..16;
const VERSION: std::ops::Range<usize> = 4..8;
const EXTERNAL_DATA: u64 = 1 << 2;

/// Of a volume's first bytes.
pub(super) fn check(format: &str, head: &[u8]) -> Result<(), TransferFailure> {
    let refuse = |why: &str| Err(failure::plain(Kind::Denied, format!("the image {why}")));
    let is_qcow2 = head.starts_with(QCOW2);
    match format {
        "qcow2" if !is_qcow2 => refuse("is no qcow2, as which it is to be used"),
        "qcow2" if number(head, VERSION) == Some(2) || number(head, VERSION) == Some(3) => {
            if number(head, BACKING_FILE) != Some(0) {
                return refuse("names another file of the host as its backing file");
            }
            let features = number(head, INCOMPATIBLE_FEATURES);
            match (number(head, VERSION), features) {
                (Some(3), Some(features)) if features & EXTERNAL_DATA != 0 => {
                    refuse("keeps its data in another file of the host")
                }
                (Some(3), None) => refuse("ends within its header"),
                _ => Ok(()),
            }
        }
        "qcow2" => refuse("is a qcow2 of an unknown version"),
        _ if is_qcow2 => refuse(&format!("is a qcow2, and is to be used as {format}")),
        _ => Ok(()),
    }
}

fn number(head: &[u8], at: std::ops::Range<usize>) -> Option<u64> {
    Some(head.get(at)?.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u8, backing: u8, features: u8) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        head[..4].copy_from_slice(QCOW2);
        (head[7], head[15], head[79]) = (version, backing, features);
        head
    }

    #[test]
    fn an_image_that_names_another_file_is_refused() {
        assert_eq!(check("qcow2", &head(3, 0, 0)), Ok(()));
        assert_eq!(check("qcow2", &head(2, 0, 0)), Ok(()));
        assert_eq!(check("raw", b"anything"), Ok(()));
        assert_eq!(check("iso", &[0; 104]), Ok(()));
        for (format, head, said) in [
            ("qcow2", head(3, 9, 0), "backing file"),
            ("qcow2", head(2, 9, 0), "backing file"),
            ("qcow2", head(3, 0, 4), "another file"),
            ("qcow2", head(4, 0, 0), "version"),
            ("qcow2", b"raw".to_vec(), "no qcow2"),
            ("qcow2", QCOW2.to_vec(), "version"),
            ("raw", head(3, 0, 0), "to be used as raw"),
        ] {
            let failure = check(format, &head).unwrap_err();
            assert!(failure.message.contains(said) && failure.kind == Kind::Denied, "{}", failure.message);
        }
    }
}
