//! Ten thousand Proxies: the operator as a process beside a real API server, over a simulated backend whose Pods run
//! at once. What a backend takes its time for is left out; what the operator asks of the API server is not.

use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use egress_operator::api::{Proxy, ProxySpec};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Child,
};

use crate::{
    Failure,
    live::{ENTRY, NAMESPACE, Options, end, failed, mib, start},
    report::Report,
    served::Served,
    waiting::resident_of,
};

const PROXIES: usize = 10_000;
/// As many as the operator's passes.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(900);
/// What changes by the operator's hand, but for the Lease.
const WRITTEN: [&str; 5] = ["proxies", "providerhealths", "events", "configmaps", "secrets"];
const WRITING: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];

/// One operator, and where it answers.
struct Running {
    epo: Child,
    address: String,
    begun: Instant,
}

pub(crate) async fn measure(
    report: &mut Report,
    options: &Options,
    client: &Client,
    cache: &Path,
    backend: &Served,
) -> Result<(), Failure> {
    create(client).await?;
    let before = writes(client).await?;

    let running = Running::start(options, cache).await?;
    let ready = running.begun.elapsed();
    all_ready(client, backend).await?;
    let took = running.begun.elapsed().saturating_sub(ready);
    let made = writes(client).await? - before;
    report.figure("10,000 Proxies to Running: writes for each", "writes", made / PROXIES as f64, Some(5.0));

    // What was told at the end of the work may come a little later.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = writes(client).await?;
    tokio::time::sleep(options.quiet).await;
    let in_quiet = writes(client).await? - before;
    report.figure("10,000 Proxies, quiet: writes but for the Lease", "writes", in_quiet, Some(0.0));
    let memory = mib(resident_of(&running.pid()?)?);
    report.figure("10,000 Proxies: the operator's memory", "MiB", memory, Some(150.0));
    running.end().await?;

    let running = Running::start(options, cache).await?;
    report.figure(
        "10,000 Proxies: a start until all are known",
        "s",
        running.begun.elapsed().as_secs_f64(),
        Some(30.0),
    );
    running.end().await?;

    // As many as the operator's, the rest of its way left out.
    let bare = bare_writes(client, made as usize).await?;
    report.figure("10,000 Proxies to Running", "s", took.as_secs_f64(), Some(2.0 * bare.as_secs_f64()));
    report.figure("as many bare status writes", "s", bare.as_secs_f64(), None);
    Ok(())
}

impl Running {
    /// Until it is ready.
    async fn start(options: &Options, cache: &Path) -> Result<Self, Failure> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(failed)?.to_string();
        let begun = Instant::now();
        let epo = start(options, cache, &address)?;
        let running = Self { epo, address, begun };
        while begun.elapsed() < PATIENCE {
            if running.is_ready().await {
                return Ok(running);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(failed("the operator did not get ready"))
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.address).await else { return false };
        let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: epo\r\nConnection: close\r\n\r\n").await;
        let mut answer = String::new();
        asked.is_ok()
            && stream.read_to_string(&mut answer).await.is_ok()
            && answer.starts_with("HTTP/1.1 200")
    }

    fn pid(&self) -> Result<String, Failure> {
        self.epo.id().map(|id| id.to_string()).ok_or_else(|| failed("epo has ended"))
    }

    async fn end(mut self) -> Result<(), Failure> {
        end(&mut self.epo).await
    }
}

async fn create(client: &Client) -> Result<(), Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let spec = || ProxySpec { provider: ENTRY.into(), port: 3128, ..ProxySpec::default() };
    let proxies = (0..PROXIES).map(|number| Proxy::new(&format!("bench-{number}"), spec()));
    let create = |proxy| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &proxy).await.map(drop) }
    };
    stream::iter(proxies).map(create).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(failed)
}

async fn all_ready(client: &Client, backend: &Served) -> Result<(), Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let begun = Instant::now();
    // A list of them all costs the API server seconds, which the operator is to have: not before all may be ready.
    while backend.pods() < PROXIES && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    while begun.elapsed() < PATIENCE {
        // From the server's cache: what is measured is not to wait for this.
        let listed = api.list(&ListParams::default().match_any()).await.map_err(failed)?;
        let ready = |proxy: &&Proxy| {
            let conditions = proxy.status.iter().flat_map(|status| &status.conditions);
            conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        let ready = listed.items.iter().filter(ready).count();
        if ready == PROXIES {
            return Ok(());
        }
        eprintln!("bench: {ready} Proxies are ready after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    Err(failed("the Proxies did not all get ready"))
}

/// All writes to what the operator writes, by the API server's own count.
async fn writes(client: &Client) -> Result<f64, Failure> {
    let request = http::Request::get("/metrics").body(Vec::new()).map_err(failed)?;
    let metrics = client.request_text(request).await.map_err(failed)?;
    let has = |line: &str, key: &str, values: &[&str]| {
        values.iter().any(|value| line.contains(&format!("{key}=\"{value}\"")))
    };
    let counted = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
        .filter(|line| has(line, "verb", &WRITING) && has(line, ",resource", &WRITTEN));
    Ok(counted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}

/// So many, over all Proxies, while no operator runs.
async fn bare_writes(client: &Client, count: usize) -> Result<Duration, Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let write = |number: usize| {
        let api = api.clone();
        async move {
            let patch = json!({ "status": { "observedGeneration": number } });
            let name = format!("bench-{}", number % PROXIES);
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        }
    };
    let begun = Instant::now();
    stream::iter(1..=count).map(write).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(failed)?;
    Ok(begun.elapsed())
}
