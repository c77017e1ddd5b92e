//! Each stage on the way to libvirt fails as itself, and says what to do.

use std::{fs, process::Command};

use egress_runtime::capability::{Libvirt, LibvirtFailure, LibvirtStage as Stage};
use serde_json::{Value, json};

use crate::lab::{capability, file, open, run, service, within};

async fn failure(changes: Value) -> LibvirtFailure {
    match open(changes).await {
        Ok(_) => panic!("it opened"),
        Err(failure) => failure,
    }
}

async fn fails(changes: Value, stage: Stage, said: &[&str]) {
    let failure = failure(changes).await;
    assert_eq!(failure.stage, stage, "{}", failure.message);
    for said in said {
        assert!(failure.message.contains(said), "{}", failure.message);
    }
    assert!(!failure.sent && failure.message.contains("host hv"), "{}", failure.message);
}

#[tokio::test]
#[ignore = "needs a host"]
async fn who_may_use_libvirt_gets_to_it() {
    for user in ["lab", "root"] {
        let info = open(json!({ "user": user })).await.unwrap().info().await.unwrap();
        assert_eq!((info.user.as_str(), info.hostname.as_str()), (user, "cap"));
        assert!(info.libvirt_version > 9_000_000);
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_key_that_can_not_be_used_is_told_without_its_text() {
    let (_folder, rubbish) =
        file("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n");
    let missing = failure(json!({ "key": { "file": "/nowhere/id" } })).await;
    assert_eq!((missing.stage, missing.errno), (Stage::Credentials, 2), "{}", missing.message);
    assert!(missing.message.contains("/nowhere/id"), "{}", missing.message);
    let unusable = failure(json!({ "key": { "file": rubbish } })).await;
    assert_eq!((unusable.stage, unusable.errno), (Stage::Credentials, 0), "{}", unusable.message);
    assert!(!unusable.message.contains("c2VjcmV0"), "{}", unusable.message);
    let folder = tempfile::tempdir().unwrap();
    let encrypted = folder.path().join("id");
    let arguments = ["-q", "-t", "ed25519", "-N", "secret", "-f"];
    assert!(Command::new("ssh-keygen").args(arguments).arg(&encrypted).status().unwrap().success());
    fails(json!({ "key": { "file": encrypted } }), Stage::Credentials, &["passphrase"]).await;
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_key_that_the_host_does_not_know_is_refused_at_the_authentication() {
    for kind in ["ed25519", "rsa", "ecdsa"] {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("id");
        let made = Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", "", "-f"]).arg(&other).status();
        assert!(made.unwrap().success());
        let said = ["sshd does not take the key", "user lab", "authorized_keys"];
        fails(json!({ "key": { "file": other } }), Stage::Authentication, &said).await;
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn keys_of_each_kind_that_the_host_knows_open_it() {
    let authorized = run("lab/authorized_keys");
    let before = fs::read_to_string(&authorized).unwrap();
    for kind in ["rsa", "ecdsa"] {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("id");
        let made = Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", "", "-f"]).arg(&key).status();
        assert!(made.unwrap().success());
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        fs::write(&authorized, format!("{before}{public}")).unwrap();
        let opened = open(json!({ "key": { "file": key } })).await;
        fs::write(&authorized, &before).unwrap();
        opened.unwrap().info().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_host_whose_key_is_another_or_unknown_or_revoked_is_not_logged_into() {
    let known = fs::read_to_string(run("known_hosts")).unwrap();
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    let name = known.split(' ').next().unwrap();
    for (text, said) in [
        (format!("{name} {other}\n"), "has another key for it (line 1)"),
        (format!("elsewhere {other}\n"), "has no key for it"),
        (format!("{known}@revoked {known}"), "revokes that key (line 2)"),
    ] {
        let (_folder, path) = file(&text);
        fails(json!({ "knownHosts": { "file": path } }), Stage::HostKey, &[said]).await;
    }
    let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQDI2BhlvA7vPCfu0lJDHw0+8Ck+3LJBWBKDDUcIvhBrbwoWpQBNa3IQRdRFAgKwZPNOkBJbLbC6sLBKcGrWYpE9";
    let (_folder, path) = file(&format!("{name} {rsa}\n"));
    let failure = failure(json!({ "knownHosts": { "file": path } })).await;
    assert!(matches!(failure.stage, Stage::HostKey | Stage::Credentials), "{}", failure.message);
    let (_folder, path) = file("# fine\nhv ssh-ed25519 secret!\n");
    let said = ["line 2: a key that is not base64"];
    fails(json!({ "knownHosts": { "file": path } }), Stage::Credentials, &said).await;
    let anybody = json!({ "knownHosts": null, "insecureIgnoreHostKey": true });
    open(anybody).await.unwrap().info().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_name_an_address_and_a_port_fail_apart() {
    fails(
        json!({ "address": "hv.invalid", "insecureIgnoreHostKey": true, "knownHosts": null }),
        Stage::Name,
        &[],
    )
    .await;
    let nobody = json!({ "port": 2, "insecureIgnoreHostKey": true, "knownHosts": null });
    fails(nobody, Stage::Connect, &["port 2"]).await;
    // Somebody who listens and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = json!({ "address": "127.0.0.1", "port": silent.local_addr().unwrap().port(), "knownHosts": null,
                         "insecureIgnoreHostKey": true, "timeouts": { "connectMs": 300 } });
    fails(silent, Stage::Handshake, &["within 300 ms"]).await;
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_user_outside_the_group_and_a_socket_that_is_not_there_fail_at_the_channel() {
    let said = ["libvirt-sock", "group libvirt"];
    fails(json!({ "user": "labno" }), Stage::Channel, &said).await;
    fails(json!({ "socket": "/run/nowhere" }), Stage::Channel, &["/run/nowhere"]).await;
    fails(json!({ "uri": "foo:///x" }), Stage::Libvirt, &["foo"]).await;
}

#[tokio::test]
#[ignore = "needs a host"]
async fn an_sshd_that_forwards_no_sockets_is_told_and_one_that_is_down_too() {
    let config = run("lab/sshd_config");
    let before = fs::read_to_string(&config).unwrap();
    let capability = capability(json!({}));
    let pooled = capability.open("hv", false).await.unwrap();
    service("sshd stop");
    fails(json!({}), Stage::Connect, &["no connection"]).await;
    fs::write(&config, before.replace("AllowStreamLocalForwarding yes", "AllowStreamLocalForwarding no"))
        .unwrap();
    service("sshd start");
    let prohibited = failure(json!({})).await;
    service("sshd stop");
    fs::write(&config, before).unwrap();
    service("sshd start");
    assert_eq!(prohibited.stage, Stage::Channel, "{}", prohibited.message);
    assert!(prohibited.message.contains("AllowStreamLocalForwarding"), "{}", prohibited.message);
    // The old connection went with its sshd, and says so; the next one is new.
    let cut = pooled.info().await.unwrap_err();
    assert_eq!(cut.stage, Stage::Cut, "{}", cut.message);
    capability.open("hv", false).await.unwrap().info().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_daemon_that_is_gone_and_back_costs_one_connection() {
    let capability = capability(json!({}));
    let pooled = capability.open("hv", false).await.unwrap();
    service("libvirtd stop");
    let gone = pooled.info().await.unwrap_err();
    assert_eq!(gone.stage, Stage::Cut, "{}", gone.message);
    service("libvirtd start");
    capability.open("hv", false).await.unwrap().info().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_connection_that_is_let_go_is_gone_at_the_host_too_and_the_pooled_one_is_one() {
    let logins = || within("pgrep -fc ': lab .priv'").1.trim().parse::<usize>().unwrap();
    let capability = capability(json!({}));
    let before = logins();
    let pooled = futures::future::join_all((0..20).map(|_| capability.open("hv", false))).await;
    assert_eq!(logins(), before + 1, "one for all of them");
    for _ in 0..3 {
        capability.open("hv", true).await.unwrap().info().await.unwrap();
    }
    drop((pooled, capability));
    while logins() > before {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_daemon_that_stands_still_costs_a_call_its_time_and_no_more() {
    let capability = capability(json!({ "timeouts": { "callMs": 500 } }));
    let pooled = capability.open("hv", false).await.unwrap();
    service("libvirtd freeze");
    let late = pooled.lookup("x").await.unwrap_err();
    service("libvirtd thaw");
    assert_eq!((late.stage, late.sent), (Stage::Timeout, true), "{}", late.message);
    let none = pooled.lookup("x").await.unwrap_err();
    assert_eq!(
        (none.stage, none.code),
        (Stage::Libvirt, 42),
        "the same connection goes on: {}",
        none.message
    );
}
