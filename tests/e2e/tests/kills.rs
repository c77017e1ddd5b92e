//! The operator is killed in the middle of whatever it does, again and again: afterwards exactly what is wanted
//! is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::harness::{Budget, Lab, Site, Wanted, eventually, kubernetes_provider, seed};

const KILLS: Budget = Budget { usual: 10, soak: 100 };
const PROXIES: usize = 20;

/// The Proxies that a Pod belongs to, by UID.
fn owner(pod: &Pod) -> String {
    pod.owner_references().first().map(|owner| owner.uid.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_killed_operator_leaves_what_is_wanted_and_nothing_else() {
    let mut chance = StdRng::seed_from_u64(seed());
    let lab = Lab::new().await;
    let site = Site::new(&lab, "kill", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let before = site.objects().await;
    let proxies = site.proxies(0);
    // Name to UID, of those that are to be there.
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    let mut number = 0;
    for kill in 0..KILLS.get() {
        // Not ready: also a start is something to be killed in.
        let mut epo = site.start_unready(&[]).await;
        if chance.random_bool(0.8) {
            epo.ready().await;
        }
        for _ in 0..chance.random_range(2..12) {
            // Up to twenty, and then as many go as come.
            let likely = if wanted.len() < PROXIES { 0.8 } else { 0.0 };
            if chance.random_bool(likely) {
                number += 1;
                let name = format!("p{number}");
                let made = site.create(0, &name, Wanted::default()).await;
                wanted.insert(name, made.uid().unwrap());
            } else if let Some(name) = pick(&wanted, &mut chance) {
                wanted.remove(&name);
                proxies.delete(&name, &DeleteParams::default()).await.unwrap();
            }
            if chance.random_bool(0.5) {
                tokio::time::sleep(Duration::from_millis(chance.random_range(0..300))).await;
            }
        }
        // Seldom long enough for all to come to rest.
        tokio::time::sleep(Duration::from_millis(chance.random_range(0..1000))).await;
        epo.assert_running();
        epo.kill();
        println!("kill {}: {} Proxies are wanted", kill + 1, wanted.len());
    }

    let mut epo = site.start(&[]).await;
    for name in wanted.keys() {
        site.ready(0, name).await;
    }
    let uids: BTreeSet<_> = wanted.values().cloned().collect();
    eventually("exactly the wanted Proxies are there", async || {
        let listed = proxies.list(&Default::default()).await.unwrap().items;
        let there: BTreeSet<_> = listed.iter().filter_map(ResourceExt::uid).collect();
        if there == uids {
            Ok(())
        } else {
            Err(there.symmetric_difference(&uids).cloned().collect::<Vec<_>>())
        }
    })
    .await;
    eventually("exactly one Pod of each is there", async || {
        let mut owners: Vec<_> = site.pods().await.iter().map(owner).collect();
        owners.sort();
        if owners == uids.iter().cloned().collect::<Vec<_>>() { Ok(()) } else { Err(owners) }
    })
    .await;
    for name in wanted.keys() {
        site.delete(0, name).await;
    }
    assert_eq!(site.objects().await, before);
    epo.assert_running();
}

fn pick(wanted: &BTreeMap<String, String>, chance: &mut StdRng) -> Option<String> {
    let at = chance.random_range(0..wanted.len().max(1));
    wanted.keys().nth(at).cloned()
}
