//! Every limit, set in the providers ConfigMap and read back where people look: in the Proxy's status, or, if it
//! keeps a candidate from becoming active, in the ProviderHealth.

use egress_operator::api::Failure;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Lab, Site, Wanted, eventually, misbehaving};

/// What is asked of the guest, under which limit, and what the Proxy's status says then.
struct Limit {
    key: &'static str,
    value: u64,
    config: Value,
    reason: &'static str,
}

fn in_create(key: &'static str, value: u64, fault: &str, n: u64, reason: &'static str) -> Limit {
    Limit { key, value, config: json!({ "do": fault, "in": "create", "n": n }), reason }
}

/// All that a create can run into.
fn all() -> Vec<Limit> {
    vec![
        in_create("memoryBytes", 8 << 20, "eat", 0, "limit-memory"),
        in_create("computeMs", 100, "loop", 0, "limit-compute"),
        in_create("createMs", 150, "sleep", 60_000, "limit-time"),
        in_create("hostCalls", 5, "call", 6, "limit-host-calls"),
        in_create("requestBytes", 10_000, "big-request", 10_001, "limit-request"),
        in_create("responseBytes", 50, "", 0, "limit-response"),
        in_create("answerBytes", 10_000, "big", 10_001, "limit-answer"),
    ]
}

/// What keeps a candidate out.
fn refusing() -> Vec<(Limit, &'static str)> {
    let in_configure = json!({ "do": "loop", "in": "configure" });
    let limit = |key, value, config, reason| Limit { key, value, config, reason };
    vec![
        (limit("tableElements", 1, json!({}), "LimitTables"), "configure"),
        (limit("instances", 1, json!({}), "LimitInstances"), "parse"),
        (limit("configureMs", 60, in_configure, "LimitTime"), "configure"),
    ]
}

async fn failure(site: &Site, name: &str) -> Failure {
    let proxies = site.proxies(0);
    eventually(&format!("Proxy {name} fails"), async || {
        let status = proxies.get(name).await.unwrap().status.unwrap_or_default();
        status.failure.clone().ok_or(status)
    })
    .await
}

#[tokio::test]
async fn each_is_told_with_its_key_and_value_in_the_status() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "limit", 1).await;
    site.put_module(&misbehaving()).await;
    let limits = all();
    let entries: Vec<(String, Value)> = (limits.iter().enumerate())
        .map(|(at, limit)| {
            let mut entry = site.misbehaving_entry(limit.config.clone());
            entry["limits"] = json!({ limit.key: limit.value });
            if limit.key == "createMs" {
                entry["limits"]["computeMs"] = json!(600_000);
            }
            (format!("{}-{at}", site.entry), entry)
        })
        .collect();
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    let _epo = site.start(&[]).await;
    join_all(limits.iter().zip(&entries).map(async |(limit, (entry, _))| {
        let proxy = limit.key.to_lowercase();
        site.create(0, &proxy, Wanted { entry: Some(entry.clone()), ..Wanted::default() }).await;
        let failure = failure(&site, &proxy).await;
        println!("{}: {}: {}", limit.key, failure.reason, failure.message);
        assert_eq!(
            (failure.class.as_str(), failure.reason.as_str()),
            ("transient", limit.reason),
            "{failure:?}"
        );
        let told = format!("limits.{} ({})", limit.key, limit.value);
        assert!(failure.message.contains(&told), "{told}: {}", failure.message);
    }))
    .await;
}

#[tokio::test]
async fn each_that_keeps_a_candidate_out_is_told_in_the_provider_health() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "limitout", 1).await;
    site.put_module(&misbehaving()).await;
    let _epo = site.start(&[]).await;
    for (limit, stage) in refusing() {
        let mut entry = site.misbehaving_entry(limit.config.clone());
        entry["limits"] = json!({ limit.key: limit.value, "computeMs": 600_000 });
        site.put_entry(&entry).await;
        let refusal = site
            .health(&site.entry, &format!("{} keeps it out", limit.key), |status| {
                status.refusal.clone().filter(|refusal| refusal.reason == limit.reason)
            })
            .await;
        println!("{}: {}", limit.key, refusal.message);
        assert_eq!(refusal.stage, stage);
        let said = |form: String| refusal.message.contains(&form);
        let (key, value) = (limit.key, limit.value);
        assert!(
            said(format!("limits.{key} ({value})")) || said(format!("limits.{key} is {value}")),
            "{}",
            refusal.message
        );
    }
}

#[tokio::test]
async fn a_limit_that_is_misspelt_or_no_number_is_told_with_its_path() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "limitbad", 1).await;
    site.put_module(&misbehaving()).await;
    let mut entry = site.misbehaving_entry(json!({}));
    entry["limits"] = json!({ "memoryByte": 1, "computeMs": "soon" });
    site.put_entry(&entry).await;
    let _epo = site.start(&[]).await;
    let refusal = site.health(&site.entry, "it is refused", |status| status.refusal.clone()).await;
    assert_eq!((refusal.stage.as_str(), refusal.reason.as_str()), ("entry", "EntryInvalid"));
    let faults = refusal.faults.join("\n");
    assert!(faults.contains("limits.memoryByte") && faults.contains("limits.computeMs"), "{faults}");
}
