//! Probes through real Squids: one that hangs, one that loses its way out, a URL that is at fault or gone, and addresses.

use std::{
    net::{IpAddr, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

use egress_operator::api::Proxy;
use k8s_openapi::{
    api::{core::v1::Pod, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::harness::{Lab, Site, Squid, Wanted, eventually, kubernetes_provider};

/// What the server behind the proxies says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Ok,
    Unavailable,
    /// To everybody that this is whence he comes; without one, the truth.
    Address(Option<IpAddr>),
}

/// A server at an address of this machine that is not in the Pods' network: their way there is their way out.
struct Server {
    at: String,
    /// What proves its address, if it speaks TLS.
    certificate: Option<String>,
    says: Arc<Mutex<Says>>,
    accepting: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    async fn start() -> Self {
        Self::start_with(false).await
    }

    async fn start_with(tls: bool) -> Self {
        let toward_outside = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        toward_outside.connect("198.51.100.1:9").expect("this machine has a way out");
        let ip = toward_outside.local_addr().expect("an address").ip();
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let at = format!("{ip}:{}", listener.local_addr().expect("a port").port());
        let says = Arc::new(Mutex::new(Says::Ok));
        let now = says.clone();
        let (acceptor, certificate) = tls.then(|| proves(ip)).unzip();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                let (says, acceptor) = (*now.lock().unwrap(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => answer(acceptor.accept(stream).await.ok()?, says, from.ip()).await,
                        None => answer(stream, says, from.ip()).await,
                    }
                });
            }
        });
        Self { at, certificate, says, accepting: accepting.abort_handle() }
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.at)
    }
}

/// What a server of this address shows, and what is to be trusted for that.
fn proves(ip: IpAddr) -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([ip.to_string()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), cert.pem())
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, says: Says, from: IpAddr) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let (status, text) = match says {
        Says::Ok => ("200 OK", "ok".to_owned()),
        Says::Unavailable => ("503 Service Unavailable", "later".to_owned()),
        Says::Address(address) => ("200 OK", address.unwrap_or(from).to_string()),
    };
    let length = text.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

async fn site(lab: &Lab, purpose: &str, health: Value) -> Site {
    let site = Site::new(lab, purpose, 1).await;
    site.put_module(&kubernetes_provider()).await;
    let mut entry = site.kubernetes_entry();
    entry["health"] = health;
    site.put_entry(&entry).await;
    site
}

fn every_second(server: &Server) -> Value {
    json!({ "url": server.url(), "periodSeconds": 1, "timeoutSeconds": 1 })
}

fn condition(proxy: &Proxy, kind: &str) -> Option<Condition> {
    let status = proxy.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == kind).cloned()
}

/// Until a condition says so.
async fn says(site: &Site, name: &str, kind: &str, status: &str, reason: &str) -> Proxy {
    let proxies = site.proxies(0);
    eventually(&format!("{kind} of {name} is {status} for {reason}"), async || {
        let proxy = proxies.get(name).await.map_err(|error| error.to_string())?;
        let found = condition(&proxy, kind);
        let so = found.as_ref().is_some_and(|found| found.status == status && found.reason == reason);
        if so { Ok(proxy) } else { Err(format!("{found:?}")) }
    })
    .await
}

async fn healthy(site: &Site, name: &str) -> Proxy {
    says(site, name, "Healthy", "True", "Passed").await
}

async fn squid_of(site: &Site, proxy: &Proxy) -> Squid {
    let instance = proxy.status.as_ref().and_then(|status| status.instance.as_ref()).expect("an instance");
    let pods: Api<Pod> = site.teams[0].api();
    Squid::of(&pods.get(&instance.name).await.expect("its Pod"))
}

/// Reasons and notes of the Events about an object of this name.
async fn events(site: &Site, name: &str) -> Vec<(String, String)> {
    let all: Api<Event> = Api::all(site.lab.client.clone());
    let all = all.list(&ListParams::default()).await.expect("Events").items;
    let of_site = |event: &Event| {
        let regarding = event.regarding.clone().unwrap_or_default();
        let namespace = regarding.namespace;
        regarding.name.as_deref() == Some(name)
            && namespace.is_none_or(|namespace| namespace == site.teams[0].name)
    };
    let told = |event: Event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
    all.into_iter().filter(of_site).map(told).collect()
}

async fn told(site: &Site, name: &str, reason: &str) {
    eventually(&format!("{reason} is told of {name}"), async || {
        let events = events(site, name).await;
        if events.iter().any(|(of, _)| of == reason) { Ok(()) } else { Err(events) }
    })
    .await;
}

#[tokio::test]
async fn a_squid_that_hangs_or_loses_its_way_out_is_found_and_is_replaced_where_that_is_wanted() {
    let lab = Lab::new().await;
    let server = Server::start().await;
    let site = site(&lab, "probes", every_second(&server)).await;
    let mut epo = site.start(&[]).await;
    for name in ["hangs", "lost", "well"] {
        site.create(0, name, Wanted::default()).await;
    }
    let hangs = healthy(&site, "hangs").await;
    let lost = healthy(&site, "lost").await;
    healthy(&site, "well").await;

    let squid = squid_of(&site, &hangs).await;
    squid.signal(Signal::STOP);
    let found = says(&site, "hangs", "Healthy", "False", "Hangs").await;
    assert_eq!(condition(&found, "Ready").unwrap().status, "True", "its Pod runs");
    squid.signal(Signal::CONT);
    healthy(&site, "hangs").await;

    squid_of(&site, &lost).await.lose_route();
    let found = says(&site, "lost", "Healthy", "False", "ProxyAnswered503").await;
    println!("{}", condition(&found, "Healthy").unwrap().message);
    for name in ["hangs", "well"] {
        healthy(&site, name).await;
    }
    let metrics = epo.metrics().await;
    let counted = |state: &str, count: usize| {
        let wanted = format!("egress_proxies_probed{{entry=\"{}\",state=\"{state}\"}} {count}", site.entry);
        assert!(metrics.contains(&wanted), "{wanted} in {metrics}");
    };
    counted("healthy", 2);
    counted("unhealthy", 1);

    let wanted = Patch::Merge(json!({ "spec": { "healthCheck": { "replaceAfterSeconds": 30 } } }));
    site.proxies(0).patch("lost", &PatchParams::default(), &wanted).await.unwrap();
    told(&site, "lost", "Replacing").await;
    let replaced = healthy(&site, "lost").await.status.unwrap();
    assert_eq!(replaced.incarnation, 2);
    let told: Vec<_> = events(&site, "lost").await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(told.iter().filter(|reason| *reason == "Unhealthy").count(), 1, "{told:?}");
    for name in ["hangs", "lost", "well"] {
        site.delete(0, name).await;
    }
}

/// Through the tunnel of a real Squid, to a server that must prove its name.
#[tokio::test]
async fn an_https_url_is_asked_through_the_proxy_and_one_that_nobody_trusts_blames_no_proxy() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().unwrap();
    let (trusted, impostor) = (Server::start_with(true).await, Server::start_with(true).await);
    let file = folder.path().join("trusted.pem");
    std::fs::write(&file, trusted.certificate.as_ref().unwrap()).unwrap();
    let site = Site::new(&lab, "https", 1).await;
    site.put_module(&kubernetes_provider()).await;
    let port = |server: &Server| server.at.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let entry = |server: &Server| {
        let mut entry = site.kubernetes_entry();
        entry["config"]["squid"]["connectPorts"] = json!([443, port(&trusted), port(&impostor)]);
        entry["health"] = every_second(server);
        entry
    };
    site.put_entry(&entry(&trusted)).await;
    let _epo = site.start_trusting(&file).await;
    for name in ["one", "two"] {
        site.create(0, name, Wanted::default()).await;
    }
    let one = healthy(&site, "one").await;
    healthy(&site, "two").await;
    trusted.say(Says::Unavailable);
    told(&site, &site.entry, "ProbeUrlDown").await;
    trusted.say(Says::Ok);
    told(&site, &site.entry, "ProbeUrlUp").await;

    squid_of(&site, &one).await.lose_route();
    says(&site, "one", "Healthy", "False", "ProxyAnswered503").await;
    healthy(&site, "two").await;
    // Who can't prove its name is nobody's fault but its own.
    site.put_entry(&entry(&impostor)).await;
    eventually("the other URL is told", async || {
        let events = events(&site, &site.entry).await;
        let wanted =
            |(reason, note): &(String, String)| reason == "ProbeUrlDown" && note.contains(&impostor.url());
        if events.iter().any(wanted) { Ok(()) } else { Err(events) }
    })
    .await;
    let two = site.proxies(0).get("two").await.unwrap();
    assert_ne!(condition(&two, "Healthy").unwrap().status, "False", "nobody is blamed for that");
    for name in ["one", "two"] {
        site.delete(0, name).await;
    }
}

#[tokio::test]
async fn a_url_that_is_at_fault_or_gone_blames_nobody_and_writes_nothing() {
    let lab = Lab::new().await;
    let server = Server::start().await;
    // Time for a busy Squid to say itself that it gets no answer: one that says nothing is to blame.
    let health = json!({ "url": server.url(), "periodSeconds": 4, "timeoutSeconds": 4 });
    let site = site(&lab, "url-down", health).await;
    let _epo = site.start(&[]).await;
    for name in ["one", "two"] {
        site.create(0, name, Wanted::default()).await;
    }
    for name in ["one", "two"] {
        healthy(&site, name).await;
        let wanted = Patch::Merge(json!({ "spec": { "healthCheck": { "replaceAfterSeconds": 30 } } }));
        site.proxies(0).patch(name, &PatchParams::default(), &wanted).await.unwrap();
    }
    // What the patch causes is written before it counts.
    for name in ["one", "two"] {
        eventually("the spec was seen", async || {
            let proxy = site.proxies(0).get(name).await.map_err(|error| error.to_string())?;
            let seen = proxy.status.as_ref().and_then(|status| status.observed_generation);
            let observed = condition(&proxy, "Healthy").and_then(|healthy| healthy.observed_generation);
            let settled = seen == proxy.metadata.generation && observed == seen;
            if settled { Ok(()) } else { Err(format!("{:?}", proxy.status)) }
        })
        .await;
    }
    let versions = async || {
        let proxies = site.proxies(0).list(&ListParams::default()).await.unwrap().items;
        proxies.iter().map(ResourceExt::resource_version).collect::<Vec<_>>()
    };
    let before = versions().await;
    server.say(Says::Unavailable);
    told(&site, &site.entry, "ProbeUrlDown").await;
    // Longer than the thresholds, and than what is unhealthy would be kept.
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(versions().await, before);
    server.say(Says::Ok);
    told(&site, &site.entry, "ProbeUrlUp").await;
    // Gone altogether: now each Squid itself says that it can't connect.
    drop(server);
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(versions().await, before, "nothing was written, and nothing replaced");
    for name in ["one", "two"] {
        site.delete(0, name).await;
    }
}

#[tokio::test]
async fn the_address_seen_outside_is_recorded_and_two_that_share_one_are_flagged() {
    let lab = Lab::new().await;
    let server = Server::start().await;
    server.say(Says::Address(None));
    let health = json!({ "periodSeconds": 1, "timeoutSeconds": 1, "egressAddressUrl": server.url(), "egressAddressSeconds": 2 });
    let site = site(&lab, "egress", health).await;
    let _epo = site.start(&[]).await;
    for name in ["one", "two"] {
        site.create(0, name, Wanted::default()).await;
    }
    for name in ["one", "two"] {
        let found = says(&site, name, "EgressAddressUnique", "True", "Unique").await.status.unwrap();
        assert_eq!(found.egress_address, found.address, "nothing stands between a Pod and this machine");
    }
    let shared: IpAddr = "203.0.113.9".parse().unwrap();
    server.say(Says::Address(Some(shared)));
    for (name, other) in [("one", "two"), ("two", "one")] {
        let found = says(&site, name, "EgressAddressUnique", "False", "Shared").await;
        let message = condition(&found, "EgressAddressUnique").unwrap().message;
        assert!(message.contains(&format!("{}/{other}", site.teams[0].name)), "{message}");
        assert_eq!(found.status.unwrap().egress_address, Some(shared.to_string()));
        told(&site, name, "EgressAddressChanged").await;
        told(&site, name, "EgressAddressShared").await;
    }
    site.delete(0, "two").await;
    says(&site, "one", "EgressAddressUnique", "True", "Unique").await;
    site.delete(0, "one").await;
}
