//! Get: the table of states.

use provider_sdk::{AddressKind, ErrorClass, Provider, State};
use serde_json::{Value, json};

use super::{
    NAME, Proxy,
    fake::{EPOCH_MS, Fake},
};

fn shown(status: &Value, deleting: bool) -> provider_sdk::Instance {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.begin();
    fake.edit("pods", |pod| {
        pod["status"] = status.clone();
        pod["spec"]["nodeName"] = "node1".into();
        if deleting {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
    });
    proxy.provider().get(&proxy.target).unwrap()
}

#[test]
fn every_row_of_the_state_table_holds() {
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    for (status, state, reason) in [
        (json!({ "phase": "Pending" }), State::Provisioning, "Pending"),
        (json!({ "phase": "Pending", "podIP": "10.0.0.1" }), State::Provisioning, "Pending"),
        (json!({ "phase": "Running" }), State::Provisioning, "NotReady"),
        (json!({ "phase": "Running", "podIP": "10.0.0.1" }), State::Provisioning, "NotReady"),
        (json!({ "phase": "Running", "conditions": ready }), State::Provisioning, "NoAddress"),
        (json!({ "phase": "Running", "podIP": "10.0.0.1", "conditions": ready }), State::Running, ""),
        (json!({ "phase": "Succeeded" }), State::Stopped, "Succeeded"),
        (json!({ "phase": "Failed", "reason": "Evicted" }), State::Stopped, "Evicted"),
        (json!({ "phase": "Unknown" }), State::Stopped, "Unknown"),
        (json!({ "phase": "Hibernating" }), State::Stopped, "Hibernating"),
    ] {
        let instance = shown(&status, false);
        assert_eq!((instance.state, instance.reason.as_str()), (state, reason), "{status}");
        assert_eq!(instance.addresses.is_empty(), state != State::Running, "{status}");
        let instance = shown(&status, true);
        assert_eq!((instance.state, instance.addresses.len()), (State::Deleting, 0), "deleting {status}");
        assert!(instance.message.contains("node1"), "{}", instance.message);
    }
}

#[test]
fn a_running_instance_shows_its_addresses_mark_age_and_node() {
    let fake = Fake::default();
    fake.advance(61_000);
    let mut proxy = Proxy::new(&fake);
    let id = proxy.create().unwrap();
    let instance = proxy.provider().get(&proxy.target).unwrap();
    assert_eq!(instance.id, id);
    let ips: Vec<&str> = instance.addresses.iter().map(|address| address.ip.as_str()).collect();
    assert_eq!(ips, ["10.244.0.7", "fd00::7"]);
    assert!(instance.addresses.iter().all(|address| address.kind == AddressKind::Internal));
    let keys: Vec<&str> = instance.mark.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["managed", "installation", "uid", "incarnation", "namespace", "proxy"]);
    assert_eq!(instance.created_ms, Some(EPOCH_MS + 61_000));
    assert_eq!(instance.details["node"], "node1");
}

#[test]
fn gone_is_not_found_and_nothing_else_is() {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.target.id = Some(format!("home/team-a/{NAME}"));
    assert_eq!(proxy.provider().get(&proxy.target).unwrap_err().class, ErrorClass::NotFound);
    // What a web server in between answers.
    let elsewhere = super::fake::status(404, "", "404 page not found", json!({}));
    *fake.answer_once.borrow_mut() = Some(("get pods".to_owned(), elsewhere));
    assert_eq!(proxy.provider().get(&proxy.target).unwrap_err().class, ErrorClass::Transient);
}
