//! The simulated clusters, behind the provider's back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use egress_runtime::capability::{DeleteOptions, Kubernetes, PatchKind};
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    clock::VirtualClock,
    kubernetes::{Cluster, Node, Right},
};
use serde_json::{Value, json};

use super::objects::{HOLD, PREFIX, api_resource, each_label, full_name, resource, split, thing, user_data};

/// Who does what an administrator does.
const ADMIN: &str = "admin";
/// What others keep in a namespace.
const SECRET: &str = "registry-password-of-somebody-else-0815";

/// A quota that leaves no room.
const QUOTA: &str = "conformance";
const NO_ROOM: [(&str, &str); 4] = [
    ("pods", "0"),
    ("count/deployments.apps", "0"),
    ("count/statefulsets.apps", "0"),
    ("count/virtualmachines.kubevirt.io", "0"),
];
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

/// See the module.
pub struct Simulated {
    clusters: Vec<(String, Cluster)>,
    clock: VirtualClock,
    namespaces: BTreeSet<String>,
    /// What was there before anybody made anything.
    furniture: BTreeSet<(String, String, String)>,
}

impl Simulated {
    /// Furnishes the clusters.
    pub fn new(clusters: Vec<(String, Cluster)>, clock: VirtualClock, namespaces: &BTreeSet<String>) -> Self {
        for (_, cluster) in &clusters {
            for namespace in namespaces {
                cluster.put(json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
                    "metadata": { "name": "registry", "namespace": namespace },
                    "data": { "password": STANDARD.encode(SECRET) },
                }));
            }
        }
        let mut backend =
            Self { clusters, clock, namespaces: namespaces.clone(), furniture: BTreeSet::new() };
        backend.furniture = backend.objects().map(|(place, object)| key(&place, &object)).collect();
        backend
    }

    /// Others that are now as these are.
    pub fn copy(&self) -> Self {
        let clock = VirtualClock::at(self.clock.elapsed());
        let copied =
            |(name, cluster): &(String, Cluster)| (name.clone(), cluster.copy(Arc::new(clock.clone())));
        Self {
            clusters: self.clusters.iter().map(copied).collect(),
            clock: clock.clone(),
            namespaces: self.namespaces.clone(),
            furniture: self.furniture.clone(),
        }
    }

    /// By their names.
    pub fn clusters(&self) -> &[(String, Cluster)] {
        &self.clusters
    }

    /// Their time.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// What must not come out.
    pub fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned()]
    }

    fn objects(&self) -> impl Iterator<Item = (String, Value)> {
        self.clusters
            .iter()
            .flat_map(|(name, cluster)| cluster.objects().into_iter().map(|object| (name.clone(), object)))
    }

    fn cluster(&self, name: &str) -> Result<&Cluster, Unable> {
        let found = self.clusters.iter().find(|(known, _)| known == name).map(|(_, cluster)| cluster);
        found.ok_or_else(|| Unable::Failed(format!("there is no cluster {name}")))
    }

    fn edit(&self, on: &Thing, change: impl FnOnce(&mut Value)) -> Result<(), Unable> {
        let (namespace, name) = split(&on.name);
        if self.cluster(&on.place)?.edit(&on.kind, namespace, name, change) {
            Ok(())
        } else {
            Err(Unable::Failed(format!("there is no {on}")))
        }
    }

    /// The API's own way, for what has consequences there.
    async fn patch(&self, on: &Thing, body: Value) -> Result<(), Unable> {
        let (namespace, name) = split(&on.name);
        let resource = api_resource(&on.kind);
        let cluster = self.cluster(&on.place)?.as_user(ADMIN);
        let patched = cluster.patch(&on.place, &resource, namespace, name, PatchKind::Merge, body);
        patched.await.map(drop).map_err(|failure| Unable::Failed(failure.message))
    }

    fn pods_only(&self, on: &Thing, what: &str) -> Result<(), Unable> {
        if on.kind == "pods" { Ok(()) } else { Err(Unable::NotHere(format!("{} can't be {what}", on.kind))) }
    }
}

fn key(place: &str, object: &Value) -> (String, String, String) {
    (place.to_owned(), resource(object), full_name(object))
}

#[async_trait]
impl Backend for Simulated {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        let made = self.objects().filter(|(place, object)| !self.furniture.contains(&key(place, object)));
        let mut things: Vec<Thing> = made.filter_map(|(place, object)| thing(&place, &object)).collect();
        things.sort();
        Ok(things)
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        let (namespace, name) = split(&on.name);
        match action {
            Action::Remove => {
                if self.cluster(&on.place)?.remove(&on.kind, namespace, name) {
                    Ok(())
                } else {
                    Err(Unable::Failed(format!("there is no {on}")))
                }
            }
            Action::HoldRemoval => {
                self.patch(on, json!({ "metadata": { "finalizers": [HOLD] } })).await?;
                let resource = api_resource(&on.kind);
                let cluster = self.cluster(&on.place)?.as_user(ADMIN);
                let options = DeleteOptions::default();
                let deleted = cluster.delete(&on.place, &resource, namespace, name, &options);
                deleted.await.map(drop).map_err(|failure| Unable::Failed(failure.message))
            }
            Action::LetGo => self.patch(on, json!({ "metadata": { "finalizers": null } })).await,
            Action::Finish => {
                self.pods_only(on, "ended for good")?;
                if self.cluster(&on.place)?.evict(namespace, name) {
                    Ok(())
                } else {
                    Err(Unable::Failed(format!("{on} runs on no node")))
                }
            }
            Action::TakeAddresses => {
                self.pods_only(on, "without an address")?;
                self.edit(on, |pod| {
                    if let Some(Value::Object(status)) = pod.get_mut("status") {
                        status.remove("podIP");
                        status.remove("podIPs");
                    }
                })
            }
            Action::Bewitch => {
                self.pods_only(on, "in an unknown phase")?;
                self.edit(on, |pod| {
                    if let Some(Value::Object(status)) = pod.get_mut("status") {
                        status.insert("phase".to_owned(), "Hibernating".into());
                    }
                })
            }
            Action::EditMark { from, to } => self.edit(on, |object| {
                each_label(object, |_, value| {
                    if let Value::String(text) = value {
                        *text = text.replace(from, to);
                    }
                    true
                });
            }),
            Action::Unmark => self.edit(on, |object| each_label(object, |key, _| !key.starts_with(PREFIX))),
            Action::Pause | Action::Resume => {
                Err(Unable::NotHere("nothing can be paused in Kubernetes".to_owned()))
            }
            Action::Stop => {
                Err(Unable::NotHere("nothing can be stopped in Kubernetes and started again".to_owned()))
            }
        }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        for (_, cluster) in &self.clusters {
            match condition {
                Condition::NeverStarts => cluster.set_nodes(Vec::new()),
                Condition::CursorsExpire => cluster.expire_continue_tokens(),
                Condition::Full => {
                    self.namespaces
                        .iter()
                        .for_each(|namespace| cluster.set_quota(namespace, QUOTA, &NO_ROOM));
                }
                Condition::RightsMissing => {
                    cluster.forbid(WRITES.iter().map(|verb| Right::to(verb, "")).collect());
                }
            }
        }
        Ok(())
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        for (_, cluster) in &self.clusters {
            match condition {
                Condition::NeverStarts => cluster.set_nodes(vec![Node::new("node")]),
                Condition::CursorsExpire => {}
                Condition::Full => self.namespaces.iter().for_each(|namespace| {
                    cluster.remove("resourcequotas", namespace, QUOTA);
                }),
                Condition::RightsMissing => cluster.forbid(Vec::new()),
            }
        }
        Ok(())
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        let given = |(place, object): (String, Value)| {
            (place == of.place).then(|| user_data(&object, &of.name)).flatten()
        };
        Ok(self.objects().find_map(given))
    }

    async fn let_time_pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}
