//! The cluster as a capability: which request goes where.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use egress_runtime::capability::{
    Clock, Http, HttpBody, HttpFailure, HttpFailureKind, HttpPart, HttpRequest, HttpResponse,
};
use serde_json::{Value, json};

use super::{
    answers::{self, Answer},
    cluster, machines,
    rights::Rights,
    state::{Line, Node, NodeSpec, Storage, StorageSpec, World},
    storages,
};

/// Whoever is not let in waits for so long.
const UNAUTHORIZED: Duration = Duration::from_secs(3);
/// What a body may have that is no upload.
const LARGEST_BODY: usize = 512 * 1024;
/// Whose token it is.
pub const PRINCIPAL: &str = "epo@pve!operator";

/// See the module. Clones are the same cluster.
#[derive(Clone)]
pub struct Pve {
    world: Arc<Mutex<World>>,
}

/// What a request carries, decoded.
pub struct Fields {
    pairs: BTreeMap<String, String>,
    /// The file of an upload.
    pub file: Option<HttpPart>,
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.get(name).map(String::as_str)
    }

    pub fn need(&self, name: &str) -> Answer<&str> {
        self.get(name).ok_or_else(|| answers::missing_parameter(name))
    }

    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.pairs
    }

    /// What no schema knows is refused.
    pub fn only(&self, known: &[&str]) -> Answer<()> {
        match self.pairs.keys().find(|name| !known.contains(&name.as_str()) && *name != "_dc") {
            Some(name) => Err(answers::unknown_parameter(name)),
            None => Ok(()),
        }
    }

    pub fn flag(&self, name: &str) -> Answer<bool> {
        match self.get(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => {
                Err(answers::parameter(name, &format!("type check ('boolean') failed - got '{other}'")))
            }
        }
    }
}

impl Pve {
    /// A cluster of these nodes and storages.
    pub fn new(clock: Arc<dyn Clock>, nodes: &[NodeSpec], storages: &[StorageSpec]) -> Self {
        let storage = |spec: &StorageSpec| {
            let key = (spec.node.clone().unwrap_or_default(), spec.name.clone());
            let storage = Storage {
                content: spec.content.clone(),
                total: spec.total,
                active: true,
                full: false,
                shared: spec.node.is_none(),
                isos: BTreeMap::new(),
            };
            (key, storage)
        };
        let world = World {
            clock,
            line: Line::V9,
            nodes: nodes
                .iter()
                .map(|spec| (spec.name.clone(), Node { memory: spec.memory, up: true }))
                .collect(),
            endpoints: nodes.iter().map(|spec| (spec.endpoint.clone(), spec.name.clone())).collect(),
            storages: storages.iter().map(storage).collect(),
            machines: BTreeMap::new(),
            pools: BTreeSet::new(),
            tasks: BTreeMap::new(),
            rights: Rights::all(),
            revoked: false,
            never_starts: false,
            clones_fail: None,
            page: false,
            made: 0,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Another one that is now as this one is.
    pub fn copy(&self, clock: Arc<dyn Clock>) -> Self {
        let world = World { clock, ..self.lock().clone() };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// As it is now: what is due has happened.
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.advance();
        world
    }
}

/// What is to be waited for before an answer.
pub enum Reply {
    Now(Answer),
    /// Then asked again, with the task that was begun.
    After(Duration, String),
}

#[async_trait]
impl Http for Pve {
    fn is_read(&self, request: &HttpRequest) -> bool {
        ["GET", "HEAD"].contains(&request.method.as_str())
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let (line, revoked, page, clock) = {
            let world = self.lock();
            if !world.endpoints.contains_key(&request.endpoint) {
                return Err(denied(&request.endpoint));
            }
            let down = world.endpoints.get(&request.endpoint).and_then(|name| world.nodes.get(name));
            if down.is_some_and(|node| !node.up) {
                return Err(HttpFailure {
                    kind: HttpFailureKind::Connect,
                    message: format!(
                        "endpoint {}: no connection: No route to host (os error 113)",
                        request.endpoint
                    ),
                    sent: false,
                });
            }
            (world.line, world.revoked, world.page, Arc::clone(&world.clock))
        };
        if page {
            return Ok(answers::page(502, "Bad Gateway"));
        }
        if revoked {
            clock.sleep(UNAUTHORIZED).await;
            return Ok(answers::written(Err(answers::unknown_token(line)), false, line));
        }
        let protected = request.path.get(2).is_some_and(|part| ["qemu", "storage"].contains(&part.as_str()));
        let answer = match read(request) {
            Ok(fields) => match self.answer(request, &fields) {
                Reply::Now(answer) => answer,
                Reply::After(time, upid) => {
                    clock.sleep(time).await;
                    let world = self.lock();
                    let done = world.tasks.get(&upid).is_some_and(|task| !task.is_running());
                    Ok(if done { Value::Null } else { upid.into() })
                }
            },
            Err(refused) => Err(refused),
        };
        Ok(answers::written(answer, protected, line))
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        if self.lock().endpoints.contains_key(endpoint) {
            return Ok(json!({ "principal": PRINCIPAL }));
        }
        Err(denied(endpoint))
    }
}

impl Pve {
    fn answer(&self, request: &HttpRequest, fields: &Fields) -> Reply {
        let mut world = self.lock();
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        if let Some(node) = path.get(1).filter(|_| path.first() == Some(&"nodes")) {
            match world.nodes.get(*node) {
                None => return Reply::Now(Err(answers::unknown_node(node))),
                Some(node) if !node.up => return Reply::Now(Err(answers::unreachable())),
                Some(_) => {}
            }
        }
        let method = request.method.as_str();
        let nothing = || Err(answers::not_implemented(method, &format!("/{}", path.join("/"))));
        Reply::Now(match (method, path.as_slice()) {
            ("GET", ["version"]) => cluster::version(&world),
            ("GET", ["cluster", "resources"]) => cluster::resources(&world, fields),
            ("GET", ["cluster", "nextid"]) => cluster::next_id(&world, fields),
            ("GET", ["access", "permissions"]) => Ok(world.rights.told()),
            ("GET", ["nodes", node, "status"]) => cluster::node(&world, node),
            ("GET", ["nodes", node, "tasks"]) => cluster::tasks(&world, node, fields),
            ("GET", ["nodes", _, "tasks", upid, "status"]) => cluster::task(&world, upid),
            ("GET", ["nodes", _, "tasks", upid, "log"]) => cluster::log(&world, upid, fields),
            ("GET", ["nodes", node, "storage", name, "status"]) => storages::status(&world, node, name),
            ("GET", ["nodes", node, "storage", name, "content"]) => {
                storages::content(&world, node, name, fields)
            }
            ("POST", ["nodes", node, "storage", name, "upload"]) => {
                storages::upload(&mut world, node, name, fields)
            }
            ("DELETE", ["nodes", node, "storage", name, "content", volume]) => {
                return storages::erase(&mut world, node, name, volume, fields);
            }
            (_, ["nodes", node, "qemu", vmid, rest @ ..]) => match vmid.parse() {
                Ok(vmid) => match machines::answer(&mut world, method, node, vmid, rest, fields) {
                    Some(answer) => answer,
                    None => nothing(),
                },
                Err(_) => Err(answers::parameter("vmid", "type check ('integer') failed")),
            },
            _ => nothing(),
        })
    }
}

fn denied(endpoint: &str) -> HttpFailure {
    HttpFailure {
        kind: HttpFailureKind::Denied,
        message: format!(
            "endpoint {endpoint}: the entry's grant does not name it; add it under grants.http.endpoints"
        ),
        sent: false,
    }
}

fn read(request: &HttpRequest) -> Answer<Fields> {
    let has_body = request.body != HttpBody::None;
    if has_body && ["GET", "DELETE"].contains(&request.method.as_str()) {
        let text = format!("Unexpected content for method '{}'", request.method);
        return Err(answers::Refused { status: 501, ..answers::fails(text) });
    }
    let mut pairs = BTreeMap::new();
    let mut file = None;
    match &request.body {
        HttpBody::None => {}
        HttpBody::Form(fields) => pairs.extend(fields.iter().cloned()),
        HttpBody::Bytes(_) => {
            return Err(answers::Refused {
                status: 506,
                ..answers::fails("upload 'Content-Type' not implemented")
            });
        }
        HttpBody::Multipart(parts) => {
            for part in parts {
                // What stands behind the file is not read.
                if file.is_some() {
                    break;
                }
                if part.file_name.is_some() {
                    if part.name != "filename" {
                        return Err(answers::fails(format!(
                            "wrong field name '{}' for file upload, expected 'filename'",
                            part.name
                        )));
                    }
                    file = Some(part.clone());
                } else {
                    pairs.insert(part.name.clone(), String::from_utf8_lossy(&part.data).into_owned());
                }
            }
        }
    }
    let size: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if file.is_none() && size > LARGEST_BODY {
        return Err(answers::Refused { status: 501, ..answers::fails("for data too large") });
    }
    pairs.extend(request.query.iter().cloned());
    Ok(Fields { pairs, file })
}
