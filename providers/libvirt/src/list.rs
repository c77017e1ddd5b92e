//! What this installation owns at one host: machines by their marks, volumes without a machine by their names, base
//! images that nothing backs onto.

use std::collections::{BTreeMap, BTreeSet};

use provider_sdk::{
    Error, Item, Page,
    libvirt::{Stage, code},
    reason,
};
use serde::{Deserialize, Serialize};

use crate::{
    Host, Ways,
    config::Config,
    id::Location,
    image,
    site::Site,
    volume::{self, Format},
};

/// Each domain costs a call.
const PAGE: usize = 200;

/// Where to go on: behind a domain of this name, or with the volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Cursor {
    DomainsAfter(String),
    Volumes,
}

/// See `Provider::list`.
pub fn list<H: Host>(
    host: &H,
    ways: &Ways,
    config: &Config,
    place: &str,
    cursor: Option<&str>,
) -> Result<Page, Error> {
    let Some(known) = config.place(place) else {
        return Err(Error::permanent(
            reason::CONFIG,
            format!("the entry's config has the hosts {}, and no place {place}", config.host_names()),
        ));
    };
    let cursor = match cursor {
        None => Cursor::DomainsAfter(String::new()),
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Error::transient(
                "expired",
                format!("the list of {place} was begun by another revision: it starts anew"),
            )
        })?,
    };
    let site = Site::open(host, known)?;
    match cursor {
        Cursor::DomainsAfter(after) => domains(host, ways, &site, &after),
        Cursor::Volumes => volumes(host, &site),
    }
}

fn next(cursor: &Cursor) -> Option<String> {
    serde_json::to_string(cursor).ok()
}

fn domains<H: Host>(host: &H, ways: &Ways, site: &Site<'_, H>, after: &str) -> Result<Page, Error> {
    let mut all = site.call(|| "list the domains".to_owned(), |connection| connection.domains())?;
    all.retain(|domain| domain.name.as_str() > after);
    all.sort();
    let more = all.len() > PAGE;
    all.truncate(PAGE);
    let cursor = match all.last().filter(|_| more) {
        Some(last) => Cursor::DomainsAfter(last.name.clone()),
        None => Cursor::Volumes,
    };
    let mut page = Page { next: next(&cursor), ..Page::default() };
    let ours = host.installation_mark();
    for domain in all {
        let marked = match read(host, ways, site, &domain) {
            Ok(Some(marked)) => marked,
            Ok(None) => continue,
            Err(Unread::Here(cause)) => {
                page.unread.push(cause);
                continue;
            }
            Err(Unread::All(error)) => return Err(error),
        };
        if ours.iter().all(|pair| marked.mark.contains(pair)) {
            page.items.push(Item {
                id: Location::new(site.name(), &domain.name).id(),
                name: domain.name,
                leftover: None,
                mark: marked.mark,
                created_ms: marked.created_ms,
            });
        }
    }
    Ok(page)
}

enum Unread {
    Here(String),
    All(Error),
}

/// A domain that libvirt can't tell of costs itself; a connection that fails costs the list.
fn read<H: Host>(
    host: &H,
    ways: &Ways,
    site: &Site<'_, H>,
    domain: &provider_sdk::libvirt::Domain,
) -> Result<Option<crate::mark::Marked>, Unread> {
    let asked = || site.asked(format!("read the mark of {}", domain.name));
    let mut answer = site.connection().metadata(domain, ways.namespace);
    // An entry may change from one component to the other, and owns what it owned. What is called otherwise can't
    // be the other one's.
    let is_named_so = volume::machine_of(&volume::overlay(&domain.name), &host.installation()).is_some();
    if is_named_so && answer.as_ref().is_err_and(|failure| failure.is(code::NO_DOMAIN_METADATA)) {
        answer = site.connection().metadata(domain, ways.sibling);
    }
    match answer {
        Ok(text) => match crate::mark::read(&text, &host.installation_mark()) {
            Some(marked) => Ok(Some(marked)),
            None => Err(Unread::Here(asked().garbled().message)),
        },
        Err(failure) if failure.is(code::NO_DOMAIN_METADATA) || failure.is(code::NO_DOMAIN) => Ok(None),
        Err(failure) if failure.stage == Stage::Libvirt => Err(Unread::Here(asked().error(&failure).message)),
        Err(failure) => Err(Unread::All(asked().error(&failure))),
    }
}

fn volumes<H: Host>(host: &H, site: &Site<'_, H>) -> Result<Page, Error> {
    let pool = site.pool()?;
    let volumes = match site.connection().volumes(&pool) {
        Ok(volumes) => volumes,
        Err(failure) if failure.stage == Stage::Libvirt => {
            let cause = site.asked(format!("list the volumes of pool {pool}")).error(&failure).message;
            return Ok(Page { unread: vec![cause], ..Page::default() });
        }
        Err(failure) => {
            return Err(site.asked(format!("list the volumes of pool {pool}")).error(&failure));
        }
    };
    let installation = host.installation();
    let mut lonely: BTreeMap<&str, &'static str> = BTreeMap::new();
    for (name, kind) in volumes.iter().filter_map(|volume| volume::machine_of(volume, &installation)) {
        let kept = lonely.entry(name).or_insert(kind);
        if kind == "volume" {
            *kept = kind;
        }
    }
    let mut page = Page::default();
    if !lonely.is_empty() {
        // After the volumes: a machine that came meanwhile counts.
        let domains = site.call(|| "list the domains".to_owned(), |connection| connection.domains())?;
        let names: BTreeSet<&str> = domains.iter().map(|domain| domain.name.as_str()).collect();
        lonely.retain(|name, _| !names.contains(name));
    }
    page.items.extend(lonely.into_iter().map(|(name, kind)| Item {
        id: Location::new(site.name(), name).id(),
        name: name.to_owned(),
        leftover: Some(kind.to_owned()),
        mark: Vec::new(),
        created_ms: None,
    }));
    let prefix = volume::images(&installation, &host.entry());
    let images: BTreeSet<&str> =
        volumes.iter().filter_map(|volume| volume::image_of(volume, &prefix)).collect();
    for name in images {
        if is_idle(host, site, &pool, name)? {
            page.items.push(Item {
                id: Location::new(site.name(), name).image_id(),
                name: name.to_owned(),
                leftover: Some("image".to_owned()),
                mark: Vec::new(),
                created_ms: None,
            });
        }
    }
    Ok(page)
}

/// Neither on its way nor used.
fn is_idle<H: Host>(host: &H, site: &Site<'_, H>, pool: &str, name: &str) -> Result<bool, Error> {
    if image::user_of(site, pool, name)?.is_some() {
        return Ok(false);
    }
    for format in [Format::Qcow2, Format::Raw] {
        let known = host.status(site.name(), pool, &volume::base(name, format));
        let known = known
            .map_err(|failure| site.asked(format!("look whether {name} is filled")).transfer(&failure))?;
        if known.is_some_and(|transfer| transfer.sha256.is_none()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_written_and_others_are_none() {
        for cursor in [Cursor::DomainsAfter("a".to_owned()), Cursor::Volumes] {
            assert_eq!(serde_json::from_str::<Cursor>(&next(&cursor).unwrap()).unwrap(), cursor);
        }
        for bad in ["?", "", "{\"v\":9}"] {
            assert!(serde_json::from_str::<Cursor>(bad).is_err(), "{bad}");
        }
    }
}
