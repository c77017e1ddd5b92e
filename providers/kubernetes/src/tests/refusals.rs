//! What each refusal of the API, in the words that were measured, becomes.

use provider_sdk::{
    Error, ErrorClass,
    kubernetes::{Failure, FailureKind},
};
use serde_json::json;

use super::{
    Proxy,
    fake::{Fake, broken, status},
};

/// What a create answers when the call that begins so is refused.
fn refused(call: &str, failure: Failure) -> Error {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    *fake.answer_once.borrow_mut() = Some((call.to_owned(), failure));
    proxy.create_step().unwrap_err()
}

fn forbidden(message: &str) -> Failure {
    status(403, "Forbidden", message, json!({ "name": "b", "kind": "pods" }))
}

#[test]
fn each_refusal_has_its_class_reason_and_way_out() {
    let pod_security = "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false";
    for (failure, class, reason, way_out) in [
        (
            forbidden("pods \"b\" is forbidden: failed quota: q: must specify requests.cpu for: c"),
            ErrorClass::Permanent,
            "config",
            "resources",
        ),
        (forbidden(pod_security), ErrorClass::Permanent, "forbidden", "Pod Security level"),
        (
            forbidden("admission webhook \"x\" denied the request: no"),
            ErrorClass::Permanent,
            "forbidden",
            "admission",
        ),
        (
            status(401, "Unauthorized", "Unauthorized", json!({})),
            ErrorClass::Permanent,
            "unauthorized",
            "credentials",
        ),
        (
            status(422, "Invalid", "spec.x: Invalid value", json!({})),
            ErrorClass::Permanent,
            "config",
            "config",
        ),
        (status(409, "Conflict", "modified", json!({})), ErrorClass::Transient, "busy", "changed"),
        (status(429, "TooManyRequests", "slow down", json!({})), ErrorClass::Transient, "busy", "slow down"),
        (
            status(500, "", "rpc error: code = Unavailable", json!({})),
            ErrorClass::Transient,
            "backend",
            "500",
        ),
        (status(503, "ServiceUnavailable", "x", json!({})), ErrorClass::Transient, "backend", "503"),
        (status(504, "Timeout", "x", json!({})), ErrorClass::Transient, "backend", "504"),
        (status(418, "Teapot", "x", json!({})), ErrorClass::Transient, "backend", "418"),
        (broken(FailureKind::Name, false), ErrorClass::Transient, "unreachable", "see that the API server"),
        (
            broken(FailureKind::Connect, false),
            ErrorClass::Transient,
            "unreachable",
            "see that the API server",
        ),
        (broken(FailureKind::Cut, true), ErrorClass::Transient, "unreachable", "see that the API server"),
        (broken(FailureKind::Timeout, true), ErrorClass::Transient, "timeout", "see that the API server"),
        (broken(FailureKind::Tls, false), ErrorClass::Permanent, "certificate-invalid", "kubeconfig"),
        (broken(FailureKind::Credentials, false), ErrorClass::Transient, "credentials-unavailable", "grant"),
        (broken(FailureKind::TooLarge, true), ErrorClass::Permanent, "too-large", "limit"),
        (broken(FailureKind::Invalid, false), ErrorClass::Permanent, "backend", "roll back"),
        (broken(FailureKind::Unknown("new".to_owned()), true), ErrorClass::Transient, "backend", "new"),
    ] {
        let error = refused("create pods", failure.clone());
        assert_eq!((error.class, error.reason.as_str()), (class, reason), "{failure:?}");
        assert!(error.message.contains(way_out), "{error}");
        assert!(error.message.contains("proxy-web-abc123-abcd2345"), "names the thing: {error}");
    }
}

#[test]
fn a_used_up_quota_is_quota_exceeded_and_named() {
    let fake = Fake::default();
    fake.most_pods.set(Some(0));
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::QuotaExceeded, "quota"));
    assert!(
        error.message.contains("exceeded quota: q") && error.message.contains("raise the quota"),
        "{error}"
    );
    fake.most_pods.set(None);
    proxy.create().unwrap();
}

#[test]
fn a_missing_right_is_named_with_verb_resource_and_namespace() {
    for right in ["get pods", "create configmaps", "create pods"] {
        let fake = Fake::default();
        fake.missing_rights.borrow_mut().insert(right.to_owned());
        let mut proxy = Proxy::new(&fake);
        proxy.create_step().unwrap();
        let error = proxy.create_step().unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "forbidden"));
        assert!(
            error.message.contains(&format!("the right to {right} in namespace team-a is missing")),
            "{error}"
        );
    }
}

#[test]
fn a_grant_that_does_not_reach_is_named_with_what_to_add() {
    let fake = Fake::default();
    fake.denied.borrow_mut().insert("create pods".to_owned());
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "forbidden"));
    for part in ["create pods in namespace team-a", "grants.kubernetes.clusters.home.rules"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn a_missing_namespace_is_named_and_a_terminating_one_is_waited_for() {
    let fake = Fake::default();
    fake.missing_namespaces.borrow_mut().insert("team-a".to_owned());
    let mut proxy = Proxy::new(&fake);
    proxy.create_step().unwrap();
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Permanent, "namespace-not-found"));
    assert!(error.message.contains("team-a"), "{error}");
    fake.missing_namespaces.borrow_mut().clear();
    fake.terminating_namespaces.borrow_mut().insert("team-a".to_owned());
    let error = proxy.create_step().unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "deleting"));
}

#[test]
fn the_wait_that_the_server_asks_for_is_handed_on() {
    let failure = Failure { retry_ms: Some(7000), ..status(429, "TooManyRequests", "slow down", json!({})) };
    assert_eq!(refused("get pods", failure).retry_ms, Some(7000));
}

#[test]
fn a_long_message_is_cut() {
    let error = refused("create pods", status(422, "Invalid", &"é".repeat(10_000), json!({})));
    assert!(error.message.chars().count() < 1500);
}

#[test]
fn no_refusal_of_a_create_is_ever_not_found() {
    for call in ["get pods", "about", "create configmaps", "create pods"] {
        for failure in [
            status(404, "", "404 page not found", json!({})),
            status(404, "NotFound", "nodes \"x\" not found", json!({ "kind": "nodes" })),
            status(404, "NotFound", "namespaces \"team-a\" not found", json!({ "kind": "namespaces" })),
        ] {
            if call == "get pods" && failure.details["kind"] == "nodes" {
                continue;
            }
            assert_ne!(refused(call, failure).class, ErrorClass::NotFound, "{call}");
        }
    }
}
