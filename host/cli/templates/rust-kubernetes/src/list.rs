//! What this installation owns: Pods, and ConfigMaps that stand without their Pod.
//!
//! A page is one request for Pods, or one for ConfigMaps and those for just their Pods: whatever
//! the fleet's size, a call holds a page of it.

use std::collections::BTreeSet;

use provider_sdk::{
    Context, Error, Item, Kubernetes, Page,
    kubernetes::{ListOptions, Resource},
    mark, reason,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    cluster::{self, CONFIG_MAPS, Location, PODS, text},
    config::Config,
    failure::{self, Request},
};

const PAGE: u32 = 100;

/// Where a sweep is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// Pods come first.
    config_maps: bool,
    token: Option<String>,
}

/// See `Provider::list`.
pub fn list<H: Context + Kubernetes>(
    host: &H,
    config: &Config,
    place: &str,
    cursor: Option<&str>,
) -> Result<Page, Error> {
    if place != config.cluster {
        let message = format!(
            "the config has cluster {}, and no place {place}",
            config.cluster
        );
        return Err(Error::permanent(reason::CONFIG, message));
    }
    let cursor: Cursor = match cursor {
        None => Cursor::default(),
        Some(cursor) => serde_json::from_str(cursor).map_err(|_| {
            Error::transient(
                "expired",
                "another revision began this list: it starts anew",
            )
        })?,
    };
    let ours = mark::selector(&host.installation_mark());
    let mut page = Page::default();
    let found = if cursor.config_maps {
        lonely_config_maps(host, config, &ours, &cursor)
    } else {
        objects(host, config, PODS, &ours, cursor.token.clone())
    };
    let token = match found {
        Ok((objects, token)) => {
            let leftover = cursor.config_maps.then_some("configmap");
            page.items = objects
                .iter()
                .map(|object| item(host, place, object, leftover))
                .collect();
            token
        }
        // The rest may be read.
        Err(Unread::Part(cause)) => {
            page.unread.push(cause);
            None
        }
        Err(Unread::All(error)) => return Err(error),
    };
    let next = match (token, cursor.config_maps) {
        (Some(token), config_maps) => Some(Cursor {
            config_maps,
            token: Some(token),
        }),
        (None, false) => Some(Cursor {
            config_maps: true,
            token: None,
        }),
        (None, true) => None,
    };
    page.next = next.map(|next| serde_json::to_string(&next).unwrap_or_default());
    Ok(page)
}

/// How far a failed request reaches.
enum Unread {
    /// What was asked for alone.
    Part(String),
    All(Error),
}

type Objects = (Vec<Value>, Option<String>);

fn objects<H: Kubernetes>(
    host: &H,
    config: &Config,
    resource: Resource,
    selector: &str,
    token: Option<String>,
) -> Result<Objects, Unread> {
    let Config {
        cluster, namespace, ..
    } = config;
    let options = ListOptions {
        label_selector: selector.to_owned(),
        limit: PAGE,
        continue_token: token,
        ..ListOptions::default()
    };
    let mut answer = host
        .list(cluster, resource, namespace, &options)
        .map_err(|failed| {
            let error = Request::many("list", resource, cluster, namespace).error(&failed);
            if failure::is_refusal(&failed) {
                Unread::Part(error.message)
            } else {
                Unread::All(error)
            }
        })?;
    let token = Some(text(&answer, "/metadata/continue").to_owned()).filter(|it| !it.is_empty());
    match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok((items, token)),
        // An empty list has items too.
        _ => Err(Unread::All(
            Request::many("list", resource, cluster, namespace).garbled(),
        )),
    }
}

/// Their Pods are asked for after the ConfigMaps were read, so a Pod that came meanwhile counts.
fn lonely_config_maps<H: Kubernetes>(
    host: &H,
    config: &Config,
    ours: &str,
    cursor: &Cursor,
) -> Result<Objects, Unread> {
    let (mut maps, token) = objects(host, config, CONFIG_MAPS, ours, cursor.token.clone())?;
    let label = format!("{}uid", mark::PREFIX);
    let uid = |map: &Value| {
        map.pointer("/metadata/labels")?
            .get(&label)?
            .as_str()
            .map(str::to_owned)
    };
    let uids: BTreeSet<String> = maps.iter().filter_map(uid).collect();
    if uids.is_empty() {
        return Ok((maps, token));
    }
    let uids = uids.into_iter().collect::<Vec<_>>().join(",");
    let selector = format!("{ours},{label} in ({uids})");
    let mut with_pod = BTreeSet::new();
    let mut go_on = None;
    loop {
        let (pods, more) = objects(host, config, PODS, &selector, go_on)?;
        with_pod.extend(
            pods.iter()
                .map(|pod| text(pod, "/metadata/name").to_owned()),
        );
        go_on = more;
        if go_on.is_none() {
            break;
        }
    }
    maps.retain(|map| !with_pod.contains(text(map, "/metadata/name")));
    Ok((maps, token))
}

fn item<H: Context>(host: &H, place: &str, object: &Value, leftover: Option<&str>) -> Item {
    let at = Location {
        cluster: place.to_owned(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
    };
    Item {
        id: at.id(),
        name: at.name,
        leftover: leftover.map(str::to_owned),
        mark: cluster::read_mark(object, &host.installation_mark()),
        created_ms: cluster::created_ms(object),
    }
}
