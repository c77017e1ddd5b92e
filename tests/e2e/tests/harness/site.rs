//! One installation of the operator: a namespace of its own, namespaces of teams, a provider entry, and the
//! rights of a ServiceAccount and no more, as deploy/ gives them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use egress_operator::api::{ProviderHealth, ProviderHealthStatus, Proxy, crds};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Pod, Secret},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Epo, Lab, Namespace, epo, eventually, from};

const RESTRICTED: &str = "pod-security.kubernetes.io/enforce";
const MODULE: &str = "module";
const MODULE_KEY: &str = "provider.wasm";

/// See the module. Names that are the cluster's own bear the site's, so that sites don't meet.
pub struct Site {
    pub lab: Lab,
    pub system: Namespace,
    pub teams: Vec<Namespace>,
    /// The entry's name.
    pub entry: String,
    folder: tempfile::TempDir,
}

/// A Proxy to be made.
#[derive(Clone, Default)]
pub struct Wanted {
    pub port: Option<u16>,
    pub cloud_init: Option<Value>,
    /// The site's where none.
    pub entry: Option<String>,
}

/// What stands in namespaces, by kind, namespace and name.
pub type Objects = BTreeSet<String>;

impl Site {
    /// With so many teams.
    pub async fn new(lab: &Lab, purpose: &str, teams: usize) -> Self {
        kinds_and_roles(lab).await;
        Self::prepared(lab, purpose, teams).await
    }

    /// On a cluster of the test's own.
    pub async fn alone(lab: &Lab, purpose: &str, teams: usize) -> Self {
        prepare(lab).await;
        Self::prepared(lab, purpose, teams).await
    }

    async fn prepared(lab: &Lab, purpose: &str, teams: usize) -> Self {
        let restricted = || json!({ RESTRICTED: "restricted" });
        let system = lab.labelled_namespace(purpose, restricted()).await;
        let mut site = Self {
            lab: lab.clone(),
            entry: format!("k-{}", &system.name[system.name.len() - 6..]),
            system,
            teams: Vec::new(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        site.grant_operator().await;
        for _ in 0..teams {
            let team = lab.labelled_namespace(purpose, restricted()).await;
            site.grant_team(&team).await;
            site.teams.push(team);
        }
        site
    }

    /// The same installation as another cluster has it, or is to have it.
    pub async fn on(&self, lab: &Lab) -> Self {
        prepare(lab).await;
        let restricted = || json!({ RESTRICTED: "restricted" });
        let mut site = Self {
            lab: lab.clone(),
            entry: self.entry.clone(),
            system: lab.named_namespace(self.system.name.clone(), restricted()).await,
            teams: Vec::new(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        site.grant_operator().await;
        for team in &self.teams {
            site.teams.push(lab.named_namespace(team.name.clone(), restricted()).await);
        }
        site
    }

    async fn grant_operator(&self) {
        let name = &self.system.name;
        let account = json!({ "metadata": { "name": "egress-operator" } });
        self.lab.apply::<k8s_openapi::api::core::v1::ServiceAccount>(&self.system.api(), account).await;
        let rules = role_rules("Role", "egress-operator");
        let role = json!({ "metadata": { "name": "egress-operator" }, "rules": rules });
        self.lab.apply::<Role>(&self.system.api(), role).await;
        let binding = self.binding("egress-operator", "Role", "egress-operator");
        self.lab.apply::<RoleBinding>(&self.system.api(), binding).await;
        let binding = self.binding(name, "ClusterRole", "egress-operator");
        self.lab.apply::<ClusterRoleBinding>(&Api::all(self.lab.client.clone()), binding).await;
    }

    /// Takes the right to one kind off the operator, or gives it back. Everything else stays.
    pub async fn may_see(&self, kind: &str, may: bool) {
        let mut rules = role_rules("ClusterRole", "egress-operator");
        if !may {
            rules.retain(|rule| rule.resources.as_deref() != Some(&[kind.to_owned()]));
        }
        self.lend(json!(rules)).await;
    }

    /// These and no other rights in the whole cluster.
    pub async fn lend(&self, rules: Value) {
        let name = &self.system.name;
        let role = json!({ "metadata": { "name": name }, "rules": rules });
        self.lab.apply::<ClusterRole>(&Api::all(self.lab.client.clone()), role).await;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.lab.client.clone());
        // What a binding names can't be changed.
        bindings.delete(name, &DeleteParams::default()).await.expect("the operator's ClusterRoleBinding");
        self.lab.apply(&bindings, self.binding(name, "ClusterRole", name)).await;
    }

    /// These rights in a team's namespace, beside those that the provider needs.
    pub async fn lend_in(&self, team: usize, rules: Value) {
        let team = &self.teams[team];
        let role = json!({ "metadata": { "name": "egress-operator" }, "rules": rules });
        self.lab.apply::<Role>(&team.api(), role).await;
        let binding = self.binding("egress-operator", "Role", "egress-operator");
        self.lab.apply::<RoleBinding>(&team.api(), binding).await;
    }

    /// What the kubernetes provider needs in a namespace.
    pub async fn grant_team(&self, team: &Namespace) {
        for role in ["egress-instances", "egress-user-data"] {
            let binding = self.binding(role, "ClusterRole", role);
            self.lab.apply::<RoleBinding>(&team.api(), binding).await;
        }
    }

    fn binding(&self, name: &str, kind: &str, role: &str) -> Value {
        json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": "egress-operator", "namespace": self.system.name }],
        })
    }

    /// A kubeconfig of the operator's ServiceAccount.
    pub async fn operator_kubeconfig(&self) -> PathBuf {
        let path = self.folder.path().join("operator.conf");
        if !path.exists() {
            let token = self.system.token("egress-operator").await;
            self.lab.write_kubeconfig(&path, json!({ "token": token }));
        }
        path
    }

    /// Starts the operator on this site, and waits until it is ready.
    pub async fn start(&self, more: &[&str]) -> Epo {
        let mut epo = self.start_unready(more).await;
        epo.ready().await;
        epo
    }

    /// The same without the wait. It is the only one, and waits for nobody's lease.
    pub async fn start_unready(&self, more: &[&str]) -> Epo {
        let kubeconfig = self.operator_kubeconfig().await;
        let mut arguments = vec!["--leader-elect=false"];
        arguments.extend(more);
        self.start_as(&self.system.name, &kubeconfig, &arguments)
    }

    /// The only one, and it trusts whom this file names.
    pub async fn start_trusting(&self, certificates: &Path) -> Epo {
        let kubeconfig = self.operator_kubeconfig().await;
        let more = ["--leader-elect=false"];
        let certificates = certificates.to_str().expect("a path that is text");
        let variables = [("SSL_CERT_FILE", certificates)];
        let mut epo = self.run(&self.system.name, &kubeconfig, &more, &variables);
        epo.ready().await;
        epo
    }

    /// The only one, with this in its environment.
    pub async fn start_with(&self, more: &[&str], variables: &[(&str, &str)]) -> Epo {
        let kubeconfig = self.operator_kubeconfig().await;
        let mut arguments = vec!["--leader-elect=false"];
        arguments.extend(more);
        let mut epo = self.run(&self.system.name, &kubeconfig, &arguments, variables);
        epo.ready().await;
        epo
    }

    /// One of several, each with a log and a way to the API server of its own.
    pub fn start_as(&self, name: &str, kubeconfig: &Path, more: &[&str]) -> Epo {
        self.run(name, kubeconfig, more, &[])
    }

    fn run(&self, name: &str, kubeconfig: &Path, more: &[&str], variables: &[(&str, &str)]) -> Epo {
        let text = |path: &Path| path.to_str().expect("a path that is text").to_owned();
        let cache = epo::folder().join("compiled");
        let (kubeconfig, cache) = (text(kubeconfig), text(&cache));
        let mut arguments =
            vec!["--kubeconfig", &kubeconfig, "--namespace", &self.system.name, "--cache-dir", &cache];
        for team in &self.teams {
            arguments.extend(["--watch-namespace", &team.name]);
        }
        arguments.extend(more);
        Epo::start(name, &arguments, variables)
    }

    /// Puts a component into the module's ConfigMap, compressed.
    pub async fn put_module(&self, component: &[u8]) {
        self.put_raw_module(&zstd::encode_all(component, 9).expect("compression")).await;
    }

    /// Puts these very bytes there.
    pub async fn put_raw_module(&self, bytes: &[u8]) {
        self.put_module_as(MODULE, bytes).await;
    }

    /// Puts these very bytes into a ConfigMap of another name.
    pub async fn put_module_as(&self, name: &str, bytes: &[u8]) {
        let data = BTreeMap::from([(MODULE_KEY.to_owned(), k8s_openapi::ByteString(bytes.to_vec()))]);
        let module = ConfigMap { binary_data: Some(data), ..from(json!({ "metadata": { "name": name } })) };
        let api: Api<ConfigMap> = self.system.api();
        // Not applied: a change of half a megabyte needs no merging.
        match api.replace(name, &PostParams::default(), &module).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                api.create(&PostParams::default(), &module).await.expect("the module's ConfigMap");
            }
            replaced => drop(replaced.expect("the module's ConfigMap")),
        }
    }

    /// Writes the whole providers ConfigMap.
    pub async fn put_entries<'a>(&self, entries: impl IntoIterator<Item = (&'a str, &'a Value)>) {
        // JSON is YAML.
        let data: BTreeMap<_, _> =
            entries.into_iter().map(|(name, entry)| (name, entry.to_string())).collect();
        let api: Api<ConfigMap> = self.system.api();
        self.lab
            .apply::<ConfigMap>(&api, json!({ "metadata": { "name": "egress-providers" }, "data": data }))
            .await;
    }

    /// Writes the site's entry alone.
    pub async fn put_entry(&self, entry: &Value) {
        self.put_entries([(self.entry.as_str(), entry)]).await;
    }

    /// An entry of the kubernetes provider for the site's teams.
    pub fn kubernetes_entry(&self) -> Value {
        let teams: Vec<_> = self.teams.iter().map(|team| &team.name).collect();
        json!({
            "module": { "configMap": { "name": MODULE } },
            "config": {
                "cluster": "home",
                "namespaces": teams,
                "image": "docker.io/lab/squid:1",
                "resources": { "requests": { "cpu": "1m", "memory": "8Mi" }, "limits": { "memory": "256Mi" } },
                "squid": { "shutdownSeconds": 1 },
            },
            "grants": { "kubernetes": { "clusters": { "home": { "operator": true, "rules": [
                { "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create", "patch", "delete"],
                  "namespaces": teams },
            ] } } } },
        })
    }

    /// An entry of the component that misbehaves, with this config, and the one grant that it uses.
    pub fn misbehaving_entry(&self, config: Value) -> Value {
        let mut entry = self.kubernetes_entry();
        entry["config"] = config;
        let rule = json!({ "resources": ["pods"], "verbs": ["get", "list", "create", "delete"], "namespaces": ["proxies"] });
        entry["grants"]["kubernetes"]["clusters"]["home"]["rules"] = json!([rule]);
        entry
    }

    pub fn proxies(&self, team: usize) -> Api<Proxy> {
        self.teams[team].api()
    }

    pub async fn create(&self, team: usize, name: &str, wanted: Wanted) -> Proxy {
        let entry = wanted.entry.as_ref().unwrap_or(&self.entry);
        let mut proxy = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy",
                                "metadata": { "name": name }, "spec": { "provider": entry } });
        if let Some(port) = wanted.port {
            proxy["spec"]["port"] = json!(port);
        }
        if let Some(cloud_init) = wanted.cloud_init {
            proxy["spec"]["cloudInit"] = cloud_init;
        }
        self.proxies(team).create(&PostParams::default(), &from(proxy)).await.expect("a Proxy")
    }

    /// Until the condition Ready is true for what is wanted now.
    pub async fn ready(&self, team: usize, name: &str) -> Proxy {
        let proxies = self.proxies(team);
        eventually(&format!("Proxy {name} is ready"), async || {
            let proxy = proxies.get(name).await.map_err(|e| e.to_string())?;
            match is_ready(&proxy) {
                true => Ok(proxy),
                false => Err(format!("{:?}", proxy.status)),
            }
        })
        .await
    }

    /// Until it is ready, and probes of this instance passed.
    pub async fn healthy(&self, team: usize, name: &str) -> Proxy {
        let proxies = self.proxies(team);
        eventually(&format!("Proxy {name} is healthy"), async || {
            let proxy = proxies.get(name).await.map_err(|e| e.to_string())?;
            match is_ready(&proxy) && holds(&proxy, "Healthy") {
                true => Ok(proxy),
                false => Err(format!("{:?}", proxy.status)),
            }
        })
        .await
    }

    /// Deletes a Proxy and waits until it is gone.
    pub async fn delete(&self, team: usize, name: &str) {
        let proxies = self.proxies(team);
        let deleted = proxies.delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting Proxy {name}: {error}"));
        eventually(&format!("Proxy {name} is gone"), async || {
            match proxies.get_opt(name).await.map_err(|e| e.to_string())? {
                None => Ok(()),
                Some(proxy) => Err(format!("{:?}", proxy.status)),
            }
        })
        .await;
    }

    /// What the operator tells of an entry, once it tells what is asked for.
    pub async fn health<T>(
        &self,
        entry: &str,
        what: &str,
        mut ask: impl FnMut(&ProviderHealthStatus) -> Option<T>,
    ) -> T {
        let api: Api<ProviderHealth> = Api::all(self.lab.client.clone());
        eventually(&format!("ProviderHealth {entry}: {what}"), async || {
            let health = api.get_opt(entry).await.map_err(|e| e.to_string())?.ok_or("there is none")?;
            let status = health.status.unwrap_or_default();
            ask(&status).ok_or_else(|| format!("{status:?}"))
        })
        .await
    }

    /// Until this revision of the site's entry is active that has the digest; its id.
    pub async fn active(&self, component: &[u8]) -> String {
        let digest =
            egress_runtime::Module::unpack(component, u64::MAX).expect("a component").digest().to_string();
        self.health(&self.entry, "the component is active", |status| {
            status
                .active
                .as_ref()
                .filter(|active| active.digest == digest)
                .map(|active| active.revision.clone())
        })
        .await
    }

    /// Pods, ConfigMaps and Secrets of all teams.
    pub async fn objects(&self) -> Objects {
        let mut objects = Objects::new();
        for team in &self.teams {
            names::<Pod>(team, &mut objects).await;
            names::<ConfigMap>(team, &mut objects).await;
            names::<Secret>(team, &mut objects).await;
        }
        objects
    }

    /// The teams' Pods.
    pub async fn pods(&self) -> Vec<Pod> {
        let mut pods = Vec::new();
        for team in &self.teams {
            pods.extend(team.api::<Pod>().list(&ListParams::default()).await.expect("Pods").items);
        }
        pods
    }
}

impl Drop for Site {
    /// What is the cluster's own; the rest goes with the namespaces. Proxies are freed, since nobody may be
    /// there any more to finish them.
    fn drop(&mut self) {
        let (name, entry) = (self.system.name.clone(), self.entry.clone());
        let teams: Vec<_> = self.teams.iter().map(|team| team.name.clone()).collect();
        super::lab::at_the_end(&self.lab, async move |client| {
            let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
            let _ = bindings.delete(&name, &DeleteParams::default()).await;
            let roles: Api<ClusterRole> = Api::all(client.clone());
            let _ = roles.delete(&name, &DeleteParams::default()).await;
            let health: Api<ProviderHealth> = Api::all(client.clone());
            let of_site =
                health.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            for health_name in of_site.iter().map(ResourceExt::name_any).filter(|n| n.starts_with(&entry)) {
                let _ = health.delete(&health_name, &DeleteParams::default()).await;
            }
            for team in teams {
                let proxies: Api<Proxy> = Api::namespaced(client.clone(), &team);
                let left =
                    proxies.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
                for proxy in left {
                    let free = kube::api::Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                    let _ = proxies.patch(&proxy.name_any(), &Default::default(), &free).await;
                }
            }
        });
    }
}

/// Whether the condition Ready is true, and of the newest generation.
pub fn is_ready(proxy: &Proxy) -> bool {
    let observed = proxy.status.as_ref().and_then(|status| status.observed_generation);
    holds(proxy, "Ready") && observed == proxy.metadata.generation
}

/// Whether the condition is true.
fn holds(proxy: &Proxy, condition: &str) -> bool {
    let conditions = proxy.status.iter().flat_map(|status| &status.conditions);
    conditions.filter(|known| known.type_ == condition).any(|known| known.status == "True")
}

async fn names<K>(namespace: &Namespace, into: &mut Objects)
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let list = namespace.api::<K>().list(&ListParams::default()).await.expect("a list");
    let name = |object: &K| format!("{} {}/{}", K::kind(&()), namespace.name, object.name_any());
    into.extend(list.items.iter().map(name));
}

/// The cluster's share of an installation, once.
async fn kinds_and_roles(lab: &Lab) {
    static DONE: OnceCell<()> = OnceCell::const_new();
    DONE.get_or_init(async || prepare(lab).await).await;
}

/// The same, each time: where a kind was deleted, it is made anew.
pub async fn prepare(lab: &Lab) {
    let api: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
    for crd in crds() {
        let name = crd.name_any();
        lab.apply(&api, serde_json::to_value(crd).expect("JSON")).await;
        eventually(&format!("{name} is established"), async || {
            let crd = api.get(&name).await.map_err(|e| e.to_string())?;
            let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
            let established = conditions.iter().any(|c| c.type_ == "Established" && c.status == "True");
            established.then_some(()).ok_or_else(|| format!("{conditions:?}"))
        })
        .await;
    }
    for name in ["egress-operator", "egress-instances", "egress-user-data"] {
        let role = json!({ "metadata": { "name": name }, "rules": role_rules("ClusterRole", name) });
        lab.apply::<ClusterRole>(&Api::all(lab.client.clone()), role).await;
    }
}

/// The rules that deploy/ gives to a role.
pub fn role_rules(kind: &str, name: &str) -> Vec<PolicyRule> {
    #[derive(Deserialize)]
    struct Document {
        kind: String,
        metadata: Value,
        #[serde(default)]
        rules: Vec<PolicyRule>,
    }
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let files = ["cluster/rbac.yaml", "rights/kubernetes/rbac.yaml", "rights/user-data/rbac.yaml"];
    let documents = files.into_iter().flat_map(|file| {
        let text = std::fs::read_to_string(deploy.join(file)).expect(file);
        serde_saphyr::from_multiple::<Document>(&text).expect("YAML")
    });
    let mut documents =
        documents.filter(|document| document.kind == kind && document.metadata["name"] == name);
    documents.next().unwrap_or_else(|| panic!("{files:?} have no {kind} {name}")).rules
}
