//! What a provider answers is believed only as far as the contract allows it.

use std::{sync::Arc, time::Duration};

use egress_contract::{Created, ErrorClass, Provider};
use egress_runtime::{Limits, Stage};
use serde_json::json;

use crate::{
    cluster::Cluster,
    support::{candidate, candidate_at, create_error, guest_with, refused, slot, spec, target, target_of},
};

#[tokio::test]
async fn a_lie_about_an_instance_is_an_error_and_no_instance() {
    for (lie, said) in [
        ("lie-running", "running without an address"),
        ("lie-id", "an id must have"),
        ("lie-address", "must be an IP"),
        ("lie-kind", "internal or external"),
        ("lie-details", "details must be a JSON object"),
    ] {
        let revision = guest_with(lie, "get", 0, Limits::default()).await;
        revision.create(&target(), &spec(), b"").await.unwrap();
        let error = revision.get(&target()).await.unwrap_err();
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Transient, "contract-violation"),
            "{lie}"
        );
        assert!(error.message.contains(said), "{lie}: {error}");
        assert!(error.message.contains("entry test") && error.message.contains("roll back"), "{error}");
    }
}

#[tokio::test]
async fn create_and_delete_never_answer_not_found() {
    let revision = guest_with("lie-not-found", "create", 0, Limits::default()).await;
    let error = create_error(&revision).await;
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "contract-violation"));
    assert!(error.message.contains("there is no such thing"), "its own words are kept: {error}");
    let revision = guest_with("lie-not-found", "delete", 0, Limits::default()).await;
    assert_eq!(revision.delete(&target()).await.unwrap_err().class, ErrorClass::Transient);
}

#[tokio::test]
async fn what_breaks_the_contracts_form_is_an_error() {
    for (lie, said) in [
        ("lie-id", "an id must have"),
        ("lie-reason", "reason must match"),
        ("lie-details", "details must be a JSON object"),
    ] {
        let error = create_error(&*guest_with(lie, "create", 0, Limits::default()).await).await;
        assert_eq!(error.reason, "contract-violation", "{lie}");
        assert!(error.message.contains(said), "{lie}: {error}");
    }
}

#[tokio::test]
async fn progress_has_4096_bytes() {
    let revision = guest_with("lie-progress", "create", 4096, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    let revision = guest_with("lie-progress", "create", 4097, Limits::default()).await;
    let error = create_error(&revision).await;
    assert_eq!(error.reason, "contract-violation");
    assert!(error.message.contains("4096") && error.message.contains("4097"), "{error}");
}

#[tokio::test]
async fn a_poll_is_kept_between_a_tenth_of_a_second_and_five_minutes() {
    for (asked, kept) in [(0, 100), (5_000, 5_000), (4_000_000_000, 300_000)] {
        let revision = guest_with("poll", "create", asked, Limits::default()).await;
        match revision.create(&target(), &spec(), b"").await.unwrap() {
            Created::Pending(pending) => assert_eq!(pending.poll, Duration::from_millis(kept)),
            done => panic!("{done:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_name_of_ours_is_unread_and_spoils_no_page() {
    let cluster = Arc::new(Cluster::default());
    let config = json!({ "do": "stranger", "in": "list" });
    let revision = slot().load(candidate_at(cluster, config)).await.unwrap();
    revision.create(&target_of("one"), &spec(), b"").await.unwrap();
    let page = revision.list("home", None).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].name, target_of("one").name.to_string());
    assert!(page.unread[0].contains("Somebody Else's"), "{:?}", page.unread);
}

#[tokio::test]
async fn a_list_that_leads_to_itself_is_an_error() {
    let revision = guest_with("circle", "list", 0, Limits::default()).await;
    revision.list("home", None).await.unwrap();
    let error = revision.list("home", Some("here")).await.unwrap_err();
    assert_eq!(error.reason, "contract-violation");
}

#[tokio::test]
async fn a_check_that_breaks_the_contract_refuses_the_candidate() {
    for lie in ["lie-details", "lie-reason"] {
        let refusal = refused(candidate(json!({ "do": lie, "in": "check" }))).await;
        assert_eq!((refusal.stage, refusal.reason), (Stage::Check, "ContractViolation"), "{refusal}");
    }
}

#[tokio::test]
async fn places_are_named_once_and_faults_are_given() {
    for lie in ["same-place", "no-faults"] {
        let refusal = refused(candidate(json!({ "do": lie, "in": "configure" }))).await;
        assert_eq!((refusal.stage, refusal.reason), (Stage::Configure, "ContractViolation"), "{refusal}");
    }
}

#[tokio::test]
async fn what_people_read_is_one_line_that_a_status_can_bear() {
    let revision = guest_with("big", "create", 10_000, Limits::default()).await;
    match revision.create(&target(), &spec(), b"").await.unwrap() {
        Created::Pending(pending) => assert_eq!(pending.message.len(), 4096),
        done => panic!("{done:?}"),
    }
    let forged = guest_with("forge", "create", 0, Limits::default()).await;
    let error = create_error(&forged).await;
    assert_eq!(error.message, "it failed ERROR somebody else: all is lost");
}

#[tokio::test]
async fn a_flood_of_faults_is_told_in_part() {
    let faults: Vec<String> = (0..500).map(|number| format!("field[{number}]")).collect();
    let refusal = refused(candidate(json!({ "faults": faults }))).await;
    assert_eq!(refusal.faults.len(), 100);
    assert!(refusal.message.contains("field[9]") && !refusal.message.contains("field[10]"), "{refusal}");
    assert!(refusal.message.contains("and 90 more"), "{refusal}");
}
