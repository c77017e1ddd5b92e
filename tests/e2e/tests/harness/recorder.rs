//! A way to the API server that writes down what goes over it, and can be cut.
//!
//! A process of the operator gets one as its server. Who held the lease, and what each process wrote when, is then
//! known from one clock: the test's.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body, config::AuthInfo};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

/// A request that changes something, or one about a Lease.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which process'.
    pub who: String,
    pub path: String,
    /// When it had come.
    pub came: Instant,
    /// When its answer was there, and which.
    pub answered: Option<(Instant, StatusCode)>,
    /// Who holds the lease if this was written.
    pub holder: Option<String>,
}

/// Any request, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub status: u16,
    /// Of a refusal, its words.
    pub said: String,
}

/// What all recorders of a test write into.
pub type Records = Arc<Mutex<Vec<Record>>>;

/// See the module.
pub struct Recorder {
    pub kubeconfig: PathBuf,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    who: String,
    records: Records,
    /// Everything that was asked, where somebody wants to know.
    asked: Option<Arc<Mutex<Vec<Asked>>>>,
    client: Client,
    cut: AtomicBool,
    /// Raised to end all connections.
    ends: watch::Sender<u64>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut(true);
    }
}

impl Recorder {
    /// For one process; `kubeconfig` says who it is.
    pub async fn new(lab: &super::Lab, who: &str, kubeconfig: &Path, records: &Records) -> Self {
        Self::made(lab, who, kubeconfig, records, None).await
    }

    /// One that writes down everything.
    pub async fn asking(
        lab: &super::Lab,
        who: &str,
        kubeconfig: &Path,
        asked: &Arc<Mutex<Vec<Asked>>>,
    ) -> Self {
        Self::made(lab, who, kubeconfig, &Arc::default(), Some(Arc::clone(asked))).await
    }

    async fn made(
        lab: &super::Lab,
        who: &str,
        kubeconfig: &Path,
        records: &Records,
        asked: Option<Arc<Mutex<Vec<Asked>>>>,
    ) -> Self {
        let mut config = lab.config.clone();
        // The process' own credentials pass.
        config.auth_info = AuthInfo::default();
        config.read_timeout = None;
        let client = Client::try_from(config).expect("a client without credentials");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let mut changed: Value = serde_json::from_str(&text).expect("a kubeconfig in JSON");
        changed["clusters"][0]["cluster"] = json!({ "server": format!("http://{address}") });
        let own = kubeconfig.with_file_name(format!("{who}.conf"));
        std::fs::write(&own, changed.to_string()).expect("a kubeconfig");
        let shared = Arc::new(Shared {
            who: who.to_owned(),
            records: Arc::clone(records),
            asked,
            client,
            cut: AtomicBool::new(false),
            ends: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Self { kubeconfig: own, shared, accepting }
    }

    /// Ends all connections and takes no more, or takes them again.
    pub fn cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::SeqCst);
        if cut {
            self.shared.ends.send_modify(|times| *times += 1);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        if !shared.cut.load(Ordering::SeqCst) {
            tokio::spawn(serve(stream, Arc::clone(&shared)));
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut ends = shared.ends.subscribe();
    let answer = service_fn(|request| shared.pass(request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        _ = connection => {}
        _ = ends.changed() => {}
    }
}

impl Shared {
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, kube::Error> {
        let came = Instant::now();
        let (mut head, body) = request.into_parts();
        head.headers.remove(header::HOST);
        head.headers.remove(header::CONNECTION);
        let body = body.collect().await.map_err(|error| kube::Error::Service(error.into()))?.to_bytes();
        let path = head.uri.path().to_owned();
        let asked = self.asked.as_ref().map(|_| Asked {
            method: head.method.to_string(),
            path: path.clone(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            ..Asked::default()
        });
        let at = (head.method != Method::GET).then(|| {
            let holder = path.contains("/leases").then(|| {
                let lease: Value = serde_json::from_slice(&body).unwrap_or_default();
                lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
            });
            let record = Record { who: self.who.clone(), path, came, answered: None, holder };
            let mut records = self.records.lock().unwrap();
            records.push(record);
            records.len() - 1
        });
        let answer = self.client.send(Request::from_parts(head, Body::from(body.to_vec()))).await?;
        if let Some(at) = at {
            self.records.lock().unwrap()[at].answered = Some((Instant::now(), answer.status()));
        }
        let (Some(asked), Some(all)) = (asked, &self.asked) else { return Ok(answer) };
        let status = answer.status().as_u16();
        let (head, body) = answer.into_parts();
        let (said, body) = if status == 403 {
            let bytes = body.collect().await?.to_bytes().to_vec();
            (String::from_utf8_lossy(&bytes).into_owned(), Body::from(bytes))
        } else {
            (String::new(), body)
        };
        all.lock().unwrap().push(Asked { status, said, ..asked });
        Ok(Response::from_parts(head, body))
    }
}
