//! What happens to the client when the daemon is killed or stands still. Not beside other tests: they share the daemon.

use std::{process::Command, time::Duration};

use libvirt_remote::{Cause, Connection, Error, Keepalive, Options};
use tokio::time::{Instant, timeout};

use crate::lab::*;

/// Has the daemon stopped, started, frozen or thawed.
fn daemon(what: &str) {
    let command = variable("LIBVIRT_REMOTE_SERVICE");
    let status = Command::new("sh").args(["-c", &format!("{command} libvirtd {what}")]).status().unwrap();
    assert!(status.success(), "{command} libvirtd {what}: {status}");
}

#[tokio::test]
#[ignore = "needs a libvirt daemon that may be killed: LIBVIRT_REMOTE_SOCKET, _SERVICE"]
async fn a_daemon_killed_in_the_middle_of_an_upload_fails_all_at_once_and_the_next_connection_works() {
    let libvirt = open().await;
    let pool = active_pool(&libvirt).await;
    let vol = volume(&libvirt, &pool, "libvirt-remote-killed", "raw", 1 << 30).await;
    let mut upload = libvirt.storage_vol_upload(&vol, 0, Some(1 << 30)).await.unwrap();
    upload.write(&[7; 1 << 20]).await.unwrap();
    let uploading = tokio::spawn(async move { while upload.write(&[7; 1 << 20]).await.is_ok() {} });
    let calling = tokio::spawn({
        let libvirt = libvirt.clone();
        async move {
            loop {
                if let Err(error) = libvirt.connect_get_capabilities().await {
                    return error;
                }
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    tokio::task::spawn_blocking(|| daemon("stop")).await.unwrap();
    let error = timeout(Duration::from_secs(5), calling).await.expect("the call hangs").unwrap();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
    timeout(Duration::from_secs(5), uploading).await.expect("the upload hangs").unwrap();
    let cause = libvirt.cause().unwrap();
    assert!(matches!(*cause, Cause::Eof { .. } | Cause::Io(_)), "{cause}");
    tokio::task::spawn_blocking(|| daemon("start")).await.unwrap();
    let libvirt = open().await;
    let pool = active_pool(&libvirt).await;
    let vol = libvirt.storage_vol_lookup_by_name(&pool, "libvirt-remote-killed").await.unwrap();
    libvirt.storage_vol_delete(&vol).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a libvirt daemon that may be frozen: LIBVIRT_REMOTE_SOCKET, _SERVICE"]
async fn a_daemon_that_stands_still_is_noticed_by_its_silence() {
    let keepalive = Keepalive { interval: Duration::from_secs(1), count: 2 };
    let quick = Options { keepalive: Some(keepalive), ..Options::default() };
    let libvirt = Connection::open_with(socket().await, "qemu:///system", quick).await.unwrap();
    tokio::task::spawn_blocking(|| daemon("freeze")).await.unwrap();
    let start = Instant::now();
    let error = timeout(Duration::from_secs(30), libvirt.connect_get_hostname()).await;
    tokio::task::spawn_blocking(|| daemon("thaw")).await.unwrap();
    let error = error.expect("nobody noticed").unwrap_err();
    let Error::Closed { cause, sent: true, .. } = &error else { panic!("{error}") };
    assert!(matches!(**cause, Cause::Quiet { .. }), "{cause}");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(!open().await.connect_get_hostname().await.unwrap().is_empty());
}
