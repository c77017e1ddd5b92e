//! No line of user-data leaves a create call, whatever its provider says and wherever.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use egress_contract::{Created, Error, Provider};
use egress_runtime::Limits;
use serde_json::{Value, json};

use crate::{
    capture::Capture,
    cluster::Cluster,
    support::{candidate_at, guest_with, slot, spec, target},
};

const USER_DATA: &str = "#cloud-config\nwrite_files:\n  - content: \"sentinel-one \\ quoted\"\n  \
                         - path: /etc/sentinel-two\r\n    ssh-ed25519 AAAAC3Nza sentinel-three\n";

/// What gives a line away.
const SENTINELS: [&str; 3] = ["sentinel-one", "sentinel-two", "sentinel-three"];

fn assert_clean(what: &str, text: &str) {
    for sentinel in SENTINELS {
        assert!(!text.contains(sentinel), "{what} says {sentinel}: {text}");
        assert!(
            !text.contains(STANDARD.encode(sentinel).trim_end_matches('=')),
            "{what} says {sentinel}: {text}"
        );
    }
    assert!(text.contains("[user-data]"), "{what} said nothing, so nothing was tried: {text}");
}

async fn error_of(fault: &str) -> Error {
    let revision = guest_with(fault, "create", 0, Limits::default()).await;
    revision.create(&target(), &spec(), USER_DATA.as_bytes()).await.unwrap_err()
}

#[tokio::test]
async fn not_in_a_log_nor_in_a_span_at_any_level() {
    let (capture, _guard) = Capture::start();
    let revision = guest_with("say-user-data", "create", 0, Limits::default()).await;
    revision.create(&target(), &spec(), USER_DATA.as_bytes()).await.unwrap();
    assert_eq!(capture.spans("provider.create").len(), 1);
    assert!(capture.spans("host.call").len() > 3, "the places are named in spans");
    assert_clean("the log", &capture.text());
}

#[tokio::test]
async fn not_in_an_error_its_details_nor_its_progress() {
    let error = error_of("leak-error").await;
    assert_clean("the message", &error.message);
    assert_clean("the details", &error.details.to_string());
    assert_clean("the progress", error.progress.as_deref().unwrap());
}

#[tokio::test]
async fn not_in_what_is_pending() {
    let revision = guest_with("leak-pending", "create", 0, Limits::default()).await;
    match revision.create(&target(), &spec(), USER_DATA.as_bytes()).await.unwrap() {
        Created::Pending(pending) => {
            assert_clean("the message", &pending.message);
            assert_clean("the progress", &pending.progress);
            assert_clean("the id", pending.id.as_deref().unwrap());
        }
        done => panic!("{done:?}"),
    }
}

#[tokio::test]
async fn not_in_the_words_of_a_trap_nor_in_what_the_host_says_about_it() {
    let error = error_of("panic-user-data").await;
    assert_eq!(error.reason, "trap");
    assert_clean("the trap", &error.message);
    let error = error_of("leak-violation").await;
    assert_eq!(error.reason, "contract-violation");
    assert_clean("the violation", &error.message);
}

#[tokio::test]
async fn it_reaches_the_provider_byte_for_byte() {
    let cluster = Arc::new(Cluster::default());
    let config = json!({ "do": "pass-on", "in": "create" });
    let revision = slot().load(candidate_at(cluster.clone(), config)).await.unwrap();
    let user_data: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    revision.create(&target(), &spec(), &user_data).await.unwrap();
    let secret = cluster.object("secrets", "proxies", "user-data").unwrap();
    let passed: Vec<u8> =
        serde_json::from_value(secret.get("bytes").cloned().unwrap_or(Value::Null)).unwrap();
    assert_eq!(passed, user_data);
}
