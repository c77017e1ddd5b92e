//! The two that are asked.

use std::{path::PathBuf, sync::Arc, time::Duration};

use egress_capabilities::KubernetesCapability;
use egress_runtime::capability::{Clock, Kubernetes};
use egress_sim::{
    clock::VirtualClock,
    kubernetes::{Cluster, Image},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MANAGER: &str = "egress-proxies-operator.agree";

/// The lab's node has it.
pub const SQUID: &str = "docker.io/lab/squid:1";

/// No registry has it.
pub const MISSING: &str = "docker.io/lab/none:1";

/// An API server, as its administrator and as a ServiceAccount that may little.
pub struct Site {
    pub admin: Arc<dyn Kubernetes>,
    pub poor: Arc<dyn Kubernetes>,
    /// Which nobody else has.
    pub namespace: String,
    kind: Kind,
}

enum Kind {
    Simulated(Cluster, VirtualClock),
    Real { etcd: u16 },
}

impl Site {
    pub fn simulated() -> Self {
        let clock = VirtualClock::default();
        let namespace = "agree-simulated".to_owned();
        let cluster = Cluster::new(Arc::new(clock.clone())).as_manager(MANAGER).at_home(false);
        cluster.image_missing(MISSING);
        let admin = Arc::new(cluster.as_user("admin"));
        let poor = Arc::new(cluster.as_user(&format!("system:serviceaccount:{namespace}:poor")));
        Self { admin, poor, namespace, kind: Kind::Simulated(cluster, clock) }
    }

    /// The one that `KUBECONFIG` names. The lab's etcd listens at the next port.
    pub fn real() -> Self {
        let file =
            PathBuf::from(std::env::var_os("KUBECONFIG").expect("KUBECONFIG is to name a real API server"));
        let text = std::fs::read_to_string(&file).expect("the kubeconfig");
        let port: String = text
            .split_once("https://127.0.0.1:")
            .expect("a server of the lab")
            .1
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        // Two tests begin within one second.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let namespace = format!("agree-{:06x}", now.as_micros() & 0xff_ffff);
        let lend = |cluster: Value| {
            let grant = serde_json::from_value(json!({ "clusters": { "lab": cluster } })).unwrap();
            Arc::new(KubernetesCapability::new(&"agree".parse().unwrap(), grant, None).unwrap())
        };
        let rules = json!([{
            "apiGroups": ["*"], "verbs": ["*"], "namespaces": ["*"],
            "resources": ["*", "pods/status", "pods/eviction", "pods/none", "configmaps/status", "deployments/status"],
        }]);
        let admin = lend(json!({ "kubeconfig": { "file": file }, "rules": rules }));
        let account = json!({ "namespace": namespace, "name": "poor" });
        let poor = lend(json!({ "kubeconfig": { "file": file }, "rules": rules, "serviceAccount": account }));
        Self { admin, poor, namespace, kind: Kind::Real { etcd: port.parse::<u16>().unwrap() + 1 } }
    }

    /// A moment.
    pub async fn wait(&self) {
        let moment = Duration::from_millis(100);
        match &self.kind {
            Kind::Simulated(_, clock) => clock.sleep(moment).await,
            Kind::Real { .. } => tokio::time::sleep(moment).await,
        }
    }

    /// What becomes of containers with the lab's Squid. A real one runs what the Pod says.
    pub fn becomes(&self, image: &Image) {
        if let Kind::Simulated(cluster, _) = &self.kind {
            cluster.set_image(SQUID, image.clone());
        }
    }

    /// What etcd does by itself every five minutes. The API server learns of it by a key.
    pub async fn expire_tokens(&self) {
        match &self.kind {
            Kind::Simulated(cluster, _) => cluster.expire_continue_tokens(),
            Kind::Real { etcd } => {
                let key = "Y29tcGFjdF9yZXZfa2V5"; // compact_rev_key
                // What is compacted can still be read as it was just then: so there has to be a later write.
                post(*etcd, "/v3/kv/put", json!({ "key": "YWdyZWVtZW50", "value": "" })).await;
                let range = post(*etcd, "/v3/kv/range", json!({ "key": key })).await;
                let revision = range["header"]["revision"].as_str().expect("etcd's revision").to_owned();
                post(*etcd, "/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await;
                let value = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &revision);
                post(*etcd, "/v3/kv/put", json!({ "key": key, "value": value })).await;
            }
        }
    }
}

async fn post(port: u16, path: &str, body: Value) -> Value {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the lab's etcd");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of etcd");
    assert!(head.contains(" 200 "), "{path}: {answer}");
    serde_json::from_str(body.trim()).unwrap_or_default()
}
