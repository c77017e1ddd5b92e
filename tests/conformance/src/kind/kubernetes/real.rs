//! Kubernetes for real: what an entry's grants lend, and an administrator's view of the same clusters.
//!
//! It leaves alone what was there before: only what bears this suite's installations is looked at and removed,
//! and only in the namespaces that it is given.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use egress_contract::Installation;
use egress_runtime::{
    Lent,
    capability::{Clock, DeleteOptions, Kubernetes, KubernetesFailure, ListOptions, PatchKind, SystemClock},
};
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    watched::{Watch, Watched},
};
use serde_json::{Map, Value, json};

use super::{
    ground::{self, failed, is_status},
    objects::{self, HOLD, PREFIX, api_resource, each_label, split, text, user_data},
    resource_of,
};
use crate::{
    halt::{Go, Halt},
    kind::{Kind, World},
    proxy::{OURS, THEIRS},
};

/// What a provider may make, and this suite looks at.
const KINDS: [(&str, &str, &str); 8] = [
    ("v1", "pods", "Pod"),
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "services", "Service"),
    ("v1", "serviceaccounts", "ServiceAccount"),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "statefulsets", "StatefulSet"),
];
const QUOTA: &str = "egress-conformance";
/// A wait that is for the backend's sake is no longer than this: it works on its own meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(200);
/// What moves by itself comes to rest within this, or is not waited for again.
const COMES_TO_REST: Duration = Duration::from_secs(30);
/// What comes about at all comes about within this.
const PATIENCE: Duration = Duration::from_secs(90);

/// A provider's way to some clusters, and an administrator's.
pub struct RealKubernetes {
    lent: Arc<dyn Kubernetes>,
    admin: Arc<dyn Kubernetes>,
    clusters: Vec<String>,
    namespaces: [String; 2],
    cordons: bool,
}

impl RealKubernetes {
    /// `lent` is what the entry's grants lend; `admin` may do everything in `namespaces`, where the Proxies live, of
    /// the same clusters. The namespaces exist, and nobody else works in them.
    pub fn new(
        lent: Arc<dyn Kubernetes>,
        admin: Arc<dyn Kubernetes>,
        clusters: Vec<String>,
        namespaces: [String; 2],
    ) -> Self {
        Self { lent, admin, clusters, namespaces, cordons: false }
    }

    /// May also take all nodes out of service for a while: for clusters that are there for the test alone.
    #[must_use]
    pub fn that_cordons(self) -> Self {
        Self { cordons: true, ..self }
    }

    fn backend(&self) -> Real {
        Real {
            admin: Arc::clone(&self.admin),
            clusters: self.clusters.clone(),
            namespaces: self.namespaces.iter().cloned().collect(),
            cordons: self.cordons,
            furniture: BTreeSet::new(),
            restless: Mutex::default(),
        }
    }
}

#[async_trait]
impl Kind for RealKubernetes {
    fn name(&self) -> String {
        "kubernetes, for real".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        interface == "egress:provider/kubernetes"
    }

    fn is_simulated(&self) -> bool {
        false
    }

    async fn prepare(&self) -> Result<(), Unable> {
        let mut backend = self.backend();
        for cluster in &self.clusters {
            for namespace in &self.namespaces {
                ground::is_there(&*self.admin, cluster, namespace).await?;
                let kinds = KINDS.iter().map(|(api_version, plural, _)| (*api_version, *plural));
                ground::is_ours_to_change(&*self.admin, cluster, namespace, kinds).await?;
            }
        }
        backend.clear().await?;
        backend.furniture.clear();
        ground::is_free(&backend.inventory().await?)?;
        for (cluster, namespace) in backend.everywhere() {
            ground::furnish(&*self.admin, cluster, namespace).await?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<(), Unable> {
        let mut backend = self.backend();
        backend.clear().await?;
        for (cluster, namespace) in backend.everywhere() {
            ground::unfurnish(&*self.admin, cluster, namespace).await?;
        }
        Ok(())
    }

    async fn world(&self, _seed: u64) -> Go<World> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let mut backend = self.backend();
        backend.clear().await.map_err(|unable| Halt::Failed(unable.to_string()))?;
        let (api, time) = (Arc::clone(&self.lent), Arc::clone(&clock));
        let lend = move |watch: &Watch, _: &Installation| Lent {
            kubernetes: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&api)))),
            clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&time)))),
            ..Lent::default()
        };
        Ok(World {
            backend: Arc::new(backend),
            clock,
            lend: Arc::new(lend),
            namespaces: self.namespaces.clone(),
            secrets: vec![ground::SECRET.to_owned()],
            fork: None,
            longest_rest: LONGEST_WAIT,
        })
    }
}

struct Real {
    admin: Arc<dyn Kubernetes>,
    clusters: Vec<String>,
    namespaces: BTreeSet<String>,
    cordons: bool,
    /// What was there before anybody made anything.
    furniture: BTreeSet<(String, String, String)>,
    /// UIDs of Pods that never came to rest: nobody waits for them any more.
    restless: Mutex<BTreeSet<String>>,
}

fn is_gone(failure: &KubernetesFailure) -> bool {
    is_status(failure, 404)
}

impl Real {
    /// Removes what an earlier run left, and takes note of the rest.
    async fn clear(&mut self) -> Result<(), Unable> {
        self.lift(Condition::Full).await?;
        self.lift(Condition::NeverStarts).await?;
        let hashes = [OURS, THEIRS].map(|installation| Installation::new(installation).hash().to_owned());
        let ours = |thing: &Thing| {
            let marked =
                thing.mark.iter().any(|(key, value)| key == "installation" && hashes.contains(value));
            marked || hashes.iter().any(|hash| thing.name.contains(&format!("-{hash}-")))
        };
        for thing in self.inventory().await?.iter().filter(|thing| ours(thing)) {
            self.remove(thing).await?;
        }
        let rest = self.inventory().await?;
        self.furniture = rest.into_iter().map(|thing| (thing.place, thing.kind, thing.name)).collect();
        Ok(())
    }

    fn everywhere(&self) -> impl Iterator<Item = (&String, &String)> {
        self.clusters
            .iter()
            .flat_map(|cluster| self.namespaces.iter().map(move |namespace| (cluster, namespace)))
    }

    async fn objects(&self) -> Result<Vec<(String, Value)>, Unable> {
        let mut found = Vec::new();
        for cluster in &self.clusters {
            for namespace in &self.namespaces {
                for (api_version, plural, kind) in KINDS {
                    let resource = resource_of(api_version, plural);
                    let all = ListOptions::default();
                    let mut page = match self.admin.list(cluster, &resource, namespace, &all).await {
                        Ok(page) => page,
                        // Not every cluster serves every kind.
                        Err(failure) if is_gone(&failure) => continue,
                        Err(failure) => return Err(failed(failure)),
                    };
                    let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else { continue };
                    for mut item in items {
                        // Items of a list do not say what they are.
                        if let Some(object) = item.as_object_mut() {
                            object.insert("apiVersion".to_owned(), api_version.into());
                            object.insert("kind".to_owned(), kind.into());
                        }
                        found.push((cluster.clone(), item));
                    }
                }
            }
        }
        Ok(found)
    }

    async fn get(&self, on: &Thing) -> Result<Value, KubernetesFailure> {
        let (namespace, name) = split(&on.name);
        self.admin.get(&on.place, &api_resource(&on.kind), namespace, name).await
    }

    async fn patch(&self, on: &Thing, body: Value) -> Result<(), Unable> {
        let (namespace, name) = split(&on.name);
        let resource = api_resource(&on.kind);
        let patched = self.admin.patch(&on.place, &resource, namespace, name, PatchKind::Merge, body);
        match patched.await {
            Ok(_) => Ok(()),
            Err(failure) if is_gone(&failure) => Ok(()),
            Err(failure) => Err(failed(failure)),
        }
    }

    async fn delete(&self, on: &Thing, options: DeleteOptions) -> Result<(), Unable> {
        let (namespace, name) = split(&on.name);
        match self.admin.delete(&on.place, &api_resource(&on.kind), namespace, name, &options).await {
            Ok(_) => Ok(()),
            Err(failure) if is_gone(&failure) => Ok(()),
            Err(failure) => Err(failed(failure)),
        }
    }

    async fn remove(&self, on: &Thing) -> Result<(), Unable> {
        self.patch(on, json!({ "metadata": { "finalizers": null } })).await?;
        self.delete(on, DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() }).await?;
        self.until(on, "to be gone", |found| found.is_none()).await
    }

    /// Pods that will change by themselves.
    async fn moving(&self) -> Result<BTreeSet<String>, KubernetesFailure> {
        let mut moving = BTreeSet::new();
        for cluster in &self.clusters {
            for namespace in &self.namespaces {
                let pods = api_resource("pods");
                let page = self.admin.list(cluster, &pods, namespace, &ListOptions::default()).await?;
                let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
                let uids = items.filter(|pod| ground::moves(pod, HOLD)).map(|pod| text(pod, "/metadata/uid"));
                moving.extend(uids.map(str::to_owned));
            }
        }
        let restless = self.restless.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(&moving - &*restless)
    }

    /// Until nothing moves by itself: so each run asks what the healthy one asked, however fast the cluster is.
    async fn rest(&self) {
        let began = tokio::time::Instant::now();
        loop {
            match self.moving().await {
                Ok(moving) if moving.is_empty() => return,
                Ok(moving) if began.elapsed() > COMES_TO_REST => {
                    self.restless.lock().unwrap_or_else(PoisonError::into_inner).extend(moving);
                    return;
                }
                Err(_) if began.elapsed() > COMES_TO_REST => return,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until the object is so; none where there is none.
    async fn until(
        &self,
        on: &Thing,
        what: &str,
        is_so: impl Fn(Option<&Value>) -> bool + Send,
    ) -> Result<(), Unable> {
        let began = tokio::time::Instant::now();
        loop {
            let now = match self.get(on).await {
                Ok(object) => Some(object),
                Err(failure) if is_gone(&failure) => None,
                Err(failure) => return Err(failed(failure)),
            };
            if is_so(now.as_ref()) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(Unable::Failed(format!(
                    "waited {} s in vain for {on} {what}",
                    PATIENCE.as_secs()
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Labels and annotations as they are to be; what is not there any more is null.
    async fn relabel(&self, on: &Thing, change: impl Fn(&mut Value) + Send) -> Result<(), Unable> {
        let before = self.get(on).await.map_err(failed)?;
        let mut after = before.clone();
        change(&mut after);
        let mut metadata = Map::new();
        for part in ["labels", "annotations"] {
            let pointer = format!("/metadata/{part}");
            let of = |object: &Value| {
                object.pointer(&pointer).and_then(Value::as_object).cloned().unwrap_or_default()
            };
            let mut pairs: Map<String, Value> =
                of(&before).into_iter().map(|(key, _)| (key, Value::Null)).collect();
            pairs.extend(of(&after));
            metadata.insert(part.to_owned(), Value::Object(pairs));
        }
        self.patch(on, json!({ "metadata": metadata })).await
    }

    async fn cordon(&self, cordoned: bool) -> Result<(), Unable> {
        if !self.cordons {
            let why = "nothing keeps a Pod of a real cluster from starting, short of taking its nodes away";
            return if cordoned { Err(Unable::NotHere(why.to_owned())) } else { Ok(()) };
        }
        let nodes = api_resource("nodes");
        for cluster in &self.clusters {
            let all = self.admin.list(cluster, &nodes, "", &ListOptions::default()).await.map_err(failed)?;
            for node in all.get("items").and_then(Value::as_array).into_iter().flatten() {
                let (name, body) =
                    (text(node, "/metadata/name"), json!({ "spec": { "unschedulable": cordoned } }));
                let patched = self.admin.patch(cluster, &nodes, "", name, PatchKind::Merge, body);
                patched.await.map_err(failed)?;
            }
        }
        Ok(())
    }

    fn quota(&self) -> impl Iterator<Item = (&String, &String, Thing)> {
        self.everywhere().map(|(cluster, namespace)| {
            (cluster, namespace, ground::named("resourcequotas", cluster, namespace, QUOTA))
        })
    }
}

#[async_trait]
impl Backend for Real {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        let objects = self.objects().await?;
        let things = objects.iter().filter_map(|(place, object)| objects::thing(place, object));
        let key = |thing: &Thing| (thing.place.clone(), thing.kind.clone(), thing.name.clone());
        let mut things: Vec<Thing> = things.filter(|thing| !self.furniture.contains(&key(thing))).collect();
        things.sort();
        Ok(things)
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        match action {
            Action::Remove => self.remove(on).await,
            Action::HoldRemoval => {
                self.patch(on, json!({ "metadata": { "finalizers": [HOLD] } })).await?;
                self.delete(on, DeleteOptions::default()).await
            }
            Action::LetGo => {
                self.patch(on, json!({ "metadata": { "finalizers": null } })).await?;
                self.until(on, "to go", |found| found.is_none()).await
            }
            Action::Finish if on.kind == "pods" => {
                // The one way to end a Pod for good that leaves it there.
                self.patch(on, json!({ "spec": { "activeDeadlineSeconds": 1 } })).await?;
                let ended =
                    |found: Option<&Value>| found.is_some_and(|pod| text(pod, "/status/phase") == "Failed");
                self.until(on, "to end", ended).await
            }
            Action::EditMark { from, to } => {
                let edit = |value: &mut Value| {
                    if let Value::String(text) = value {
                        *text = text.replace(from, to);
                    }
                    true
                };
                self.relabel(on, |object| each_label(object, |_, value| edit(value))).await
            }
            Action::Unmark => {
                self.relabel(on, |object| each_label(object, |key, _| !key.starts_with(PREFIX))).await
            }
            Action::Finish
            | Action::TakeAddresses
            | Action::Bewitch
            | Action::Pause
            | Action::Resume
            | Action::Stop => {
                Err(Unable::NotHere(format!("a real cluster does not let anybody: {action:?}")))
            }
        }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.cordon(true).await,
            Condition::Full => {
                for (cluster, namespace, quota) in self.quota() {
                    let body = json!({
                        "apiVersion": "v1", "kind": "ResourceQuota",
                        "metadata": { "name": QUOTA, "namespace": namespace },
                        "spec": { "hard": { "pods": "0", "count/deployments.apps": "0" } },
                    });
                    let resource = api_resource(&quota.kind);
                    match self.admin.create(cluster, &resource, namespace, body).await {
                        Ok(_) => {}
                        Err(failure) if is_status(&failure, 403) => {
                            return Err(Unable::NotHere(failure.message));
                        }
                        Err(failure) => return Err(failed(failure)),
                    }
                    let counted = |found: Option<&Value>| {
                        found.is_some_and(|quota| quota.pointer("/status/hard").is_some())
                    };
                    self.until(&quota, "to be in force", counted).await?;
                }
                Ok(())
            }
            Condition::RightsMissing => {
                Err(Unable::NotHere("the rights of a real identity are its administrator's".to_owned()))
            }
            Condition::CursorsExpire => {
                Err(Unable::NotHere("a real API server forgets a list after minutes only".to_owned()))
            }
        }
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.cordon(false).await,
            Condition::Full => {
                for (_, _, quota) in self.quota() {
                    match self.get(&quota).await {
                        Ok(_) => {}
                        // Who may not look can't have made it.
                        Err(failure) if is_gone(&failure) || is_status(&failure, 403) => continue,
                        Err(failure) => return Err(failed(failure)),
                    }
                    self.delete(&quota, DeleteOptions::default()).await?;
                    self.until(&quota, "to be gone", |found| found.is_none()).await?;
                }
                Ok(())
            }
            Condition::RightsMissing | Condition::CursorsExpire => Ok(()),
        }
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        let objects = self.objects().await?;
        let here = objects.iter().filter(|(place, _)| *place == of.place);
        Ok(here.filter_map(|(_, object)| user_data(object, &of.name)).next())
    }

    async fn let_time_pass(&self, time: Duration) {
        tokio::time::sleep(time.min(LONGEST_WAIT)).await;
        self.rest().await;
    }
}
