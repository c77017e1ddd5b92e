//! An entry that is removed while Proxies have instances of it.

use serde_json::{Value, json};

use super::process::{ENTRY, World, compare, text};
use crate::{
    config::read_entries,
    core::store::{Inactive, Providers},
};

const PROXY: &str = "/apis/egressproxies.dev/v1alpha1/namespaces/team-a/proxies/web";

/// A Proxy with an instance of the entry, and the CRD that the census looks at.
fn used(world: &World) {
    let instance = json!({ "provider": ENTRY, "name": "proxy-web-a-b", "specHash": "1:0" });
    let metadata = json!({ "name": "web", "namespace": "team-a", "uid": "uid-web" });
    let spec = json!({ "provider": ENTRY, "port": 3128 });
    world.api.put(PROXY, json!({ "metadata": metadata, "spec": spec, "status": { "instance": instance } }));
}

fn removed(health: &Value) -> bool {
    let listed = &health["status"]["conditions"][1];
    listed["reason"] == "EntryRemoved"
        && listed["message"].as_str().unwrap().contains("1 Proxies: team-a/web")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_stays_delete_only_while_a_proxy_has_an_instance_of_it_over_a_start_too() {
    let world = World::new("leaving");
    used(&world);
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    process.entries.apply(read_entries([]));
    let health = process.beside(process.entries.take_over(), process.shows(removed)).await;
    compare("the-entry-was-removed-and-proxies-have-instances-of-it", &health);
    let active = process.entries.active(ENTRY).unwrap();
    assert!(!active.listed && active.revision == one);
    drop(process);
    // Its module may be gone with it.
    std::fs::remove_file(world.dir.join("a.wasm")).unwrap();

    for leads in [None, Some(2)] {
        let process = world.start();
        process.leads.send_replace(leads);
        process.entries.apply(read_entries([]));
        process.beside(process.entries.take_over(), process.shows(|_| process.active().is_some())).await;
        let active = process.entries.active(ENTRY).unwrap();
        assert!(!active.listed && active.revision == one, "with the lead or without");
        assert!(removed(&world.api.object(super::process::HEALTH).unwrap()));
    }

    let process = world.start();
    process.entries.apply(read_entries([]));
    process.beside(process.entries.take_over(), process.shows(|_| process.active().is_some())).await;
    world.api.remove(PROXY);
    process.beside(process.entries.take_over(), process.shows(Value::is_null)).await;
    drop(process);
    let process = world.start();
    process.entries.apply(read_entries([]));
    assert!(matches!(process.entries.active(ENTRY), Err(Inactive::Missing(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_that_is_put_back_makes_proxies_again() {
    let world = World::new("put-back");
    used(&world);
    let process = world.start();
    process.apply(&text("a.wasm", "one"));
    process.active_after(None).await;
    process.entries.apply(read_entries([]));
    process.beside(process.entries.take_over(), process.shows(removed)).await;
    process.apply(&text("a.wasm", "one"));
    process.shows(|health| health["status"]["conditions"][1]["status"] == "True").await;
    assert!(process.entries.active(ENTRY).unwrap().listed);
}
