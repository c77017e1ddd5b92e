//! The operator's own cluster is copied, emptied, or loses its kind, while the instances stand in another one: none of
//! them goes. Each time, what the collector sees looks like a fleet of orphans.

use std::{collections::BTreeMap, time::Duration};

use egress_operator::api::Proxy;
use k8s_openapi::{
    api::core::v1::{Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResourceExt, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::harness::{
    Control, Epo, Lab, Namespace, Site, Wanted, eventually, from, kubernetes_provider, prepare,
};

const INSTALLATION: &str = "egress-installation";
/// Many sweeps at the interval below: whoever would remove something wrongly is given the time for it.
const SWEEPS: Duration = Duration::from_secs(8);

/// Where the instances are: the lab, which has a node and is nobody's to lose.
struct Backend(Namespace);

impl Backend {
    async fn new() -> Self {
        Self(Lab::new().await.namespace("backend").await)
    }

    fn entry(&self, site: &Site) -> Value {
        let mut entry = site.kubernetes_entry();
        let config = entry["config"].as_object_mut().unwrap();
        config.remove("namespaces");
        config.insert("namespace".to_owned(), json!(self.0.name));
        entry["grants"]["kubernetes"]["clusters"]["home"] = json!({
            "kubeconfig": { "file": self.0.lab.kubeconfig },
            "rules": [{
                "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create", "patch", "delete"],
                "namespaces": [self.0.name],
            }],
        });
        entry["collect"] = json!({ "intervalSeconds": 1, "graceSeconds": 1 });
        entry
    }

    /// UIDs by name: one that was made anew is another one.
    async fn instances(&self) -> BTreeMap<String, String> {
        let pods = self.0.api::<Pod>().list(&ListParams::default()).await.expect("Pods");
        pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap())).collect()
    }
}

/// Loads the entry and starts the operator.
async fn run(site: &Site, backend: &Backend) -> Epo {
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&backend.entry(site)).await;
    site.start(&[]).await
}

/// The collector asks about so many, and does not go on without an answer.
async fn asks_about(site: &Site, many: usize, hint: &str) {
    site.health(&site.entry, "the collector asks", |status| {
        let asks = status.collector.asks.as_ref()?;
        (status.collector.ownerless.len() == many && asks.message.contains(hint)).then_some(())
    })
    .await;
    tokio::time::sleep(SWEEPS).await;
}

#[tokio::test]
async fn no_instance_goes_when_its_cluster_is_copied_or_emptied_or_its_kind_made_anew() {
    let backend = Backend::new().await;
    let own = Control::empty("own", 17043).await;
    let site = Site::alone(&own.lab, "lost", 1).await;
    let mut epo = run(&site, &backend).await;
    let create = async |names: &[&str]| {
        for name in names {
            site.create(0, name, Wanted::default()).await;
        }
        for name in names {
            site.ready(0, name).await;
        }
    };
    create(&["one", "two"]).await;
    let copied = copied(&own, &site, &backend, create).await;
    emptied(&site, &backend).await;
    assert_eq!(backend.instances().await, copied, "the cluster was emptied");
    epo.assert_running();
    made_anew(&site, &backend).await;
    epo.assert_running();
}

/// Two API servers with one state, each with its operator.
async fn copied(
    own: &Control,
    site: &Site,
    backend: &Backend,
    create: impl AsyncFn(&[&str]),
) -> BTreeMap<String, String> {
    let before = backend.instances().await;
    assert_eq!(before.len(), 2);
    let copy = Control::copy(own, "copy", 17143).await;
    assert_eq!(copy.lab.uid().await, own.lab.uid().await, "it takes itself for the same cluster");
    let there = site.on(&copy.lab).await;
    let mut epo = run(&there, backend).await;
    there.ready(0, "one").await;
    tokio::time::sleep(SWEEPS).await;
    assert_eq!(backend.instances().await, before, "what both know");
    // What one of them makes from now on has no Proxy in the other.
    create(&["three", "four"]).await;
    let after = backend.instances().await;
    asks_about(&there, 2, "have no Proxy").await;
    assert_eq!((after.len(), backend.instances().await), (4, after.clone()), "what one of them alone knows");
    epo.assert_running();
    after
}

/// A new cluster, to which the identity alone was restored.
async fn emptied(site: &Site, backend: &Backend) {
    let fresh = Control::empty("copy", 17143).await;
    let there = site.on(&fresh.lab).await;
    let minted = site.system.api::<Secret>().get(INSTALLATION).await.unwrap();
    let secrets: Api<Secret> = there.system.api();
    let restored = Secret { data: minted.data, ..from(json!({ "metadata": { "name": INSTALLATION } })) };
    secrets.create(&PostParams::default(), &restored).await.unwrap();
    there.put_module(&kubernetes_provider()).await;
    there.put_entry(&backend.entry(&there)).await;

    let epo = there.start_unready(&[]).await;
    let log = epo.log_path();
    assert!(!epo.ended().await.success(), "it does not start on another cluster's identity");
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("bind the identity to this one"), "{said}");

    let uid = fresh.lab.uid().await;
    let bound = Patch::Merge(json!({ "stringData": { "cluster": uid } }));
    secrets.patch(INSTALLATION, &PatchParams::default(), &bound).await.unwrap();
    let _epo = there.start(&[]).await;
    asks_about(&there, 4, "4 of them older than the CRD").await;
}

/// `kubectl delete crd`, and its repair: the operator holds every Proxy, until somebody takes the finalizers off.
async fn made_anew(site: &Site, backend: &Backend) {
    let before = backend.instances().await;
    let crds: Api<CustomResourceDefinition> = Api::all(site.lab.client.clone());
    crds.delete(Proxy::crd_name(), &DeleteParams::default()).await.unwrap();
    site.health(&site.entry, "it tells that the kind goes", |status| {
        let halted = status.collector.halted.as_ref()?;
        halted.contains("is being deleted").then_some(())
    })
    .await;
    tokio::time::sleep(SWEEPS).await;
    let held = site.proxies(0).list(&ListParams::default()).await.unwrap().items;
    assert_eq!((held.len(), backend.instances().await), (4, before.clone()), "the kind is on its way out");
    for proxy in held {
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let freed = site.proxies(0).patch(&proxy.name_any(), &PatchParams::default(), &free).await;
        assert!(
            freed.is_ok() || matches!(&freed, Err(kube::Error::Api(status)) if status.code == 404),
            "{freed:?}"
        );
    }
    eventually("the kind is gone", async || {
        let left = crds.get_opt(Proxy::crd_name()).await.map_err(|error| error.to_string())?;
        left.map_or(Ok(()), |crd| Err(format!("{:?}", crd.status)))
    })
    .await;
    prepare(&site.lab).await;
    let left =
        eventually("the kind is served anew", async || site.proxies(0).list(&ListParams::default()).await);
    assert!(left.await.items.is_empty());
    asks_about(site, 4, "4 of them older than the CRD").await;
    assert_eq!(backend.instances().await, before, "the kind was made anew");
}
