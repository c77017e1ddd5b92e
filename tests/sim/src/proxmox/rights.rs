//! What the token may do where.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Every privilege that a provider may be asked for.
const ALL: [&str; 20] = [
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "SDN.Use",
    "Sys.Audit",
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.Unrestricted",
    "VM.Monitor",
    "VM.PowerMgmt",
];
/// What only looks.
const LOOKING: [&str; 5] = ["Datastore.Audit", "Sys.Audit", "VM.Audit", "VM.GuestAgent.Audit", "VM.Monitor"];

/// By path; each privilege says whether it goes down to what is below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub BTreeMap<String, BTreeMap<String, bool>>);

impl Rights {
    fn of(privileges: &[&str]) -> Self {
        let set = privileges.iter().map(|privilege| ((*privilege).to_owned(), true)).collect();
        Self(BTreeMap::from([("/".to_owned(), set)]))
    }

    /// All of them, everywhere.
    pub fn all() -> Self {
        Self::of(&ALL)
    }

    /// To look, and no more.
    pub fn looking() -> Self {
        Self::of(&LOOKING)
    }

    /// These paths alone, each with these privileges (none for all of them).
    pub fn at(paths: &[(&str, &[&str])]) -> Self {
        let set = |privileges: &[&str]| {
            let named = if privileges.is_empty() { &ALL } else { privileges };
            named.iter().map(|privilege| ((*privilege).to_owned(), true)).collect()
        };
        Self(paths.iter().map(|(path, privileges)| ((*path).to_owned(), set(privileges))).collect())
    }

    /// All but one.
    pub fn without(privilege: &str) -> Self {
        let mut rights = Self::all();
        rights.0.values_mut().for_each(|set| {
            set.remove(privilege);
        });
        rights
    }

    /// What is set at a path counts there alone; else what comes down.
    pub fn has(&self, path: &str, privilege: &str) -> bool {
        let (mut at, mut exact) = (path.to_owned(), true);
        loop {
            if let Some(set) = self.0.get(&at) {
                return set.get(privilege).is_some_and(|down| exact || *down);
            }
            if at == "/" {
                return false;
            }
            exact = false;
            at = match at.rsplit_once('/') {
                Some(("", _)) | None => "/".to_owned(),
                Some((above, _)) => above.to_owned(),
            };
        }
    }

    /// As the server tells them. From memory: the top paths are told too, where anything reaches them.
    pub fn told(&self) -> Value {
        let mut told = Map::new();
        for top in ["/", "/access", "/nodes", "/pool", "/sdn", "/storage", "/vms"] {
            let set: Map<String, Value> = ALL
                .iter()
                .filter(|privilege| self.has(top, privilege))
                .map(|privilege| ((*privilege).to_owned(), Value::from(1)))
                .collect();
            if !set.is_empty() {
                told.insert(top.to_owned(), Value::Object(set));
            }
        }
        for (path, set) in &self.0 {
            let set: Map<String, Value> =
                set.iter().map(|(name, down)| (name.clone(), Value::from(u8::from(*down)))).collect();
            if !set.is_empty() {
                told.insert(path.clone(), Value::Object(set));
            }
        }
        Value::Object(told)
    }
}
