//! What this installation owns in the project: instances by their labels, firewall rules by their names.
//!
//! A list of all zones can leave some out, and says so in four ways: `unreachables`, a warning of its own, a warning
//! of a zone, a token for more. Nothing that was left out is ever taken for empty.

use provider_sdk::{Context, Error, Http, Item, Page, reason, time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Host,
    api::Api,
    config::Config,
    failure::{Meaning, Trouble},
    firewall,
    id::{self, Location},
    instance::{last, read_mark, text},
    mark,
};

/// What is read of each instance: their metadata hold user-data, and 500 of them would be too much for anybody.
const FIELDS: &str = "kind,nextPageToken,unreachables,warning,items/*/warning,\
                      items/*/instances(id,name,zone,labels,creationTimestamp)";
/// Where all of an instance has to be read.
const FEW: &str = "20";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Cursor {
    Instances(Option<String>),
    Firewalls(Option<String>),
}

/// A part of a list over all zones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub instances: Vec<(Location, Value)>,
    /// What was left out, and why.
    pub unread: Vec<String>,
    pub next: Option<String>,
}

/// See `Provider::list`.
pub fn list<H: Host>(host: &H, config: &Config, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
    if config.project != place {
        return Err(Error::permanent(
            reason::CONFIG,
            format!("the entry's config has the project {}, and no place {place}", config.project),
        ));
    }
    let cursor = match cursor {
        None => Cursor::Instances(None),
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Error::transient(
                "expired",
                format!("the list of {place} was begun by another revision: it starts anew"),
            )
        })?,
    };
    let api = Api::new(host, config);
    match cursor {
        Cursor::Instances(token) => instances(&api, token.as_deref()),
        Cursor::Firewalls(token) => firewalls(&api, token.as_deref()),
    }
}

fn next(cursor: &Cursor) -> Option<String> {
    serde_json::to_string(cursor).ok()
}

/// A token that is not taken any more is no end of a list.
fn expired(error: Error, trouble: &Trouble, token: Option<&str>) -> Error {
    match trouble {
        Trouble::Refused(refused) if token.is_some() && refused.meaning() == Meaning::Invalid => {
            Error::transient("expired", format!("{}; the list starts anew", error.message))
        }
        _ => error,
    }
}

fn instances<H: Host>(api: &Api<'_, H>, token: Option<&str>) -> Result<Page, Error> {
    let ours = api.host().installation_mark();
    let part = aggregated(api, &mark::filter(&ours), token).map_err(|trouble| {
        expired(api.asked("list the instances of all zones").error(&trouble), &trouble, token)
    })?;
    let mut page = Page { unread: part.unread, ..Page::default() };
    for (at, object) in part.instances {
        let mark = read_mark(&object, &ours);
        if ours.iter().all(|pair| mark.contains(pair)) {
            page.items.push(Item {
                id: at.id(),
                name: at.name,
                leftover: None,
                mark,
                created_ms: time::rfc3339_ms(&text(&object, "/creationTimestamp")),
            });
        }
    }
    page.next = next(&part.next.map_or(Cursor::Firewalls(None), |token| Cursor::Instances(Some(token))));
    Ok(page)
}

/// One page of the instances of all zones, with every sign of what is missing in it.
pub fn aggregated<H: Context + Http>(
    api: &Api<'_, H>,
    filter: &str,
    token: Option<&str>,
) -> Result<Part, Trouble> {
    let mut query = vec![("filter", filter), ("fields", FIELDS)];
    if api.config().partial_lists {
        query.push(("returnPartialSuccess", "true"));
    }
    query.extend(token.map(|token| ("pageToken", token)));
    let mut answer = api.read(&["aggregated", "instances"], &query);
    // Both come and go with the API's revisions, and neither is needed.
    while let Err(Trouble::Refused(refused)) = &answer {
        let objected = ["returnPartialSuccess", "fields"].into_iter().find(|parameter| {
            refused.objects_to(parameter) && query.iter().any(|(name, _)| name == parameter)
        });
        let Some(parameter) = objected else { break };
        query.retain(|(name, _)| *name != parameter);
        if parameter == "fields" {
            query.push(("maxResults", FEW));
        }
        answer = api.read(&["aggregated", "instances"], &query);
    }
    read(&answer?)
}

fn read(answer: &Value) -> Result<Part, Trouble> {
    if text(answer, "/kind") != "compute#instanceAggregatedList" {
        return Err(Trouble::Garbled("the answer is no list of instances".to_owned()));
    }
    let mut part = Part::default();
    let told = |warning: &Value| format!("{}: {}", text(warning, "/code"), text(warning, "/message"));
    let unreachables =
        answer.get("unreachables").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    part.unread.extend(
        unreachables.iter().map(|scope| format!("{} is unreachable", scope.as_str().map_or("a zone", last))),
    );
    part.unread.extend(answer.get("warning").filter(|warning| !warning.is_null()).map(told));
    let scopes = answer.get("items").and_then(Value::as_object).into_iter().flatten();
    for (scope, of) in scopes {
        let warning = of.get("warning").filter(|warning| text(warning, "/code") != "NO_RESULTS_ON_PAGE");
        part.unread.extend(warning.map(|warning| format!("{}: {}", last(scope), told(warning))));
        let found = of.get("instances").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for instance in found {
            let (name, zone) = (text(instance, "/name"), text(instance, "/zone"));
            let zone = if zone.is_empty() { last(scope) } else { last(&zone) };
            let at = Location::new(zone, &name);
            if id::parse(&at.id()).is_err() {
                return Err(Trouble::Garbled("the list has an instance without name and zone".to_owned()));
            }
            part.instances.push((at, instance.clone()));
        }
    }
    part.next = Some(text(answer, "/nextPageToken")).filter(|token| !token.is_empty());
    Ok(part)
}

fn firewalls<H: Host>(api: &Api<'_, H>, token: Option<&str>) -> Result<Page, Error> {
    let host = api.host();
    let prefix = firewall::prefix(&host.installation(), &host.entry());
    let filter = format!("name eq {prefix}.*");
    let mut query = vec![("filter", filter.as_str())];
    query.extend(token.map(|token| ("pageToken", token)));
    let answer = match api.read(&["global", "firewalls"], &query) {
        Ok(answer) => answer,
        // An entry that never made one needs no right to see them.
        Err(Trouble::Refused(refused))
            if api.config().firewall.is_none() && refused.meaning() == Meaning::Forbidden =>
        {
            return Ok(Page::default());
        }
        Err(trouble) => {
            let error = api.asked("list the firewall rules").error(&trouble);
            return Err(expired(error, &trouble, token));
        }
    };
    if text(&answer, "/kind") != "compute#firewallList" {
        let garbled = Trouble::Garbled("the answer is no list of rules".to_owned());
        return Err(api.asked("list the firewall rules").error(&garbled));
    }
    let mut page = Page::default();
    page.unread.extend(answer.get("warning").map(|warning| text(warning, "/message")));
    let rules = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for rule in rules {
        let name = text(rule, "/name");
        if !name.starts_with(&prefix) || !firewall::is_old(host, rule) {
            continue;
        }
        match firewall::is_used(api, &name) {
            Ok(true) => {}
            Ok(false) => page.items.push(Item {
                id: id::firewall(&name),
                name,
                leftover: Some("firewall".to_owned()),
                mark: Vec::new(),
                created_ms: time::rfc3339_ms(&text(rule, "/creationTimestamp")),
            }),
            Err(error) => page.unread.push(error.message),
        }
    }
    let token = Some(text(&answer, "/nextPageToken")).filter(|token| !token.is_empty());
    page.next = token.and_then(|token| next(&Cursor::Firewalls(Some(token))));
    Ok(page)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(more: Value) -> Value {
        let mut answer = json!({
            "kind": "compute#instanceAggregatedList",
            "items": {
                "zones/us-central1-a": { "instances": [{
                    "name": "proxy-a",
                    "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
                }] },
                "zones/us-central1-b": { "warning": { "code": "NO_RESULTS_ON_PAGE", "message": "none" } },
            },
        });
        if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
            answer.extend(more);
        }
        answer
    }

    #[test]
    fn an_empty_zone_is_no_sign_of_something_missing() {
        let part = read(&answer(json!({}))).unwrap();
        assert_eq!((part.instances.len(), part.unread.len(), part.next), (1, 0, None));
    }

    #[test]
    fn every_sign_of_what_is_missing_is_seen() {
        let zone = json!({ "items": { "zones/us-central1-c": {
            "warning": { "code": "UNREACHABLE", "message": "the zone is out of reach" } } } });
        for sign in [
            json!({ "unreachables": ["projects/p/zones/us-central1-c"] }),
            json!({ "warning": { "code": "LIST_OVERHEAD_QUOTA_EXCEED", "message": "not all" } }),
            zone,
        ] {
            assert_eq!(read(&answer(sign.clone())).unwrap().unread.len(), 1, "{sign}");
        }
        let more = read(&answer(json!({ "nextPageToken": "t" }))).unwrap();
        assert_eq!(more.next.as_deref(), Some("t"));
        assert!(read(&json!({ "items": {} })).is_err(), "what is no list is not an empty one");
    }
}
