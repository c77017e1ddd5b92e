//! A simulated backend behind real sockets and TLS: what the operator's capability asks of it comes by way of a
//! certificate, a token and the bytes of HTTP, each of which a test may change while the operator runs.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use egress_runtime::capability::{Http, HttpBody, HttpPart, HttpRequest, HttpResponse, Pairs};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    ext::ReasonPhrase,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_rustls::TlsAcceptor;

/// What Pods call this machine, by an alias of their own.
pub const IN_PODS: &str = "machine.lab";

/// See the module. It ends when it is dropped.
pub struct Https {
    pub port: u16,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    backend: Arc<dyn Http>,
    /// The backend's name for itself.
    endpoint: String,
    /// How many segments stand before the backend's own.
    base: usize,
    tls: RwLock<TlsAcceptor>,
    next: Mutex<Option<TlsAcceptor>>,
    admitted: RwLock<BTreeSet<String>>,
    refused: HttpResponse,
    most_open: AtomicUsize,
}

/// Connections that are open at that port, as the kernel has it: a server sees an end later than it came. The table is
/// no snapshot: one that ends and one that begins while it is read may both stand there, but not every time.
fn open(port: u16) -> usize {
    (0..3).map(|_| established(port)).min().unwrap_or_default()
}

fn established(port: u16) -> usize {
    let local = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[1].ends_with(&local) && fields[3] == "01").count()
}

impl Drop for Https {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Https {
    /// In front of that endpoint of a backend, below so many segments. Who shows none of the admitted values of
    /// `Authorization` gets that answer. The certificate's PEM comes beside it.
    pub async fn start(
        backend: Arc<dyn Http>,
        endpoint: &str,
        base: usize,
        refused: HttpResponse,
    ) -> (Self, String) {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let (tls, pem) = certificate();
        let shared = Arc::new(Shared {
            backend,
            endpoint: endpoint.to_owned(),
            base,
            tls: RwLock::new(tls),
            next: Mutex::default(),
            admitted: RwLock::default(),
            refused,
            most_open: AtomicUsize::default(),
        });
        let served = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&served);
                let tls = shared.tls.read().expect("no panic").clone();
                shared.most_open.fetch_max(open(port), Ordering::SeqCst);
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (Self { port, shared, accepting: accepting.abort_handle() }, pem)
    }

    /// Other values of `Authorization` than before.
    pub fn admit(&self, values: BTreeSet<String>) {
        *self.shared.admitted.write().expect("no panic") = values;
    }

    /// The most connections that were open at any time.
    pub fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::SeqCst)
    }

    /// Another certificate, to be shown once [`Self::renew`] is called; its PEM.
    pub fn next_certificate(&self) -> String {
        let (tls, pem) = certificate();
        *self.shared.next.lock().expect("no panic") = Some(tls);
        pem
    }

    /// Connections from now on see the next certificate.
    pub fn renew(&self) {
        let next = self.shared.next.lock().expect("no panic").take().expect("a next certificate");
        *self.shared.tls.write().expect("no panic") = next;
    }
}

fn certificate() -> (TlsAcceptor, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = generate_simple_self_signed(["localhost", IN_PODS].map(str::to_owned));
    let CertifiedKey { cert, signing_key } = made.expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("its key");
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![cert.der().clone()], key).expect("a pair");
    (TlsAcceptor::from(Arc::new(config)), cert.pem())
}

/// A backend that answers nothing closes the connection, as hyper does where a service fails.
async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let admitted = shown.is_some_and(|shown| shared.admitted.read().expect("no panic").contains(shown));
    let answer = if admitted {
        let asked = read(&shared, request).await?;
        shared.backend.send(&asked).await.map_err(|failure| failure.message)?
    } else {
        shared.refused.clone()
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let mut response = response.body(Full::from(answer.body)).map_err(|error| error.to_string())?;
    if let Ok(reason) = ReasonPhrase::try_from(answer.reason.into_bytes()) {
        response.extensions_mut().insert(reason);
    }
    Ok(response)
}

async fn read(shared: &Shared, request: Request<Incoming>) -> Result<HttpRequest, String> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    let segments = head.uri.path().split('/').skip(1 + shared.base).map(decoded);
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let body = match kind.unwrap_or_default() {
        _ if body.is_empty() => HttpBody::None,
        "application/x-www-form-urlencoded" => HttpBody::Form(pairs(&String::from_utf8_lossy(&body))),
        kind => match kind.strip_prefix("multipart/form-data; boundary=") {
            Some(boundary) => HttpBody::Multipart(parts(&body, boundary)),
            None => HttpBody::Bytes(body.to_vec()),
        },
    };
    let headers = head.headers.iter().filter(|(name, _)| *name != header::AUTHORIZATION);
    Ok(HttpRequest {
        endpoint: shared.endpoint.clone(),
        method: head.method.to_string(),
        path: segments.collect(),
        query: pairs(head.uri.query().unwrap_or_default()),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect(),
        body,
        timeout: None,
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn pairs(text: &str) -> Pairs {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(&value.replace('+', " ")))
    };
    pairs.map(pair).collect()
}

/// As our own capability writes them.
fn parts(body: &[u8], boundary: &str) -> Vec<HttpPart> {
    let boundary = format!("--{}", boundary.trim_matches('"'));
    let mut parts = Vec::new();
    for part in split(body, boundary.as_bytes()).into_iter().skip(1) {
        let Some(at) = part.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..at]).into_owned();
        let quoted = |name: &str| {
            let (_, behind) = head.split_once(&format!(" {name}=\""))?;
            behind.split_once('"').map(|(value, _)| value.to_owned())
        };
        let line = head.lines().find_map(|line| line.strip_prefix("Content-Type: "));
        parts.push(HttpPart {
            name: quoted("name").unwrap_or_default(),
            file_name: quoted("filename"),
            content_type: line.map(str::to_owned),
            data: part[at + 4..part.len() - 2].to_vec(),
        });
    }
    parts
}

fn split<'a>(body: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.windows(by.len()).position(|window| window == by) {
        pieces.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    pieces.push(rest);
    pieces
}
