//! WASI leads nowhere: what imports it loads, and sees an empty world.

use egress_contract::Provider;
use egress_runtime::Limits;
use serde_json::json;

use crate::{
    capture::Capture,
    support::{create_error, guest_with, spec, target},
};

#[tokio::test]
async fn there_is_no_environment_no_argument_no_file_and_no_network() {
    let revision = guest_with("", "", 0, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    let seen = revision.get(&target()).await.unwrap().details;
    for nothing in ["environment", "arguments", "directories"] {
        assert_eq!(seen["wasi"][nothing], json!(0), "{nothing}");
    }
    assert!(seen["wasi"]["lookup"].to_string().contains("access-denied"), "{seen}");
}

#[tokio::test]
async fn what_is_printed_is_logged_line_by_line_within_the_same_limit() {
    let (capture, _guard) = Capture::start();
    let revision = guest_with("print", "create", 2, Limits::default()).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    for line in ["printed 0", "printed 1", "printed in pieces"] {
        let seen = capture.events(line);
        assert_eq!(seen.len(), 1, "{line}");
        assert!(seen[0].within.iter().any(|span| span == "provider.create"), "{line}: {:?}", seen[0]);
    }
    let limits = Limits { log_lines: 5, ..Limits::default() };
    let revision = guest_with("print", "create", 1_000, limits).await;
    revision.create(&target(), &spec(), b"").await.unwrap();
    assert_eq!((capture.events("printed 4").len(), capture.events("printed 5").len()), (1, 0));
}

#[tokio::test]
async fn an_exit_ends_the_call_as_a_trap_does() {
    let revision = guest_with("exit", "create", 0, Limits::default()).await;
    let error = create_error(&revision).await;
    assert_eq!(error.reason, "trap");
    assert!(error.message.contains("exited with status 1"), "{error}");
}
