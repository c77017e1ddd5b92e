//! What the host tells, and that one connection bears much.

use std::time::Duration;

use libvirt_remote::{Connection, Options, Platform};

use crate::lab::*;

#[tokio::test]
#[ignore = "needs a libvirt daemon: LIBVIRT_REMOTE_SOCKET"]
async fn the_host_tells_who_and_what_it_is() {
    let libvirt = open().await;
    assert_eq!(libvirt.connect_get_type().await.unwrap(), "QEMU");
    let version = libvirt.connect_get_lib_version().await.unwrap();
    assert!(version.parts().0 >= 6, "{version}");
    assert!(libvirt.connect_get_version().await.unwrap().0 > 0);
    assert!(!libvirt.connect_get_hostname().await.unwrap().is_empty());
    assert_eq!(libvirt.connect_get_uri().await.unwrap(), "qemu:///system");
    assert!(libvirt.connect_get_capabilities().await.unwrap().contains("<capabilities>"));
    let capabilities = libvirt.connect_get_domain_capabilities(Platform::default()).await.unwrap();
    assert!(capabilities.contains("<domainCapabilities>"));
    let of_qemu =
        Platform { virt_type: Some("qemu"), arch: Some("x86_64"), machine: Some("q35"), emulator: None };
    assert!(
        libvirt.connect_get_domain_capabilities(of_qemu).await.unwrap().contains("<domain>qemu</domain>")
    );
    let storage = libvirt.connect_get_storage_pool_capabilities().await.unwrap();
    assert!(storage.contains("<storagepoolCapabilities>") && storage.contains("qcow2"));
    let node = libvirt.node_get_info().await.unwrap();
    assert!(node.model == "x86_64" && node.cpus > 0 && node.memory > 1024, "{node:?}");
    let free = libvirt.node_get_free_memory().await.unwrap();
    assert!(free > 0 && free / 1024 < node.memory);
    let stats = libvirt.node_get_memory_stats().await.unwrap();
    assert!(stats.iter().any(|stat| stat.field == "total" && stat.value > 1024), "{stats:?}");
    assert!(libvirt.connect_list_all_networks().await.is_ok());
    libvirt.close().await;
}

#[tokio::test]
#[ignore = "needs a libvirt daemon: LIBVIRT_REMOTE_SOCKET"]
async fn a_hundred_calls_at_once_and_as_many_given_up_on_leave_the_connection_whole() {
    let libvirt = open().await;
    let mut calls = tokio::task::JoinSet::new();
    for index in 0..200 {
        let libvirt = libvirt.clone();
        calls.spawn(async move {
            let call = libvirt.connect_get_capabilities();
            if index % 2 == 0 {
                assert!(call.await.unwrap().contains("<host>"));
            } else {
                let _ = tokio::time::timeout(Duration::from_micros(50 * index), call).await;
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert!(!libvirt.connect_get_hostname().await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs a libvirt daemon, and waits 40 s: LIBVIRT_REMOTE_SOCKET"]
async fn a_server_that_pings_finds_this_client_alive() {
    let without = Options { keepalive: None, ..Options::default() };
    let libvirt = Connection::open_with(socket().await, "qemu:///system", without).await.unwrap();
    // From now on the server pings, and ends the connection after half a minute without an answer.
    assert!(libvirt.connect_supports_feature(10).await.unwrap());
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(libvirt.statistics().pings >= 5, "{:?}", libvirt.statistics());
    assert!(!libvirt.connect_get_hostname().await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs a libvirt daemon, and waits some seconds: LIBVIRT_REMOTE_SOCKET"]
async fn an_idle_connection_is_kept_by_pings() {
    let keepalive = libvirt_remote::Keepalive { interval: Duration::from_millis(300), count: 2 };
    let often = Options { keepalive: Some(keepalive), ..Options::default() };
    let libvirt = Connection::open_with(socket().await, "qemu:///system", often).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(libvirt.cause().is_none(), "{:?}", libvirt.cause());
}
