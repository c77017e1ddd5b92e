//! The directory as the operator sees it: what an API server would answer, to a client in this process.
//!
//! Only what the operator asks is answered, as far as it asks it: one manager of fields, no pages, no admission. The
//! rules that its correctness rests on are an API server's to the letter: a write with a stale version is refused, a
//! status and a spec are written apart, who has a finalizer goes when the last one does, and a watch tells every
//! change in order or says that it can't.

mod requests;
mod watching;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Map, Value, json};

use self::requests::{Asked, Patch, Query};
use crate::objects::{Home, Key, Next, Objects, WriteError};

/// The body of an answer.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A client whose requests end here.
pub fn client(objects: Arc<Objects>, namespace: &str) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let objects = Arc::clone(&objects);
        async move { Ok::<_, Infallible>(answer(objects, request).await) }
    });
    kube::Client::new(service, namespace)
}

async fn answer(objects: Arc<Objects>, request: Request<Body>) -> Answer {
    let (head, body) = request.into_parts();
    let Some((asked, query)) = Asked::read(&head.uri) else {
        return told(Refused::unserved(head.uri.path()).answer());
    };
    let Ok(body) = body.collect_bytes().await else {
        return told(Refused::new(400, "BadRequest", "the request's body broke off").answer());
    };
    let partial = head.headers.get(header::ACCEPT).is_some_and(|accepts| {
        accepts.to_str().is_ok_and(|accepts| accepts.contains("PartialObjectMetadata"))
    });
    if head.method == Method::GET && query.watch {
        return watching::answer(objects, asked, query, partial);
    }
    let patch = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(Patch::of);
    // A disk may take its time.
    let done = tokio::task::spawn_blocking(move || {
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let server = Server { objects: &objects };
        match head.method {
            Method::GET => server.get(&asked, &query),
            Method::POST => server.create(&asked, body),
            Method::PUT => server.replace(&asked, body),
            Method::PATCH => server.patch(&asked, patch.unwrap_or(Patch::Merge), body),
            Method::DELETE => server.delete(&asked, &body),
            _ => Err(Refused::new(405, "MethodNotAllowed", "the directory does not know this method")),
        }
    });
    let answered = match done.await {
        Ok(answered) => answered,
        Err(error) => Err(Refused::new(500, "InternalError", &error.to_string())),
    };
    told(match answered {
        Ok((code, object)) => (code, if partial { metadata_of(object) } else { object }),
        Err(refused) => refused.answer(),
    })
}

fn told((code, object): (StatusCode, Value)) -> Answer {
    let body = Full::new(Bytes::from(object.to_string())).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

/// What is left of an object, or of each of a list, when only its metadata is asked for: a list of components is
/// else read by the megabyte.
pub fn metadata_of(object: Value) -> Value {
    let Value::Object(mut fields) = object else { return object };
    if let Some(Value::Array(items)) = fields.remove("items") {
        let items: Vec<Value> = items.into_iter().map(metadata_of).collect();
        fields.insert("items".to_owned(), Value::Array(items));
        return Value::Object(fields);
    }
    fields.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    Value::Object(fields)
}

struct Server<'a> {
    objects: &'a Objects,
}

type Answered = Result<(StatusCode, Value), Refused>;

impl Server<'_> {
    fn get(&self, asked: &Asked, query: &Query) -> Answered {
        if let Some(key) = asked.key() {
            return match self.objects.get(&key) {
                Some(object) => Ok((StatusCode::OK, object)),
                None => Err(Refused::not_found(&key)),
            };
        }
        let (found, version) = self.objects.list(asked.kind, asked.namespace.as_deref());
        let items: Vec<Value> = found
            .into_iter()
            .filter(|(key, object)| query.takes(key, object))
            .map(|(_, object)| object)
            .collect();
        let named = asked.kind.named();
        let list = json!({
            "apiVersion": named.api_version,
            "kind": format!("{}List", named.kind),
            "metadata": { "resourceVersion": version.to_string() },
            "items": items,
        });
        Ok((StatusCode::OK, list))
    }

    fn create(&self, asked: &Asked, object: Value) -> Answered {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let key = Key::new(asked.kind, asked.namespace.as_deref().unwrap_or_default(), name);
        let made = self.objects.update(&key, |before| match before {
            Some(_) => (Next::Same, Some(Refused::exists(&key))),
            None => (Next::Put(with_generation(object, 1), Home::Status), None),
        });
        match made? {
            (_, Some(refused)) => Err(refused),
            (made, None) => Ok((StatusCode::CREATED, made.unwrap_or_default())),
        }
    }

    fn replace(&self, asked: &Asked, object: Value) -> Answered {
        self.change(asked, |before| {
            check_version(before, &object)?;
            let mut next = before.clone();
            let field = if asked.status { "status" } else { "spec" };
            put(&mut next, field, object.get(field).cloned());
            Ok(next)
        })
    }

    fn patch(&self, asked: &Asked, patch: Patch, body: Value) -> Answered {
        let key = asked.key().ok_or_else(|| Refused::unserved("a list"))?;
        if patch == Patch::Apply && !asked.status && self.objects.get(&key).is_none() {
            let collection = Asked { name: None, ..asked.clone() };
            match self.create(&collection, body.clone()) {
                Err(refused) if refused.code == 409 => {}
                other => return other,
            }
        }
        self.change(asked, |before| {
            check_version(before, &body)?;
            let mut next = before.clone();
            match (patch, asked.status) {
                // One manager: what it does not say any more is gone.
                (Patch::Apply, true) => put(&mut next, "status", body.get("status").cloned()),
                (Patch::Apply | Patch::Merge, _) => merge(&mut next, &body),
            }
            Ok(next)
        })
    }

    /// What an API server keeps for itself stays as it was.
    fn change(&self, asked: &Asked, change: impl FnOnce(&Value) -> Result<Value, Refused>) -> Answered {
        let key = asked.key().ok_or_else(|| Refused::unserved("a list"))?;
        let home = self.objects.home(&key).unwrap_or(Home::Status);
        if home == Home::Document {
            return Err(Refused::new(
                403,
                "Forbidden",
                &format!("{key} stands in a document of the directory, which the operator never changes"),
            ));
        }
        let changed = self.objects.update(&key, |before| {
            let Some(before) = before else { return (Next::Same, Some(Refused::not_found(&key))) };
            let mut next = match change(before) {
                Ok(next) => next,
                Err(refused) => return (Next::Same, Some(refused)),
            };
            for kept in ["uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"] {
                let value = before.pointer(&format!("/metadata/{kept}")).cloned();
                if let Some(metadata) = next.get_mut("metadata") {
                    put(metadata, kept, value);
                }
            }
            if next == *before {
                return (Next::Same, None);
            }
            let next = match next.get("spec") == before.get("spec") {
                true => next,
                false => with_generation(next, generation(before).saturating_add(1)),
            };
            match is_over(&next) {
                true => (Next::Remove, None),
                false => (Next::Put(next, home), None),
            }
        });
        match changed? {
            (_, Some(refused)) => Err(refused),
            (Some(object), None) => Ok((StatusCode::OK, object)),
            // As an API server does: with the object, though this write was its end.
            (None, None) => Ok((StatusCode::OK, ended(&key))),
        }
    }

    fn delete(&self, asked: &Asked, options: &Value) -> Answered {
        let key = asked.key().ok_or_else(|| Refused::unserved("a list"))?;
        let deleted = self.objects.update(&key, |before| {
            let Some(before) = before else { return (Next::Same, Some(Refused::not_found(&key))) };
            for (wanted, is) in [
                ("/preconditions/uid", "/metadata/uid"),
                ("/preconditions/resourceVersion", "/metadata/resourceVersion"),
            ] {
                if let Some(wanted) = options.pointer(wanted).filter(|wanted| !wanted.is_null())
                    && Some(wanted) != before.pointer(is)
                {
                    return (Next::Same, Some(Refused::conflict(&key)));
                }
            }
            (end(before), None)
        });
        match deleted? {
            (_, Some(refused)) => Err(refused),
            (Some(object), None) => Ok((StatusCode::OK, object)),
            (None, None) => {
                let done =
                    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
                Ok((StatusCode::OK, done))
            }
        }
    }
}

/// What becomes of an object whose end is asked for: it goes at once, or when its last finalizer does.
pub fn end(object: &Value) -> Next {
    let held =
        object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|held| !held.is_empty());
    if !held {
        return Next::Remove;
    }
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Next::Same;
    }
    let mut next = object.clone();
    if let Some(metadata) = next.get_mut("metadata") {
        put(metadata, "deletionTimestamp", Some(json!(format!("{:.0}", Timestamp::now()))));
    }
    Next::Put(next, Home::Status)
}

fn is_over(object: &Value) -> bool {
    let held =
        object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|held| !held.is_empty());
    object.pointer("/metadata/deletionTimestamp").is_some() && !held
}

fn ended(key: &Key) -> Value {
    let named = key.kind.named();
    json!({
        "apiVersion": named.api_version,
        "kind": named.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "deletionTimestamp": format!("{:.0}", Timestamp::now()),
        },
        "spec": { "provider": "" },
    })
}

fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Only what has a spec has one.
pub fn with_generation(mut object: Value, generation: i64) -> Value {
    if object.get("spec").is_some()
        && let Some(metadata) = object.get_mut("metadata")
    {
        put(metadata, "generation", Some(json!(generation)));
    }
    object
}

fn put(object: &mut Value, field: &str, value: Option<Value>) {
    if let Value::Object(fields) = object {
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
}

fn check_version(before: &Value, write: &Value) -> Result<(), Refused> {
    let stale = ["resourceVersion", "uid"].into_iter().any(|field| {
        let path = format!("/metadata/{field}");
        let wanted =
            write.pointer(&path).filter(|wanted| wanted.as_str().is_some_and(|text| !text.is_empty()));
        wanted.is_some() && wanted != before.pointer(&path)
    });
    if stale {
        Err(Refused::new(409, "Conflict", "the object has been modified; read it again"))
    } else {
        Ok(())
    }
}

/// As RFC 7396 has it.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(fields) = into else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.remove(key);
            }
            value => merge(fields.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

/// Why something was not done, as an API server says it.
#[derive(Debug)]
pub struct Refused {
    code: u16,
    reason: &'static str,
    message: String,
}

impl Refused {
    fn new(code: u16, reason: &'static str, message: &str) -> Self {
        Self { code, reason, message: message.to_owned() }
    }

    fn not_found(key: &Key) -> Self {
        Self::new(404, "NotFound", &format!("{key} does not exist in the directory"))
    }

    fn exists(key: &Key) -> Self {
        Self::new(409, "AlreadyExists", &format!("{key} exists already"))
    }

    fn conflict(key: &Key) -> Self {
        Self::new(409, "Conflict", &format!("{key} is not what it was any more"))
    }

    fn unserved(path: &str) -> Self {
        Self::new(404, "Unserved", &format!("a directory has nothing like {path}"))
    }

    fn answer(self) -> (StatusCode, Value) {
        let Self { code, reason, message } = self;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        (StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), status)
    }
}

impl From<WriteError> for Refused {
    fn from(error: WriteError) -> Self {
        Self::new(500, "InternalError", &error.to_string())
    }
}
