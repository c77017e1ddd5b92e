//! What must be seen at a backend, behind the provider's back, and what the provider must say of it.

use egress_contract::{Item, State};
use egress_sim::backend::Thing;

use crate::{
    halt::{Go, broken, ensure},
    host::{Host, failed},
    proxy::Proxy,
    stage::Stage,
    sweep::Play,
};

/// One line for each.
pub fn lines(things: &[Thing]) -> String {
    things.iter().map(|thing| format!("\n  {thing}")).collect()
}

fn item_lines(items: &[Item]) -> String {
    items
        .iter()
        .map(|item| format!("\n  {} {}", item.leftover.as_deref().unwrap_or("instance"), item.id))
        .collect()
}

/// Whether an item stands for a thing: by the name that both bear.
fn stands_for(item: &Item, thing: &Thing) -> bool {
    thing.name.contains(&item.name)
}

/// Whatever exists is listed, as an instance or as a leftover of one that is listed or not.
pub async fn everything_is_listed(stage: &Stage, host: &Host) -> Go {
    let things = stage.inventory().await?;
    let items = host.list().await?;
    match things.iter().find(|thing| !items.iter().any(|item| stands_for(item, thing))) {
        None => Ok(()),
        Some(lost) => {
            broken(format!("{lost} exists and no list shows it; listed were:{}", item_lines(&items)))
        }
    }
}

/// Exactly one instance, whole, marked as this Proxy's, and nothing beside it that is not its own.
pub async fn one_instance(play: &Play) -> Go {
    let Play { stage, host, proxy, .. } = play;
    let things = stage.inventory().await?;
    let instances: Vec<Thing> = things.iter().filter(|thing| thing.instance).cloned().collect();
    let [instance] = &instances[..] else {
        return broken(format!(
            "there should be exactly one instance, and there are {}:{}",
            instances.len(),
            lines(&instances)
        ));
    };
    marked(instance, proxy)?;
    ensure(!instance.deleting, || format!("{instance} is being removed, and should stay"))?;
    let name = proxy.name();
    let stray = things.iter().find(|thing| !thing.name.contains(name.as_str()));
    ensure(stray.is_none(), || {
        format!("{} belongs to nothing", stray.map(ToString::to_string).unwrap_or_default())
    })?;
    let items = host.list().await?;
    ensure(
        items.len() == 1 && items.iter().all(|item| item.leftover.is_none() && item.name == name.as_str()),
        || format!("the list should show {name} alone, as an instance; it shows:{}", item_lines(&items)),
    )?;
    match host.get(proxy).await?.answer {
        Ok(seen) if matches!(seen.state, State::Running | State::Provisioning) => {
            ensure(Some(&seen.id) == proxy.id.as_ref(), || {
                format!("get says id {}, and create said {:?}", seen.id, proxy.id)
            })
        }
        Ok(seen) => broken(format!("get says {:?} of an instance whose create is done", seen.state)),
        Err(error) => broken(format!("get of an instance whose create is done fails: {}", failed(&error))),
    }
}

/// The thing bears this Proxy's whole mark.
pub fn marked(thing: &Thing, proxy: &Proxy) -> Go {
    ensure(thing.mark == proxy.mark(), || format!("{thing}; its mark should be {:?}", proxy.mark()))
}

/// Nothing exists.
pub async fn nothing(stage: &Stage) -> Go {
    let things = stage.inventory().await?;
    ensure(things.is_empty(), || format!("nothing should be left, and there is:{}", lines(&things)))
}

/// What existed exists, and nobody changed it.
pub async fn untouched(stage: &Stage, before: &[Thing]) -> Go {
    let now = stage.inventory().await?;
    for thing in before {
        match now.iter().find(|other| {
            (&other.kind, &other.place, &other.name) == (&thing.kind, &thing.place, &thing.name)
        }) {
            None => return broken(format!("{thing} is gone, and nobody may remove it")),
            Some(other) if other.content != thing.content || other.deleting != thing.deleting => {
                return broken(format!("{thing} was changed, and nobody may touch it; now: {other}"));
            }
            Some(_) => {}
        }
    }
    ensure(now.len() == before.len(), || {
        let new: Vec<Thing> = now.into_iter().filter(|thing| !before.contains(thing)).collect();
        format!("something was made beside it:{}", lines(&new))
    })
}
