//! What the operator keeps of a Proxy, as far as a provider sees it.

use egress_contract::{Installation, InstanceName, Item, Mark, Placement, Spec, Target};

/// The installation whose provider is tried.
pub const OURS: &str = "conformance";
/// Another installation at the same backend.
pub const THEIRS: &str = "somebody-else";

/// A Proxy and its record.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Of whose installation.
    pub installation: Installation,
    /// Its UID.
    pub uid: String,
    /// Raised with each replacement.
    pub incarnation: u32,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub proxy: String,
    /// What it asks for.
    pub spec: Spec,
    /// What it asks for.
    pub user_data: Vec<u8>,
    /// The newest id that a provider answered.
    pub id: Option<String>,
    /// What the last answer left behind.
    pub progress: Option<String>,
}

impl Proxy {
    /// One of this installation, with nothing made yet. `number` tells Proxies apart.
    pub fn new(installation: &str, namespace: &str, proxy: &str, number: u32) -> Self {
        Self {
            installation: Installation::new(installation),
            uid: format!("6f1d9c1e-7a7b-4f6e-9b52-{number:012}"),
            incarnation: 1,
            namespace: namespace.to_owned(),
            proxy: proxy.to_owned(),
            spec: Spec { port: 3128, placement: Placement::default() },
            user_data: Vec::new(),
            id: None,
            progress: None,
        }
    }

    /// Its instance's name.
    pub fn name(&self) -> InstanceName {
        self.installation.instance_name(&self.proxy, &self.uid, self.incarnation)
    }

    /// The mark that its instance must bear, its pairs sorted.
    pub fn mark(&self) -> Mark {
        let mut mark = self.installation.mark(&self.uid, self.incarnation, &self.namespace, &self.proxy);
        mark.sort();
        mark
    }

    /// For a call.
    pub fn target(&self) -> Target {
        Target {
            name: self.name(),
            uid: self.uid.clone(),
            incarnation: self.incarnation,
            namespace: self.namespace.clone(),
            proxy: self.proxy.clone(),
            id: self.id.clone(),
            progress: self.progress.clone(),
        }
    }

    /// After its instance is gone: the next incarnation, with nothing made yet.
    pub fn raise(&mut self) {
        self.incarnation += 1;
        self.id = None;
        self.progress = None;
    }
}

/// What the collector hands to delete for an item of a list: name, id and mark, and nothing else is known.
pub fn target_of(item: &Item) -> Option<Target> {
    let says = |name: &str| item.mark.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let uid = says(egress_contract::MARK_UID).unwrap_or_default();
    let incarnation = says(egress_contract::MARK_INCARNATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(Target {
        name: InstanceName::read_back(&item.name).ok()?,
        incarnation: if uid.is_empty() { 0 } else { incarnation },
        uid,
        namespace: says(egress_contract::MARK_NAMESPACE).unwrap_or_default(),
        proxy: says(egress_contract::MARK_PROXY).unwrap_or_default(),
        id: Some(item.id.clone()),
        progress: None,
    })
}
