//! A request over HTTP, by way of a component and without one: the same logic, the same capability, the same server
//! behind TLS, which takes 5 ms for each answer. And what many requests leave in memory.

#[expect(dead_code, reason = "certificates change in the tests on the cluster")]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "it is a part of those tests")]
#[path = "../../e2e/tests/harness/https.rs"]
mod https;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use egress_capabilities::HttpCapability;
use egress_contract::{Created, Installation, Provider, Spec, Target};
use egress_runtime::{
    Candidate, Lent, Limits, Module,
    capability::{Http, HttpFailure, HttpRequest, HttpResponse, SystemClock},
};
use egress_sim::compute::{Compute, ComputeSpec};
use futures::{StreamExt, TryStreamExt, stream};
use provider_encode::Guest;
use serde_json::{Value, json};

use self::https::Https;
use crate::{
    Failure,
    live::mib,
    loading,
    native::{self, Lent as NativeLent},
    report::Report,
    waiting::resident_of,
};

const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a34";
const ANSWER: Duration = Duration::from_millis(5);
const PROJECT: &str = "proxies-1";
/// Images, and so requests in one operation: what an operation costs itself falls out of the difference.
const FEW: usize = 1;
const MANY_IMAGES: usize = 101;
const TIMES: usize = 15;
const FIRST: usize = 10_000;
const MANY: usize = 100_000;
const AT_ONCE: usize = 32;

/// Compute Engine, which takes its time.
struct Slow {
    compute: Compute,
    wait_ms: AtomicU64,
}

#[async_trait]
impl Http for Slow {
    fn is_read(&self, request: &HttpRequest) -> bool {
        self.compute.is_read(request)
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        tokio::time::sleep(Duration::from_millis(self.wait_ms.load(Ordering::SeqCst))).await;
        self.compute.send(request).await
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        self.compute.info(endpoint).await
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new("requests over HTTP", error.to_string())
}

/// Measures both.
pub(crate) async fn measure(
    report: &mut Report,
    installation: &Installation,
    folder: &Path,
) -> Result<(), Failure> {
    let projects = BTreeMap::from([(PROJECT.to_owned(), vec!["us-central1-a".to_owned()])]);
    let spec = ComputeSpec { endpoint: "compute".to_owned(), manager: None, projects, page: 500 };
    let compute = Compute::new(Arc::new(SystemClock::default()), &spec);
    let slow = Arc::new(Slow { compute: compute.clone(), wait_ms: AtomicU64::new(0) });
    let refused = HttpResponse { status: 401, ..HttpResponse::default() };
    let (server, pem) = Https::start(Arc::clone(&slow) as _, "compute", 2, refused).await;
    server.admit(BTreeSet::from(["Bearer token".to_owned()]));
    let (ca, token) = (folder.join("ca.pem"), folder.join("token"));
    std::fs::write(&ca, pem).map_err(|error| failed(&error))?;
    std::fs::write(&token, "token").map_err(|error| failed(&error))?;
    let grant = json!({ "endpoints": { "compute": {
        "url": format!("https://localhost:{}/compute/v1", server.port), "ca": { "file": ca },
        "credentials": { "header": { "secret": { "file": token } } }, "connections": AT_ONCE,
    } } });
    let grant = serde_json::from_value(grant).map_err(|error| failed(&error))?;
    let entry = "bench".parse().map_err(|error| failed(&error))?;
    let http = HttpCapability::new(&entry, grant).map_err(|faults| failed(&format!("{faults:?}")))?;
    let http: Arc<dyn Http> = Arc::new(http);

    let wasm = folder.join("gcp.wasm");
    let guest = Guest::find(Path::new(env!("CARGO_MANIFEST_DIR")), Some("gcp-provider"));
    guest.and_then(|guest| guest.build(&wasm)).map_err(|error| failed(&error))?;
    let component = std::fs::read(&wasm).map_err(|error| failed(&error))?;
    let module = Module::unpack(&component, u64::MAX).map_err(|refusal| failed(&refusal))?;
    let mut revisions = Vec::new();
    for images in [FEW, MANY_IMAGES] {
        let cache = folder.join(format!("cache-http-{images}"));
        let slot = loading::slot(loading::runtime(&cache, None)?, installation)?;
        let loaded = slot.load(Candidate {
            module: module.clone(),
            pinned: None,
            config: config(images),
            lent: Lent { http: Some(Arc::clone(&http)), ..Lent::default() },
            grants: json!({}),
            limits: Limits { host_calls: u32::MAX, ..Limits::default() },
            legacy: Vec::new(),
        });
        revisions.push(loaded.await.map_err(|refusal| failed(&refusal))?);
    }
    let [few, many] = revisions.as_slice() else { return Err(failed(&"two revisions")) };
    let target = made(few.as_ref(), installation).await?;

    let mark = installation.mark(UID, 1, "bench", "bench");
    let natively = |images: usize| {
        let start = Instant::now();
        let call = |request: &provider_sdk::http::Request| sent(&http, request);
        let lent = NativeLent { call, config: config(images), mark: mark.clone() };
        let ready = tokio::task::block_in_place(|| native::check_over_http(lent, PROJECT));
        ready.then(|| start.elapsed()).ok_or_else(|| failed(&"the native check is not ready"))
    };
    let checked = async |revision: &dyn Provider| {
        let start = Instant::now();
        let health = revision.check(PROJECT).await.map_err(|error| failed(&error))?;
        health.ready.then(|| start.elapsed()).ok_or_else(|| failed(&health.message))
    };
    let each = |many: Duration, few: Duration| {
        many.saturating_sub(few).as_secs_f64() * 1e6 / (MANY_IMAGES - FEW) as f64
    };
    slow.wait_ms.store(ANSWER.as_millis().try_into().unwrap_or(u64::MAX), Ordering::SeqCst);
    let (mut through, mut native) = (Vec::new(), Vec::new());
    // In turn, so that both meet the same machine.
    for _ in 0..TIMES {
        let base = checked(few.as_ref()).await?;
        through.push(each(checked(many.as_ref()).await?, base));
        let base = natively(FEW)?;
        native.push(each(natively(MANY_IMAGES)?, base));
    }
    let through = report.samples("a request over HTTP, 5 ms behind TLS: component", "us", through);
    let native = report.samples("a request over HTTP, 5 ms behind TLS: native", "us", native);
    let share = (through - native) / (ANSWER.as_secs_f64() * 1e6) * 100.0;
    report.figure("a request over HTTP: component over native, of 5 ms", "%", share, Some(2.0));

    slow.wait_ms.store(0, Ordering::SeqCst);
    let gets = async |count: usize| {
        let all = stream::iter(0..count).map(|_| few.get(&target)).buffer_unordered(AT_ONCE);
        all.try_for_each(|_| async { Ok(()) }).await.map_err(|error| failed(&error))
    };
    gets(FIRST).await?;
    let before = mib(resident_of("self")?);
    gets(MANY).await?;
    let after = mib(resident_of("self")?);
    report.figure("memory after 10,000 gets over HTTP", "MiB", before, None);
    report.figure("memory after 100,000 more, over that", "ratio", after / before, Some(1.05));
    Ok(())
}

/// With so many images, each of which a check asks for.
fn config(images: usize) -> Value {
    let source = json!({ "source": "projects/debian-cloud/global/images/family/debian-13" });
    let images: BTreeMap<String, Value> =
        (0..images).map(|number| (format!("debian-{number}"), source.clone())).collect();
    json!({
        "project": PROJECT, "zones": ["us-central1-a"], "externalAddress": "none",
        "images": images,
        "machineTypes": { "small": "e2-micro" },
        "defaults": { "machineType": "small", "image": "debian-0" },
    })
}

/// What a look sends, without a component in between.
fn sent(
    http: &Arc<dyn Http>,
    request: &provider_sdk::http::Request,
) -> Result<provider_sdk::http::Response, provider_sdk::http::Failure> {
    let request = HttpRequest {
        endpoint: request.endpoint.clone(),
        method: request.method.word().to_owned(),
        path: request.path.clone(),
        query: request.query.clone(),
        headers: request.headers.clone(),
        ..HttpRequest::default()
    };
    let answer = tokio::runtime::Handle::current().block_on(http.send(&request));
    match answer {
        Ok(HttpResponse { status, reason, headers, body }) => {
            Ok(provider_sdk::http::Response { status, reason, headers, body })
        }
        Err(HttpFailure { message, sent, .. }) => {
            Err(provider_sdk::http::Failure { kind: provider_sdk::http::FailureKind::Cut, message, sent })
        }
    }
}

/// An instance that stands.
async fn made(provider: &dyn Provider, installation: &Installation) -> Result<Target, Failure> {
    let mut target = Target {
        name: installation.instance_name("bench", UID, 1),
        uid: UID.into(),
        incarnation: 1,
        namespace: "bench".into(),
        proxy: "bench".into(),
        id: None,
        progress: None,
    };
    let spec = Spec { port: 3128, ..Spec::default() };
    for _ in 0..100 {
        match provider.create(&target, &spec, &[]).await.map_err(|error| failed(&error))? {
            Created::Done(id) => {
                target.id = Some(id);
                return Ok(target);
            }
            Created::Pending(pending) => {
                target.id = pending.id;
                target.progress = Some(pending.progress);
                tokio::time::sleep(pending.poll).await;
            }
        }
    }
    Err(failed(&"the instance is not made after a hundred steps"))
}
