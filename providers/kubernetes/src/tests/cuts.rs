//! Invariant 1: cut before and after every call, go on, and there is one instance or none, and nothing
//! that the collector can't see.

use serde_json::{Value, json};

use super::{
    NAME, Proxy, config,
    fake::{Cut, Fake},
    sweep,
};

/// Whatever stands must be listed, as an instance or as a leftover.
fn everything_is_listed(fake: &Fake, cut: Cut) {
    let (items, unread) = sweep(fake, &config());
    assert_eq!(unread, [""; 0]);
    let listed = |object: &String| items.iter().any(|item| object.ends_with(&format!("/{}", item.name)));
    let names = fake.names();
    assert!(names.iter().all(listed), "{cut:?}: {names:?} but listed {items:?}");
    assert!(items.len() <= 1, "{cut:?}: {items:?}");
}

fn one_instance(fake: &Fake, cut: Cut) {
    let whole = [format!("configmaps/team-a/{NAME}"), format!("pods/team-a/{NAME}")];
    assert_eq!(fake.names(), whole, "{cut:?}");
    let (items, _) = sweep(fake, &config());
    assert_eq!(items.iter().map(|item| &item.leftover).collect::<Vec<_>>(), [&None], "{cut:?}");
}

fn nothing(fake: &Fake, cut: Cut) {
    assert_eq!(fake.names(), [""; 0], "{cut:?}");
}

/// Every cut that falls within `run`: its calls are counted, then each is cut before and after.
fn cuts(prepare: impl Fn(&Fake), run: impl Fn(&Fake), then: impl Fn(&Fake, Cut)) {
    let fake = Fake::default();
    prepare(&fake);
    fake.restart();
    run(&fake);
    let calls = fake.calls().len();
    assert!(calls >= 4, "{:?}", fake.calls());
    for cut in (0..calls).flat_map(|number| [Cut::Before(number), Cut::After(number)]) {
        let fake = Fake::default();
        prepare(&fake);
        fake.cut(cut);
        run(&fake);
        assert!(fake.is_dead(), "{cut:?} was never reached");
        fake.restart();
        then(&fake, cut);
    }
}

fn create(fake: &Fake) {
    let _cut_or_done = Proxy::new(fake).create();
}

fn made(fake: &Fake) {
    Proxy::new(fake).create().unwrap();
}

fn delete(fake: &Fake) {
    let _cut_or_done = Proxy::new(fake).delete();
}

#[test]
fn a_create_cut_anywhere_is_taken_up_not_repeated() {
    cuts(
        |_| {},
        create,
        |fake, cut| {
            everything_is_listed(fake, cut);
            made(fake);
            one_instance(fake, cut);
        },
    );
}

#[test]
fn a_create_cut_anywhere_can_be_deleted_instead() {
    cuts(
        |_| {},
        create,
        |fake, cut| {
            Proxy::new(fake).delete().unwrap();
            nothing(fake, cut);
        },
    );
}

#[test]
fn a_create_cut_anywhere_is_gone_on_with_by_a_revision_with_another_config() {
    cuts(
        |_| {},
        create,
        |fake, cut| {
            let mut proxy = Proxy::new(fake);
            // The id was kept before anything was made.
            proxy.target.id = Some(format!("home/team-a/{NAME}"));
            proxy.config = json!({ "cluster": "home", "image": "squid:7", "namespace": "elsewhere",
                                   "squid": { "allowedClients": ["192.0.2.0/24"] } });
            proxy.create().unwrap();
            one_instance(fake, cut);
            let pod = fake.object("pods", "team-a", NAME).unwrap();
            let map = fake.object("configmaps", "team-a", NAME).unwrap();
            let of = |object: &Value, new: &str| object.to_string().contains(new);
            // Pod and configuration are of one revision: whoever makes the Pod decides.
            assert_eq!(of(&pod, "squid:7"), of(&map, "192.0.2.0/24"), "{cut:?}");
        },
    );
}

#[test]
fn a_delete_cut_anywhere_is_taken_up_until_nothing_is_left() {
    cuts(made, delete, |fake, cut| {
        everything_is_listed(fake, cut);
        Proxy::new(fake).delete().unwrap();
        nothing(fake, cut);
    });
}

#[test]
fn a_rewritten_config_map_cut_anywhere_ends_in_one_instance() {
    let begun_elsewhere = |fake: &Fake| {
        let mut proxy = Proxy::new(fake);
        proxy.spec.port = 1;
        proxy.begin();
        fake.remove("pods", "team-a", NAME);
    };
    cuts(begun_elsewhere, create, |fake, cut| {
        everything_is_listed(fake, cut);
        made(fake);
        one_instance(fake, cut);
        let map = fake.object("configmaps", "team-a", NAME).unwrap();
        assert!(map["data"]["squid.conf"].as_str().unwrap().contains("http_port 3128\n"), "{cut:?}");
    });
}
