//! Delete: what it verifies, what it waits for, when it is done.

use provider_sdk::{Deleted, ErrorClass};
use serde_json::json;

use super::{NAME, Proxy, fake::Fake};

fn pending(proxy: &Proxy<'_>) -> String {
    match proxy.delete_step().unwrap() {
        Deleted::Pending(pending) => pending.message,
        Deleted::Done => panic!("done while {:?} stand", proxy.fake.names()),
    }
}

#[test]
fn done_means_that_pod_and_config_map_are_gone() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    pending(&proxy);
    let told = pending(&proxy);
    assert!(told.contains("Pod waits for node node1"), "{told}");
    fake.settle();
    assert_eq!(proxy.delete_step().unwrap(), Deleted::Done);
    assert_eq!(fake.names(), [""; 0]);
}

#[test]
fn a_config_map_that_a_finalizer_holds_is_waited_for_after_the_pod_is_gone() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    fake.edit("configmaps", |map| map["metadata"]["finalizers"] = json!(["example.com/hold"]));
    pending(&proxy);
    fake.remove("pods", "team-a", NAME);
    let told = pending(&proxy);
    assert!(told.contains("ConfigMap waits for its finalizers example.com/hold"), "{told}");
}

#[test]
fn deleting_what_never_was_is_done_at_once_and_again() {
    let fake = Fake::default();
    let proxy = Proxy::new(&fake);
    assert_eq!(proxy.delete_step().unwrap(), Deleted::Done);
    assert_eq!(proxy.delete_step().unwrap(), Deleted::Done);
    assert_eq!(fake.writes(), [""; 0]);
}

#[test]
fn a_config_map_without_its_pod_is_deleted() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    fake.remove("pods", "team-a", NAME);
    proxy.delete().unwrap();
    assert_eq!(fake.names(), [""; 0]);
}

#[test]
fn a_foreign_config_map_saves_the_pod_from_deletion_until_somebody_looks() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    fake.edit("configmaps", |map| map["metadata"]["labels"] = json!({}));
    fake.restart();
    let error = proxy.delete_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "foreign"));
    assert_eq!(fake.writes(), [""; 0]);
}

#[test]
fn a_successor_of_that_name_is_not_deleted_in_its_place() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    // Between the look and the delete the Pod went, and another came.
    let conflict =
        super::fake::status(409, "Conflict", "Precondition failed: UID in precondition", json!({}));
    *fake.answer_once.borrow_mut() = Some(("delete pods".to_owned(), conflict));
    let error = proxy.delete_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "busy"));
    assert_eq!(fake.names().len(), 2);
}

#[test]
fn the_uid_that_was_read_is_the_uid_that_is_deleted() {
    use crate::{api, id::Location, observe::Found};
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    let at = Location::parse(proxy.target.id.as_ref().unwrap()).unwrap();
    let provider = proxy.provider();
    let Found::Ours(pod) = api::pod(&provider.host, &at).unwrap() else { panic!("not ours") };
    fake.edit("pods", |pod| pod["metadata"]["uid"] = "successor".into());
    assert_eq!(api::destroy(&provider.host, &at, api::PODS, &pod.owned).unwrap_err().reason, "busy");
    assert!(fake.object("pods", "team-a", NAME).is_some());
}
