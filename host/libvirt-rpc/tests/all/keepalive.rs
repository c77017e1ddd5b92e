//! Signs of life, in both directions.

use std::time::Duration;

use libvirt_remote::{Cause, Keepalive, Options};
use tokio::time::{Instant, sleep};

use crate::server::*;

const PING: i32 = 1;
const PONG: i32 = 2;

fn keepalive(procedure: i32) -> Packet {
    Packet {
        program: KEEPALIVE,
        version: 1,
        procedure,
        kind: MESSAGE,
        serial: 0,
        status: OK,
        payload: Vec::new(),
    }
}

fn every_second() -> Options {
    let keepalive = Keepalive { interval: Duration::from_secs(1), count: 3 };
    Options { keepalive: Some(keepalive), ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered() {
    let (libvirt, mut server) = Server::open().await;
    server.send(&keepalive(PING)).await;
    assert_eq!(server.next().await, keepalive(PONG));
    assert_eq!(libvirt.statistics().pings, 1);
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_while_an_upload_fills_the_pipe() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    let uploading = tokio::spawn(async move { upload.write(&[7; 10_000_000]).await });
    settle().await;
    server.send(&keepalive(PING)).await;
    settle().await;
    // What was on its way, and then the pong before the rest.
    let mut chunks = 0;
    loop {
        let packet = server.next().await;
        if packet == keepalive(PONG) {
            break;
        }
        assert_eq!(packet.serial, call.serial);
        chunks += 1;
    }
    assert!(chunks <= 2, "{chunks} chunks came before the pong");
    drop(server);
    assert!(uploading.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_pings_is_not_stored() {
    let (libvirt, mut server) = Server::open().await;
    let large = lookup(&libvirt, &"x".repeat(200_000));
    settle().await;
    for _ in 0..5_000 {
        server.send(&keepalive(PING)).await;
    }
    settle().await;
    assert_eq!(server.next().await.procedure, LOOKUP);
    assert_eq!(server.next().await, keepalive(PONG));
    assert!(server.silent().await, "one pong answers all pings that came meanwhile");
    assert_eq!(libvirt.statistics().pings, 5_000);
    drop(large);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_silent_is_pinged_and_then_given_up() {
    let (libvirt, mut server) = Server::open_with(every_second()).await;
    let call = lookup(&libvirt, "a");
    assert_eq!(server.next().await.procedure, LOOKUP);
    let start = Instant::now();
    for second in 1..=3 {
        assert_eq!(server.next().await, keepalive(PING));
        assert_eq!(start.elapsed().as_secs(), second);
    }
    let cause = libvirt.closed().await;
    assert_eq!(start.elapsed().as_secs(), 4);
    assert!(matches!(*cause, Cause::Quiet { quiet } if quiet.as_secs() == 4), "{cause}");
    assert!(call.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn whatever_the_server_sends_is_a_sign_of_life() {
    let (libvirt, mut server) = Server::open_with(every_second()).await;
    let event = Packet { program: REMOTE, procedure: 318, ..keepalive(0) };
    for round in 0..20 {
        sleep(Duration::from_millis(2_500)).await;
        assert_eq!(server.next().await, keepalive(PING));
        assert_eq!(server.next().await, keepalive(PING));
        if round % 2 == 0 {
            server.send(&keepalive(PONG)).await;
        } else {
            server.send(&event).await;
        }
        settle().await;
    }
    assert!(libvirt.cause().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_link_that_takes_an_upload_slowly_is_no_dead_server() {
    let (libvirt, mut server) = Server::open_with(every_second()).await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, Some(1_000_000))).await;
    let uploading = tokio::spawn(async move {
        upload.write(&[7; 1_000_000]).await?;
        upload.finish().await
    });
    // 10 kB a second, and no answer to any ping.
    let mut link = tokio::io::BufReader::with_capacity(10_000, server.reads);
    let mut taken = 0;
    while taken < 900_000 {
        sleep(Duration::from_secs(1)).await;
        let piece = tokio::io::AsyncBufReadExt::fill_buf(&mut link).await.unwrap().len();
        tokio::io::AsyncBufReadExt::consume(&mut link, piece);
        taken += piece;
    }
    assert!(libvirt.cause().is_none(), "{:?}", libvirt.cause());
    assert!(!uploading.is_finished());
    drop((link, call));
}

#[tokio::test(start_paused = true)]
async fn without_keepalive_nothing_is_pinged_and_silence_is_endured() {
    let (libvirt, mut server) = Server::open_with(Options { keepalive: None, ..Options::default() }).await;
    sleep(Duration::from_secs(3_600)).await;
    assert!(server.silent().await && libvirt.cause().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pause_for_a_streams_reader_is_no_silence_of_the_server() {
    let (libvirt, mut server) = Server::open_with(every_second()).await;
    let vol = vol();
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    for _ in 0..11 {
        server.send(&call.stream(CONTINUE, &[7; 100_000])).await;
    }
    // Less than the patience with the reader, and more than the patience with the server.
    sleep(Duration::from_secs(9)).await;
    assert!(libvirt.cause().is_none(), "{:?}", libvirt.cause());
    assert!(download.chunk().await.unwrap().is_some());
}
