//! List, and what is done with what it shows.

use std::{cell::RefCell, collections::BTreeMap};

use egress_contract::{ErrorClass, Item};
use egress_sim::{
    backend::{Action, Condition},
    fault::{Point, When},
};

use crate::{
    halt::{Go, broken, ensure, skip},
    host::failed,
    proxy::Proxy,
    sight,
    stage::Stage,
    sweep::{Beginning, Play, host_calls},
    trial::Trial,
};

const PROXIES: u32 = 5;

/// Some instances, in both namespaces.
async fn several(stage: &Stage, play: &mut Play) -> Go<Vec<Proxy>> {
    let mut proxies = Vec::new();
    for number in 1..=PROXIES {
        let mut proxy = if number % 2 == 0 { stage.proxy_elsewhere(number) } else { stage.proxy(number) };
        play.host.make(&mut proxy).await?;
        proxies.push(proxy);
    }
    Ok(proxies)
}

/// All of them, once each, with mark and age, however small a page is.
pub async fn shows_all_it_owns(trial: &mut Trial<'_>) -> Go {
    for page in [u32::MAX, 2, 1] {
        let mut play = Play::new(trial).await?;
        let stage = play.stage.clone();
        stage.plan().pages_of(page);
        let proxies = several(&stage, &mut play).await?;
        let items = play.host.list().await?;
        exactly(&items, &proxies)?;
        let now = stage.clock().now_ms();
        for item in &items {
            ensure(item.created_ms.is_some_and(|at| at <= now + 120_000), || {
                format!("{} is listed as created at {:?}", item.id, item.created_ms)
            })?;
        }
    }
    Ok(())
}

fn exactly(items: &[Item], proxies: &[Proxy]) -> Go {
    for proxy in proxies {
        let name = proxy.name();
        let found: Vec<&Item> = items.iter().filter(|item| item.name == name.as_str()).collect();
        let [item] = found[..] else {
            return broken(format!("{name} is listed {} times; it should be once", found.len()));
        };
        ensure(item.leftover.is_none(), || {
            format!("{name} is listed as a leftover {:?}, and is an instance", item.leftover)
        })?;
        let mut mark = item.mark.clone();
        mark.sort();
        ensure(mark == proxy.mark(), || {
            format!("{name} is listed with the mark {mark:?}, and bears {:?}", proxy.mark())
        })?;
        ensure(Some(&item.id) == proxy.id.as_ref(), || {
            format!("{name} is listed with id {}, and create said {:?}", item.id, proxy.id)
        })?;
    }
    ensure(items.len() == proxies.len(), || {
        format!("{} items are listed, and there are {} instances", items.len(), proxies.len())
    })
}

/// What an instance left behind is listed as what it is, and can be collected.
pub async fn shows_leftovers(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let instance = play.stage.instance().await?;
    play.stage.act(&instance, Action::Remove).await?;
    let left = play.stage.inventory().await?;
    if left.is_empty() {
        return skip("an instance leaves nothing behind");
    }
    sight::everything_is_listed(&play.stage, &play.host).await?;
    let items = play.host.list().await?;
    let instance = items.iter().find(|item| item.leftover.as_ref().is_none_or(String::is_empty));
    ensure(instance.is_none(), || {
        format!(
            "{} is listed as an instance, and is a leftover",
            instance.map(|item| item.id.as_str()).unwrap_or_default()
        )
    })?;
    play.host.collect_all().await?;
    sight::nothing(&play.stage).await
}

/// What is listed can be collected by what the list says of it.
pub async fn shows_what_can_be_collected(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    let stage = play.stage.clone();
    several(&stage, &mut play).await?;
    play.host.collect_all().await?;
    sight::nothing(&stage).await
}

/// Whatever goes wrong, what is missing in a list is named, or the list fails.
pub async fn unread_is_not_empty(trial: &mut Trial<'_>) -> Go {
    let (subject, made) = (trial.subject().clone(), RefCell::new(Vec::new()));
    let prepare = async |play: &mut Play| {
        let stage = play.stage.clone();
        stage.plan().pages_of(2);
        *made.borrow_mut() = several(&stage, play).await?;
        Ok(())
    };
    let beginning = Beginning::new(trial, &subject, prepare).await?;
    let listed = async |play: &mut Play| play.host.list().await.map(drop);
    let (numbers, _) = beginning.healthy(trial, listed).await?;
    let first = beginning.first();
    let proxies = made.borrow().clone();
    let all = numbers.flat_map(|number| When::BOTH.map(|when| Point { number, when })).collect();
    for point in trial.points(all) {
        let play = beginning.take(trial).await?;
        let stage = play.stage.clone();
        trial.at(point);
        for fault in trial.faults() {
            let number = stage.journal().last() + 1 + (point.number - first);
            stage.plan().clear();
            stage.plan().at(Point { number, when: point.when }, fault.clone());
            let mut listed = BTreeMap::new();
            let mut unread = false;
            for place in trial.places() {
                match play.host.list_place(place).await? {
                    Ok(part) => {
                        unread |= !part.unread.is_empty();
                        listed.extend(part.items.into_iter().map(|item| (item.name.clone(), item)));
                    }
                    Err(error) if error.class == ErrorClass::NotFound => {
                        return broken("list may not say not-found");
                    }
                    Err(_) => unread = true,
                }
            }
            let hit = host_calls(&stage, number, number).len() == 1;
            trial.counts().faults += u64::from(hit);
            let missing = proxies.iter().find(|proxy| !listed.contains_key(proxy.name().as_str()));
            if let Some(missing) = missing.filter(|_| !unread) {
                return broken(format!(
                    "{}: {} {}: the list lacks {}, and says of nothing that it could not be read",
                    number,
                    fault.as_str(),
                    point.when.as_str(),
                    missing.name()
                ));
            }
        }
    }
    Ok(())
}

/// A cursor that nobody wrote, or that has expired, is never the end of a list.
pub async fn strange_cursors_are_not_the_end(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    let stage = play.stage.clone();
    stage.plan().pages_of(1);
    let proxies = several(&stage, &mut play).await?;
    let mut cursors: Vec<String> = ["?", "", "{\"v\":9}", "\u{1f980}"].map(str::to_owned).to_vec();
    let place = trial.places().first().cloned().unwrap_or_default();
    match play.host.list_page(&place, None).await?.answer {
        Ok(page) => {
            if let Some(next) = page.next
                && stage.world().backend.impose(Condition::CursorsExpire).await.is_ok()
            {
                cursors.push(next);
            }
        }
        Err(error) => return broken(format!("list failed: {}", failed(&error))),
    }
    for cursor in cursors {
        let mut seen = Vec::new();
        let mut unread = false;
        let mut at = Some(cursor.clone());
        while let Some(cursor) = at {
            match play.host.list_page(&place, Some(&cursor)).await?.answer {
                Ok(page) => {
                    unread |= !page.unread.is_empty();
                    seen.extend(page.items.into_iter().map(|item| item.name));
                    at = page.next;
                }
                Err(_) => {
                    unread = true;
                    at = None;
                }
            }
            if seen.len() > 100 {
                return broken(format!("a list that goes on with the cursor {cursor:?} has no end"));
            }
        }
        // The first page had one of them; of the others none may be lost without a word.
        let missing =
            proxies.iter().filter(|proxy| !seen.iter().any(|name| name == proxy.name().as_str())).count();
        ensure(unread || missing <= 1, || {
            format!(
                "going on with the cursor {cursor:?} ends without {missing} of {PROXIES} instances, and without a word"
            )
        })?;
    }
    Ok(())
}

/// Of a place that is none nothing is said, least of all that it is empty.
pub async fn unknown_place_is_refused(trial: &mut Trial<'_>) -> Go {
    let play = Play::new(trial).await?;
    match play.host.list_page("nowhere", None).await?.answer {
        Err(_) => {}
        Ok(page) if !page.unread.is_empty() => {}
        Ok(_) => return broken("list of a place that is not in the config answers as if it were empty"),
    }
    match play.host.check("nowhere").await?.answer {
        Ok(health) if health.ready => {
            broken("check of a place that is not in the config says that it is ready")
        }
        _ => Ok(()),
    }
}
