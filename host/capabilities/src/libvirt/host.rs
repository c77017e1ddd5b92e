//! One granted host: whose names are ours, and the connections to it.
//!
//! What changes something goes over a connection of its own, beneath whose encryption every write to the socket
//! asks whether it may begin. Each of the two is dialled when it is needed, by one of those who wait, and the
//! others share what it finds.

use std::{collections::BTreeMap, sync::Arc};

use egress_contract::{EntryName, Installation, InstanceName};
use egress_runtime::capability::{Always, LibvirtFailure, LibvirtStage as Stage, Writes};
use tokio::{sync::Mutex, time::Instant};

use super::{
    dial::{Dial, Line},
    failure,
    grant::HostGrant,
};
use crate::credentials::Secrets;

/// With this begins everything that is written.
pub(super) const PREFIX: &str = "proxy-";
/// As most file systems have it.
const LONGEST_NAME: usize = 255;

/// See the module.
pub(crate) struct Host {
    pub(super) entry: EntryName,
    pub(super) name: String,
    pub(super) grant: HostGrant,
    pub(super) installation: Installation,
    pub(super) secrets: Option<Arc<dyn Secrets>>,
    pub(super) writes: Arc<dyn Writes>,
    pub(super) reads: Pooled,
    pub(super) changes: Pooled,
    /// Where the granted pools are; a pool that moves needs another connection anyway.
    pub(super) folders: Mutex<BTreeMap<String, String>>,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Change,
}

/// A connection, or why there was none.
type Dialled = Result<Arc<Line>, LibvirtFailure>;

/// The last of them, and when it was dialled.
#[derive(Default)]
pub(super) struct Pooled(Mutex<Option<(Instant, Dialled)>>);

impl Host {
    /// A connection that works as far as is known.
    pub(super) async fn pooled(&self, purpose: Purpose) -> Dialled {
        let pooled = match purpose {
            Purpose::Read => &self.reads,
            Purpose::Change => &self.changes,
        };
        let asked = Instant::now();
        let mut last = pooled.0.lock().await;
        match &*last {
            Some((_, Ok(line))) if line.is_alive() => return Ok(Arc::clone(line)),
            // Somebody tried while this one waited for its turn.
            Some((failed, Err(why))) if *failed >= asked => return Err(why.clone()),
            _ => {}
        }
        let dialled = self.dial(purpose).await.map(Arc::new);
        *last = Some((Instant::now(), dialled.clone()));
        dialled
    }

    /// One of the caller's own.
    pub(super) async fn dial(&self, purpose: Purpose) -> Result<Line, LibvirtFailure> {
        let writes = match purpose {
            Purpose::Read => Arc::new(Always),
            Purpose::Change => Arc::clone(&self.writes),
        };
        let (host, grant) = (self.name.as_str(), &self.grant);
        Dial { host, grant, secrets: self.secrets.as_deref(), writes }.line().await
    }

    pub(super) fn denied(&self, what: &str, field: &str) -> LibvirtFailure {
        let (entry, host) = (&self.entry, &self.name);
        let message = format!(
            "entry {entry} may not use {what} at host {host}: its grant does not list it; add it under \
             grants.libvirt.hosts.{host}.{field}, if that is meant"
        );
        failure::plain(Stage::Denied, message)
    }

    pub(super) fn may_use_pool(&self, pool: &str) -> Result<(), LibvirtFailure> {
        if self.grant.pools.iter().any(|granted| granted == pool) {
            return Ok(());
        }
        Err(self.denied(&format!("pool {pool:?}"), "pools"))
    }

    /// Whether what bears this name is this installation's to touch.
    pub(super) fn may_touch(&self, name: &str) -> Result<(), LibvirtFailure> {
        if is_plain(name) && (self.bears(name) || self.is_adopted(name)) {
            return Ok(());
        }
        let (entry, host) = (&self.entry, &self.name);
        let message = format!(
            "entry {entry} may not touch {name:?} at host {host}: the name does not begin with {PREFIX} or is not of \
             this installation"
        );
        Err(failure::plain(Stage::Denied, message))
    }

    /// `NAME`, `NAME.qcow2`, `NAME-seed.iso`: what belongs to an instance begins with its name.
    fn bears(&self, name: &str) -> bool {
        let stem = name.split('.').next().unwrap_or_default();
        let shorter = stem.rsplit_once('-').map(|(before, _)| before);
        [Some(stem), shorter]
            .into_iter()
            .flatten()
            .filter_map(|name| InstanceName::read_back(name).ok())
            .any(|name| self.installation.made(&name))
    }

    fn is_adopted(&self, name: &str) -> bool {
        self.grant.adopt.iter().any(|adopted| match name.strip_prefix(adopted.as_str()) {
            // Its volumes have endings; another domain has none.
            Some(rest) => rest.is_empty() || (rest.starts_with(['.', '-']) && rest.contains('.')),
            None => false,
        })
    }
}

/// A file's name, and nothing else.
fn is_plain(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::libvirt::{Beside, LibvirtCapability};

    #[test]
    fn only_names_of_this_installation_and_adopted_ones_may_be_touched() {
        let (ours, theirs) = (Installation::new("ours"), Installation::new("theirs"));
        let grant = json!({ "hosts": { "hv": {
            "address": "hv", "user": "u", "key": { "file": "/id" }, "knownHosts": { "file": "/known" },
            "pools": ["default"], "bridges": ["br0"], "adopt": ["proxy-old"],
        } } });
        let (entry, beside) = ("kvm".parse().unwrap(), Beside::alone(ours.clone()));
        let made = LibvirtCapability::new(&entry, serde_json::from_value(grant).unwrap(), &beside).unwrap();
        let host = made.host("hv").unwrap();
        let name = |whose: &Installation| whose.instance_name("web", "uid", 1).as_str().to_owned();
        let base = |whose: &Installation| format!("proxy-base-{}-kvm-debian-13", whose.hash());
        for own in [
            name(&ours),
            format!("{}.qcow2", name(&ours)),
            format!("{}-seed.iso", name(&ours)),
            base(&ours),
            format!("{}.qcow2.sha256", base(&ours)),
            "proxy-old".to_owned(),
            "proxy-old.qcow2".to_owned(),
            "proxy-old-seed.iso".to_owned(),
        ] {
            assert!(host.may_touch(&own).is_ok(), "{own}");
        }
        for foreign in [
            name(&theirs),
            format!("{}.qcow2", name(&theirs)),
            base(&theirs),
            "proxy-web".to_owned(),
            "debian.qcow2".to_owned(),
            "proxy-old-2".to_owned(),
            "proxy-older".to_owned(),
            format!("../{}", name(&ours)),
            format!("a/{}", name(&ours)),
            format!("{}/x", name(&ours)),
            format!(".{}", name(&ours)),
            format!("{}\n", name(&ours)),
            String::new(),
        ] {
            assert!(host.may_touch(&foreign).is_err(), "{foreign:?}");
        }
        assert!(host.may_use_pool("default").is_ok() && host.may_use_pool("other").is_err());
        assert!(made.host("other").err().unwrap().message.contains("its grant names hv"));
    }
}
