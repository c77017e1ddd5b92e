//! A backend that outlives the operator: Compute Engine, simulated in the test's process and reached over real HTTP.
//!
//! What a killed operator had sent is done all the same, as at the real service.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use egress_runtime::capability::{Clock, Http, HttpBody, HttpRequest};
use egress_sim::compute::{Compute, ComputeSpec};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;

const BASE: &str = "/compute/v1/";

/// A minute there is a second here: nobody waits for machines to boot.
struct Fast {
    start: Instant,
    since: u64,
}

impl Fast {
    const TIMES: u128 = 60;
}

#[async_trait]
impl Clock for Fast {
    fn now_ms(&self) -> u64 {
        self.since + self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis() * Self::TIMES).unwrap()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time / 60).await;
    }
}

/// See the module.
pub struct Backend {
    pub compute: Compute,
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Backend {
    pub fn start() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let clock = Fast { start: Instant::now(), since: u64::try_from(since).unwrap() };
        let spec = ComputeSpec {
            endpoint: "compute".to_owned(),
            manager: None,
            projects: [("lab".to_owned(), vec!["z-1-a".to_owned()])].into(),
            page: 500,
        };
        let compute = Compute::new(Arc::new(clock), &spec);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (serves, counts) = (compute.clone(), Arc::clone(&requests));
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (compute, requests) = (serves.clone(), Arc::clone(&counts));
                let service = service_fn(move |request| {
                    requests.fetch_add(1, Ordering::SeqCst);
                    answer(compute.clone(), request)
                });
                tokio::spawn(async move {
                    // A killed client ends it, and that is no failure.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { compute, address, requests, _runtime: runtime }
    }

    /// An entry for it.
    pub fn entry(&self) -> String {
        format!(
            "gcp:\n  module: {{ file: modules/gcp.wasm }}\n  replace: {{ atOnce: 100 }}\n  config:\n    project: lab\n    \
             zones: [z-1-a]\n    defaults: {{ machineType: e2-small, image: projects/ubuntu-os-cloud/global/images/family/u \
             }}\n  grants:\n    http:\n      endpoints:\n        compute: {{ url: 'http://{}{}', plainHttp: true }}\n",
            self.address,
            BASE.trim_end_matches('/'),
        )
    }

    /// Name and labels of each machine that is there and not on its way out.
    pub fn machines(&self) -> Vec<String> {
        self.compute.instances().into_iter().map(|seen| seen.name).collect()
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn answer(compute: Compute, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // The client is gone, and what it sent is incomplete: the real one would not do it either.
    let Ok(body) = body.collect().await else { return Ok(Response::new(Full::default())) };
    let body = body.to_bytes();
    let path = head.uri.path().strip_prefix(BASE).unwrap_or_default();
    let query = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let asked = HttpRequest {
        endpoint: "compute".to_owned(),
        method: head.method.to_string(),
        path: path.split('/').map(percent_decoded).collect(),
        query: query
            .map(|(key, value)| (percent_decoded(key), percent_decoded(&value.replace('+', " "))))
            .collect(),
        headers: Vec::new(),
        body: if body.is_empty() { HttpBody::None } else { HttpBody::Bytes(body.to_vec()) },
        timeout: None,
    };
    let answered = compute.send(&asked).await.unwrap();
    let mut response = Response::builder().status(answered.status);
    for (name, value) in answered.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(answered.body))).unwrap())
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (*first, behind.get(..2)) {
            (b'%', Some(digits)) => {
                let digits = std::str::from_utf8(digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = behind.get(2..).unwrap();
            }
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
