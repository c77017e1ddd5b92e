//! As much of a Kubernetes API over HTTP as the kubernetes provider asks, with objects in memory: an operator in a
//! process of its own creates tens of thousands of Pods on it. A Pod runs as soon as it is made. It knows no
//! rights, no selectors and no versions, and speaks without TLS.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

type Objects = Mutex<BTreeMap<String, Value>>;

/// Ends when it is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    objects: Arc<Objects>,
    accepting: AbortHandle,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Served {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let objects = Arc::<Objects>::default();
        let served = Arc::clone(&objects);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let objects = Arc::clone(&served);
                let service = service_fn(move |request| serve(Arc::clone(&objects), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { url, objects, accepting: accepting.abort_handle() })
    }

    /// How many there are.
    pub(crate) fn pods(&self) -> usize {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.keys().filter(|path| path.contains("/pods/")).count()
    }

    /// For an entry's grant.
    pub(crate) fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "simulated",
            "clusters": [{ "name": "simulated", "cluster": { "server": self.url } }],
            "users": [{ "name": "simulated", "user": {} }],
            "contexts": [{ "name": "simulated", "context": { "cluster": "simulated", "user": "simulated" } }],
        })
    }
}

async fn serve(
    objects: Arc<Objects>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (status, answer) = answer(&objects, &head.method, head.uri.path(), head.uri.query(), body);
    let mut response = Response::new(Full::from(answer.to_string()));
    *response.status_mut() = status;
    Ok(response)
}

fn answer(
    objects: &Objects,
    method: &Method,
    path: &str,
    query: Option<&str>,
    body: Value,
) -> (StatusCode, Value) {
    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
    match (method, path) {
        (&Method::GET, "/version") => (StatusCode::OK, json!({ "gitVersion": "v1.36.3" })),
        // Whether it is the operator's own cluster: it is not.
        (&Method::GET, "/api/v1/namespaces/kube-system") => {
            (StatusCode::OK, json!({ "metadata": { "uid": "simulated" } }))
        }
        (&Method::POST, path) if path.starts_with("/apis/auth") => {
            (StatusCode::CREATED, json!({ "status": { "allowed": true } }))
        }
        (&Method::POST, path) => {
            let object = made(path, body);
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            objects.insert(format!("{path}/{name}"), object.clone());
            (StatusCode::CREATED, object)
        }
        // A collection: api, version, namespaces, its name, the kind.
        (&Method::GET, path) if path.split('/').count() == 6 => {
            (StatusCode::OK, page(&objects, path, query.unwrap_or_default()))
        }
        (&Method::DELETE, path) => objects.remove(path).map_or_else(not_found, |gone| (StatusCode::OK, gone)),
        (_, path) => objects.get(path).cloned().map_or_else(not_found, |found| (StatusCode::OK, found)),
    }
}

fn made(path: &str, mut object: Value) -> Value {
    let namespace = path.split('/').nth(4).unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".into(), json!("0a7b"));
        metadata.insert("resourceVersion".into(), json!("1"));
        metadata.insert("namespace".into(), json!(namespace));
        metadata.insert("creationTimestamp".into(), json!("2026-01-01T00:00:00Z"));
    }
    if path.ends_with("/pods")
        && let Some(pod) = object.as_object_mut()
    {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let status = json!({ "phase": "Running", "podIP": "10.1.2.3", "conditions": ready });
        pod.insert("status".into(), status);
    }
    object
}

fn page(objects: &BTreeMap<String, Value>, path: &str, query: &str) -> Value {
    let asked = |key: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    };
    let most = asked("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    // Where it goes on is the last one's name, of letters, digits and dashes.
    let after = format!("{path}/{}", asked("continue").unwrap_or_default());
    let below = format!("{path}/");
    let mut found = objects
        .range((Bound::Excluded(after), Bound::Unbounded))
        .take_while(|(at, _)| at.starts_with(&below))
        .peekable();
    let (mut items, mut last) = (Vec::new(), String::new());
    while items.len() < most
        && let Some((at, object)) = found.next()
    {
        items.push(object.clone());
        at.strip_prefix(&below).unwrap_or_default().clone_into(&mut last);
    }
    let more = if found.peek().is_some() { last } else { String::new() };
    json!({ "metadata": { "continue": more }, "items": items })
}

fn not_found() -> (StatusCode, Value) {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
    (StatusCode::NOT_FOUND, status)
}
