//! Which Proxies come from which address, as it is seen outside.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use crate::core::store::ProxyKey;

/// How many of those that share an address are named.
pub const SOME: usize = 3;

/// By address.
#[derive(Default)]
pub struct Outside(HashMap<IpAddr, BTreeSet<ProxyKey>>);

impl Outside {
    /// It comes from there now, and came from elsewhere before. Those whose view of others may have changed.
    pub fn moved(&mut self, key: &ProxyKey, from: Option<IpAddr>, to: Option<IpAddr>) -> BTreeSet<ProxyKey> {
        let mut touched = BTreeSet::new();
        if from == to {
            return touched;
        }
        if let Some(group) = from.and_then(|from| self.0.get_mut(&from)) {
            touched.extend(concerned(group, key));
            group.remove(key);
            if group.is_empty() {
                from.map(|from| self.0.remove(&from));
            }
        }
        if let Some(to) = to {
            let group = self.0.entry(to).or_default();
            group.insert(key.clone());
            touched.extend(concerned(group, key));
            touched.insert(key.clone());
        }
        touched
    }

    /// Some of the others that come from there.
    pub fn others(&self, key: &ProxyKey, at: IpAddr) -> Vec<ProxyKey> {
        let group = self.0.get(&at).into_iter().flatten();
        group.filter(|other| *other != key).take(SOME).cloned().collect()
    }
}

/// Only the first few are named to the others: of a thousand that share an address, one that comes or goes concerns
/// all of them only if it is among those.
fn concerned(group: &BTreeSet<ProxyKey>, key: &ProxyKey) -> Vec<ProxyKey> {
    let named = group.iter().take(SOME + 1).any(|one| one == key);
    if named { group.iter().cloned().collect() } else { Vec::new() }
}
