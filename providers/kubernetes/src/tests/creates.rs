//! Create: what it makes, what it waits for, what it refuses.

use provider_sdk::{Created, ErrorClass, Placement, Provider};
use serde_json::{Value, json};

use super::{NAME, Proxy, UID, fake::Fake};

fn status(fake: &Fake, status: &Value) {
    fake.edit("pods", |pod| pod["status"] = status.clone());
}

#[test]
fn a_pod_and_its_config_map_are_made_and_done_means_ready() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    assert_eq!(proxy.create().unwrap(), format!("home/team-a/{NAME}"));
    assert_eq!(fake.names(), [format!("configmaps/team-a/{NAME}"), format!("pods/team-a/{NAME}")]);
}

#[test]
fn the_id_is_kept_before_anything_is_made() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    let Created::Pending(pending) = proxy.create_step().unwrap() else { panic!("done without a Pod") };
    assert_eq!(pending.id, Some(format!("home/team-a/{NAME}")));
    assert_eq!(fake.calls(), [""; 0]);
}

#[test]
fn a_pod_that_was_begun_stays_where_it_is_when_the_entry_changes_its_namespace() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    proxy.config["namespace"] = json!("elsewhere");
    proxy.create().unwrap();
    assert_eq!(fake.names().len(), 2);
    proxy.delete().unwrap();
    assert_eq!(fake.names(), [""; 0]);
}

#[test]
fn what_kubernetes_waits_for_is_told_in_its_own_words_and_with_the_way_out() {
    let waiting = |reason: &str, message: &str| json!({ "state": { "waiting": { "reason": reason, "message": message } } });
    let crashing = json!({
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } },
        "lastState": { "terminated": { "exitCode": 1, "message": "FATAL: Bungled squid.conf line 3" } },
    });
    for (status_, told) in [
        (json!({ "phase": "Pending" }), "Pending"),
        (
            json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu." }] }),
            "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.; add room, or change nodeSelector or tolerations in \
             the entry's config, or the Proxy's zone",
        ),
        (
            json!({ "phase": "Pending", "podIP": "10.244.0.9",
                "containerStatuses": [waiting("ErrImagePull", "pull access denied")] }),
            "ErrImagePull: pull access denied; mend image or imagePullSecrets in the entry's config, and delete the Pod",
        ),
        (
            json!({ "phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff", "Back-off pulling image")] }),
            "ImagePullBackOff: Back-off pulling image; mend image or imagePullSecrets in the entry's config, and delete \
             the Pod",
        ),
        (
            json!({ "phase": "Pending", "containerStatuses": [waiting("ContainerCreating", "")] }),
            "ContainerCreating",
        ),
        (
            json!({ "phase": "Running", "containerStatuses": [crashing] }),
            "CrashLoopBackOff: back-off 10s; exit code 1: FATAL: Bungled squid.conf line 3; mend squid or runAsUser in the \
             entry's config, and delete the Pod",
        ),
        (
            json!({ "phase": "Running", "containerStatuses": [{ "state": { "terminated": { "reason": "Error", "exitCode": 1 } } }] }),
            "Error: exit code 1",
        ),
        (
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "False",
                "reason": "ContainersNotReady", "message": "containers with unready status: [squid]" }] }),
            "ContainersNotReady: containers with unready status: [squid]",
        ),
        (json!({ "phase": "Running" }), "NotReady"),
    ] {
        let fake = Fake::default();
        let mut proxy = Proxy::new(&fake);
        proxy.begin();
        status(&fake, &status_);
        assert_eq!(proxy.waits_for(), told);
    }
}

#[test]
fn a_young_pod_is_asked_often_and_an_old_one_seldom() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    let mut poll = || match proxy.create_step().unwrap() {
        Created::Pending(pending) => pending.poll_ms,
        Created::Done(id) => panic!("{id} is done"),
    };
    let young = poll();
    fake.advance(60_000);
    assert!(poll() > young);
}

#[test]
fn a_pod_that_ended_is_finished_and_never_made_anew_under_its_name() {
    for phase in ["Succeeded", "Failed"] {
        let fake = Fake::default();
        let mut proxy = Proxy::new(&fake);
        proxy.begin();
        status(&fake, &json!({ "phase": phase, "reason": "Evicted", "message": "node was low on memory" }));
        let error = proxy.create_step().unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "finished"));
        assert!(error.message.contains("Evicted: node was low on memory"), "{error}");
    }
}

#[test]
fn a_pod_whose_node_is_out_of_reach_is_waited_for() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    status(&fake, &json!({ "phase": "Unknown" }));
    let error = proxy.create_step().unwrap_err();
    assert_eq!(error.class, ErrorClass::Transient);
    assert!(error.message.contains("node"), "{error}");
}

#[test]
fn a_pod_that_is_being_deleted_is_never_adopted() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create().unwrap();
    fake.edit("pods", |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "deleting"));
}

#[test]
fn our_name_with_another_mark_is_foreign_and_both_are_named() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 4] = [
        ("no mark", |pod| pod["metadata"]["labels"] = json!({})),
        ("uid=another", |pod| pod["metadata"]["labels"]["egressproxies.dev/uid"] = json!("another")),
        ("incarnation=2", |pod| pod["metadata"]["labels"]["egressproxies.dev/incarnation"] = json!("2")),
        ("installation=other1", |pod| {
            pod["metadata"]["labels"]["egressproxies.dev/installation"] = json!("other1")
        }),
    ];
    for (found, change) in changes {
        let fake = Fake::default();
        let mut proxy = Proxy::new(&fake);
        proxy.create().unwrap();
        fake.edit("pods", change);
        fake.restart();
        let errors = [
            proxy.create_step().unwrap_err(),
            proxy.provider().get(&proxy.target).unwrap_err(),
            proxy.delete_step().unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "foreign"));
            assert!(error.message.contains(found) && error.message.contains(UID), "{error}");
        }
        assert_eq!(fake.writes(), [""; 0], "{found}");
    }
}

#[test]
fn a_foreign_config_map_is_left_alone_and_no_pod_is_made() {
    let fake = Fake::default();
    fake.put(
        "configmaps",
        json!({ "metadata": { "name": NAME, "namespace": "team-a" }, "data": { "squid.conf": "theirs" } }),
    );
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    let error = proxy.create_step().unwrap_err();
    assert_eq!(error.reason, "foreign");
    assert!(error.message.contains("ConfigMap"), "{error}");
    assert_eq!(fake.names(), [format!("configmaps/team-a/{NAME}")]);
    assert_eq!(fake.object("configmaps", "team-a", NAME).unwrap()["data"]["squid.conf"], "theirs");
}

#[test]
fn a_config_map_of_another_revision_is_written_anew_before_the_pod_is_made() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    fake.remove("pods", "team-a", NAME);
    proxy.spec.port = 8080;
    proxy.create().unwrap();
    let map = fake.object("configmaps", "team-a", NAME).unwrap();
    assert!(map["data"]["squid.conf"].as_str().unwrap().contains("http_port 8080\n"), "{map}");
    assert_eq!(fake.writes().iter().filter(|call| call.starts_with("patch")).count(), 1);
}

#[test]
fn a_config_map_that_changed_since_it_was_read_is_not_overwritten() {
    use crate::{api, id::Location, observe::Found};
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    let at = Location::parse(proxy.target.id.as_ref().unwrap()).unwrap();
    let provider = proxy.provider();
    let Found::Ours(map) = api::config_map(&provider.host, &at).unwrap() else { panic!("not ours") };
    fake.edit("configmaps", |map| {
        map["metadata"]["labels"] = json!({});
        map["data"] = json!({ "squid.conf": "theirs" });
    });
    let error = api::rewrite(&provider.host, &at, &map.owned, &json!({ "squid.conf": "ours" })).unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "busy"));
    assert_eq!(fake.object("configmaps", "team-a", NAME).unwrap()["data"]["squid.conf"], "theirs");
}

#[test]
fn a_config_map_that_is_being_deleted_is_waited_for() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    fake.remove("pods", "team-a", NAME);
    fake.edit("configmaps", |map| map["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "deleting"));
}

#[test]
fn a_create_whose_answer_was_lost_is_found_by_the_next_step() {
    use provider_sdk::kubernetes::FailureKind;
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    fake.cut(super::fake::Cut::After(3));
    let error = proxy.create_step().unwrap_err();
    assert_eq!(error.class, ErrorClass::Transient);
    fake.restart();
    *fake.answer_once.borrow_mut() =
        Some(("get pods".to_owned(), super::fake::broken(FailureKind::Timeout, true)));
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "timeout"));
    proxy.create().unwrap();
    assert_eq!(fake.names().len(), 2);
}

#[test]
fn what_a_pod_cant_honour_is_refused_before_any_call() {
    let placement = |json: Value| serde_json::from_value::<Placement>(json).unwrap();
    for (asked, field) in [
        (json!({ "region": "eu" }), "spec.placement.region"),
        (json!({ "machineType": "small" }), "spec.placement.machineType"),
        (json!({ "image": "debian" }), "spec.placement.image"),
        (json!({ "zone": "a", "spot": true }), "spec.placement.spot"),
        (json!({ "zone": "not a label" }), "spec.placement.zone"),
        (json!({ "zone": "" }), "spec.placement.zone"),
    ] {
        let fake = Fake::default();
        let mut proxy = Proxy::new(&fake);
        proxy.spec.placement = placement(asked);
        let error = proxy.create_step().unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "placement"));
        assert!(error.message.contains(field), "{error}");
        assert_eq!(fake.calls(), [""; 0]);
    }
}

#[test]
fn user_data_is_refused_before_any_call_and_never_repeated() {
    let fake = Fake::default();
    let proxy = Proxy::new(&fake);
    let error = proxy.provider().create(&proxy.target, &proxy.spec, b"SENTINEL-IN-USER-DATA").unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "unsupported"));
    assert!(error.message.contains("spec.cloudInit"), "{error}");
    assert!(!format!("{error:?}").contains("SENTINEL"), "{error:?}");
    assert_eq!(fake.calls(), [""; 0]);
}

#[test]
fn a_zone_that_contradicts_the_entry_is_refused_with_both() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.config["nodeSelector"] = json!({ "topology.kubernetes.io/zone": "a" });
    proxy.spec.placement.zone = Some("b".to_owned());
    let error = proxy.create_step().unwrap_err();
    assert!(error.message.contains("\"b\"") && error.message.contains("\"a\""), "{error}");
    proxy.spec.placement.zone = Some("a".to_owned());
    proxy.create().unwrap();
}

#[test]
fn a_proxy_of_a_namespace_that_the_entry_does_not_serve_is_refused_before_any_call() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.config["namespaces"] = json!(["team-b", "team-c"]);
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "placement"));
    assert!(error.message.contains("team-a") && error.message.contains("team-b, team-c"), "{error}");
    assert_eq!(fake.calls(), [""; 0]);
}

#[test]
fn an_id_that_is_none_of_ours_is_refused() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    for (id, reason) in [
        ("", "malformed-id"),
        ("team-a/x", "malformed-id"),
        ("home//x", "malformed-id"),
        ("home/team-a/", "malformed-id"),
        ("home/team-a/x/y", "malformed-id"),
        ("home/team-a/another", "foreign"),
        (&format!("other/team-a/{NAME}"), "config"),
    ] {
        proxy.target.id = Some(id.to_owned());
        let errors = [
            proxy.create_step().unwrap_err(),
            proxy.provider().get(&proxy.target).unwrap_err(),
            proxy.delete_step().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.class, error.reason.as_str()),
                (ErrorClass::Permanent, reason),
                "{id}: {error}"
            );
        }
    }
    assert_eq!(fake.calls(), [""; 0]);
}

#[test]
fn an_answer_that_is_no_object_is_no_stranger_and_passes() {
    for call in ["get pods", "get configmaps"] {
        let fake = Fake::default();
        let mut proxy = Proxy::new(&fake);
        // A ConfigMap that was there before is read.
        proxy.begin();
        fake.remove("pods", "team-a", NAME);
        *fake.garble_once.borrow_mut() = Some(call.to_owned());
        let error = proxy.create().unwrap_err();
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Transient, "backend"),
            "{call}: {error:?}"
        );
        proxy.create().unwrap();
        assert_eq!(fake.names().len(), 2);
    }
}

#[test]
fn a_config_map_that_went_before_the_pod_was_up_is_made_again() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    fake.remove("configmaps", "team-a", NAME);
    let waiting = json!([{ "state": { "waiting": { "reason": "ContainerCreating" } } }]);
    status(&fake, &json!({ "phase": "Pending", "containerStatuses": waiting }));
    assert!(matches!(proxy.create_step().unwrap(), Created::Pending(_)));
    assert_eq!(fake.names(), [format!("configmaps/team-a/{NAME}"), format!("pods/team-a/{NAME}")]);
}
