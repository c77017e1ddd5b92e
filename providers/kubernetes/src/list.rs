//! What this installation owns in the entry's namespaces: Pods, and ConfigMaps whose Pod is missing.
//!
//! A page is one request for Pods, or one for ConfigMaps and one for just their Pods: whatever the fleet's
//! size, a call holds a page of it.

use std::collections::BTreeSet;

use provider_sdk::{
    Context, Error, Item, Kubernetes, Page,
    kubernetes::{Failure, FailureKind, ListOptions, Resource},
    mark, reason,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api,
    config::Config,
    failure::{Answer, Request, Scope},
    id::Location,
    observe,
};

/// A Pod with its status and its managers is up to 10 KB.
const PAGE: u32 = 100;

/// Where a sweep is. Another revision may have begun it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// Empty for all.
    namespace: String,
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pods,
    ConfigMaps,
}

/// See `Provider::list`.
pub fn list<H: Context + Kubernetes>(
    host: &H,
    config: &Config,
    place: &str,
    cursor: Option<&str>,
) -> Result<Page, Error> {
    if place != config.cluster {
        return Err(Error::permanent(
            reason::CONFIG,
            format!("the entry's config has cluster {}, and no place {place}", config.cluster),
        ));
    }
    let namespaces = config.namespaces.looked_at();
    let cursor = match cursor {
        Some(cursor) => read(cursor, &namespaces)?,
        None => Cursor {
            namespace: namespaces.first().cloned().unwrap_or_default(),
            kind: Kind::Pods,
            token: None,
        },
    };
    let found = match cursor.kind {
        Kind::Pods => pods(host, place, &cursor),
        Kind::ConfigMaps => config_maps(host, place, &cursor),
    };
    let mut page = Page::default();
    let token = match found {
        Ok((items, token)) => {
            page.items = items;
            token
        }
        Err(Unread::Here(cause)) => {
            page.unread.push(cause);
            None
        }
        Err(Unread::All(error)) => return Err(error),
    };
    page.next =
        next(&cursor, token, &namespaces).map(|next| serde_json::to_string(&next).unwrap_or_default());
    Ok(page)
}

fn read(cursor: &str, namespaces: &[String]) -> Result<Cursor, Error> {
    let anew = || Error::transient("expired", "the list was begun by another revision: it starts anew");
    let cursor: Cursor = serde_json::from_str(cursor).map_err(|_| anew())?;
    if namespaces.contains(&cursor.namespace) { Ok(cursor) } else { Err(anew()) }
}

fn next(now: &Cursor, token: Option<String>, namespaces: &[String]) -> Option<Cursor> {
    if token.is_some() {
        return Some(Cursor { token, ..now.clone() });
    }
    match now.kind {
        Kind::Pods => Some(Cursor { kind: Kind::ConfigMaps, token: None, ..now.clone() }),
        Kind::ConfigMaps => {
            let behind = namespaces.iter().skip_while(|namespace| **namespace != now.namespace).nth(1)?;
            Some(Cursor { namespace: behind.clone(), kind: Kind::Pods, token: None })
        }
    }
}

/// How far a failed request reaches.
enum Unread {
    /// This namespace, or this kind of object in it; the rest may be read.
    Here(String),
    /// The whole place.
    All(Error),
}

type Part = Result<(Vec<Item>, Option<String>), Unread>;

fn pods<H: Context + Kubernetes>(host: &H, place: &str, cursor: &Cursor) -> Part {
    let (objects, token) =
        page(host, place, cursor, api::PODS, &mark::selector(&host.installation_mark()), PAGE)?;
    Ok((objects.iter().map(|object| item(host, place, object, None)).collect(), token))
}

fn config_maps<H: Context + Kubernetes>(host: &H, place: &str, cursor: &Cursor) -> Part {
    let ours = mark::selector(&host.installation_mark());
    let (maps, token) = page(host, place, cursor, api::CONFIG_MAPS, &ours, PAGE)?;
    let with_pod = names_of_pods(host, place, cursor, &ours, &maps)?;
    let lonely = maps.iter().filter(|map| !with_pod.contains(&key(map)));
    Ok((lonely.map(|map| item(host, place, map, Some("configmap"))).collect(), token))
}

/// Asked after the ConfigMaps were read, so a Pod that came meanwhile counts.
fn names_of_pods<H: Kubernetes>(
    host: &H,
    place: &str,
    cursor: &Cursor,
    ours: &str,
    maps: &[Value],
) -> Result<BTreeSet<(String, String)>, Unread> {
    let label = format!("{}uid", mark::PREFIX);
    let uid = |map: &Value| map.pointer("/metadata/labels")?.get(&label)?.as_str().map(str::to_owned);
    let uids: BTreeSet<String> = maps.iter().filter_map(uid).collect();
    if uids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let uids: Vec<String> = uids.into_iter().collect();
    let selector = format!("{ours},{label} in ({})", uids.join(","));
    let mut names = BTreeSet::new();
    let mut at = Cursor { token: None, ..cursor.clone() };
    loop {
        let (pods, token) = page(host, place, &at, api::PODS, &selector, PAGE)?;
        names.extend(pods.iter().map(key));
        match token {
            Some(token) => at.token = Some(token),
            None => return Ok(names),
        }
    }
}

fn page<H: Kubernetes>(
    host: &H,
    place: &str,
    cursor: &Cursor,
    resource: Resource,
    selector: &str,
    limit: u32,
) -> Result<(Vec<Value>, Option<String>), Unread> {
    let options = ListOptions {
        label_selector: selector.to_owned(),
        limit,
        continue_token: cursor.token.clone(),
        ..ListOptions::default()
    };
    let answer = host.list(place, resource, &cursor.namespace, &options);
    let mut answer = answer.map_err(|failed| unread(place, cursor, resource, &failed))?;
    let token = Some(observe::text(&answer, "/metadata/continue")).filter(|token| !token.is_empty());
    let items = match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        // An empty list has items too.
        _ => return Err(Unread::All(request(place, cursor, resource).garbled())),
    };
    Ok((items, token))
}

fn request<'a>(place: &'a str, cursor: &'a Cursor, resource: Resource) -> Request<'a> {
    Request { verb: "list", resource, cluster: place, scope: Scope::of(&cursor.namespace) }
}

fn unread(place: &str, cursor: &Cursor, resource: Resource, failed: &Failure) -> Unread {
    let request = request(place, cursor, resource);
    let error = request.error(failed);
    let here = match failed.kind {
        FailureKind::Denied => true,
        FailureKind::Status => match Answer::read(failed) {
            Answer::RightMissing | Answer::Forbidden | Answer::NamespaceMissing | Answer::Terminating => true,
            Answer::Quota
            | Answer::QuotaNeedsResources
            | Answer::PodSecurity
            | Answer::Unauthorized
            | Answer::Invalid
            | Answer::Conflict
            | Answer::Expired
            | Answer::TooMany
            | Answer::Other(_) => false,
        },
        FailureKind::Name
        | FailureKind::Connect
        | FailureKind::Tls
        | FailureKind::Timeout
        | FailureKind::Cut
        | FailureKind::TooLarge
        | FailureKind::Credentials
        | FailureKind::Invalid
        | FailureKind::Unknown(_) => false,
    };
    if here { Unread::Here(error.message) } else { Unread::All(error) }
}

fn item<H: Context>(host: &H, place: &str, object: &Value, leftover: Option<&str>) -> Item {
    let (namespace, name) = key(object);
    let at = Location { cluster: place.to_owned(), namespace, name: name.clone() };
    Item {
        id: at.id(),
        name,
        leftover: leftover.map(str::to_owned),
        mark: observe::read_mark(object, &host.installation_mark()),
        created_ms: observe::created_ms(object),
    }
}

fn key(object: &Value) -> (String, String) {
    (observe::text(object, "/metadata/namespace"), observe::text(object, "/metadata/name"))
}
