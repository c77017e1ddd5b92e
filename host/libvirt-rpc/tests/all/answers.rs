//! What a server answers, rightly and wrongly.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use libvirt_remote::{
    AuthMethod, Cause, Connection, Error, ErrorCode, ErrorDomain, Options, Violation,
    xdr::{DecodeError, EncodeError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    time::timeout,
};

use crate::server::*;

/// The violation that ended the connection.
async fn violation(libvirt: &Connection) -> Violation {
    match &*libvirt.closed().await {
        Cause::Violation(violation) => violation.clone(),
        other => panic!("ended by {other}"),
    }
}

/// A call that waits, its packet, and the two sides.
async fn waiting()
-> (tokio::task::JoinHandle<Result<libvirt_remote::Domain, Error>>, Packet, Connection, Server) {
    let (libvirt, mut server) = Server::open().await;
    let call = lookup(&libvirt, "a");
    let packet = server.next().await;
    (call, packet, libvirt, server)
}

#[tokio::test(start_paused = true)]
async fn sixty_four_calls_go_at_once_and_answers_in_any_order_reach_whoever_asked() {
    let (libvirt, mut server) = Server::open().await;
    let calls: Vec<_> = (0..64).map(|index| lookup(&libvirt, &format!("guest-{index}"))).collect();
    let mut packets = Vec::new();
    for _ in 0..64 {
        packets.push(server.next().await);
    }
    // Every third first, the rest backwards.
    let (first, rest): (Vec<_>, Vec<_>) = packets.iter().enumerate().partition(|(index, _)| index % 3 == 0);
    for (_, packet) in first.into_iter().chain(rest.into_iter().rev()) {
        let name: String = packet.arguments();
        server.send(&packet.reply().with(&domain(&name))).await;
    }
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), domain(&format!("guest-{index}")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_is_dropped_and_harms_nobody() {
    let (call, packet, libvirt, mut server) = waiting().await;
    let answer = packet.reply().with(&domain("a"));
    server.send(&answer).await;
    server.send(&answer).await;
    assert_eq!(call.await.unwrap().unwrap(), domain("a"));
    let next = lookup(&libvirt, "b");
    let packet = server.next().await;
    server.send(&answer).await;
    server.send(&packet.reply().with(&domain("b"))).await;
    assert_eq!(next.await.unwrap().unwrap(), domain("b"));
    assert_eq!(libvirt.statistics().late, 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_call_given_up_on_is_dropped_and_harms_no_other() {
    let (libvirt, mut server) = Server::open().await;
    let other = lookup(&libvirt, "other");
    let other_packet = server.next().await;
    let given_up = timeout(Duration::from_secs(20), libvirt.domain_lookup_by_name("slow")).await;
    assert!(given_up.is_err());
    let slow = server.next().await;
    server.send(&slow.reply().with(&domain("slow"))).await;
    server.send(&other_packet.reply().with(&domain("other"))).await;
    assert_eq!(other.await.unwrap().unwrap(), domain("other"));
    assert_eq!(libvirt.statistics().late, 1);
    assert!(libvirt.cause().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_on_before_it_was_written_is_never_sent() {
    let (libvirt, mut server) = Server::open().await;
    // Fills the pipe, so that what follows waits.
    let large = lookup(&libvirt, &"x".repeat(200_000));
    settle().await;
    let waiting = lookup(&libvirt, "given up");
    settle().await;
    waiting.abort();
    let _ = waiting.await;
    let after = lookup(&libvirt, "after");
    for name in ["x".repeat(200_000), "after".into()] {
        let packet = server.next().await;
        assert_eq!(packet.arguments::<String>(), name);
        server.send(&packet.reply().with(&domain("found"))).await;
    }
    assert!(large.await.unwrap().is_ok() && after.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_ends_at_its_callers_deadline_and_alone() {
    let without = Options { keepalive: None, ..Options::default() };
    let (libvirt, mut server) = Server::open_with(without).await;
    assert!(timeout(Duration::from_secs(90), libvirt.domain_lookup_by_name("never")).await.is_err());
    server.next().await;
    let next = lookup(&libvirt, "b");
    let packet = server.next().await;
    server.send(&packet.reply().with(&domain("b"))).await;
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_wait_for_their_turn() {
    let (libvirt, mut server) = Server::open_with(Options { calls_in_flight: 2, ..Options::default() }).await;
    let calls: Vec<_> = ["a", "b", "c"].map(|name| lookup(&libvirt, name)).into();
    let first = server.next().await;
    server.next().await;
    assert!(server.silent().await, "the third waits");
    server.send(&first.reply().with(&domain("a"))).await;
    assert_eq!(server.next().await.arguments::<String>(), "c");
    // One that is given up on makes room as well.
    calls[1].abort();
    let fourth = lookup(&libvirt, "d");
    assert_eq!(server.next().await.arguments::<String>(), "d");
    drop(fourth);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_call_that_was_never_made_ends_the_connection() {
    let (call, packet, libvirt, mut server) = waiting().await;
    let serial = packet.serial + 1;
    server.send(&Packet { serial, ..packet.reply() }).await;
    assert_eq!(violation(&libvirt).await, Violation::Serial { serial });
    assert!(matches!(call.await.unwrap(), Err(Error::Closed { sent: true, .. })));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_procedure_program_or_version_ends_the_connection() {
    for change in [
        |packet: Packet| Packet { procedure: HOSTNAME, ..packet },
        |packet: Packet| Packet { program: KEEPALIVE + 1, ..packet },
        |packet: Packet| Packet { version: 2, ..packet },
    ] {
        let (call, packet, libvirt, mut server) = waiting().await;
        let wrong = change(packet.reply().with(&domain("a")));
        server.send(&wrong).await;
        let expected = Violation::Procedure {
            serial: packet.serial,
            called: LOOKUP,
            answered: wrong.procedure,
            program: wrong.program,
            version: wrong.version,
        };
        assert_eq!(violation(&libvirt).await, expected);
        assert!(call.await.unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_length_that_no_packet_has_ends_the_connection() {
    for length in [0_u32, 4, 27, (8 << 20) + 1, u32::MAX] {
        let (call, _, libvirt, mut server) = waiting().await;
        server.raw(&length.to_be_bytes()).await;
        assert_eq!(violation(&libvirt).await, Violation::Length { length });
        assert!(call.await.unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_over_the_limit_of_the_options_ends_the_connection() {
    let (libvirt, mut server) = Server::open_with(Options { max_packet: 1000, ..Options::default() }).await;
    let call = lookup(&libvirt, "a");
    let packet = server.next().await;
    server.send(&Packet { payload: vec![0; 1000], ..packet.reply() }).await;
    assert_eq!(violation(&libvirt).await, Violation::Length { length: 1028 });
    assert!(call.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_no_server_sends_or_a_status_that_no_reply_has_ends_the_connection() {
    for (kind, status, expected) in [
        (CALL, OK, Violation::Kind { kind: 0 }),
        (5, OK, Violation::Kind { kind: 5 }),
        (REPLY, CONTINUE, Violation::Status { status: 2 }),
        (REPLY, 9, Violation::Status { status: 9 }),
    ] {
        let (call, packet, libvirt, mut server) = waiting().await;
        server.send(&Packet { kind, status, ..packet.reply() }).await;
        assert_eq!(violation(&libvirt).await, expected);
        assert!(call.await.unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_come_byte_by_byte_are_read_like_any_other() {
    let (call, packet, _libvirt, mut server) = waiting().await;
    for byte in packet.reply().with(&domain("a")).bytes() {
        server.raw(&[byte]).await;
        settle().await;
    }
    assert_eq!(call.await.unwrap().unwrap(), domain("a"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_with_code_domain_message_and_the_systems_number() {
    let (call, packet, libvirt, mut server) = waiting().await;
    server.send(&packet.reply().failed(&fault(ErrorCode::SYSTEM_ERROR, "No space left on device"))).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SYSTEM_ERROR));
    let seen = error.fault().unwrap();
    assert_eq!((seen.domain, seen.errno()), (ErrorDomain::STREAMS, Some(28)));
    assert_eq!(
        error.to_string(),
        "virDomainLookupByName: No space left on device (code 38 SYSTEM_ERROR, domain 38 STREAMS)"
    );
    assert!(!error.outcome_unknown() && libvirt.cause().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cant_be_read_fails_its_call_alone() {
    let good = encoded(&domain("a"));
    let long = [&good[..], b"\0\0\0\0"].concat();
    let huge = [b"\xff\xff\xff\xf0", &good[4..]].concat();
    for (status, payload, expected) in [
        (OK, good[..good.len() - 1].to_vec(), DecodeError::Short { missing: 1 }),
        (OK, long, DecodeError::Trailing { left: 4 }),
        (OK, huge, DecodeError::TooLong { length: 0xffff_fff0, max: 4 * 1024 * 1024 }),
        (ERROR, Vec::new(), DecodeError::Short { missing: 4 }),
    ] {
        let (call, packet, libvirt, mut server) = waiting().await;
        let other = lookup(&libvirt, "b");
        let other_packet = server.next().await;
        server.send(&Packet { status, payload, ..packet.reply() }).await;
        match call.await.unwrap() {
            Err(Error::Answer { call: "virDomainLookupByName", why }) => assert_eq!(why, expected),
            unexpected => panic!("{unexpected:?}"),
        }
        server.send(&other_packet.reply().with(&domain("b"))).await;
        assert!(other.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn an_argument_that_libvirt_would_cut_off_is_not_sent() {
    let (libvirt, mut server) = Server::open().await;
    let error = libvirt.domain_lookup_by_name("ours\0theirs").await.unwrap_err();
    assert!(matches!(error, Error::Argument { why: EncodeError::Nul, .. }), "{error}");
    let error = libvirt.domain_lookup_by_name(&"x".repeat(4 * 1024 * 1024 + 1)).await.unwrap_err();
    assert!(matches!(error, Error::Argument { why: EncodeError::TooLong { .. }, .. }), "{error}");
    assert!(server.silent().await);
}

#[tokio::test(start_paused = true)]
async fn events_are_dropped_however_many_come() {
    let (call, packet, libvirt, mut server) = waiting().await;
    let event = Packet { kind: MESSAGE, procedure: 318, serial: 1, payload: vec![1; 1000], ..packet.reply() };
    for _ in 0..1000 {
        server.send(&event).await;
    }
    server.send(&packet.reply().with(&domain("a"))).await;
    assert!(call.await.unwrap().is_ok());
    assert_eq!(libvirt.statistics().events, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_authentication_is_named_with_what_it_offers() {
    for (number, method) in [(1, AuthMethod::Sasl), (2, AuthMethod::Polkit), (7, AuthMethod::Unknown(7))] {
        let (opening, mut server) = Server::opening(Options::default());
        let call = server.next().await;
        server.send(&call.reply().with(&(1_u32, number))).await;
        match opening.await.unwrap() {
            Err(Error::Authentication { offered }) => assert_eq!(offered, [method]),
            other => panic!("{other:?}"),
        }
        let farewell = server.next().await;
        assert_eq!(farewell.procedure, CLOSE, "and nothing else was asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_shall_change_nothing_says_so_when_it_is_opened() {
    let (opening, mut server) = Server::opening(Options { read_only: true, ..Options::default() });
    let call = server.next().await;
    server.send(&call.reply().with(&(1_u32, 0_i32))).await;
    let call = server.next().await;
    assert_eq!(call.arguments::<(Option<String>, u32)>(), (Some("qemu:///system".into()), 1));
    server.send(&call.reply()).await;
    assert!(opening.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_open_tells_why() {
    let (opening, mut server) = Server::opening(Options::default());
    let call = server.next().await;
    server.send(&call.reply().with(&(1_u32, 0_i32))).await;
    let call = server.next().await;
    server.send(&call.reply().failed(&fault(ErrorCode::NO_CONNECT, "no driver"))).await;
    assert_eq!(opening.await.unwrap().unwrap_err().code(), Some(ErrorCode::NO_CONNECT));
}

#[tokio::test(start_paused = true)]
async fn a_packet_takes_memory_as_its_bytes_come_not_as_it_claims() {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let (reads, writes) = tokio::io::split(server);
    let most = Arc::new(AtomicUsize::new(0));
    let opening = tokio::spawn(Connection::open(Watched(client, most.clone()), "qemu:///system"));
    let mut server = Server { reads, writes };
    server.next().await;
    server.raw(&(8_u32 << 20).to_be_bytes()).await;
    for _ in 0..100 {
        server.raw(&[0; 10_000]).await;
    }
    settle().await;
    let most = most.load(Relaxed);
    assert!((1..=3_000_000).contains(&most), "{most} bytes were made ready for a megabyte");
    drop(server);
    assert!(opening.await.unwrap().is_err());
}

/// Notes how much room a reader has at most.
struct Watched(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.1.fetch_max(buffer.remaining(), Relaxed);
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_stream_that_keeps_what_is_written_is_told_to_send_it() {
    let (client, server) = tokio::io::duplex(1024);
    let (reads, writes) = tokio::io::split(server);
    let client = tokio::io::BufStream::new(client);
    let opening = tokio::spawn(Connection::open(client, "qemu:///system"));
    let mut server = Server { reads, writes };
    let call = timeout(Duration::from_secs(1), server.next()).await.expect("it was not flushed");
    server.send(&call.reply().with(&(1_u32, 0_i32))).await;
    let call = server.next().await;
    server.send(&call.reply()).await;
    assert!(opening.await.unwrap().is_ok());
}
