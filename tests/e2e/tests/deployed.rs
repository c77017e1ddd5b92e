//! The operator as people deploy it: its own image on the lab's node, two replicas of deploy/base, restricted, with
//! the rights of its roles and no more.

use std::{collections::BTreeSet, path::Path, time::Duration};

use egress_operator::api::{ProviderHealth, Proxy};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::harness::{IN_PODS, Lab, Site, Wanted, eventually, kubernetes_provider};

pub(crate) const NAME: &str = "egress-operator";
/// The certificate of an API server bears it, and no name of this machine.
const SERVER: &str = "kubernetes.default.svc";

/// A way for Pods to the API server, which listens for this machine alone: the lab has no network of services.
pub(crate) struct Way {
    port: u16,
    accepting: AbortHandle,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Way {
    pub(crate) async fn to(lab: &Lab) -> Self {
        let server = lab.config.cluster_url.authority().expect("an address").to_string();
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let accepting = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    let Ok(mut to) = TcpStream::connect(server).await else { return };
                    let _ = copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
        Self { port, accepting: accepting.abort_handle() }
    }
}

/// This machine's address in the Pods' network.
pub(crate) fn machine(lab: &Lab) -> String {
    let port = lab.config.cluster_url.port_u16().expect("a port");
    format!("10.244.{}.1", port / 100 % 250)
}

/// deploy/base's, for this site: two of them, and where the API server is found.
pub(crate) fn deployment(site: &Site, way: &Way) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/deployment.yaml");
    let text = std::fs::read_to_string(file).expect("deploy/base/deployment.yaml");
    let mut deployment: Value = serde_saphyr::from_str(&text).expect("YAML");
    deployment["metadata"]["namespace"] = json!(site.system.name);
    deployment["spec"]["replicas"] = json!(2);
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["hostAliases"] = json!([{ "ip": machine(&site.lab), "hostnames": [SERVER, IN_PODS] }]);
    let container = &mut pod["containers"][0];
    container["env"] = json!([
        { "name": "KUBERNETES_SERVICE_HOST", "value": SERVER },
        { "name": "KUBERNETES_SERVICE_PORT", "value": way.port.to_string() },
    ]);
    let arguments = container["args"].as_array_mut().expect("arguments");
    // Other tests' Proxies are in the same cluster.
    arguments.extend(site.teams.iter().map(|team| json!(format!("--watch-namespace={}", team.name))));
    deployment
}

/// The Pods that are not on their way out.
async fn replicas(site: &Site) -> Result<BTreeSet<String>, String> {
    let pods: Api<Pod> = site.system.api();
    let list = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    let live = list.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(live.map(ResourceExt::name_any).collect())
}

/// Until both replicas of the newest template are ready, and no other is there.
pub(crate) async fn both_ready(site: &Site) -> BTreeSet<String> {
    let api: Api<Deployment> = site.system.api();
    eventually("two replicas are ready", async || {
        let deployment = api.get(NAME).await.map_err(|error| error.to_string())?;
        let status = deployment.status.unwrap_or_default();
        let whole = status.observed_generation == deployment.metadata.generation
            && [status.replicas, status.updated_replicas, status.ready_replicas] == [Some(2); 3];
        let pods = replicas(site).await?;
        match whole && pods.len() == 2 {
            true => Ok(pods),
            false => Err(format!("{status:?}")),
        }
    })
    .await
}

/// The Pod that has the Lease.
pub(crate) async fn leader(site: &Site, among: &BTreeSet<String>) -> String {
    let leases: Api<Lease> = site.system.api();
    eventually("one of the replicas leads", async || {
        let lease = leases.get(NAME).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let found = among.iter().find(|pod| holder.starts_with(pod.as_str()));
        found.cloned().ok_or_else(|| format!("{holder} leads, of {among:?}"))
    })
    .await
}

#[tokio::test]
async fn two_replicas_of_the_image_serve_on_while_pods_go_and_versions_roll() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "deployed", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let way = Way::to(&lab).await;
    let deployments: Api<Deployment> = site.system.api();
    lab.apply::<Deployment>(&deployments, deployment(&site, &way)).await;

    let pods = both_ready(&site).await;
    let first = leader(&site, &pods).await;
    site.create(0, "before", Wanted::default()).await;
    let before = site.ready(0, "before").await;

    // A node's drain asks just so.
    let api: Api<Pod> = site.system.api();
    api.delete(&first, &DeleteParams::default()).await.expect("the leader's Pod");
    site.create(0, "between", Wanted::default()).await;
    site.ready(0, "between").await;
    let pods = both_ready(&site).await;
    assert!(!pods.contains(&first));
    let second = leader(&site, &pods).await;

    // And a node's failure so.
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    api.delete(&second, &at_once).await.expect("the leader's Pod");
    site.create(0, "after", Wanted::default()).await;
    site.ready(0, "after").await;

    let roll = json!({ "spec": { "template": { "metadata": { "annotations": { "rolled": "once" } } } } });
    let of_before = both_ready(&site).await;
    deployments.patch(NAME, &PatchParams::default(), &Patch::Merge(roll)).await.expect("a new template");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let rolled = both_ready(&site).await;
    assert!(rolled.is_disjoint(&of_before), "{rolled:?} {of_before:?}");

    let still = site.proxies(0).get("before").await.expect("the first Proxy");
    let id = |proxy: &Proxy| proxy.status.clone().and_then(|status| status.instance).expect("an instance").id;
    assert_eq!(id(&still), id(&before), "nobody's instance is replaced because the operator is");
    assert_eq!(site.pods().await.len(), 3);
    for name in ["before", "between", "after"] {
        site.delete(0, name).await;
    }
    assert_eq!(site.pods().await.len(), 0);
}

/// What `kubectl delete -k` of the Deployment, its account and its rights leaves: kinds, Proxies, the identity and instances.
async fn uninstall(site: &Site) {
    let deployments: Api<Deployment> = site.system.api();
    deployments.delete(NAME, &DeleteParams::foreground()).await.expect("the Deployment");
    eventually("no Pod of the operator is left", async || {
        let left = replicas(site).await?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let leases: Api<Lease> = site.system.api();
    let _ = leases.delete(NAME, &DeleteParams::default()).await;
}

#[tokio::test]
async fn an_operator_that_is_removed_leaves_its_instances_and_one_that_is_installed_again_goes_on_with_them()
{
    let lab = Lab::new().await;
    let site = Site::new(&lab, "again", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let way = Way::to(&lab).await;
    let deployments: Api<Deployment> = site.system.api();
    lab.apply::<Deployment>(&deployments, deployment(&site, &way)).await;
    both_ready(&site).await;
    for name in ["stays", "goes"] {
        site.create(0, name, Wanted::default()).await;
    }
    let before = site.ready(0, "stays").await;
    site.ready(0, "goes").await;
    let pods = |all: Vec<Pod>| -> BTreeSet<String> {
        let running = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        running.filter_map(|pod| pod.uid()).collect()
    };
    let made = pods(site.pods().await);
    assert_eq!(made.len(), 2);

    uninstall(&site).await;
    // What is asked for meanwhile waits for whoever comes.
    site.proxies(0).delete("goes", &DeleteParams::default()).await.expect("it is asked to go");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(pods(site.pods().await), made, "nobody touched them");
    assert!(site.proxies(0).get("goes").await.is_ok(), "its finalizer holds it");

    lab.apply::<Deployment>(&deployments, deployment(&site, &way)).await;
    both_ready(&site).await;
    eventually("what was asked to go is gone", async || {
        let left = site.proxies(0).get_opt("goes").await.map_err(|error| error.to_string())?;
        left.map_or(Ok(()), |proxy| Err(format!("{:?}", proxy.status)))
    })
    .await;
    let after = site.ready(0, "stays").await;
    let instance =
        |proxy: &Proxy| proxy.status.clone().and_then(|status| status.instance).expect("an instance");
    assert_eq!(instance(&after).id, instance(&before).id);
    assert_eq!(after.status.expect("a status").incarnation, before.status.expect("a status").incarnation);
    assert_eq!(site.pods().await.len(), 1);

    // All of it, in the order of docs/upgrading.md: Proxies, then entries, then the operator.
    site.delete(0, "stays").await;
    assert_eq!(site.pods().await.len(), 0);
    site.put_entries([]).await;
    let healths: Api<ProviderHealth> = Api::all(lab.client.clone());
    eventually("the entry's health is gone", async || {
        let left = healths.get_opt(&site.entry).await.map_err(|error| error.to_string())?;
        left.map_or(Ok(()), |health| Err(format!("{:?}", health.status)))
    })
    .await;
    uninstall(&site).await;
}
