//! What there is: hosts with their pools and domains, and the servers that images come from.

use std::{collections::BTreeMap, sync::Arc};

use egress_runtime::capability::{Clock, InterfaceAddress};
use sha2::{Digest, Sha256};

use super::{answers::Answer, domain::Definition, pool::Pool};

/// virDomainState.
pub const RUNNING: i32 = 1;
pub const PAUSED: i32 = 3;
pub const SHUTOFF: i32 = 5;
pub const PMSUSPENDED: i32 = 7;

/// A domain.
#[derive(Clone, Debug)]
pub struct Dom {
    /// As text.
    pub uuid: String,
    /// virDomainState, and the reason's number for it.
    pub state: (i32, i32),
    /// Whether it starts with its host.
    pub autostart: bool,
    pub(super) definition: Definition,
    pub(super) xml: String,
    /// Running ones that were undefined go with their end.
    pub(super) persistent: bool,
    /// A UEFI guest that ran has variables of its own.
    pub(super) nvram: bool,
    pub(super) booted_ms: u64,
    pub(super) number: u32,
    /// Somebody took its addresses away.
    pub(super) silent: bool,
    /// What it is to answer by source, instead of what a guest would show.
    pub(super) told: BTreeMap<u32, Answer<Vec<InterfaceAddress>>>,
}

impl Dom {
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state.0, SHUTOFF | 6)
    }

    /// The metadata elements by namespace.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.definition.metadata
    }
}

/// What stands behind a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Bytes.
    pub size: u64,
    /// Of all of it.
    pub sha256: String,
    /// The HTTP status of every answer.
    pub status: u16,
    /// Whether the server says how long it is.
    pub says_size: bool,
}

impl Served {
    /// What stands behind a URL unless somebody said otherwise.
    pub fn by_default(url: &str) -> Self {
        let digest = Sha256::digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { size: 435 * 1024 * 1024, sha256: digest, status: 200, says_size: true }
    }
}

/// A host.
#[derive(Clone, Debug)]
pub struct HostState {
    pub memory: u64,
    pub kvm: bool,
    pub bridges: Vec<String>,
    pub pools: BTreeMap<String, Pool>,
    pub domains: BTreeMap<String, Dom>,
    /// What is started ends at once.
    pub never_starts: bool,
    pub made: u32,
}

impl HostState {
    pub fn free_memory(&self) -> u64 {
        let taken: u64 =
            self.domains.values().filter(|dom| dom.is_active()).map(|dom| dom.definition.memory).sum();
        self.memory.saturating_sub(taken)
    }

    pub fn has_file(&self, path: &str) -> bool {
        self.pools.values().any(|pool| pool.has_file(path))
    }
}

/// All of it.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub hosts: BTreeMap<String, HostState>,
    pub served: BTreeMap<String, Served>,
    /// Bytes in a millisecond.
    pub rate: u64,
}
