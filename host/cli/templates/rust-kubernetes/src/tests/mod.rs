//! Single calls, natively. The whole contract is `epo provider test`'s: `make test` runs both.

mod fake;

use provider_sdk::{
    Created, Deleted, Error, ErrorClass, HealthReason, Item, Provider, Spec, State, Target,
    kubernetes::FailureKind,
};
use serde_json::{Value, json};

use crate::PodProvider;
use fake::{Fake, NAME, UID, status, unanswered};

const ID: &str = "home/team-a/proxy-web-inst01-abcdefgh";

fn provider() -> PodProvider<Fake> {
    PodProvider::from(Fake::new())
}

fn target() -> Target {
    Target {
        name: NAME.to_owned(),
        uid: UID.to_owned(),
        incarnation: 1,
        namespace: "team-a".to_owned(),
        proxy: "web".to_owned(),
        ..Target::default()
    }
}

fn known() -> Target {
    Target {
        id: Some(ID.to_owned()),
        ..target()
    }
}

fn create(provider: &PodProvider<Fake>) -> Result<Created, Error> {
    provider.create(
        &known(),
        &Spec {
            port: 3128,
            ..Spec::default()
        },
        b"",
    )
}

fn running() -> PodProvider<Fake> {
    let provider = provider();
    create(&provider).unwrap();
    provider.host.run_pod();
    assert_eq!(create(&provider), Ok(Created::Done(ID.to_owned())));
    provider.host.calls();
    provider
}

/// All pages.
fn list(provider: &PodProvider<Fake>) -> (Vec<Item>, Vec<String>) {
    let (mut items, mut unread, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let page = provider.list("home", cursor.as_deref()).unwrap();
        items.extend(page.items);
        unread.extend(page.unread);
        cursor = page.next;
        if cursor.is_none() {
            return (items, unread);
        }
    }
}

#[test]
fn the_example_of_the_schema_is_a_config() {
    let schema: Value =
        serde_json::from_str(PodProvider::<Fake>::describe().config_schema).unwrap();
    let places = PodProvider::<Fake>::configure(&schema["examples"][0]);
    assert_eq!(places, Ok(vec!["home".to_owned()]));
}

#[test]
fn every_fault_of_a_config_is_told_with_its_path() {
    let config = json!({ "cluster": 7, "namespace": "Team A", "allowedClients": ["0.0.0.0/0", "x"], "imgae": "" });
    let faults = PodProvider::<Fake>::configure(&config).unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
    let expected = [
        "cluster",
        "namespace",
        "image",
        "allowedClients[0]",
        "allowedClients[1]",
        "imgae",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn what_can_not_be_honoured_is_refused_before_any_call() {
    let provider = provider();
    let spec = r#"{ "port": 3128, "placement": { "zone": "a" } }"#;
    let error = provider
        .create(&known(), &serde_json::from_str(spec).unwrap(), b"")
        .unwrap_err();
    assert_eq!(
        (error.class, error.reason.as_str()),
        (ErrorClass::Permanent, "placement")
    );
    assert!(error.message.contains("spec.placement.zone"), "{error}");
    let spec = Spec {
        port: 3128,
        ..Spec::default()
    };
    let error = provider
        .create(&known(), &spec, b"#cloud-config")
        .unwrap_err();
    assert_eq!(
        (error.class, error.reason.as_str()),
        (ErrorClass::Permanent, "unsupported")
    );
    assert!(provider.host.calls().is_empty());
}

#[test]
fn the_id_is_told_before_anything_is_made() {
    let provider = provider();
    let spec = Spec {
        port: 3128,
        ..Spec::default()
    };
    match provider.create(&target(), &spec, b"").unwrap() {
        Created::Pending(pending) => assert_eq!(pending.id.as_deref(), Some(ID)),
        Created::Done(id) => panic!("{id} is done at once"),
    }
    assert!(provider.host.names().is_empty());
}

#[test]
fn a_proxy_becomes_a_pod_that_runs_and_a_config_map() {
    let provider = running();
    assert_eq!(
        provider.host.names(),
        [format!("configmaps/{NAME}"), format!("pods/{NAME}")]
    );
    let instance = provider.get(&known()).unwrap();
    assert_eq!(
        (instance.state, instance.addresses[0].ip.as_str()),
        (State::Running, "10.1.2.3")
    );
}

#[test]
fn a_create_cut_after_the_config_map_is_taken_up_even_under_another_config() {
    let provider = provider();
    *provider.host.refusal.borrow_mut() = Some(("create pods", unanswered(FailureKind::Cut)));
    assert_eq!(create(&provider).unwrap_err().class, ErrorClass::Transient);
    provider.host.config.borrow_mut()["allowedClients"] = json!(["192.0.2.0/24"]);
    create(&provider).unwrap();
    assert!(
        provider
            .host
            .calls()
            .contains(&"patch configmaps".to_owned())
    );
    assert_eq!(provider.host.names().len(), 2);
}

#[test]
fn what_is_not_ours_is_never_touched() {
    for plural in ["pods", "configmaps"] {
        let provider = running();
        provider.host.edit(plural, |object| {
            object["metadata"]["labels"]["egressproxies.dev/uid"] = json!("another");
        });
        let error = provider.delete(&known()).unwrap_err();
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Permanent, "foreign")
        );
        assert!(
            !provider
                .host
                .calls()
                .iter()
                .any(|call| call.starts_with("delete"))
        );
    }
    let provider = provider();
    provider
        .host
        .put("pods", json!({ "metadata": { "name": NAME } }));
    assert_eq!(create(&provider).unwrap_err().reason, "foreign");
    assert_eq!(provider.get(&known()).unwrap_err().reason, "foreign");
}

#[test]
fn a_delete_is_done_only_when_nothing_is_left() {
    let provider = running();
    assert!(matches!(provider.delete(&known()), Ok(Deleted::Pending(_))));
    provider.host.remove("configmaps");
    assert!(matches!(provider.delete(&known()), Ok(Deleted::Pending(_))));
    provider.host.remove("pods");
    assert_eq!(provider.delete(&known()), Ok(Deleted::Done));
}

#[test]
fn a_pod_that_ended_is_to_be_replaced_and_one_being_deleted_is_waited_for() {
    let provider = running();
    provider
        .host
        .edit("pods", |pod| pod["status"]["phase"] = json!("Failed"));
    assert_eq!(create(&provider).unwrap_err().reason, "finished");
    let provider = running();
    provider.delete(&known()).unwrap();
    let error = create(&provider).unwrap_err();
    assert_eq!(
        (error.class, error.reason.as_str()),
        (ErrorClass::Transient, "deleting")
    );
}

#[test]
fn a_config_map_without_its_pod_is_a_leftover() {
    let provider = running();
    let (items, _) = list(&provider);
    assert_eq!(items.len(), 1);
    assert_eq!(
        (items[0].id.as_str(), items[0].leftover.as_deref()),
        (ID, None)
    );
    provider.host.remove("pods");
    let (items, _) = list(&provider);
    assert_eq!(items.len(), 1);
    assert_eq!(
        (items[0].id.as_str(), items[0].leftover.as_deref()),
        (ID, Some("configmap"))
    );
}

#[test]
fn what_can_not_be_read_is_named_and_never_taken_for_empty() {
    let provider = running();
    let denied = status(403, "Forbidden", "pods is forbidden", json!({}));
    *provider.host.refusal.borrow_mut() = Some(("list pods", denied));
    let (_, unread) = list(&provider);
    assert!(unread[0].contains("list pods"), "{unread:?}");
    *provider.host.refusal.borrow_mut() = Some(("list pods", unanswered(FailureKind::Connect)));
    assert_eq!(
        provider.list("home", None).unwrap_err().reason,
        "unreachable"
    );
}

#[test]
fn failures_are_told_apart() {
    use ErrorClass::{Permanent, QuotaExceeded, Transient};
    let forbidden = |message: &str| status(403, "Forbidden", message, json!({}));
    for (failure, class, reason) in [
        (forbidden("exceeded quota: pods"), QuotaExceeded, "quota"),
        (
            forbidden("user cannot create resource"),
            Permanent,
            "forbidden",
        ),
        (
            status(401, "Unauthorized", "", json!({})),
            Permanent,
            "unauthorized",
        ),
        (
            status(429, "TooManyRequests", "", json!({})),
            Transient,
            "busy",
        ),
        (
            status(503, "ServiceUnavailable", "", json!({})),
            Transient,
            "backend",
        ),
        (unanswered(FailureKind::Timeout), Transient, "timeout"),
        (
            unanswered(FailureKind::Unknown("new".to_owned())),
            Transient,
            "backend",
        ),
    ] {
        let provider = provider();
        *provider.host.refusal.borrow_mut() = Some(("create pods", failure));
        let error = create(&provider).unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (class, reason));
    }
}

#[test]
fn a_check_names_the_rights_that_are_missing() {
    let provider = provider();
    assert!(provider.check("home").ready);
    provider.host.missing_right.set(Some("delete pods"));
    let health = provider.check("home");
    assert_eq!(
        (health.ready, health.reason),
        (false, HealthReason::RightsMissing)
    );
    assert!(health.message.contains("delete pods"), "{}", health.message);
}
