//! How connections end, and what those who wait are told.

use std::{sync::Arc, time::Duration};

use libvirt_remote::{Cause, Connection, Error};
use tokio::{io::AsyncWriteExt, time::Instant};

use crate::server::*;

fn cause(error: &Error) -> (Arc<Cause>, bool) {
    match error {
        Error::Closed { cause, sent, .. } => (cause.clone(), *sent),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_fails_all_that_wait_at_once_with_one_cause() {
    let (libvirt, mut server) = Server::open().await;
    let calls: Vec<_> = (0..10).map(|_| lookup(&libvirt, "a")).collect();
    for _ in 0..10 {
        server.next().await;
    }
    let start = Instant::now();
    drop(server);
    let mut causes = Vec::new();
    for call in calls {
        let (cause, sent) = cause(&call.await.unwrap().unwrap_err());
        assert!(sent, "the server had it");
        causes.push(cause);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(matches!(*causes[0], Cause::Eof { within_packet: false }), "{}", causes[0]);
    assert!(causes.iter().all(|one| Arc::ptr_eq(one, &causes[0])));
    let (later, sent) = cause(&libvirt.domain_lookup_by_name("a").await.unwrap_err());
    assert!(Arc::ptr_eq(&later, &causes[0]) && !sent, "a call that comes later is not sent");
    assert!(libvirt.cause().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_written_yet_is_told_so() {
    let (libvirt, mut server) = Server::open().await;
    let written = lookup(&libvirt, "a");
    server.next().await;
    // Fills the pipe.
    let half = lookup(&libvirt, &"x".repeat(200_000));
    settle().await;
    let queued = lookup(&libvirt, "b");
    settle().await;
    drop(server);
    for (call, may_have_arrived) in [(written, true), (half, true), (queued, false)] {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.outcome_unknown(), may_have_arrived, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_their_turn_fail_too() {
    let options = libvirt_remote::Options { calls_in_flight: 1, ..Default::default() };
    let (libvirt, mut server) = Server::open_with(options).await;
    let first = lookup(&libvirt, "a");
    server.next().await;
    let second = lookup(&libvirt, "b");
    settle().await;
    drop(server);
    assert!(cause(&first.await.unwrap().unwrap_err()).1);
    assert!(!cause(&second.await.unwrap().unwrap_err()).1);
}

#[tokio::test(start_paused = true)]
async fn an_end_in_the_middle_of_a_packet_is_told_as_one() {
    let (libvirt, mut server) = Server::open().await;
    let call = lookup(&libvirt, "a");
    let packet = server.next().await;
    let answer = packet.reply().with(&domain("a")).bytes();
    server.raw(&answer[..answer.len() - 1]).await;
    drop(server);
    let (cause, _) = cause(&call.await.unwrap().unwrap_err());
    assert!(matches!(*cause, Cause::Eof { within_packet: true }), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_while_it_is_greeted_fails_the_opening() {
    let (opening, mut server) = Server::opening(Default::default());
    server.next().await;
    drop(server);
    let error = opening.await.unwrap().unwrap_err();
    assert!(
        error.to_string().starts_with("authentication list: the connection to libvirt has ended"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn closing_tells_the_server_and_ends_it_for_all_who_hold_it() {
    let (libvirt, mut server) = Server::open().await;
    let pending = lookup(&libvirt, "a");
    server.next().await;
    let other = libvirt.clone();
    let closing = tokio::spawn(async move { libvirt.close().await });
    let farewell = server.next().await;
    assert_eq!(farewell.procedure, CLOSE);
    server.send(&farewell.reply()).await;
    closing.await.unwrap();
    assert!(matches!(*cause(&pending.await.unwrap().unwrap_err()).0, Cause::Local));
    assert!(matches!(*other.closed().await, Cause::Local));
    assert!(server.try_next().await.is_none(), "the byte stream is closed too");
}

#[tokio::test(start_paused = true)]
async fn the_last_who_lets_go_says_farewell() {
    let (libvirt, mut server) = Server::open().await;
    let clone = libvirt.clone();
    drop(libvirt);
    assert!(server.silent().await);
    drop(clone);
    assert_eq!(server.next().await.procedure, CLOSE);
    let start = Instant::now();
    assert!(server.try_next().await.is_none());
    assert_eq!(start.elapsed().as_secs(), 1, "a server that does not answer is waited for a second");
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_its_connection_when_all_others_let_go() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, Some(4))).await;
    drop(libvirt);
    upload.write(b"data").await.unwrap();
    assert_eq!(server.next().await, call.stream(CONTINUE, b"data"));
    drop(upload);
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    assert_eq!(server.next().await.procedure, CLOSE);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_ends_the_connection_with_its_cause() {
    let (libvirt, mut server) = Server::open().await;
    server.writes.shutdown().await.unwrap();
    assert!(matches!(*libvirt.closed().await, Cause::Eof { .. }));
}

#[test]
fn nobody_waits_for_ever_when_the_runtime_that_serves_the_connection_stops() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (serving, calling) = (runtime(), runtime());
    let (libvirt, mut server): (Connection, Server) = serving.block_on(Server::open());
    let call = calling.spawn(async move { libvirt.domain_lookup_by_name("a").await });
    calling.block_on(server.next());
    serving.shutdown_timeout(Duration::from_secs(5));
    let error = calling.block_on(call).unwrap().unwrap_err();
    assert!(matches!(*cause(&error).0, Cause::Stopped), "{error}");
}
