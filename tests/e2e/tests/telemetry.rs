//! What Prometheus and a collector see of an operator at work: names, kinds and labels as docs/observability.md lists
//! them, alerts that fire, and a create as one trace.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Child, Command, Stdio},
};

use egress_operator::api::Proxy;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    collector::{Collector, attributes},
    harness::{Lab, Site, Wanted, eventually, kubernetes_provider, misbehaving},
    metrics::documented,
};

/// The body of an answer that must be good.
async fn get(address: &str, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    // 1.0: the body comes as it is.
    let ask = format!("GET {path} HTTP/1.0\r\nHost: test\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    let is_good = head.split(' ').nth(1) == Some("200");
    if is_good { Ok(body.to_owned()) } else { Err(head.to_owned()) }
}

/// Kind and labels of each metric of a scrape.
fn shown(scrape: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let kinds: BTreeMap<&str, &str> = scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .filter(|(name, _)| name.starts_with("egress_"))
        .collect();
    let mut shown = BTreeMap::new();
    for line in scrape.lines().filter(|line| line.starts_with("egress_")) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let parts = ["_bucket", "_sum", "_count"].into_iter().find_map(|part| name.strip_suffix(part));
        let name = parts.filter(|base| kinds.contains_key(base)).unwrap_or(name);
        let labels = labels.split("=\"").filter_map(|before| before.rsplit([',', '{', '"']).next());
        let labels = labels.filter(|label| !label.is_empty() && *label != "}" && *label != "le");
        let metric =
            shown.entry(name.to_owned()).or_insert_with(|| (kinds[name].to_owned(), BTreeSet::new()));
        metric.1.extend(labels.map(str::to_owned));
    }
    shown
}

/// Debian's Prometheus, with the rules of deploy/. Ended when it is dropped.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    async fn start(scraped: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/rules.yaml");
        let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(rules).unwrap()).unwrap();
        std::fs::write(folder.path().join("rules.json"), rules["spec"].to_string()).unwrap();
        let config = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": ["rules.json"],
            "scrape_configs": [{ "job_name": "epo", "static_configs": [{ "targets": [scraped] }] }],
        });
        let file = folder.path().join("prometheus.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={free}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus: {error}; run make setup"));
        Self { child, address: free.to_string(), _folder: folder }
    }

    async fn api(&self, path: &str) -> Result<Value, String> {
        let body = get(&self.address, &format!("/api/v1/{path}")).await?;
        serde_json::from_str::<Value>(&body).map(|body| body["data"].clone()).map_err(|e| e.to_string())
    }
}

#[tokio::test]
async fn a_scrape_shows_what_the_page_lists_and_prometheus_alerts_on_it() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "telemetry", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_module_as("bad", &misbehaving()).await;
    let mut good = site.kubernetes_entry();
    good["collect"] = json!({ "intervalSeconds": 2, "graceSeconds": 3 });
    good["health"] = json!({ "periodSeconds": 1, "timeoutSeconds": 1 });
    let bad = |config: Value| {
        let mut entry = site.misbehaving_entry(config);
        entry["module"]["configMap"]["name"] = json!("bad");
        entry["limits"] = json!({ "logLines": 3 });
        entry
    };
    let faults = [
        ("traps", bad(json!({ "do": "trap", "in": "create" }))),
        ("floods", bad(json!({ "do": "flood", "in": "create", "n": 10 }))),
        ("refused", bad(json!({ "faults": ["a"] }))),
    ];
    let mut entries: Vec<(String, Value)> =
        faults.into_iter().map(|(name, entry)| (format!("{}-{name}", site.entry), entry)).collect();
    entries.push((site.entry.clone(), good));
    site.put_entries(entries.iter().map(|(name, entry)| (name.as_str(), entry))).await;
    let variables = [
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000"),
        // Where nobody listens.
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:9/v1/logs"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
    ];
    let collector = Collector::start();
    let url = collector.url();
    let variables = [&variables[..], &[("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())]].concat();
    let epo = site.start_with(&[], &variables).await;
    let prometheus = Prometheus::start(epo.address()).await;

    for (at, (entry, _)) in entries.iter().take(2).enumerate() {
        site.create(0, &format!("p{at}"), Wanted { entry: Some(entry.clone()), ..Wanted::default() }).await;
    }
    site.create(0, "web", Wanted::default()).await;
    let web = site.healthy(0, "web").await;

    // All but what the collector removes: nothing is ownerless here.
    let mut wanted = documented();
    wanted.remove("egress_collector_removed_total");
    let address = epo.address().to_owned();
    let scrape = eventually("all metrics are counted", async || {
        let scrape = get(&address, "/metrics").await?;
        let missing: Vec<_> =
            wanted.keys().filter(|name| !shown(&scrape).contains_key(*name)).cloned().collect();
        if missing.is_empty() { Ok(scrape) } else { Err(missing.join(", ")) }
    })
    .await;
    let page: BTreeMap<_, _> =
        wanted.into_iter().map(|(name, metric)| (name, (metric.kind, metric.labels))).collect();
    assert_eq!(shown(&scrape), page);
    let sent = eventually("they are sent, too", async || {
        let names: BTreeSet<String> = collector.taken().metrics.iter().map(|m| m.name.clone()).collect();
        let missing: Vec<_> = page.keys().filter(|name| !names.contains(*name)).cloned().collect();
        if missing.is_empty() { Ok(names) } else { Err(missing.join(", ")) }
    });
    assert_eq!(sent.await, page.keys().cloned().collect());

    let entry = |name: &str| format!("{}-{name}", site.entry);
    for (alert, entry) in [
        ("EgressProviderTraps", entry("traps")),
        ("EgressLogLinesDropped", entry("floods")),
        ("EgressCandidateRefused", entry("refused")),
    ] {
        eventually(&format!("{alert} fires"), async || {
            let alerts = prometheus.api("alerts").await?;
            let fires = alerts["alerts"].as_array().into_iter().flatten().any(|one| {
                let labels = &one["labels"];
                one["state"] == "firing" && labels["alertname"] == alert && labels["entry"] == entry.as_str()
            });
            if fires { Ok(()) } else { Err(alerts.to_string()) }
        })
        .await;
    }
    let groups = prometheus.api("rules").await.unwrap();
    let rules = groups["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() > 15 && rules.iter().all(|rule| rule["health"] == "ok"), "{groups}");

    assert_one_story(&collector, &web).await;
    // The others' components fail at a delete, too: they go with the cluster.
    site.delete(0, "web").await;
    assert!(epo.terminate().await.success());
}

/// The create of a Proxy: one trace, in it each pass, in them each call, in these each host call.
async fn assert_one_story(collector: &Collector, proxy: &Proxy) {
    let (namespace, name) = (proxy.metadata.namespace.clone().unwrap(), proxy.metadata.name.clone().unwrap());
    let key = format!("{namespace}/{name}");
    let first = eventually("the create's first span came", async || {
        let taken = collector.taken();
        let of = |span: &&opentelemetry_proto::tonic::trace::v1::Span| {
            span.name == "proxy.create" && attributes(&span.attributes)["egress.proxy"] == key
        };
        taken.spans.iter().find(of).cloned().ok_or_else(|| taken.spans.len())
    })
    .await;
    let taken = collector.taken();
    assert!(first.parent_span_id.is_empty());
    let mut within: Vec<_> = taken.spans.iter().filter(|span| span.trace_id == first.trace_id).collect();
    within.sort_by_key(|span| span.start_time_unix_nano);
    for (name, above) in [
        ("reconcile", "proxy.create"),
        ("provider.create", "reconcile"),
        ("kubernetes.create", "provider.create"),
        ("provider.get", "reconcile"),
    ] {
        let of: Vec<_> = within.iter().filter(|span| span.name == name).collect();
        assert!(
            !of.is_empty(),
            "no {name} in {:?}",
            within.iter().map(|span| &span.name).collect::<Vec<_>>()
        );
        for span in of {
            assert_eq!(taken.span(&span.parent_span_id).expect("what is above it").name, above);
        }
    }
    // Looks go on, each in a trace of its own with a link to this one.
    let looks =
        taken.spans.iter().filter(|span| span.links.iter().any(|link| link.trace_id == first.trace_id));
    assert!(looks.clone().all(|look| look.trace_id != first.trace_id && look.parent_span_id.is_empty()));
}
