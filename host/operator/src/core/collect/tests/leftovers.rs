//! What an instance leaves behind, as providers list it: mostly without a mark or an age.

use super::*;

/// Kind, name, and whether it bears a mark: of a Pod, of a machine, and of what machines share.
fn kinds() -> Vec<(&'static str, String, bool)> {
    let of = |proxy: &str| installation().instance_name(proxy, &format!("uid-{proxy}"), 2).to_string();
    let shared = format!("proxy-base-{}-hypervisors-debian-12", installation().hash());
    vec![
        ("ConfigMap", of("web"), true),
        ("volume", of("disk"), false),
        ("seed", of("seed"), false),
        ("firewall rule", of("rule"), false),
        ("image", shared, false),
    ]
}

#[tokio::test]
async fn a_leftover_of_each_kind_goes_after_two_sweeps_and_its_grace() {
    for (kind, name, marked) in kinds() {
        let (world, mut sweeps) = Sweeps::new();
        world.make("owned", true);
        let mark = if marked { installation().mark("uid-web", 2, "team-a", "web") } else { Vec::new() };
        let (id, leftover) = (format!("here/{name}"), Some(kind.to_owned()));
        let item = Item { id: id.clone(), name: name.clone(), leftover, mark, created_ms: None };
        world.with(|state| state.items.insert("left".to_owned(), ("here".to_owned(), item)));
        assert_eq!(fates(&sweeps.sweep().await), [&Fate::SeenOnce], "{kind}");
        world.pass(HOUR / 2);
        assert_eq!(fates(&sweeps.sweep().await), [&Fate::Grace(HOUR / 2)], "{kind}");
        world.pass(HOUR / 2);
        assert_eq!(fates(&sweeps.sweep().await), [&Fate::Going(String::new())], "{kind}");
        assert_eq!(world.there(), ["owned"], "{kind}");
        let target = world.with(|state| state.deletes[0].clone());
        assert_eq!((target.name.as_str(), target.id), (name.as_str(), Some(id)), "{kind}");
    }
}

#[tokio::test]
async fn what_another_installation_left_behind_stays() {
    for (kind, name, _) in kinds() {
        let (world, mut sweeps) = Sweeps::new();
        let theirs = name.replace(installation().hash(), Installation::new("theirs").hash());
        let item = Item {
            id: theirs.clone(),
            name: theirs,
            leftover: Some(kind.to_owned()),
            mark: Vec::new(),
            created_ms: None,
        };
        world.with(|state| state.items.insert("left".to_owned(), ("here".to_owned(), item)));
        assert_eq!(sweeps.sweeps(5).await.ownerless, [], "{kind}");
        assert_eq!(world.there(), ["left"], "{kind}");
    }
}

#[tokio::test]
async fn leftovers_are_no_instances_and_set_no_brake() {
    let (world, mut sweeps) = Sweeps::new();
    for n in 0..5 {
        world.leftover(&format!("seed-{n}"));
    }
    let report = sweeps.sweeps(2).await;
    assert_eq!((report.instances, report.asks), (0, None));
    assert_eq!(world.there(), Vec::<String>::new());
}

#[tokio::test]
async fn a_leftover_that_is_older_than_the_kind_waits_for_no_word_that_nobody_asks() {
    let (world, mut sweeps) = Sweeps::new();
    world.leftover("seed");
    sweeps.sweep().await;
    world.pass(HOUR);
    world.with(|state| state.since = state.now);
    let report = sweeps.sweep().await;
    assert_eq!((report.asks.clone(), fates(&report)), (None, vec![&Fate::Going(String::new())]));
    assert_eq!(world.there(), Vec::<String>::new());
}
