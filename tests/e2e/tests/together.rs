//! Everything at once: the operator's own image in two replicas, all five providers out of ConfigMaps, each with Proxies
//! that are probed; all providers swapped while Proxies come and go; then a leader killed, the API server started anew,
//! etcd frozen, a hypervisor frozen. Afterwards there is what the specs say, and nothing else.

use std::{collections::BTreeMap, path::PathBuf, process::Command, sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    deployed::{Way, both_ready, deployment, leader, machine},
    endpoints::{Backend, COMPUTE_NETWORK, Local, PVE_NETWORK, compute_engine, listener, proxmox},
    harness::{
        Budget, Hypervisor, IN_PODS, ImageServer, Lab, Site, Witness, another_build, eventually,
        eventually_within, from, gcp_provider, is_ready, kubernetes_provider, kvm_provider, kvm2_provider,
        proxmox_provider,
    },
    hypervisors::{entry, lend_key},
};

/// Of each provider.
const PROXIES: Budget = Budget { usual: 2, soak: 6 };
const KILLS: Budget = Budget { usual: 1, soak: 10 };
const ETCD_STANDS: Duration = Duration::from_secs(60);
const HOST_STANDS: Duration = Duration::from_secs(30);
/// Emulated guests on a busy machine.
const LONG: Duration = Duration::from_secs(900);

/// One of the five, with its Proxies.
struct Provided {
    name: &'static str,
    component: Vec<u8>,
    /// What each Proxy asks for beside its provider.
    spec: Value,
}

struct Town {
    site: Site,
    provided: Vec<Provided>,
    witness: Arc<Witness>,
}

impl Town {
    fn entry(&self, name: &str) -> String {
        format!("{}-{name}", self.site.entry)
    }

    async fn create(&self, of: &Provided, name: &str) {
        let mut spec = of.spec.clone();
        spec["provider"] = json!(self.entry(of.name));
        let proxy = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy",
                            "metadata": { "name": name }, "spec": spec });
        let made = self.site.proxies(0).create(&PostParams::default(), &from(proxy)).await;
        made.unwrap_or_else(|error| panic!("Proxy {name}: {error}"));
    }

    /// Until all Proxies are ready and probes pass; their instances by name.
    async fn settled(&self, count: usize) -> BTreeMap<String, String> {
        let proxies = self.site.proxies(0);
        eventually_within(LONG, "all Proxies are ready and healthy", async || {
            let all = proxies.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let healthy = |proxy: &egress_operator::api::Proxy| {
                let conditions = proxy.status.iter().flat_map(|status| &status.conditions);
                is_ready(proxy) && conditions.clone().any(|it| it.type_ == "Healthy" && it.status == "True")
            };
            let waiting: Vec<String> = all
                .iter()
                .filter(|proxy| !healthy(proxy))
                .map(|proxy| format!("{}: {}", proxy.name_any(), json!(proxy.status)))
                .collect();
            if !waiting.is_empty() || all.len() != count {
                return Err(format!("{} of {count}: {waiting:?}", all.len()));
            }
            let instance = |proxy: &egress_operator::api::Proxy| {
                let status = proxy.status.clone().unwrap_or_default();
                status.instance.map(|instance| instance.name).unwrap_or_default()
            };
            Ok(all.iter().map(|proxy| (proxy.name_any(), instance(proxy))).collect())
        })
        .await
    }

    /// Until this build is what calls of the entry go to.
    async fn active(&self, of: &Provided, component: &[u8]) {
        let digest =
            egress_runtime::Module::unpack(component, u64::MAX).expect("a component").digest().to_string();
        let entry = self.entry(of.name);
        self.site
            .health(&entry, "the build is active", |status| {
                status.active.as_ref().is_some_and(|active| active.digest == digest).then_some(())
            })
            .await;
    }

    async fn put(&self, of: &Provided, component: &[u8]) {
        self.site.put_module_as(of.name, &zstd::encode_all(component, 9).expect("compression")).await;
    }

    /// Another build of every provider, one after the other, while Proxies come and go.
    async fn swapped(&self) {
        let rolling = async {
            for of in &self.provided {
                let next = another_build(&of.component, "rolled");
                self.put(of, &next).await;
                self.active(of, &next).await;
            }
        };
        let passing = async {
            for of in self.provided.iter().filter(|of| !of.name.starts_with("kvm")) {
                let name = format!("passing-{}", of.name);
                self.create(of, &name).await;
                self.site.ready(0, &name).await;
                self.site.delete(0, &name).await;
            }
        };
        tokio::join!(rolling, passing);
    }

    /// The Pod that leads is gone at once, as with its node.
    async fn leader_killed(&self) {
        let pods = both_ready(&self.site).await;
        let first = leader(&self.site, &pods).await;
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let api: Api<Pod> = self.site.system.api();
        api.delete(&first, &at_once).await.expect("the leader's Pod");
        let left = both_ready(&self.site).await;
        assert_ne!(leader(&self.site, &left).await, first);
    }

    fn lab_folder(&self) -> PathBuf {
        self.site.lab.kubeconfig.parent().expect("a folder").to_path_buf()
    }

    fn api_server_restarted(&self) {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../labs/k8s/restart.sh");
        let folder = self.lab_folder();
        let name =
            folder.file_name().and_then(|name| name.to_str()?.strip_prefix("k8s-")).expect("a cluster");
        let ended = Command::new(script).args([name, "apiserver"]).status().expect("the lab's script");
        assert!(ended.success());
    }

    async fn etcd_stood(&self) {
        let file = std::fs::read_to_string(self.lab_folder().join("pids/etcd")).expect("etcd's pid");
        let pid = file.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        let pid = pid.expect("a pid");
        kill_process(pid, Signal::STOP).expect("etcd");
        tokio::time::sleep(ETCD_STANDS).await;
        kill_process(pid, Signal::CONT).expect("etcd");
    }
}

/// Its daemon stands, and Proxies are asked for meanwhile.
async fn host_stood(town: &Town, hypervisor: &Hypervisor) {
    hypervisor.within("pkill -STOP libvirtd");
    let of = town.provided.iter().find(|of| of.name == "kvm").expect("kvm");
    town.create(of, "meanwhile").await;
    tokio::time::sleep(HOST_STANDS).await;
    hypervisor.within("pkill -CONT libvirtd");
    let proxies = town.site.proxies(0);
    eventually_within(LONG, "what was asked for meanwhile is ready", async || {
        let proxy = proxies.get("meanwhile").await.map_err(|error| error.to_string())?;
        if is_ready(&proxy) { Ok(()) } else { Err(json!(proxy.status).to_string()) }
    })
    .await;
    town.site.delete(0, "meanwhile").await;
}

/// All five, as entries of one ConfigMap and modules in ConfigMaps of their own.
async fn town(lab: &Lab, hypervisor: &Hypervisor, backends: [&Backend; 2], image: &ImageServer) -> Town {
    let site = Site::new(lab, "all", 1).await;
    lend_key(&site, hypervisor).await;
    for backend in backends {
        backend.open(&site).await;
    }
    let port = listener().await;
    let here = machine(lab);
    let images =
        json!({ "tiny": { "url": format!("http://{here}:{}/tiny.qcow2", image.port), "firmware": "bios" } });
    let tiny = json!({ "placement": { "zone": "hv1", "machineType": "small", "image": "tiny" } });
    let mut kubernetes = site.kubernetes_entry();
    kubernetes["health"] = json!({ "periodSeconds": 2, "timeoutSeconds": 2 });
    let [pve, compute] = backends;
    let of = |name, component, spec, entry| (Provided { name, component, spec }, entry);
    let all: Vec<(Provided, Value)> = vec![
        of("kubernetes", kubernetes_provider(), json!({}), kubernetes),
        of("proxmox", proxmox_provider(), json!({ "port": port }), pve.entry.clone()),
        of("gcp", gcp_provider(), json!({ "port": port }), compute.entry.clone()),
        of("kvm", kvm_provider(), tiny.clone(), entry("kvm", hypervisor, images.clone(), &here)),
        of("kvm2", kvm2_provider(), tiny, entry("kvm2", hypervisor, images, &here)),
    ];
    let (provided, entries): (Vec<Provided>, Vec<Value>) = all.into_iter().unzip();
    let witness = Arc::new(Witness::default());
    let town = Town { site, provided, witness };
    let named: Vec<(String, Value)> = town
        .provided
        .iter()
        .zip(entries)
        .map(|(of, mut entry)| {
            entry["module"] = json!({ "configMap": { "name": of.name } });
            (town.entry(of.name), entry)
        })
        .collect();
    for of in &town.provided {
        town.put(of, &of.component).await;
    }
    town.site.put_entries(named.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    town
}

#[tokio::test]
async fn all_five_providers_serve_on_through_swaps_and_outages_and_leave_nothing() {
    let _routes = (Local::route(PVE_NETWORK), Local::route(COMPUTE_NETWORK));
    let (lab, hypervisor) = (Lab::new().await, Hypervisor::new());
    let image = ImageServer::of("HYPERVISOR_TINY").await;
    let (pve, compute) = (proxmox(IN_PODS).await, compute_engine(IN_PODS).await);
    let town = town(&lab, &hypervisor, [&pve, &compute], &image).await;
    let before = hypervisor.things();
    let way = Way::to(&lab).await;
    lab.apply::<Deployment>(&town.site.system.api(), deployment(&town.site, &way)).await;
    both_ready(&town.site).await;
    town.witness.watch(&town.site);

    let each = PROXIES.get();
    for of in &town.provided {
        for index in 0..each {
            town.create(of, &format!("{}-{index}", of.name)).await;
        }
    }
    let count = each * town.provided.len();
    let instances = town.settled(count).await;
    println!("{count} Proxies of five providers are ready and healthy");
    town.swapped().await;
    assert_eq!(town.settled(count).await, instances, "a swap replaces nobody's instance");
    assert_eq!(town.witness.failures(), Vec::<String>::new(), "no operation fails for a swap's sake");
    println!("all five are swapped");

    for _ in 0..KILLS.get() {
        town.leader_killed().await;
    }
    println!("leaders were killed");
    town.api_server_restarted();
    town.settled(count).await;
    println!("the API server was started anew");
    town.etcd_stood().await;
    town.settled(count).await;
    println!("etcd stood for {ETCD_STANDS:?}");
    host_stood(&town, &hypervisor).await;
    println!("the hypervisor stood for {HOST_STANDS:?}");

    assert_eq!(town.settled(count).await, instances, "no outage replaces anybody's instance");
    assert_eq!(town.witness.twice(), []);
    assert_eq!((town.site.pods().await.len(), (pve.machines)(), (compute.machines)()), (each, each, each));
    let domains = hypervisor.things().iter().filter(|thing| thing.starts_with("domain ")).count();
    assert_eq!(domains, 2 * each);

    join_all(instances.keys().map(|name| town.site.delete(0, name))).await;
    assert_eq!((town.site.pods().await.len(), (pve.machines)(), (compute.machines)()), (0, 0, 0));
    let left: Vec<String> = hypervisor.things().difference(&before).cloned().collect();
    assert!(left.iter().all(|thing| thing.starts_with("volume proxy-base-")), "{left:?}");
    let deployments: Api<Deployment> = town.site.system.api();
    deployments.delete(crate::deployed::NAME, &DeleteParams::foreground()).await.expect("the Deployment");
    eventually("the operator is gone", async || {
        let pods: Api<Pod> = town.site.system.api();
        let left = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(left.to_string()) }
    })
    .await;
}
