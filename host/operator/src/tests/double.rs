//! A plain double of an API server: objects by path, in memory. No watches, no admission, no schema.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::Service;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Method and path of each request.
    log: Vec<String>,
    /// Answers 500 to everything.
    broken: bool,
}

/// The double; clones share it.
#[derive(Clone, Default)]
pub struct Double(Arc<Mutex<State>>);

impl Double {
    pub fn client(&self) -> Client {
        Client::new(self.service(), "default")
    }

    /// What stands below a client.
    pub fn service(
        &self,
    ) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static {
        let double = self.clone();
        tower::service_fn(move |request: Request<Body>| {
            let double = double.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
                let (code, answer) = double.0.lock().unwrap().answer(&head.method, path, query, body);
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        })
    }

    /// An object as it is.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Puts an object there, as somebody else would.
    pub fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().store(path, object);
    }

    /// Removes one, as somebody else would.
    pub fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// All objects below a path.
    pub fn below(&self, path: &str) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        state
            .objects
            .iter()
            .filter(|(at, _)| at.starts_with(path))
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub fn set_broken(&self, broken: bool) {
        self.0.lock().unwrap().broken = broken;
    }

    /// How many requests of that method there were to paths that contain a text.
    pub fn count(&self, method: &str, part: &str) -> usize {
        let state = self.0.lock().unwrap();
        state.log.iter().filter(|line| line.starts_with(method) && line.contains(part)).count()
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: Value) -> (StatusCode, Value) {
        self.log.push(format!("{method} {path}"));
        if self.broken {
            return failure(500, "InternalError", "broken");
        }
        let (path, status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        match *method {
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None if is_collection(path) => (StatusCode::OK, self.list(path, query)),
                None => failure(404, "NotFound", path),
            },
            Method::POST => {
                let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&at) {
                    return failure(409, "AlreadyExists", &at);
                }
                (StatusCode::CREATED, self.store(&at, body))
            }
            Method::PUT => {
                let before = self.objects.get(path).map(|object| &object["metadata"]["resourceVersion"]);
                match before {
                    Some(version) if *version == body["metadata"]["resourceVersion"] => {
                        (StatusCode::OK, self.store(path, body))
                    }
                    Some(_) => failure(409, "Conflict", path),
                    None => failure(404, "NotFound", path),
                }
            }
            Method::PATCH => self.patch(path, query.contains("force=true"), status, &body),
            Method::DELETE => match self.objects.remove(path) {
                Some(object) => (StatusCode::OK, object),
                None => failure(404, "NotFound", path),
            },
            _ => failure(405, "MethodNotAllowed", path),
        }
    }

    /// An apply makes what is missing, and its status replaces the one before: the double knows one manager.
    fn patch(&mut self, path: &str, apply: bool, status: bool, patch: &Value) -> (StatusCode, Value) {
        let before = match self.objects.get(path) {
            Some(object) => object.clone(),
            None if apply && !status => json!({}),
            None => return failure(404, "NotFound", path),
        };
        let version = &patch["metadata"]["resourceVersion"];
        if version.is_string() && *version != before["metadata"]["resourceVersion"] {
            return failure(409, "Conflict", path);
        }
        let mut object = before;
        if apply && status {
            object["status"] = patch["status"].clone();
        } else {
            merge(&mut object, patch);
        }
        (StatusCode::OK, self.store(path, object))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
        metadata.entry("uid").or_insert_with(|| json!(format!("uid-{}", self.version)));
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let selector = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector="));
        let selector = selector.unwrap_or_default();
        let wanted = selector.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
        let bears = |object: &Value| {
            let mut pairs = wanted.split(',').filter_map(|pair| pair.split_once('='));
            pairs.all(|(label, value)| object["metadata"]["labels"][label] == value)
        };
        let below = self.objects.iter().filter(|(at, _)| is_in(at, path));
        let items: Vec<_> = below.map(|(_, object)| object).filter(|object| bears(object)).collect();
        json!({ "metadata": {}, "items": items })
    }
}

/// Of that collection in its namespace, or of that in all.
fn is_in(at: &str, collection: &str) -> bool {
    let Some((of, _)) = at.rsplit_once('/') else { return false };
    let everywhere = || {
        let (before, after) = of.split_once("/namespaces/")?;
        let (_, kind) = after.split_once('/')?;
        Some(format!("{before}/{kind}"))
    };
    of == collection || everywhere().as_deref() == Some(collection)
}

fn is_collection(path: &str) -> bool {
    ["/configmaps", "/events", "/providerhealths", "/proxies"].iter().any(|kind| path.ends_with(kind))
}

fn failure(code: u16, reason: &str, message: &str) -> (StatusCode, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message });
    (StatusCode::from_u16(code).unwrap(), status)
}

/// As RFC 7396 has it.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                into.as_object_mut().unwrap().remove(key);
            }
            value => merge(&mut into[key], value),
        }
    }
}
