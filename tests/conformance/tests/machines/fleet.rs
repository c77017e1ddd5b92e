//! Many Proxies at once, at two hosts: one component, called for all of them side by side as the operator's loops call
//! it. The loops themselves are not here.

use std::{sync::Arc, time::Duration};

use egress_capabilities::{LibvirtCapability, TransferCapability, libvirt::Beside};
use egress_conformance::{patience::patient, proxy::Proxy};
use egress_contract::{Created, Deleted, Error, ErrorClass, Installation, Placement, Provider, Spec, State};
use egress_runtime::{Candidate, Lent, Revision, Slot, capability::SystemClock};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    images::Images,
    lab::{self, Site, component, is_soak, runtime, sites},
};

const INSTALLATION: &str = "fleet";
/// Of emulated guests that share a busy machine.
const PATIENCE: Duration = Duration::from_secs(1_200);
const BACKOFF: Duration = Duration::from_secs(2);

async fn revision(images: &Images, sites: &[Site]) -> Revision {
    let entry = lab::entry(images, sites);
    let (installation, grants) = (Installation::new(INSTALLATION), entry.grants.clone());
    let part = |name: &str| -> Value { grants[name].clone() };
    let libvirt = LibvirtCapability::new(
        &entry.name,
        serde_json::from_value(part("libvirt")).unwrap(),
        &Beside::alone(installation.clone()),
    );
    let libvirt = Arc::new(libvirt.unwrap());
    let transfer = serde_json::from_value(part("transfer")).unwrap();
    let transfer = TransferCapability::new(transfer, Arc::clone(&libvirt)).unwrap();
    let candidate = Candidate {
        module: component("kvm2-provider"),
        pinned: None,
        config: entry.config,
        lent: Lent {
            libvirt: Some(libvirt),
            transfer: Some(Arc::new(transfer)),
            clock: Some(Arc::new(SystemClock::default())),
            ..Lent::default()
        },
        grants: entry.grants,
        // The guests share two processors with what calls for them.
        limits: patient(&entry.limits),
        legacy: Vec::new(),
    };
    Slot::new(runtime(), entry.name, installation).configured(candidate).await.unwrap()
}

/// What waiting mends.
fn bears(error: &Error) {
    assert_eq!(error.class, ErrorClass::Transient, "{}: {}", error.reason, error.message);
}

async fn made(revision: &Revision, mut proxy: Proxy) -> Proxy {
    loop {
        let wait = match revision.create(&proxy.target(), &proxy.spec, &proxy.user_data).await {
            Ok(Created::Done(id)) => {
                proxy.id = Some(id);
                break;
            }
            Ok(Created::Pending(step)) => {
                proxy.id = step.id.or(proxy.id);
                proxy.progress = Some(step.progress);
                step.poll
            }
            Err(error) => {
                bears(&error);
                error.retry_after.unwrap_or(BACKOFF)
            }
        };
        tokio::time::sleep(wait).await;
    }
    proxy.progress = None;
    loop {
        match revision.get(&proxy.target()).await {
            Ok(shown) if shown.state == State::Running => return proxy,
            Ok(shown) => assert_eq!(shown.state, State::Provisioning, "{}", shown.message),
            Err(error) => bears(&error),
        }
        tokio::time::sleep(BACKOFF).await;
    }
}

async fn gone(revision: &Revision, mut proxy: Proxy) {
    loop {
        let wait = match revision.delete(&proxy.target()).await {
            Ok(Deleted::Done) => return,
            Ok(Deleted::Pending(step)) => {
                proxy.progress = Some(step.progress);
                step.poll
            }
            Err(error) => {
                bears(&error);
                BACKOFF
            }
        };
        tokio::time::sleep(wait).await;
    }
}

fn proxy(number: usize, at: &Site) -> Proxy {
    let placement = Placement { zone: Some(at.name.clone()), ..Placement::default() };
    let number = u32::try_from(number).unwrap();
    Proxy {
        spec: Spec { port: 3128, placement },
        ..Proxy::new(INSTALLATION, "team-a", &format!("fleet-{number}"), number)
    }
}

async fn all<T: Send + 'static>(
    tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let set: JoinSet<T> = tasks.collect();
    tokio::time::timeout(PATIENCE, set.join_all()).await.expect("they take too long")
}

fn machines(site: &Site) -> usize {
    site.run("virsh list --name | grep -c . || true").trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn many_proxies_at_once_all_run_by_one_image_for_each_host_and_are_all_gone() {
    let number = if is_soak() { 50 } else { 4 };
    let (sites, images) = (sites(), Images::serve());
    let revision = Arc::new(revision(&images, &sites).await);
    let began = Instant::now();
    let wanted = (0..number).map(|number| proxy(number, &sites[number % 2]));
    let making = wanted.map(|proxy| {
        let revision = Arc::clone(&revision);
        async move { made(&revision, proxy).await }
    });
    let proxies = all(making).await;
    println!("{number} Proxies are Running after {} s", began.elapsed().as_secs());
    assert_eq!(sites.each_ref().map(machines), [number / 2; 2]);
    assert_eq!(images.sent(), 2, "one transfer for each host");

    let began = Instant::now();
    all(proxies.into_iter().map(|proxy| {
        let revision = Arc::clone(&revision);
        async move { gone(&revision, proxy).await }
    }))
    .await;
    println!("all of them are gone after {} s", began.elapsed().as_secs());
    assert_eq!(sites.each_ref().map(machines), [0; 2]);
    for site in &sites {
        let page = revision.list(&site.name, Some("\"volumes\"")).await.unwrap();
        for item in page.items {
            assert_eq!(item.leftover.as_deref(), Some("image"), "{}", item.name);
            let target = egress_conformance::proxy::target_of(&item).unwrap();
            assert_eq!(revision.delete(&target).await.unwrap(), Deleted::Done);
        }
        let left = site.run("virsh list --all --name; ls /var/lib/libvirt/images");
        assert_eq!(left.trim(), "", "nothing is left at {}", site.name);
    }
}
