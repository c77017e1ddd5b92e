//! The cluster that the lab brought up.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Namespace as KubeNamespace, ServiceAccount},
    },
    serde::de::DeserializeOwned,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::eventually;

/// As whom the tests themselves write.
const MANAGER: &str = "egress-e2e";

/// A cluster, and as its administrator.
#[derive(Clone)]
pub struct Lab {
    pub client: Client,
    pub config: Config,
    pub kubeconfig: PathBuf,
}

impl Lab {
    /// What `LAB` names.
    pub async fn new() -> Self {
        let kubeconfig = std::env::var_os("LAB").map(PathBuf::from);
        Self::at(kubeconfig.expect("LAB is to name the lab's kubeconfig; make e2e does all of it")).await
    }

    /// Another cluster.
    pub async fn at(kubeconfig: PathBuf) -> Self {
        let read = Kubeconfig::read_from(&kubeconfig).expect("the lab's kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(read, &options).await.expect("the lab's kubeconfig");
        config.default_retry = false;
        config.proxy_url = None;
        config.read_timeout = Some(Duration::from_secs(60));
        let client = Client::try_from(config.clone()).expect("a client of the lab");
        Self { client, config, kubeconfig }
    }

    /// UID of kube-system, which is the cluster's.
    pub async fn uid(&self) -> String {
        let namespaces: Api<KubeNamespace> = Api::all(self.client.clone());
        namespaces.get("kube-system").await.expect("kube-system").metadata.uid.expect("a UID")
    }

    /// A namespace that nobody else has, gone with the value.
    pub async fn namespace(&self, purpose: &str) -> Namespace {
        self.labelled_namespace(purpose, json!({})).await
    }

    /// The same, with labels.
    pub async fn labelled_namespace(&self, purpose: &str, labels: Value) -> Namespace {
        let name = format!("e2e-{purpose}-{:06x}", rand::random::<u32>() & 0xff_ffff);
        self.named_namespace(name, labels).await
    }

    /// One that may be there already, gone with the value.
    pub async fn named_namespace(&self, name: String, labels: Value) -> Namespace {
        let made = json!({ "metadata": { "name": name, "labels": labels } });
        self.apply::<KubeNamespace>(&Api::all(self.client.clone()), made).await;
        let namespace = Namespace { name, lab: self.clone() };
        let accounts: Api<ServiceAccount> = namespace.api();
        eventually("the namespace's ServiceAccount", async || accounts.get("default").await).await;
        namespace
    }

    /// A kubeconfig of the same cluster for another user.
    pub fn write_kubeconfig(&self, path: &Path, user: Value) {
        let text = std::fs::read_to_string(&self.kubeconfig).expect("the lab's kubeconfig");
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("the lab's kubeconfig");
        kubeconfig["users"][0]["user"] = user;
        // JSON is YAML.
        std::fs::write(path, kubeconfig.to_string()).expect("a kubeconfig");
    }

    /// Creates or changes any object, as `kubectl apply --server-side` does.
    pub async fn apply<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let params = PatchParams::apply(MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("applying {} {name}: {error}", K::kind(&())))
    }
}

/// A typed object out of JSON.
pub fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of its kind")
}

/// A namespace of one test.
pub struct Namespace {
    pub name: String,
    pub lab: Lab,
}

impl Namespace {
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.lab.client.clone(), &self.name)
    }

    /// A ServiceAccount that may do what the rules say, in this namespace.
    pub async fn account(&self, name: &str, rules: Value) {
        use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
        self.lab.apply::<ServiceAccount>(&self.api(), json!({ "metadata": { "name": name } })).await;
        self.lab.apply::<Role>(&self.api(), json!({ "metadata": { "name": name }, "rules": rules })).await;
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": self.name }],
        });
        self.lab.apply::<RoleBinding>(&self.api(), binding).await;
    }

    /// A token of a ServiceAccount here.
    pub async fn token(&self, account: &str) -> String {
        let accounts: Api<ServiceAccount> = self.api();
        let spec = TokenRequestSpec { expiration_seconds: Some(86_400), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
        made.expect("a token").status.expect("a token's status").token.expect("a token")
    }
}

impl Drop for Namespace {
    /// Begun, not awaited: names are not used twice, and a failed test is to leave nothing that runs.
    fn drop(&mut self) {
        let name = self.name.clone();
        at_the_end(&self.lab, async move |client| {
            let api: Api<KubeNamespace> = Api::all(client);
            let _ = api.delete(&name, &DeleteParams::default()).await;
        });
    }
}

/// For the end of a value: with a runtime and a client of its own, since the test's may be ending.
pub fn at_the_end(lab: &Lab, what: impl AsyncFnOnce(Client) + Send + 'static) {
    let config = lab.config.clone();
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { what(Client::try_from(config).expect("a client")).await });
    });
    let _ = thread.join();
}
