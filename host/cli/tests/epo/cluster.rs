//! What is said when there is no cluster.

use std::net::TcpListener;

use super::command::{Ran, epo, file, ran, run};

/// A kubeconfig for a port that nobody listens at.
fn nobody() -> (tempfile::TempDir, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,
          clusters: [{{name: x, cluster: {{server: 'https://127.0.0.1:{port}'}}}}],
          users: [{{name: x, user: {{token: sentinel-token}}}}],
          contexts: [{{name: x, context: {{cluster: x, user: x}}}}]}}"
    );
    file("kubeconfig", kubeconfig.as_bytes())
}

fn operator(more: &[&str]) -> Ran {
    let cache = tempfile::tempdir().unwrap();
    let mut command = epo();
    command.args(["run", "--metrics-address=off", "--log-format=text", "--log-level=trace", "--cache-dir"]);
    ran(command.arg(cache.path()).args(more).output().unwrap())
}

/// Logs go before it.
#[track_caller]
fn last_words(ran: &Ran, code: i32, said: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.err);
    let last = ran.err.lines().rfind(|line| line.starts_with("epo: ")).expect("last words");
    for part in said {
        assert!(last.contains(part), "{part:?} is missing in {last}");
    }
}

#[test]
fn a_cluster_that_does_not_answer_ends_with_4_and_the_cause() {
    let (_dir, kubeconfig) = nobody();
    last_words(&operator(&["--kubeconfig", &kubeconfig]), 4, &["proxies.egressproxies.dev", "refused"]);
    let args = ["provider", "history", "kubernetes", "--kubeconfig", &kubeconfig];
    last_words(&run(&args), 4, &["kubernetes", "refused"]);
    let args = ["provider", "rollback", "kubernetes", "--kubeconfig", &kubeconfig];
    last_words(&run(&args), 4, &["kubernetes", "refused"]);
}

#[test]
fn a_credential_is_in_no_log_at_any_level() {
    let (_dir, kubeconfig) = nobody();
    let ran = operator(&["--kubeconfig", &kubeconfig]);
    assert!(ran.err.contains("TRACE") || ran.err.contains("DEBUG"), "the level counts: {}", ran.err);
    assert!(!ran.err.contains("sentinel-token"), "{}", ran.err);
}

#[test]
fn no_cluster_at_all_ends_with_4_and_the_way_out() {
    let said = ["no cluster", "/nosuch", "--kubeconfig"];
    last_words(&operator(&["--kubeconfig", "/nosuch"]), 4, &said);
}

#[test]
fn what_makes_no_sense_is_told_before_anything_starts() {
    for (flag, said) in [
        ("--log-level=egress=loud", "loud"),
        ("--metrics-address=8080", "127.0.0.1:8080"),
        ("--shutdown-grace=soon", "30s"),
        ("--concurrency=0", "1.."),
    ] {
        let ran = run(&["run", flag]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn an_entry_that_breaks_the_rule_is_refused_with_the_rule() {
    let ran = run(&["provider", "history", "Upper"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("[a-z0-9-]{1,20}"), "{}", ran.err);
}
