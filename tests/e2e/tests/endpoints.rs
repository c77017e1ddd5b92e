//! Providers that speak HTTP, from Proxies in the cluster to servers behind TLS and credentials out of Secrets: made,
//! replaced and deleted, while tokens, keys and certificates are replaced under them.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use egress_operator::api::Proxy;
use egress_runtime::capability::{Http, HttpResponse, SystemClock};
use egress_sim::{
    compute::{Compute, ComputeSpec},
    proxmox::{NodeSpec, Pve, StorageSpec},
};
use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::api::{
    core::v1::Secret,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::harness::{
    Budget, Https, Lab, Site, Wanted, Witness, eventually_within, from, gcp_provider, is_ready,
    proxmox_provider,
};

const PROXIES: usize = 4;
/// For each host, as the entries have it.
const CONNECTIONS: usize = 4;
const ZONES: [&str; 3] = ["us-central1-a", "us-central1-b", "us-central1-c"];
/// Where simulated machines have their addresses.
pub(crate) const PVE_NETWORK: &str = "10.20.0.0/16";
pub(crate) const COMPUTE_NETWORK: &str = "10.128.0.0/20";
const BETWEEN_LISTS: Duration = Duration::from_secs(2);
/// For a thousand.
const CONVERGENCE: Duration = Duration::from_secs(1_200);
/// Longer than a request that began before takes.
const IN_FLIGHT: Duration = Duration::from_secs(3);

/// How many tests need a route.
static ROUTES: Mutex<BTreeMap<&str, usize>> = Mutex::new(BTreeMap::new());

/// Addresses that simulated machines tell are this machine's own for a while, so that they can be probed.
pub(crate) struct Local(&'static str);

impl Local {
    pub(crate) fn route(network: &'static str) -> Self {
        let mut routes = ROUTES.lock().unwrap();
        *routes.entry(network).or_default() += 1;
        assert!(ip(&["route", "replace", "local", network, "dev", "lo"]), "a route to {network}");
        Self(network)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut routes = ROUTES.lock().unwrap();
        let users = routes.get_mut(self.0).unwrap();
        *users -= 1;
        if *users == 0 {
            ip(&["route", "delete", "local", self.0, "dev", "lo"]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).status().is_ok_and(|status| status.success())
}

/// What listens at every machine's proxy.
pub(crate) async fn listener() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    port
}

/// A backend's entry, and what is changed under it.
pub(crate) struct Backend {
    pub(crate) entry: Value,
    /// Where its credentials stand.
    secret: &'static str,
    servers: Vec<Https>,
    /// What the first servers' certificates are.
    authorities: String,
    /// The Secret's credentials and the `Authorization` that they lead to: before and after.
    credentials: [(String, String); 2],
    /// How many machines there are.
    pub(crate) machines: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Backend {
    /// The operator may read the one Secret, and it opens the servers.
    pub(crate) async fn open(&self, site: &Site) {
        grant_secret(site, self.secret).await;
        self.put_secret(site, &self.credentials[0].0, &self.authorities).await;
        self.admit(&[0]);
    }

    async fn put_secret(&self, site: &Site, credentials: &str, authorities: &str) {
        let data = json!({ "credentials": credentials, "ca": authorities });
        let secret = json!({ "metadata": { "name": self.secret }, "stringData": data });
        site.lab.apply::<Secret>(&site.system.api(), secret).await;
    }

    fn admit(&self, which: &[usize]) {
        let values: BTreeSet<String> = which.iter().map(|&index| self.credentials[index].1.clone()).collect();
        self.servers.iter().for_each(|server| server.admit(values.clone()));
    }
}

async fn grant_secret(site: &Site, secret: &str) {
    let rules =
        json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"] }]);
    let role = json!({ "metadata": { "name": secret }, "rules": rules });
    site.lab.apply::<Role>(&site.system.api(), role).await;
    let binding = json!({
        "metadata": { "name": secret },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": secret },
        "subjects": [{ "kind": "ServiceAccount", "name": "egress-operator", "namespace": site.system.name }],
    });
    site.lab.apply::<RoleBinding>(&site.system.api(), binding).await;
}

async fn change_port(proxies: &Api<Proxy>, name: &str, port: u16) {
    let patch = Patch::Merge(json!({ "spec": { "port": port } }));
    proxies.patch(name, &PatchParams::default(), &patch).await.expect("another port");
}

/// Where the operator may open the backend.
async fn site(lab: &Lab, purpose: &'static str, component: &[u8], backend: &Backend) -> Site {
    let site = Site::new(lab, purpose, 1).await;
    backend.open(&site).await;
    site.put_module(component).await;
    site.put_entry(&backend.entry).await;
    site
}

/// Proxies of every zone become ready and go, by no more connections than the entry allows.
async fn converge(purpose: &'static str, component: &[u8], mut backend: Backend, zones: &[&str]) {
    let count = Budget { usual: 60, soak: 1_000 }.get();
    let lab = Lab::new().await;
    backend.entry["health"] = json!({ "periodSeconds": 60 });
    if purpose == "proxmox" {
        // What the storage would bear is not what is under test.
        backend.entry["config"]["clonesAtOnce"] = json!(16);
        // Five hundred of them fit a node.
        backend.entry["config"]["machineTypes"]["small"]["memoryMiB"] = json!(128);
    }
    let site = site(&lab, purpose, component, &backend).await;
    let _epo = site.start(&[]).await;
    let proxies = site.proxies(0);
    let port = listener().await;
    let begin = Instant::now();
    let make = |index: usize| {
        let zone = zones[index % zones.len()];
        let spec = json!({ "provider": site.entry, "port": port, "placement": { "zone": zone } });
        let proxy = json!({ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy",
                            "metadata": { "name": format!("p{index}") }, "spec": spec });
        let proxies = &proxies;
        async move { proxies.create(&PostParams::default(), &from(proxy)).await.expect("a Proxy") }
    };
    stream::iter(0..count).map(make).buffer_unordered(16).collect::<Vec<_>>().await;
    let every = ListParams::default();
    eventually_within(CONVERGENCE, "all Proxies are ready", async || {
        // A list of a thousand costs the API server more than they do.
        tokio::time::sleep(BETWEEN_LISTS).await;
        let listed = proxies.list(&every).await.map_err(|error| error.to_string())?;
        let waiting = listed.items.iter().filter(|proxy| !is_ready(proxy));
        let statuses: Vec<_> = waiting.map(|proxy| json!(proxy.status)).collect();
        if statuses.is_empty() { Ok(()) } else { Err(format!("{}: {:?}", statuses.len(), statuses.first())) }
    })
    .await;
    println!("{purpose}: {count} Proxies are ready after {:?}", begin.elapsed());
    assert_eq!((backend.machines)(), count);
    let begin = Instant::now();
    proxies.delete_collection(&DeleteParams::default(), &every).await.expect("their deletion");
    eventually_within(CONVERGENCE, "all Proxies are gone", async || {
        // A list of a thousand costs the API server more than they do.
        tokio::time::sleep(BETWEEN_LISTS).await;
        let listed = proxies.list(&every).await.map_err(|error| error.to_string())?;
        let first = listed.items.first().map(|proxy| json!(proxy.status));
        if listed.items.is_empty() { Ok(()) } else { Err(format!("{}: {first:?}", listed.items.len())) }
    })
    .await;
    println!("{purpose}: {count} Proxies are gone after {:?}", begin.elapsed());
    assert_eq!((backend.machines)(), 0);
    let most: Vec<usize> = backend.servers.iter().map(Https::most_open).collect();
    println!("{purpose}: connections at once: {most:?}");
    assert!(most.iter().all(|&most| most > 0 && most <= CONNECTIONS), "{most:?}");
}

/// Proxies live a whole life while everything that opens the backend is replaced, and nothing ever fails.
async fn live(purpose: &'static str, component: &[u8], backend: Backend) {
    let lab = Lab::new().await;
    let site = site(&lab, purpose, component, &backend).await;
    let [(first, _), (second, _)] = backend.credentials.clone();
    let epo = site.start(&["--log-level", "trace"]).await;
    let witness = Arc::new(Witness::default());
    witness.watch(&site);
    let (port, other) = (listener().await, listener().await);
    let names: Vec<String> = (0..PROXIES).map(|index| format!("p{index}")).collect();
    let make = |name: &String| {
        let wanted = Wanted { port: Some(port), ..Wanted::default() };
        let (site, name) = (&site, name.clone());
        async move { site.create(0, &name, wanted).await }
    };
    join_all(names.iter().map(make)).await;
    join_all(names.iter().map(|name| site.ready(0, name))).await;
    join_all(names.iter().map(|name| site.healthy(0, name))).await;
    assert_eq!((backend.machines)(), PROXIES);

    // While machines are replaced, servers show other certificates and take other credentials.
    let replaced = async {
        for name in &names {
            change_port(&site.proxies(0), name, other).await;
        }
        join_all(names.iter().map(|name| site.ready(0, name))).await;
    };
    let rotated = async {
        let next: Vec<String> = backend.servers.iter().map(Https::next_certificate).collect();
        let next = next.concat();
        backend.put_secret(&site, &first, &format!("{}{next}", backend.authorities)).await;
        tokio::time::sleep(IN_FLIGHT).await;
        backend.servers.iter().for_each(Https::renew);
        backend.admit(&[0, 1]);
        backend.put_secret(&site, &second, &next).await;
        tokio::time::sleep(IN_FLIGHT).await;
        backend.admit(&[1]);
    };
    tokio::join!(replaced, rotated);
    join_all(names.iter().map(|name| site.healthy(0, name))).await;
    assert_eq!((backend.machines)(), PROXIES);
    join_all(names.iter().map(|name| site.delete(0, name))).await;
    assert_eq!((backend.machines)(), 0);
    assert_eq!(witness.failures(), Vec::<String>::new());
    let log = epo.log();
    for secret in backend.credentials.iter().flat_map(|(secret, header)| [secret, header]) {
        assert!(!log.contains(secret.as_str()), "a credential stands in the log");
    }
}

fn place(secret: &str, key: &str) -> Value {
    json!({ "secretRef": { "name": secret, "key": key } })
}

/// Two nodes, at this machine as the operator calls it.
pub(crate) async fn proxmox(machine: &str) -> Backend {
    let secret = "proxmox";
    let names = ["pve1", "pve2"];
    let nodes = names.map(|name| NodeSpec::new(name, name));
    let storages = names.map(|name| StorageSpec {
        node: Some(name.to_owned()),
        name: "local".to_owned(),
        content: "images,iso".to_owned(),
        total: 1 << 40,
    });
    let pve = Pve::new(Arc::new(SystemClock::default()), &nodes, &storages);
    pve.put_template(9000, "pve1", "local", 2);
    pve.put_template(9001, "pve2", "local", 2);
    let refused = HttpResponse {
        status: 401,
        reason: "permission denied - invalid PVE token".to_owned(),
        ..HttpResponse::default()
    };
    let (mut servers, mut authorities, mut endpoints) = (Vec::new(), String::new(), BTreeMap::new());
    for name in names {
        let backend: Arc<dyn Http> = Arc::new(pve.clone());
        let (server, pem) = Https::start(backend, name, 2, refused.clone()).await;
        let credentials = json!({ "header": {
            "format": "PVEAPIToken={principal}={secret}", "principal": "epo@pve!operator", "secret": place(secret, "credentials"),
        } });
        let url = format!("https://{machine}:{}/api2/json", server.port);
        endpoints.insert(
            name,
            json!({ "url": url, "ca": place(secret, "ca"), "credentials": credentials, "connections": CONNECTIONS }),
        );
        authorities.push_str(&pem);
        servers.push(server);
    }
    let entry = json!({
        "module": { "configMap": { "name": "module" } },
        "config": {
            "nodes": [{ "name": "pve1" }, { "name": "pve2" }],
            "isoStorage": "local",
            "images": { "debian": { "templates": { "pve1": 9000, "pve2": 9001 } } },
            "machineTypes": { "small": { "cores": 1, "memoryMiB": 512 } },
            "defaults": { "zone": "pve1" },
        },
        "health": { "periodSeconds": 2, "timeoutSeconds": 2 },
        "grants": { "http": { "endpoints": endpoints } },
    });
    let credentials = ["8c1b7c2e-first", "8c1b7c2e-second"]
        .map(|token| (token.to_owned(), format!("PVEAPIToken=epo@pve!operator={token}")));
    let machines = Box::new(move || pve.machines().into_iter().filter(|seen| !seen.template).count());
    Backend { entry, secret, servers, authorities, credentials, machines }
}

#[tokio::test]
async fn proxmox_lives_on_while_token_and_authority_are_replaced() {
    let _local = Local::route(PVE_NETWORK);
    live("proxmox", &proxmox_provider(), proxmox("localhost").await).await;
}

#[tokio::test]
async fn many_proxies_of_proxmox_need_four_connections_a_node() {
    let _local = Local::route(PVE_NETWORK);
    converge("proxmox", &proxmox_provider(), proxmox("localhost").await, &["pve1", "pve2"]).await;
}

/// Gives each user a token of its own.
async fn tokens() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = String::new();
                let mut buffer = [0; 4096];
                // One read may bring half a request.
                while !asked.contains("second") && !asked.contains("first") {
                    match stream.read(&mut buffer).await {
                        Ok(read @ 1..) => asked.push_str(&String::from_utf8_lossy(&buffer[..read])),
                        _ => return,
                    }
                }
                let which = if asked.contains("second") { "second" } else { "first" };
                let token = json!({ "access_token": format!("short-{which}"), "expires_in": 3599, "token_type": "Bearer" });
                let token = token.to_string();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
                let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{token}", token.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

/// Three zones, at this machine as the operator calls it.
pub(crate) async fn compute_engine(machine: &str) -> Backend {
    let secret = "gcp";
    let compute = Compute::new(
        Arc::new(SystemClock::default()),
        &ComputeSpec {
            endpoint: "compute".to_owned(),
            manager: None,
            projects: BTreeMap::from([("proxies-1".to_owned(), ZONES.map(str::to_owned).to_vec())]),
            page: 500,
        },
    );
    let refused = HttpResponse { status: 401, reason: "Unauthorized".to_owned(), ..HttpResponse::default() };
    let (server, authorities) = Https::start(Arc::new(compute.clone()), "compute", 2, refused).await;
    let url = format!("https://{machine}:{}/compute/v1", server.port);
    let entry = json!({
        "module": { "configMap": { "name": "module" } },
        "config": {
            "project": "proxies-1",
            "zones": ZONES,
            "externalAddress": "none",
            "images": { "debian": { "source": "projects/debian-cloud/global/images/family/debian-13" } },
            "machineTypes": { "small": "e2-micro" },
            "defaults": { "zone": "us-central1-a", "machineType": "small" },
        },
        "health": { "periodSeconds": 2, "timeoutSeconds": 2 },
        "grants": { "http": { "endpoints": { "compute": {
            "url": url, "ca": place(secret, "ca"), "connections": CONNECTIONS,
            "credentials": { "google": { "json": place(secret, "credentials") } },
        } } } },
    });
    let token_uri = format!("http://{machine}:{}/token", tokens().await);
    let credentials = ["first", "second"].map(|which| {
        let user = json!({
            "type": "authorized_user", "client_id": "id", "client_secret": format!("client-{which}-sentinel"),
            "refresh_token": format!("refresh-{which}-sentinel"), "token_uri": token_uri,
        });
        (user.to_string(), format!("Bearer short-{which}"))
    });
    let machines = Box::new(move || compute.instances().len());
    Backend { entry, secret, servers: vec![server], authorities, credentials, machines }
}

#[tokio::test]
async fn compute_engine_lives_on_while_key_and_authority_are_replaced() {
    let _local = Local::route(COMPUTE_NETWORK);
    live("gcp", &gcp_provider(), compute_engine("localhost").await).await;
}

#[tokio::test]
async fn many_proxies_of_compute_engine_need_four_connections() {
    let _local = Local::route(COMPUTE_NETWORK);
    converge("gcp", &gcp_provider(), compute_engine("localhost").await, &ZONES).await;
}
