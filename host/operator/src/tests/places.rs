//! A place that is taken out of an entry while Proxies may have instances there.

use std::sync::LazyLock;

use serde_json::json;

use super::process::{ENTRY, Process, World, built};
use crate::core::store::Providers;

static MUTANTS: LazyLock<Vec<u8>> = LazyLock::new(|| built("fixture-mutants"));
const PROXY: &str = "/apis/egressproxies.dev/v1alpha1/namespaces/team-a/proxies/web";

fn entry(places: &str, image: &str) -> String {
    let cluster = |name: &str| {
        format!(
            "      {name}:\n        operator: true\n        timeouts: {{ connectMs: 200, requestMs: 400 }}\n        rules: \
             [{{ resources: [pods], verbs: [get], namespaces: [a] }}]\n"
        )
    };
    format!(
        "module: {{ file: m.wasm }}\nconfig: {{ clusters: [{places}], image: {image} }}\ngrants:\n  kubernetes:\n    \
         clusters:\n{}{}",
        cluster("home"),
        cluster("other")
    )
}

fn put(world: &World, created_by: &str) {
    let instance =
        json!({ "provider": ENTRY, "name": "proxy-web-a-b", "specHash": "1:0", "createdBy": created_by });
    let metadata = json!({ "name": "web", "namespace": "team-a", "uid": "uid-web" });
    let spec = json!({ "provider": ENTRY, "port": 3128 });
    world.api.put(PROXY, json!({ "metadata": metadata, "spec": spec, "status": { "instance": instance } }));
}

/// Who looks after which removed places; none while that is not known.
fn former(process: &Process) -> Option<Vec<(String, Vec<String>)>> {
    let Some(former) = process.entries.active(ENTRY).ok()?.former else { return Some(Vec::new()) };
    let had = former.had.iter().map(|was| (was.revision.clone(), was.places.clone()));
    former.unknown.is_none().then(|| had.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_place_is_looked_after_by_the_last_revision_that_had_it_also_after_a_start_and_elsewhere() {
    let world = World::new("places");
    world.put("m.wasm", &MUTANTS);
    let process = world.start();
    process.apply(&entry("home, other", "one"));
    let first = process.active_after(None).await;
    process.kept(1).await;
    process.apply(&entry("home, other", "two"));
    let second = process.active_after(Some(&first)).await;
    process.kept(2).await;
    put(&world, &first);
    process.apply(&entry("home", "two"));
    let third = process.active_after(Some(&second)).await;
    let looks_after = Some(vec![(second, vec!["other".to_owned()])]);
    process.shows(|_| former(&process) == looks_after).await;
    process.kept(3).await;
    drop(process);

    for leads in [Some(2), None] {
        let process = world.start();
        process.leads.send_replace(leads);
        process.apply(&entry("home", "two"));
        process.shows(|_| process.active().as_ref() == Some(&third) && former(&process) == looks_after).await;
    }

    // Nobody has anything there, or what is there is the active one's.
    put(&world, &third);
    let process = world.start();
    process.apply(&entry("home", "two"));
    process.shows(|_| process.active().is_some() && former(&process) == Some(Vec::new())).await;
    // Put back, it is a place as any other.
    put(&world, &first);
    process.apply(&entry("home, other", "three"));
    let fourth = process.active_after(Some(&third)).await;
    process
        .shows(|_| process.active().as_ref() == Some(&fourth) && former(&process) == Some(Vec::new()))
        .await;
}
