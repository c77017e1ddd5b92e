//! What this installation owns at one node: machines by their marks, seeds without a machine by their names.

use std::collections::BTreeSet;

use provider_sdk::{Error, Item, Page, reason};
use serde::{Deserialize, Serialize};

use crate::{
    Host,
    cluster::{Cluster, Guest, text},
    config::{Config, NodeConfig},
    id::{self, Id},
    mark,
    phrases::Meaning,
    rights::{self, Rights},
    seed,
};

/// Each machine costs a call.
const PAGE: usize = 100;

/// Where to go on: behind a machine of this number, or with the seeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Cursor {
    MachinesAfter(u32),
    Seeds,
}

/// See `Provider::list`.
pub fn list<H: Host>(host: &H, config: &Config, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
    let Some(node) = config.node(place) else {
        return Err(Error::permanent(
            reason::CONFIG,
            format!("the entry's config has the nodes {}, and no place {place}", config.node_names()),
        ));
    };
    let cursor = match cursor {
        None => Cursor::MachinesAfter(0),
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Error::transient(
                "expired",
                format!("the list of {place} was begun by another revision: it starts anew"),
            )
        })?,
    };
    let cluster = Cluster::new(host, config);
    let mut guests = cluster.guests_by(&node.endpoint)?;
    guests.retain(|guest| guest.is_machine && !guest.is_template);
    guests.sort_by_key(|guest| guest.vmid);
    match cursor {
        Cursor::MachinesAfter(after) => {
            if after == 0 {
                // A token that sees nothing gets an empty list.
                let data = cluster.permissions(&node.endpoint)?;
                rights::sees(config, place, &Rights::read(&data))?;
            }
            machines(&cluster, node, guests, after)
        }
        Cursor::Seeds => seeds(&cluster, node, &guests),
    }
}

fn next(cursor: &Cursor) -> Option<String> {
    serde_json::to_string(cursor).ok()
}

/// Its own machines; the first node has those that moved to a node which is not in the config, too.
fn is_at(config: &Config, place: &NodeConfig, guest: &Guest) -> bool {
    let first = config.nodes.first().is_some_and(|first| first.name == place.name);
    guest.node == place.name || (first && config.node(&guest.node).is_none())
}

fn machines<H: Host>(
    cluster: &Cluster<'_, H>,
    place: &NodeConfig,
    guests: Vec<Guest>,
    after: u32,
) -> Result<Page, Error> {
    let installation = cluster.host.installation();
    // One without a name may be ours: statistics come seconds later, or not at all.
    let may_be = |guest: &Guest| {
        guest.name.as_ref().is_none_or(|name| seed::is_ours(name, &installation) || name.starts_with("VM "))
    };
    let mut all: Vec<Guest> = guests
        .into_iter()
        .filter(|guest| guest.vmid > after && is_at(cluster.config, place, guest) && may_be(guest))
        .collect();
    let more = all.len() > PAGE;
    all.truncate(PAGE);
    let cursor = match all.last().filter(|_| more) {
        Some(last) => Cursor::MachinesAfter(last.vmid),
        None => Cursor::Seeds,
    };
    let mut page = Page { next: next(&cursor), ..Page::default() };
    let ours = cluster.host.installation_mark();
    for guest in all {
        let config = match cluster.machine_config(&guest.node, guest.vmid) {
            Ok(config) => config,
            Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => continue,
            // The machine costs itself; a node that does not answer costs its list.
            Err(trouble) if trouble.status().is_some_and(|status| status < 595) => {
                page.unread.push(Error::from(trouble).message);
                continue;
            }
            Err(trouble) => return Err(trouble.into()),
        };
        let name = text(&config, "name").unwrap_or_default();
        let marked = mark::read(text(&config, "description").unwrap_or_default(), &ours);
        if seed::is_ours(name, &installation) && ours.iter().all(|pair| marked.mark.contains(pair)) {
            page.items.push(Item {
                id: Id { vmid: guest.vmid, name: name.to_owned() }.to_string(),
                name: name.to_owned(),
                leftover: None,
                mark: marked.mark,
                created_ms: marked.created_ms,
            });
        }
    }
    Ok(page)
}

/// Seeds that no machine of the cluster is called after.
fn seeds<H: Host>(cluster: &Cluster<'_, H>, place: &NodeConfig, guests: &[Guest]) -> Result<Page, Error> {
    let volumes = match cluster.images(&place.name, &place.iso_storage) {
        Ok(volumes) => volumes,
        Err(trouble) if trouble.status().is_some_and(|status| status < 595) => {
            return Ok(Page { unread: vec![Error::from(trouble).message], ..Page::default() });
        }
        Err(trouble) => return Err(trouble.into()),
    };
    let installation = cluster.host.installation();
    let mut lonely: BTreeSet<String> = volumes
        .iter()
        .filter_map(|volume| seed::machine_of(volume, &installation))
        .map(str::to_owned)
        .collect();
    let mut page = Page::default();
    lonely.retain(|name| !guests.iter().any(|guest| guest.name.as_deref() == Some(name)));
    for guest in guests {
        if lonely.is_empty() {
            break;
        }
        if guest.name.as_ref().is_some_and(|name| !name.starts_with("VM ")) {
            continue;
        }
        match cluster.machine_config(&guest.node, guest.vmid) {
            Ok(config) => {
                lonely.remove(text(&config, "name").unwrap_or_default());
            }
            Err(trouble) if trouble.meaning() == Some(Meaning::Missing) => {}
            // Any of them may be that machine's.
            Err(trouble) => {
                page.unread.push(Error::from(trouble).message);
                lonely.clear();
            }
        }
    }
    page.items.extend(lonely.into_iter().map(|name| Item {
        id: id::seed(&place.name, &name),
        name,
        leftover: Some("seed".to_owned()),
        mark: Vec::new(),
        created_ms: None,
    }));
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_written_and_others_are_none() {
        for cursor in [Cursor::MachinesAfter(7), Cursor::Seeds] {
            assert_eq!(serde_json::from_str::<Cursor>(&next(&cursor).unwrap()).unwrap(), cursor);
        }
        for bad in ["?", "", "{\"v\":9}"] {
            assert!(serde_json::from_str::<Cursor>(bad).is_err(), "{bad}");
        }
    }
}
