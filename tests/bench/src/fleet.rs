//! Many Proxies: the operator as a process beside a real API server, over a simulated backend whose Pods run at once. What a backend takes its time for is left out; what the operator asks of the API server is not.

use std::{
    collections::BTreeMap,
    fmt,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use egress_operator::api::{Proxy, ProxySpec};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Event;
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

/// As many as the operator's passes.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(900);
/// After this nobody is at anything any more.
const SETTLED: Duration = Duration::from_secs(30);
/// Leases are renewed, by others than the operator, too; the API server writes its own endpoints every ten seconds.
const OTHERS: [&str; 2] = ["leases", "endpoints"];
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
    let proxies = options.proxies;
    let figure = |what: &str| format!("{proxies} Proxies: {what}");
    create(client, proxies).await?;
    let before = Writes::counted(client).await?;

    let running = Running::start(options, cache).await?;
    let ready = running.begun.elapsed();
    all_ready(client, backend, proxies).await?;
    let took = running.begun.elapsed().saturating_sub(ready);
    let made = Writes::counted(client).await?.since(&before);
    eprintln!("bench: until all ran: {made}");
    let made = made.of("proxies") + told(client).await?;
    report.figure(&figure("writes for each until it runs"), "writes", made / proxies as f64, Some(5.0));

    // What was told at the end of the work may come a little later.
    tokio::time::sleep(SETTLED).await;
    let before = Writes::counted(client).await?;
    tokio::time::sleep(options.quiet).await;
    let in_quiet = Writes::counted(client).await?.since(&before);
    eprintln!("bench: in {} quiet seconds: {in_quiet}", options.quiet.as_secs());
    let name = figure(&format!("writes but for Leases in {} quiet seconds", options.quiet.as_secs()));
    report.figure(&name, "writes", in_quiet.all(), Some(0.0));
    let memory = mib(resident_of(&running.pid()?)?);
    report.figure(&figure("the operator's memory"), "MiB", memory, Some(150.0));
    running.end().await?;

    let running = Running::start(options, cache).await?;
    let known = running.begun.elapsed().as_secs_f64();
    report.figure(&figure("a start until all are known"), "s", known, Some(30.0));
    running.end().await?;

    // As many as the operator's, the rest of its way left out.
    let bare = bare_writes(client, proxies, made as usize).await?;
    report.figure(&figure("until all run"), "s", took.as_secs_f64(), Some(2.0 * bare.as_secs_f64()));
    report.figure("as many bare status writes", "s", bare.as_secs_f64(), None);
    Ok(())
}

/// Writes by resource and verb, by the API server's own count.
struct Writes(BTreeMap<String, f64>);

impl Writes {
    /// All but those that come also where nobody asks for anything.
    async fn counted(client: &Client) -> Result<Self, Failure> {
        let request = http::Request::get("/metrics").body(Vec::new()).map_err(failed)?;
        let metrics = client.request_text(request).await.map_err(failed)?;
        let value = |line: &str, label: &str| {
            let (_, rest) = line.split_once(label)?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        let mut writes = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let (Some(verb), Some(resource)) = (value(line, "verb=\""), value(line, ",resource=\"")) else {
                continue;
            };
            let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<f64>().ok());
            if WRITING.contains(&verb.as_str()) && !OTHERS.contains(&resource.as_str()) {
                let code = value(line, "code=\"").filter(|code| !code.starts_with('2'));
                let refused = code.map_or_else(String::new, |code| format!(" ({code})"));
                *writes.entry(format!("{verb} {resource}{refused}")).or_default() +=
                    count.unwrap_or_default();
            }
        }
        Ok(Self(writes))
    }

    fn since(&self, before: &Self) -> Self {
        let more = |(kind, count): (&String, &f64)| {
            let more = count - before.0.get(kind).copied().unwrap_or_default();
            (more > 0.0).then(|| (kind.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    fn of(&self, resource: &str) -> f64 {
        let of_it = self.0.iter().filter(|(kind, _)| kind.split(' ').nth(1) == Some(resource));
        of_it.map(|(_, count)| count).sum()
    }

    fn all(&self) -> f64 {
        self.0.values().fold(0.0, |all, count| all + count)
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no write");
        }
        self.0.iter().try_for_each(|(kind, count)| write!(f, "{count} {kind}; "))
    }
}

/// How often something was told of Proxies: each time is a write.
async fn told(client: &Client) -> Result<f64, Failure> {
    let api: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about = ListParams::default().fields("involvedObject.kind=Proxy").match_any();
    let told = api.list(&about).await.map_err(failed)?;
    let times = |event: &Event| event.series.as_ref().and_then(|series| series.count).unwrap_or(1);
    Ok(told.items.iter().map(|event| f64::from(times(event))).sum())
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

async fn create(client: &Client, count: usize) -> Result<(), Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let spec = || ProxySpec { provider: ENTRY.into(), port: 3128, ..ProxySpec::default() };
    let proxies = (0..count).map(|number| Proxy::new(&format!("bench-{number}"), spec()));
    let create = |proxy| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &proxy).await.map(drop) }
    };
    stream::iter(proxies).map(create).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(failed)
}

async fn all_ready(client: &Client, backend: &Served, count: usize) -> Result<(), Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let begun = Instant::now();
    // A list of them all costs the API server seconds, which the operator is to have: not before all may be ready.
    while backend.pods() < count && begun.elapsed() < PATIENCE {
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
        if ready == count {
            return Ok(());
        }
        eprintln!("bench: {ready} Proxies are ready after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    Err(failed("the Proxies did not all get ready"))
}

/// So many, over all Proxies, while no operator runs.
async fn bare_writes(client: &Client, proxies: usize, count: usize) -> Result<Duration, Failure> {
    let api: Api<Proxy> = Api::namespaced(client.clone(), NAMESPACE);
    let write = |number: usize| {
        let api = api.clone();
        async move {
            let patch = json!({ "status": { "observedGeneration": number } });
            let name = format!("bench-{}", number % proxies);
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        }
    };
    let begun = Instant::now();
    stream::iter(1..=count).map(write).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(failed)?;
    Ok(begun.elapsed())
}
