//! Check: version, latency, rights, room.

use provider_sdk::{Health, HealthReason, Mark, Provider, kubernetes::FailureKind};
use serde_json::{Value, json};

use super::{
    KubernetesProvider, Lent, config,
    fake::{Fake, USER, broken, status},
};

fn check(fake: &Fake, config: &Value) -> Health {
    KubernetesProvider::from(Lent { fake, config, mark: Mark::new() }).check("home")
}

#[test]
fn a_cluster_with_all_rights_is_ready_and_shows_version_latency_and_user() {
    let health = check(&Fake::default(), &config());
    assert_eq!((health.ready, health.reason), (true, HealthReason::Reachable));
    assert_eq!(health.details["serverVersion"], "v1.36.3");
    assert_eq!(health.details["latencyMs"], 3);
    assert_eq!(health.details["user"], USER);
}

#[test]
fn every_right_that_a_create_delete_or_list_uses_is_asked_for() {
    let fake = Fake::default();
    // Everything that the provider ever does, a rewritten ConfigMap included.
    let mut proxy = super::Proxy::new(&fake);
    proxy.create().unwrap();
    fake.remove("pods", "team-a", super::NAME);
    proxy.spec.port = 1;
    proxy.create().unwrap();
    super::sweep(&fake, &config());
    proxy.delete().unwrap();
    let used: std::collections::BTreeSet<String> = fake
        .calls()
        .iter()
        .filter(|call| !call.starts_with("about"))
        .map(|call| call.rsplit_once(' ').unwrap().0.to_owned())
        .collect();
    for right in used {
        let fake = Fake::default();
        fake.missing_rights.borrow_mut().insert(right.clone());
        let health = check(&fake, &config());
        assert_eq!((health.ready, health.reason), (false, HealthReason::RightsMissing), "{right}");
        assert!(health.message.contains(&right) && health.message.contains(USER), "{}", health.message);
    }
}

#[test]
fn what_the_grant_lacks_is_told_apart_from_what_rbac_lacks() {
    let fake = Fake::default();
    fake.denied.borrow_mut().extend(["create pods".to_owned(), "delete pods".to_owned()]);
    fake.missing_rights.borrow_mut().insert("patch configmaps".to_owned());
    let mut config = config();
    config["namespace"] = json!("egress");
    let health = check(&fake, &config);
    assert_eq!(health.reason, HealthReason::RightsMissing);
    assert_eq!(health.details["missingGrants"], "create, delete pods in namespace egress");
    assert_eq!(health.details["missingRights"], "patch configmaps in namespace egress");
    for way_out in ["grants.kubernetes.clusters.home.rules", "RoleBinding"] {
        assert!(health.message.contains(way_out), "{}", health.message);
    }
}

#[test]
fn rights_are_asked_for_in_each_namespace_of_the_entry() {
    let fake = Fake::default();
    fake.missing_rights.borrow_mut().insert("create pods team-b".to_owned());
    let mut config = config();
    config["namespaces"] = json!(["team-a", "team-b"]);
    let health = check(&fake, &config);
    assert!(health.message.contains("create pods in namespace team-b"), "{}", health.message);
    assert!(!health.message.contains("team-a"), "{}", health.message);
}

#[test]
fn the_room_in_quotas_is_shown_where_it_may_be_read() {
    let fake = Fake::default();
    fake.put(
        "resourcequotas",
        json!({ "metadata": { "name": "q", "namespace": "egress" },
                "status": { "hard": { "pods": "10", "cpu": "4" }, "used": { "pods": "3" } } }),
    );
    let mut config = config();
    config["namespace"] = json!("egress");
    let health = check(&fake, &config);
    assert_eq!((health.ready, &health.details["quota"]), (true, &json!("egress/q pods 3/10")));
    fake.edit("resourcequotas", |quota| quota["status"]["used"]["pods"] = "10".into());
    let health = check(&fake, &config);
    assert!(health.ready && health.message.contains("no room: egress/q pods 10/10"), "{}", health.message);
    fake.missing_rights.borrow_mut().insert("list resourcequotas".to_owned());
    let health = check(&fake, &config);
    assert!(health.ready && !health.details.contains_key("quota"), "{:?}", health.details);
}

#[test]
fn each_failure_has_its_reason() {
    for (failure, reason) in [
        (broken(FailureKind::Timeout, true), HealthReason::Timeout),
        (broken(FailureKind::Name, false), HealthReason::Unreachable),
        (broken(FailureKind::Connect, false), HealthReason::Unreachable),
        (broken(FailureKind::Cut, true), HealthReason::Unreachable),
        (broken(FailureKind::Tls, false), HealthReason::CertificateInvalid),
        (broken(FailureKind::Credentials, false), HealthReason::CredentialsUnavailable),
        (broken(FailureKind::Denied, false), HealthReason::Forbidden),
        (broken(FailureKind::TooLarge, true), HealthReason::ApiError),
        (broken(FailureKind::Unknown("new".to_owned()), true), HealthReason::ApiError),
        (status(401, "Unauthorized", "Unauthorized", json!({})), HealthReason::Unauthorized),
        (status(403, "Forbidden", "no", json!({})), HealthReason::Forbidden),
        (status(500, "", "etcd", json!({})), HealthReason::ApiError),
    ] {
        for to in ["about", "allowed"] {
            let fake = Fake::default();
            if (to, &failure.kind) == ("allowed", &FailureKind::Denied) {
                continue;
            }
            *fake.answer_once.borrow_mut() = Some((to.to_owned(), failure.clone()));
            let health = check(&fake, &config());
            assert_eq!((health.ready, health.reason), (false, reason), "{to} {failure:?}");
        }
    }
}

#[test]
fn a_config_or_place_that_does_not_fit_is_no_trap() {
    let health = check(&Fake::default(), &json!({ "image": "x" }));
    assert!(!health.ready && health.message.contains("cluster"), "{}", health.message);
    let health = check(&Fake::default(), &json!({ "image": "x", "cluster": "other" }));
    assert!(!health.ready && health.message.contains("other"), "{}", health.message);
}
