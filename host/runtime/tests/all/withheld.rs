//! Writes begin only while the process may write, whatever a guest wants.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use egress_contract::{ErrorClass, Provider};
use egress_runtime::{
    Runtime, RuntimeConfig, Slot,
    capability::{Withheld, Writes},
};
use serde_json::json;

use crate::{
    cluster::Cluster,
    support::{candidate_at, create_error, folder, slot_on, spec, target, until},
};

/// What a process asks that shares its backends with others: shut until it is opened, and shut again.
#[derive(Default)]
struct Door(AtomicBool);

impl Writes for Door {
    fn may_begin(&self) -> Result<(), Withheld> {
        if self.0.load(Ordering::SeqCst) { Ok(()) } else { Err(Withheld("another one leads".to_owned())) }
    }
}

fn slot_behind(door: Arc<Door>) -> Slot {
    let cache_dir = Some(folder("withheld"));
    let config = RuntimeConfig { cache_dir, places: 4, ..RuntimeConfig::default() };
    slot_on(Runtime::with_writes(config, door).unwrap())
}

#[tokio::test]
async fn no_host_call_that_writes_begins_while_writes_are_withheld_and_reads_go_on() {
    let (door, cluster) = (Arc::new(Door::default()), Arc::new(Cluster::default()));
    let slot = slot_behind(door.clone());
    let revision = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    assert!(revision.check("home").await.unwrap().ready);
    let error = create_error(&revision).await;
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "write-withheld"));
    assert_eq!(error.message, "entry test: kubernetes.create in create was not begun: another one leads");
    assert_eq!(cluster.count("pods"), 0);
    door.0.store(true, Ordering::SeqCst);
    revision.create(&target(), &spec(), b"").await.unwrap();
    assert_eq!(cluster.count("pods"), 1);
    door.0.store(false, Ordering::SeqCst);
    assert_eq!(revision.delete(&target()).await.unwrap_err().reason, "write-withheld");
    assert_eq!(cluster.count("pods"), 1);
}

#[tokio::test]
async fn a_write_that_was_held_up_does_not_go_on_once_it_may_not_begin() {
    let (door, cluster) = (Arc::new(Door::default()), Arc::new(Cluster::default()));
    door.0.store(true, Ordering::SeqCst);
    let slot = slot_behind(door.clone());
    let revision = slot.load(candidate_at(cluster.clone(), json!({}))).await.unwrap();
    cluster.stall("create");
    let creating = tokio::spawn(async move { create_error(&revision).await });
    until(|| cluster.stalled() == 1).await;
    door.0.store(false, Ordering::SeqCst);
    cluster.release();
    assert_eq!(creating.await.unwrap().reason, "write-withheld");
    assert_eq!(cluster.count("pods"), 0);
}
