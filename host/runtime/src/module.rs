//! A component's bytes, fetched and unpacked: the first two stages.

use std::{fmt, sync::Arc};

use crate::refusal::Refusal;

/// A sha256 of the unpacked component; printed as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Unpacked bytes that are claimed to be a component, with their digest.
#[derive(Clone, Debug)]
pub struct Module {
    bytes: Arc<[u8]>,
    digest: Digest,
}

impl Module {
    /// Unpacks plain, gzip or zstd bytes (told apart by their first bytes) to at most `max_bytes`.
    pub fn unpack(_raw: &[u8], _max_bytes: u64) -> Result<Self, Refusal> {
        Err(Refusal::scaffold())
    }

    /// The unpacked bytes.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Of the unpacked bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}
