//! A process' entries over real components and a plain API server.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use egress_capabilities::HomeCluster;
use egress_contract::{EntryName, Installation};
use egress_runtime::{Runtime, RuntimeConfig};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::double::Double;
use crate::{
    cluster::Cluster,
    config::read_entries,
    core::store::Providers,
    entries::{Entries, Shared},
    events::Events,
    health::{Seen, Shown, Wishes},
    kube_owners::KubeOwners,
    modules::Modules,
};

pub const ENTRY: &str = "kubernetes";
pub const HEALTH: &str = "/apis/egressproxies.dev/v1alpha1/providerhealths/kubernetes";
const MOST: u64 = 8 << 20;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
pub static GUEST: LazyLock<Vec<u8>> = LazyLock::new(|| built("kubernetes-provider"));
/// Compiled once for all tests: most of them change the config, not the component.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let cache_dir = Some(FOLDER.path().join("cache"));
    Runtime::new(RuntimeConfig { cache_dir, ..RuntimeConfig::default() }).unwrap()
});

/// A component of the workspace.
pub fn built(package: &str) -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = FOLDER.path().join(format!("{package}.wasm"));
    provider_encode::Guest::find(here, Some(package)).unwrap().build(&out).unwrap();
    std::fs::read(out).unwrap()
}

pub struct World {
    pub api: Double,
    pub dir: PathBuf,
    /// What answers as the cluster that `operator: true` in a grant means.
    pub home: String,
}

/// One process over the world.
pub struct Process {
    pub entries: Entries,
    pub api: Double,
    pub changes: mpsc::Receiver<String>,
    pub leads: watch::Sender<Option<u32>>,
}

impl World {
    pub fn new(name: &str) -> Self {
        let dir = FOLDER.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        // Nothing listens there: the place is down, and that is no fault of a component.
        let world = Self { api: Double::default(), dir, home: "http://127.0.0.1:9".to_owned() };
        world.put("a.wasm", &GUEST);
        world
    }

    pub fn put(&self, file: &str, bytes: &[u8]) {
        let aside = self.dir.join("aside");
        std::fs::write(&aside, bytes).unwrap();
        std::fs::rename(aside, self.dir.join(file)).unwrap();
    }

    pub fn start(&self) -> Process {
        let cluster = Cluster { client: self.api.client(), namespace: "system".to_owned() };
        let (changes, told) = mpsc::channel(1024);
        let leads = watch::Sender::new(Some(1));
        let entries = Entries::new(Shared {
            modules: Modules::new(cluster.clone(), Some(self.dir.clone()), MOST),
            events: Events::new(cluster.client.clone(), "test"),
            owners: KubeOwners::new(cluster.client.clone(), Vec::new()),
            cluster,
            installation: Installation::new("installation"),
            runtime: RUNTIME.clone(),
            module_bytes: MOST,
            home: Some(HomeCluster {
                config: kube::Config::new(self.home.parse().unwrap()),
                uid: "cluster".to_owned(),
            }),
            simulations: None,
            config_map: "system/egress-providers".to_owned(),
            changes,
            leadership: leads.subscribe(),
        });
        entries.listed();
        Process { entries, api: self.api.clone(), changes: told, leads }
    }
}

/// An entry whose config differs by its image.
pub fn text(file: &str, image: &str) -> String {
    format!(
        "module: {{ file: {file} }}\nconfig: {{ cluster: home, image: {image} }}\ngrants:\n  kubernetes:\n    \
         clusters:\n      home:\n        operator: true\n        timeouts: {{ connectMs: 200, requestMs: 400 }}\n        \
         rules: [{{ resources: [pods], verbs: [get], namespaces: [a] }}]\n"
    )
}

impl Process {
    pub fn apply(&self, text: &str) {
        let data = [(ENTRY.to_owned(), text.to_owned())];
        self.entries.apply(read_entries(data.iter().map(|(key, text)| (key, text))));
    }

    pub fn active(&self) -> Option<String> {
        self.entries.active(ENTRY).ok().map(|active| active.revision)
    }

    /// Until the health shows what is wanted. It is the test's own deadline that would end it.
    pub async fn shows(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        loop {
            let health = self.api.object(HEALTH).unwrap_or_default();
            if wanted(&health) {
                return health;
            }
            assert!(std::time::Instant::now() < deadline, "{health:#}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The revision that becomes active after another.
    pub async fn active_after(&self, before: Option<&str>) -> String {
        let shown = self.shows(|health| {
            let active = health["status"]["active"]["revision"].as_str();
            active.is_some() && active != before
        });
        shown.await["status"]["active"]["revision"].as_str().unwrap().to_owned()
    }

    /// Something that never ends, until something else has.
    pub async fn beside<T>(&self, never: impl Future<Output = ()>, wanted: impl Future<Output = T>) -> T {
        tokio::select! {
            () = never => panic!("it ended"),
            wanted = wanted => wanted,
        }
    }

    pub async fn kept(&self, count: usize) {
        self.shows(|_| {
            self.api.below("/api/v1/namespaces/system/configmaps/egress-revision-").len() == count
        })
        .await;
    }

    /// Tells the process what stands in the health's spec, as its watch would.
    pub fn see_hold(&self) {
        let health = self.api.object(HEALTH).unwrap();
        let hold = serde_json::from_value(health["spec"]["hold"].clone()).unwrap();
        let status = serde_json::from_value(health["status"].clone()).unwrap();
        let wishes = Wishes { hold, confirmed: None, shown: Shown::of(Some(&status)) };
        self.entries.see(Seen::Asked(ENTRY.to_owned(), Box::new(wishes)));
    }

    pub fn told(&self) -> Vec<String> {
        let events = self.api.below("/apis/events.k8s.io/v1/namespaces/default/events/");
        events.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}

pub fn entry() -> EntryName {
    ENTRY.parse().unwrap()
}

/// That an object shows what docs/troubleshooting.md says of a symptom.
pub fn compare(symptom: &str, health: &Value) {
    let complaint = docs_tests::shown::complaint(symptom, &docs_tests::shown::described(health));
    assert!(complaint.is_empty(), "{complaint}");
}
