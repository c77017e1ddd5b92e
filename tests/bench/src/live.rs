//! The operator itself, as a process beside a real API server: how long an update takes, and how much memory
//! it needs.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use egress_operator::api::{ProviderHealth, Proxy, crds};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Failure, fleet, report::Report, served::Served, waiting::resident_of};

pub(crate) const NAMESPACE: &str = "egress-bench";
pub(crate) const ENTRY: &str = "bench";
const SWAPS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(180);

/// Where.
pub(crate) struct Options {
    pub(crate) epo: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// How long nothing is to be written.
    pub(crate) quiet: Duration,
    /// How many there are to be.
    pub(crate) proxies: usize,
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new("the live part", error.to_string())
}

/// Measures, and removes what it made.
pub(crate) async fn measure(report: &mut Report, options: &Options, component: &[u8]) -> Result<(), Failure> {
    let client = client(options).await?;
    let folder = tempfile::tempdir().map_err(failed)?;
    let backend = Served::start().await.map_err(failed)?;
    let kubeconfig = folder.path().join("simulated.conf");
    std::fs::write(&kubeconfig, backend.kubeconfig().to_string()).map_err(failed)?;
    let modules = [component.to_vec(), another_build(component)];
    let live = Live { client, modules, folder, kubeconfig, backend };
    live.prepare().await?;
    let measured = live.run(report, options).await;
    let removed = live.remove().await;
    measured.and(removed)
}

async fn client(options: &Options) -> Result<Client, Failure> {
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig).map_err(failed)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)?;
    config.default_retry = false;
    Client::try_from(config).map_err(failed)
}

/// The same component with another digest: a custom section more.
fn another_build(component: &[u8]) -> Vec<u8> {
    // Section 0, five bytes: a name of four and no content.
    [component, b"\x00\x05\x04more"].concat()
}

struct Live {
    client: Client,
    modules: [Vec<u8>; 2],
    folder: TempDir,
    /// Of the simulated backend.
    kubeconfig: PathBuf,
    backend: Served,
}

/// Asks it to end, so that the next one need not wait for its Lease to run out.
pub(crate) async fn end(epo: &mut Child) -> Result<(), Failure> {
    let pid = epo.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    kill_process(pid.ok_or_else(|| failed("epo has ended"))?, Signal::TERM).map_err(failed)?;
    epo.wait().await.map(drop).map_err(failed)
}

/// The operator. Its metrics are served at the address.
pub(crate) fn start(options: &Options, cache: &Path, address: &str) -> Result<Child, Failure> {
    Command::new(&options.epo)
        .args(["run", "--namespace", NAMESPACE, "--metrics-address", address, "--kubeconfig"])
        .arg(&options.kubeconfig)
        .arg("--cache-dir")
        .arg(cache)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)
}

impl Live {
    async fn prepare(&self) -> Result<(), Failure> {
        let apply = PatchParams::apply("bench").force();
        for crd in crds() {
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            let name = crd.metadata.name.clone().unwrap_or_default();
            api.patch(&name, &apply, &Patch::Apply(&crd)).await.map_err(failed)?;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        Api::<Namespace>::all(self.client.clone())
            .patch(NAMESPACE, &apply, &Patch::Apply(&namespace))
            .await
            .map_err(failed)?;
        self.load(0).await?;
        let entry = json!({
            "module": {"configMap": {"name": "bench-module"}},
            "config": {"cluster": "home", "namespace": NAMESPACE, "image": "docker.io/lab/squid:1"},
            "grants": {"kubernetes": {"clusters": {"home": {"kubeconfig": {"file": self.kubeconfig}, "rules": [{
                "resources": ["pods", "configmaps", "resourcequotas"],
                "verbs": ["get", "list", "create", "patch", "delete"],
                "namespaces": [NAMESPACE],
            }]}}}},
        });
        let entries = ConfigMap {
            metadata: ObjectMeta { name: Some("egress-providers".into()), ..ObjectMeta::default() },
            data: Some([(ENTRY.to_owned(), entry.to_string())].into()),
            ..ConfigMap::default()
        };
        self.config_maps().create(&PostParams::default(), &entries).await.map_err(failed)?;
        Ok(())
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Puts a build into the module's ConfigMap; answers when that was begun.
    async fn load(&self, build: usize) -> Result<Instant, Failure> {
        let bytes = self.modules.get(build).cloned().unwrap_or_default();
        let module = ConfigMap {
            metadata: ObjectMeta { name: Some("bench-module".into()), ..ObjectMeta::default() },
            binary_data: Some([("provider.wasm".to_owned(), ByteString(bytes))].into()),
            ..ConfigMap::default()
        };
        let start = Instant::now();
        let api = self.config_maps();
        let exists = api.get_opt("bench-module").await.map_err(failed)?.is_some();
        let start = if exists { Instant::now() } else { start };
        let done = if exists {
            api.replace("bench-module", &PostParams::default(), &module).await
        } else {
            api.create(&PostParams::default(), &module).await
        };
        done.map(|_| start).map_err(failed)
    }

    async fn run(&self, report: &mut Report, options: &Options) -> Result<(), Failure> {
        let mut epo = start(options, &self.folder.path().join("cache"), "off")?;
        let measured = self.with(report, &mut epo).await;
        end(&mut epo).await?;
        measured?;
        let cache = self.folder.path().join("cache");
        fleet::measure(report, options, &self.client, &cache, &self.backend).await
    }

    async fn with(&self, report: &mut Report, epo: &mut Child) -> Result<(), Failure> {
        self.active(0).await?;
        // Both builds are in the compile cache from here on: what is measured is the way, not the compile.
        self.load(1).await?;
        self.active(1).await?;
        let pid = epo.id().ok_or_else(|| failed("epo has ended"))?.to_string();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let idle = resident_of(&pid)?;
        report.figure("the operator's memory: idle, one entry", "MiB", mib(idle), Some(40.0));

        let mut readings = Vec::new();
        for swap in 0..SWAPS {
            let build = swap % 2;
            let start = self.load(build).await?;
            readings.push((self.active(build).await? - start).as_secs_f64() * 1e3);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let update = report.samples("ConfigMap update to active, compile cached", "ms", readings);
        report.figure("ConfigMap update to active, against its aim", "ms", update, Some(300.0));
        Ok(())
    }

    /// Waits until a build is what calls go to; answers when it was seen.
    async fn active(&self, build: usize) -> Result<Instant, Failure> {
        let bytes = self.modules.get(build).map(Vec::as_slice).unwrap_or_default();
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
        let api: Api<ProviderHealth> = Api::all(self.client.clone());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let health = api.get_opt(ENTRY).await.map_err(failed)?;
            let active = health.and_then(|health| health.status).and_then(|status| status.active);
            if active.is_some_and(|active| active.digest == digest) {
                return Ok(Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err(failed("a build did not become active"))
    }

    /// The namespace goes with all that is in it; finalizers first, since epo has ended.
    async fn remove(&self) -> Result<(), Failure> {
        let api: Api<Proxy> = Api::namespaced(self.client.clone(), NAMESPACE);
        let free = json!({"metadata": {"finalizers": null}});
        for proxy in api.list(&Default::default()).await.map_err(failed)? {
            let name = proxy.metadata.name.unwrap_or_default();
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&free)).await.map_err(failed)?;
        }
        let background = DeleteParams::default();
        Api::<Namespace>::all(self.client.clone()).delete(NAMESPACE, &background).await.map_err(failed)?;
        Ok(())
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
