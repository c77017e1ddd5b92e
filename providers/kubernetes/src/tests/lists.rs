//! List: what it shows, page by page, and what it could not read.

use provider_sdk::{ErrorClass, Mark, Provider};
use serde_json::{Value, json};

use super::{
    KubernetesProvider, Lent, NAME, Proxy, UID, config,
    fake::{EPOCH_MS, Fake, status},
    sweep,
};

fn fleet(fake: &Fake, namespace: &str, count: usize) {
    for number in 0..count {
        let mut proxy = Proxy::new(fake);
        proxy.target.namespace = namespace.to_owned();
        proxy.target.name = format!("proxy-{namespace}-{number:03}");
        proxy.target.uid = format!("uid-{namespace}-{number}");
        proxy.begin();
    }
}

fn provider<'a>(fake: &'a Fake, config: &'a Value) -> KubernetesProvider<Lent<'a>> {
    KubernetesProvider::from(Lent { fake, config, mark: Mark::new() })
}

#[test]
fn an_item_can_be_handed_back_to_delete() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    let id = proxy.create().unwrap();
    let (items, unread) = sweep(&fake, &config());
    assert_eq!(unread, [""; 0]);
    let [item] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&item.id, item.name.as_str(), &item.leftover), (&id, NAME, &None));
    assert_eq!(item.created_ms, Some(EPOCH_MS));
    assert!(item.mark.contains(&("uid".to_owned(), UID.to_owned())), "{:?}", item.mark);
    let mut collected = Proxy::new(&fake);
    collected.target.id = Some(item.id.clone());
    collected.target.name = item.name.clone();
    collected.delete().unwrap();
    assert_eq!(sweep(&fake, &config()).0, []);
}

#[test]
fn a_config_map_without_its_pod_is_a_leftover() {
    let fake = Fake::default();
    fleet(&fake, "team-a", 3);
    fake.remove("pods", "team-a", "proxy-team-a-001");
    let (items, _) = sweep(&fake, &config());
    let shown: Vec<(&str, Option<&str>)> =
        items.iter().map(|item| (item.name.as_str(), item.leftover.as_deref())).collect();
    assert_eq!(
        shown,
        [("proxy-team-a-000", None), ("proxy-team-a-002", None), ("proxy-team-a-001", Some("configmap"))]
    );
}

#[test]
fn what_another_installation_owns_is_not_shown() {
    let fake = Fake::default();
    fleet(&fake, "team-a", 2);
    for plural in ["pods", "configmaps"] {
        fake.edit(plural, |object| {
            object["metadata"]["labels"]["egressproxies.dev/installation"] = "other1".into()
        });
    }
    assert_eq!(sweep(&fake, &config()).0, []);
}

#[test]
fn a_large_fleet_comes_in_pages_each_of_few_requests() {
    let fake = Fake::default();
    fleet(&fake, "team-a", 23);
    fake.remove("pods", "team-a", "proxy-team-a-007");
    fake.page.set(Some(5));
    let config = config();
    let (items, _) = sweep(&fake, &config);
    assert_eq!(items.iter().filter(|item| item.leftover.is_none()).count(), 22);
    assert_eq!(items.iter().filter(|item| item.leftover.is_some()).count(), 1);
    fake.restart();
    provider(&fake, &config).list("home", None).unwrap();
    assert_eq!(fake.calls().len(), 1);
}

#[test]
fn the_pods_of_a_page_of_config_maps_may_come_in_several() {
    let fake = Fake::default();
    fleet(&fake, "team-a", 7);
    fake.page_of_pods.set(Some(2));
    let (items, _) = sweep(&fake, &config());
    assert_eq!(items.len(), 7, "{items:?}");
    assert!(items.iter().all(|item| item.leftover.is_none()), "{items:?}");
}

#[test]
fn only_the_entrys_namespaces_are_looked_at() {
    let fake = Fake::default();
    for namespace in ["team-a", "team-b", "team-c"] {
        fleet(&fake, namespace, 2);
    }
    let namespaces = |config: Value| {
        let (items, _) = sweep(&fake, &config);
        let mut seen: Vec<String> =
            items.iter().map(|item| item.id.split('/').nth(1).unwrap().to_owned()).collect();
        seen.dedup();
        seen
    };
    let mut some = config();
    some["namespaces"] = json!(["team-c", "team-a"]);
    assert_eq!(namespaces(some), ["team-c", "team-a"]);
    let mut fixed = config();
    fixed["namespace"] = json!("team-b");
    assert_eq!(namespaces(fixed), ["team-b"]);
    assert_eq!(namespaces(config()), ["team-a", "team-b", "team-c"]);
}

#[test]
fn a_namespace_that_cant_be_read_is_named_and_the_others_are_shown() {
    let fake = Fake::default();
    for namespace in ["team-a", "team-b"] {
        fleet(&fake, namespace, 1);
    }
    let mut config = config();
    config["namespaces"] = json!(["team-a", "team-b"]);
    fake.missing_rights.borrow_mut().insert("list pods team-a".to_owned());
    let (items, unread) = sweep(&fake, &config);
    // Its ConfigMaps could be read; whether their Pods are missing could not.
    assert_eq!(unread.len(), 2, "{unread:?}");
    assert!(unread.iter().all(|cause| cause.contains("namespace team-a")), "{unread:?}");
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["proxy-team-b-000"]);
}

#[test]
fn a_cluster_out_of_reach_is_an_error_and_never_an_empty_list() {
    use provider_sdk::kubernetes::FailureKind;
    let fake = Fake::default();
    let config = config();
    for kind in [FailureKind::Connect, FailureKind::Timeout, FailureKind::Cut, FailureKind::Name] {
        *fake.answer_once.borrow_mut() = Some(("list".to_owned(), super::fake::broken(kind, false)));
        let error = provider(&fake, &config).list("home", None).unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient);
    }
}

#[test]
fn a_list_that_expired_starts_anew() {
    let fake = Fake::default();
    fleet(&fake, "team-a", 3);
    fake.page.set(Some(1));
    let config = config();
    let cursor = provider(&fake, &config).list("home", None).unwrap().next;
    let expired = status(410, "Expired", "The provided continue parameter is too old", json!({}));
    *fake.answer_once.borrow_mut() = Some(("list".to_owned(), expired));
    let error = provider(&fake, &config).list("home", cursor.as_deref()).unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "expired"));
}

#[test]
fn a_cursor_of_another_revision_starts_anew() {
    let fake = Fake::default();
    let config = config();
    for cursor in ["", "17", r#"{"namespace":"gone","kind":"pods"}"#] {
        let error = provider(&fake, &config).list("home", Some(cursor)).unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "expired"), "{cursor}");
    }
}

#[test]
fn a_place_that_the_config_does_not_have_is_refused() {
    let fake = Fake::default();
    let config = config();
    assert_eq!(provider(&fake, &config).list("other", None).unwrap_err().class, ErrorClass::Permanent);
}

#[test]
fn an_answer_that_is_no_list_is_an_error_and_never_an_empty_list() {
    for kind in ["list pods", "list configmaps"] {
        let fake = Fake::default();
        fleet(&fake, "team-a", 2);
        *fake.garble_once.borrow_mut() = Some(kind.to_owned());
        let config = config();
        let provider = provider(&fake, &config);
        let mut cursor = None;
        let error = loop {
            match provider.list("home", cursor.as_deref()) {
                Ok(page) => cursor = Some(page.next.unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.class, ErrorClass::Transient, "{kind}");
    }
}
