//! No credential and no line of user-data comes out anywhere, whatever goes wrong.

use std::collections::BTreeMap;

use egress_operator::api::{ProviderHealth, Proxy};
use k8s_openapi::{
    ByteString,
    api::{core::v1::Secret, events::v1::Event},
};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::collector::Collector;
use crate::harness::{Epo, Lab, Site, Wanted, eventually, from, kubernetes_provider, misbehaving};

const USER_DATA: &str =
    "#cloud-config\npassword: sentinel-of-user-data-1\nruncmd: [\"echo \\\"sentinel-of-user-data-2\\\"\"]\n";
const SENTINEL: &str = "sentinel-of-user-data";

/// Everything that people and programs can read of this site, besides what they wrote themselves.
async fn everything_said(site: &Site, epo: &mut Epo) -> Vec<(String, String)> {
    let mut said = vec![("the log".to_owned(), epo.log()), ("the metrics".to_owned(), epo.metrics().await)];
    let all = ListParams::default();
    for health in Api::<ProviderHealth>::all(site.lab.client.clone()).list(&all).await.unwrap().items {
        said.push(("a ProviderHealth".to_owned(), json!(health).to_string()));
    }
    for namespace in site.teams.iter().chain([&site.system]) {
        for event in namespace.api::<Event>().list(&all).await.unwrap().items {
            said.push(("an Event".to_owned(), json!(event).to_string()));
        }
    }
    let defaults: Api<Event> = Api::namespaced(site.lab.client.clone(), "default");
    for event in defaults.list(&all).await.unwrap().items {
        said.push(("an Event".to_owned(), json!(event).to_string()));
    }
    for team in &site.teams {
        for proxy in team.api::<Proxy>().list(&all).await.unwrap().items {
            said.push(("a status".to_owned(), json!(proxy.status).to_string()));
        }
    }
    said
}

/// The token in the operator's kubeconfig, whole and its signature alone.
async fn tokens(site: &Site) -> Vec<String> {
    let text = std::fs::read_to_string(site.operator_kubeconfig().await).unwrap();
    let kubeconfig: Value = serde_json::from_str(&text).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned();
    let signature = token.rsplit('.').next().unwrap().to_owned();
    vec![token, signature]
}

/// What nobody may say.
async fn secrets(site: &Site) -> Vec<String> {
    let mut secrets = tokens(site).await;
    secrets.push(SENTINEL.to_owned());
    // As it stands in a Secret.
    secrets.extend(USER_DATA.lines().filter(|line| line.len() > 12).map(base64));
    secrets
}

async fn assert_nothing_said(site: &Site, epo: &mut Epo) {
    let secrets = secrets(site).await;
    for (place, text) in everything_said(site, epo).await {
        for secret in &secrets {
            if let Some(at) = text.find(secret.as_str()) {
                let begin = text.floor_char_boundary(at.saturating_sub(300));
                panic!("{place} holds {:?}: ...{}", &secret[..secret.len().min(20)], &text[begin..at]);
            }
        }
    }
}

/// Of a line at the beginning of a text: what an encoder makes of it wherever it begins anew.
fn base64(line: &str) -> String {
    let encoded = json!(ByteString(line.as_bytes().to_vec()));
    // Without the last characters, which depend on what follows.
    let text = encoded.as_str().unwrap().trim_end_matches('=');
    text[..text.len() / 4 * 4].to_owned()
}

async fn put_secret(site: &Site) {
    let data = BTreeMap::from([("user-data".to_owned(), USER_DATA.to_owned())]);
    let secret = Secret { string_data: Some(data), ..from(json!({ "metadata": { "name": "squid" } })) };
    site.teams[0].api().create(&Default::default(), &secret).await.unwrap();
}

fn from_secret() -> Option<Value> {
    Some(json!({ "secretRef": { "name": "squid", "key": "user-data" } }))
}

async fn fails(site: &Site, name: &str) -> String {
    let proxies = site.proxies(0);
    eventually("it fails", async || {
        let status = proxies.get(name).await.unwrap().status.unwrap_or_default();
        status.failure.clone().map(|failure| failure.reason).ok_or(status)
    })
    .await
}

#[tokio::test]
async fn nothing_secret_is_said_at_the_highest_level() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "secret", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    put_secret(&site).await;
    let mut epo = site.start(&["--log-level", "trace"]).await;
    // One that works, and one whose user-data the provider refuses.
    site.create(0, "plain", Wanted::default()).await;
    site.ready(0, "plain").await;
    site.create(0, "refused", Wanted { cloud_init: from_secret(), ..Wanted::default() }).await;
    fails(&site, "refused").await;
    site.delete(0, "plain").await;
    assert!(epo.log().contains("\"level\":\"TRACE\""), "the log is on");
    assert_nothing_said(&site, &mut epo).await;
    site.delete(0, "refused").await;
    assert_nothing_said(&site, &mut epo).await;
}

#[tokio::test]
async fn a_guest_that_says_its_user_data_is_not_heard() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "leak", 1).await;
    site.put_module(&misbehaving()).await;
    put_secret(&site).await;
    let faults = ["say-user-data", "panic-user-data", "leak-error", "leak-pending", "leak-violation"];
    let entries: Vec<(String, Value)> = (faults.iter().enumerate())
        .map(|(at, fault)| {
            let config = json!({ "do": fault, "in": "create" });
            (format!("{}-{at}", site.entry), site.misbehaving_entry(config))
        })
        .collect();
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    let collector = Collector::start();
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())];
    let endpoint = endpoint.each_ref().map(|(name, url)| (*name, url.as_str()));
    let mut epo = site.start_with(&["--log-level", "trace"], &endpoint).await;
    for (at, (entry, _)) in entries.iter().enumerate() {
        let wanted = Wanted { cloud_init: from_secret(), entry: Some(entry.clone()), ..Wanted::default() };
        site.create(0, &format!("p{at}"), wanted).await;
    }
    for at in [1, 2, 4] {
        fails(&site, &format!("p{at}")).await;
    }
    eventually("what is pending has a note", async || {
        let status = site.proxies(0).get("p3").await.unwrap().status.unwrap_or_default();
        status.instance.clone().and_then(|instance| instance.progress).ok_or(status)
    })
    .await;
    assert_nothing_said(&site, &mut epo).await;
    // Nor by whoever collects what the operator sends: all of it is there once it has ended.
    let secrets = secrets(&site).await;
    epo.terminate().await;
    let taken = collector.taken();
    assert!(taken.spans.iter().any(|span| span.name == "provider.create") && !taken.lines.is_empty());
    let text = taken.text();
    for secret in &secrets {
        assert!(
            !text.contains(secret.as_str()),
            "a collector was sent {:?}",
            &secret[..secret.len().min(20)]
        );
    }
}
