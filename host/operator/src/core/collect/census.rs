//! Who owns what, as far as it was read.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::core::store::ProxyKey;

/// A Proxy, as an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which.
    pub key: ProxyKey,
    /// The entry that made its instance, if it has one.
    pub entry: Option<String>,
    /// The name of the instance that its status has, if it has one.
    pub instance: Option<String>,
    /// That instance's id, once it is known.
    pub id: Option<String>,
    /// Whether its status can be read: else everything that bears its UID is its own.
    pub readable: bool,
}

/// All Proxies, read live. There may be a hundred thousand: each text is kept once.
#[derive(Clone, Debug)]
pub struct Census {
    /// With whether its status can be read.
    proxies: Vec<(ProxyKey, bool)>,
    /// Where among those, by UID.
    uids: HashMap<Box<str>, u32>,
    /// The same by instance name, and by id.
    instances: HashMap<Box<str>, u32>,
    namespaces: BTreeSet<String>,
    since: Timestamp,
}

/// Why nobody can say who owns what. Nothing is removed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCensus {
    /// The kind is on its way out, and its objects with it: that is no wish to remove their instances.
    #[error(
        "the CRD proxies.egressproxies.dev is being deleted, and its Proxies with it; nothing is removed at the \
         backends meanwhile. To remove instances, delete their Proxies before the CRD"
    )]
    KindGoing,
    /// They could not be read, or not all of them.
    #[error("can't read the Proxies: {0}; nothing is removed until they can be read")]
    Unread(String),
}

/// Where owners are read.
#[async_trait]
pub trait Owners: Send + Sync {
    /// All Proxies that are looked after here, live, or none.
    async fn census(&self) -> Result<Census, NoCensus>;
}

impl Census {
    /// `namespaces` are those that were read; none for all. `since` is when the kind came into the cluster.
    pub fn new(
        owners: impl IntoIterator<Item = (String, Owner)>,
        namespaces: BTreeSet<String>,
        since: Timestamp,
    ) -> Self {
        let (proxies, uids, instances) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut census = Self { proxies, uids, instances, namespaces, since };
        // One place is nobody's: an API server holds fewer.
        for (place, (uid, owner)) in (0..u32::MAX).zip(owners) {
            census.uids.insert(uid.into(), place);
            let known = [owner.instance, owner.id].into_iter().flatten();
            census.instances.extend(known.map(|known| (known.into(), place)));
            census.proxies.push((owner.key, owner.readable));
        }
        census
    }

    /// The Proxy whose status has this instance.
    pub fn owner_of(&self, name: &str, id: &str) -> Option<&ProxyKey> {
        let place = self.instances.get(name).or_else(|| self.instances.get(id))?;
        self.at(*place).map(|(key, _)| key)
    }

    /// The Proxy of this UID, if its status can't be read.
    pub fn unreadable(&self, uid: &str) -> Option<&ProxyKey> {
        let (key, readable) = self.at(*self.uids.get(uid)?)?;
        (!readable).then_some(key)
    }

    fn at(&self, place: u32) -> Option<&(ProxyKey, bool)> {
        self.proxies.get(usize::try_from(place).ok()?)
    }

    /// Whether a Proxy in this namespace would have been read.
    pub fn reads(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Whether every Proxy there is was read.
    pub fn is_whole(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// When the kind came into the cluster.
    pub fn since(&self) -> Timestamp {
        self.since
    }
}
