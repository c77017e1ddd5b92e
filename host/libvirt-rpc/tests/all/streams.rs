//! Streams: exact bytes, ends in every way, and nobody else harmed.

use std::time::Duration;

use libvirt_remote::{Cause, Connection, Error, ErrorCode, Options, StreamError, Violation};
use tokio::time::{Instant, sleep, timeout};

use crate::server::*;

fn why(error: &Error) -> &StreamError {
    match error {
        Error::Stream { why, .. } => why,
        other => panic!("{other}"),
    }
}

/// That another call still gets its answer.
async fn others_go_on(libvirt: &Connection, server: &mut Server) {
    let call = lookup(libvirt, "other");
    let packet = server.next().await;
    assert_eq!(packet.procedure, LOOKUP, "{packet:?}");
    server.send(&packet.reply().with(&domain("other"))).await;
    assert_eq!(call.await.unwrap().unwrap(), domain("other"));
}

#[tokio::test(start_paused = true)]
async fn an_upload_sends_exactly_its_bytes_and_ends_when_the_server_has_confirmed_them() {
    let (libvirt, mut server) = Server::open().await;
    let data: Vec<u8> = (0..600_001).map(|index| (index % 251) as u8).collect();
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 5, Some(600_001))).await;
    assert_eq!(call.procedure, UPLOAD);
    assert_eq!(call.arguments::<(libvirt_remote::StorageVol, u64, u64, u32)>(), (vol, 5, 600_001, 0));
    let whole = bytes::Bytes::from(data.clone());
    let uploading = tokio::spawn(async move {
        upload.write(&whole[..300_000]).await?;
        upload.write_bytes(whole.slice(300_000..)).await?;
        upload.finish().await
    });
    let mut received = Vec::new();
    loop {
        let packet = server.next().await;
        assert_eq!((packet.kind, packet.serial, packet.procedure), (STREAM, call.serial, UPLOAD));
        if packet.status == OK {
            assert!(packet.payload.is_empty());
            break;
        }
        assert!((1..=262_120).contains(&packet.payload.len()));
        received.extend(packet.payload);
    }
    assert_eq!(received, data);
    settle().await;
    assert!(!uploading.is_finished(), "it is not done before the server says so");
    server.send(&call.stream(OK, b"")).await;
    assert_eq!(uploading.await.unwrap().unwrap(), 600_001);
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn more_than_was_declared_is_refused_before_any_of_it_is_sent() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, Some(6))).await;
    upload.write(b"four").await.unwrap();
    let error = upload.write(b"more").await.unwrap_err();
    assert_eq!(*why(&error), StreamError::Overrun { declared: 6, given: 8 });
    let error = upload.write_bytes("more".into()).await.unwrap_err();
    assert_eq!(*why(&error), StreamError::Overrun { declared: 6, given: 8 });
    assert_eq!(server.next().await, call.stream(CONTINUE, b"four"));
    assert!(server.silent().await);
    upload.write(b"ok").await.unwrap();
    assert_eq!(server.next().await, call.stream(CONTINUE, b"ok"));
}

#[tokio::test(start_paused = true)]
async fn less_than_was_declared_is_given_up_not_finished() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, Some(6))).await;
    upload.write(b"four").await.unwrap();
    let finishing = tokio::spawn(upload.finish());
    assert_eq!(server.next().await, call.stream(CONTINUE, b"four"));
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    settle().await;
    assert!(!finishing.is_finished(), "the server still holds the volume");
    server.send(&call.stream(OK, b"")).await;
    let error = finishing.await.unwrap().unwrap_err();
    assert_eq!(*why(&error), StreamError::Underrun { declared: 6, sent: 4 });
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_server_refuses_in_the_middle_ends_with_its_error_at_once() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    // The pipe is full and the writer waits for room when the error comes.
    let uploading = tokio::spawn(async move {
        let (error, again) = (upload.write(&[7; 20_000_000]).await, upload.write(b"x").await);
        (upload, error, again)
    });
    settle().await;
    server.send(&call.stream(CONTINUE, b"").failed(&fault(ErrorCode::SYSTEM_ERROR, "No space left"))).await;
    let (_upload, error, again) = uploading.await.unwrap();
    assert_eq!(error.unwrap_err().fault().unwrap().errno(), Some(28));
    assert_eq!(again.unwrap_err().code(), Some(ErrorCode::SYSTEM_ERROR), "it stays failed");
    // The chunk that was being written, and nothing after it: the server ignores a stream that it failed.
    assert_eq!(server.next().await.status, CONTINUE);
    others_go_on(&libvirt, &mut server).await;
    assert!(server.silent().await);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_dropped_in_the_middle_is_given_up_and_harms_no_call() {
    let (libvirt, mut server) = Server::open().await;
    let other = lookup(&libvirt, "other");
    let other_packet = server.next().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    let cut = timeout(Duration::from_millis(1), upload.write(&[7; 20_000_000])).await;
    assert!(cut.is_err());
    drop(upload);
    let mut chunks = 0;
    loop {
        let packet = server.next().await;
        assert_eq!((packet.kind, packet.serial), (STREAM, call.serial));
        if packet.status == ERROR {
            break;
        }
        chunks += 1;
    }
    assert!(chunks <= 1, "what waited is not sent any more, yet {chunks} chunks came");
    server.send(&call.stream(OK, b"")).await;
    server.send(&other_packet.reply().with(&domain("other"))).await;
    assert!(other.await.unwrap().is_ok());
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn calls_overtake_the_data_of_an_upload() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, _) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    let uploading = tokio::spawn(async move { upload.write(&[7; 20_000_000]).await });
    settle().await;
    let call = lookup(&libvirt, "urgent");
    settle().await;
    let mut chunks = 0;
    while server.next().await.procedure != LOOKUP {
        chunks += 1;
    }
    assert!(chunks <= 2, "{chunks} chunks came first");
    uploading.abort();
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn uploads_take_turns() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let mut serials = Vec::new();
    for _ in 0..2 {
        let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
        serials.push(call.serial);
        tokio::spawn(async move { upload.write(&[7; 20_000_000]).await });
    }
    settle().await;
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(server.next().await.serial);
    }
    for serial in serials {
        assert!(seen.iter().filter(|&&one| one == serial).count() >= 8, "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_is_given_up_is_ended_as_soon_as_the_server_opens_it() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    assert!(timeout(Duration::from_secs(1), libvirt.storage_vol_download(&vol, 0, None)).await.is_err());
    let call = server.next().await;
    assert!(server.silent().await);
    server.send(&call.stream(CONTINUE, b"early")).await;
    server.send(&call.reply()).await;
    server.send(&call.stream(CONTINUE, b"late")).await;
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    server.send(&call.stream(OK, b"")).await;
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn openings_that_are_given_up_and_never_answered_do_not_pile_up() {
    let (libvirt, mut server) = Server::open_with(Options { keepalive: None, ..Options::default() }).await;
    let vol = vol();
    let mut ended = None;
    for round in 0..100 {
        let _ = timeout(Duration::from_secs(1), libvirt.storage_vol_download(&vol, 0, None)).await;
        let _ = server.try_next().await;
        if let Some(cause) = libvirt.cause() {
            ended = Some((round, cause));
            break;
        }
    }
    let (round, cause) = ended.expect("it goes on for ever");
    assert!(matches!(*cause, Cause::Violation(Violation::Unanswered { unanswered: 65 })), "{round}: {cause}");
}

#[tokio::test(start_paused = true)]
async fn a_download_yields_its_bytes_and_ends_when_both_sides_have_said_so() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let opening = libvirt.storage_vol_download(&vol, 3, Some(10));
    let (mut download, call) = server.stream(opening).await;
    assert_eq!(call.procedure, DOWNLOAD);
    assert_eq!(call.arguments::<(libvirt_remote::StorageVol, u64, u64, u32)>(), (vol, 3, 10, 0));
    server.send(&call.stream(CONTINUE, b"hello ")).await;
    server.send(&call.stream(CONTINUE, b"you")).await;
    assert_eq!(download.chunk().await.unwrap().unwrap(), "hello ");
    assert_eq!(download.chunk().await.unwrap().unwrap(), "you");
    assert!(timeout(Duration::from_secs(1), download.chunk()).await.is_err(), "more may come");
    server.send(&call.stream(CONTINUE, b"")).await;
    assert!(timeout(Duration::from_secs(1), download.chunk()).await.is_err(), "the server has to confirm");
    assert_eq!(server.next().await, call.stream(OK, b""));
    server.send(&call.stream(OK, b"")).await;
    assert_eq!(download.chunk().await.unwrap(), None);
    assert_eq!(download.chunk().await.unwrap(), None, "and it stays so");
    assert_eq!(download.received(), 9);
    drop(download);
    assert!(server.silent().await, "there is nothing left to give up");
}

#[tokio::test(start_paused = true)]
async fn data_that_comes_before_the_answer_is_kept() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let opening = tokio::spawn(async move { libvirt.storage_vol_download(&vol, 0, None).await });
    let call = server.next().await;
    server.send(&call.stream(CONTINUE, b"early")).await;
    settle().await;
    server.send(&call.reply()).await;
    let mut download = opening.await.unwrap().unwrap();
    assert_eq!(download.chunk().await.unwrap().unwrap(), "early");
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_is_refused_has_no_stream() {
    let (libvirt, mut server) = Server::open().await;
    let (one, vol) = (libvirt.clone(), vol());
    let opening = tokio::spawn(async move { one.storage_vol_upload(&vol, 0, Some(1)).await.map(|_| ()) });
    let call = server.next().await;
    server.send(&call.reply().failed(&fault(ErrorCode::NO_STORAGE_VOL, "gone"))).await;
    assert_eq!(opening.await.unwrap().unwrap_err().code(), Some(ErrorCode::NO_STORAGE_VOL));
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn more_than_was_asked_for_is_an_error_and_the_stream_is_given_up() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, Some(4))).await;
    server.send(&call.stream(CONTINUE, b"fiver")).await;
    let error = download.chunk().await.unwrap_err();
    assert_eq!(*why(&error), StreamError::Excess { asked: 4 });
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    assert_eq!(*why(&download.chunk().await.unwrap_err()), StreamError::Over);
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn a_hole_that_nobody_asked_for_is_an_error_and_the_stream_is_given_up() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let hole = Packet { kind: HOLE, status: CONTINUE, ..call.reply() }.with(&(1_u64 << 40, 0_u32));
    server.send(&hole).await;
    assert_eq!(*why(&download.chunk().await.unwrap_err()), StreamError::Hole);
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_makes_the_server_wait_and_loses_nothing() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let sending = tokio::spawn(async move {
        let mut sent = 0_u32;
        // 20 MB: far more than may wait.
        while sent < 200 {
            let chunk = vec![sent.to_le_bytes()[0]; 100_000];
            if timeout(Duration::from_secs(1), server.send(&call.stream(CONTINUE, &chunk))).await.is_err() {
                return Err(sent);
            }
            sent += 1;
        }
        server.send(&call.stream(CONTINUE, b"")).await;
        server.next().await;
        server.send(&call.stream(OK, b"")).await;
        Ok(sent)
    });
    let mut chunks = 0_u32;
    while let Some(chunk) = download.chunk().await.unwrap() {
        assert!(chunk.iter().all(|&byte| byte == chunks.to_le_bytes()[0]));
        chunks += 1;
        // Slow, but within the server's patience of a second.
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((chunks, sending.await.unwrap()), (200, Ok(200)));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stands_still_holds_the_others_up_for_a_bounded_time() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let waiting = lookup(&libvirt, "other");
    let other = server.next().await;
    let start = Instant::now();
    // Takes as much as it is let, and then the answer to the other call.
    for _ in 0..200 {
        server.send(&call.stream(CONTINUE, &[7; 100_000])).await;
    }
    server.send(&other.reply().with(&domain("other"))).await;
    assert!(waiting.await.unwrap().is_ok());
    assert_eq!(start.elapsed().as_secs(), 10, "as long as the options say");
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    let error = download.chunk().await.unwrap_err();
    assert_eq!(*why(&error), StreamError::Stalled { waited: Duration::from_secs(10) });
    assert!(libvirt.cause().is_none(), "and the pause is no silence of the server");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tiny_chunks_is_bounded_like_one_of_large_ones() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (_download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let one = call.stream(CONTINUE, b"x").bytes();
    let thousand = one.repeat(1000);
    let mut sent = 0;
    while timeout(Duration::from_secs(1), server.raw(&thousand)).await.is_ok() {
        sent += 1;
    }
    // A megabyte with what each chunk costs, and what is in the pipe.
    assert!(sent < 22, "{sent} thousand were taken");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_goes_while_its_buffer_is_full_frees_the_others_at_once() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    for _ in 0..11 {
        server.send(&call.stream(CONTINUE, &[7; 100_000])).await;
    }
    settle().await;
    let start = Instant::now();
    drop(download);
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    others_go_on(&libvirt, &mut server).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn data_where_none_may_come_ends_the_connection() {
    // Into an upload; after the end of a download; for a call that opens no stream.
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    server.send(&call.stream(CONTINUE, b"data")).await;
    let cause = libvirt.closed().await;
    assert!(matches!(*cause, Cause::Violation(Violation::Data { .. })), "{cause}");
    drop(upload);

    let (libvirt, mut server) = Server::open().await;
    let (download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    server.send(&call.stream(CONTINUE, b"")).await;
    server.send(&call.stream(CONTINUE, b"data")).await;
    let cause = libvirt.closed().await;
    assert!(matches!(*cause, Cause::Violation(Violation::Data { .. })), "{cause}");
    drop(download);

    let (libvirt, mut server) = Server::open().await;
    let call = lookup(&libvirt, "a");
    let packet = server.next().await;
    server.send(&packet.stream(CONTINUE, b"data")).await;
    let cause = libvirt.closed().await;
    assert!(matches!(*cause, Cause::Violation(Violation::NoStream { .. })), "{cause}");
    assert!(call.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_a_stream_by_itself_is_not_believed() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    server.send(&call.stream(OK, b"")).await;
    settle().await;
    assert_eq!(*why(&upload.write(b"data").await.unwrap_err()), StreamError::Ended);
    assert_eq!(*why(&upload.finish().await.unwrap_err()), StreamError::Ended);
    others_go_on(&libvirt, &mut server).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_in_the_middle_of_streams_ends_them_with_its_cause() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, _) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    let (mut download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let uploading = tokio::spawn(async move { upload.write(&[7; 20_000_000]).await });
    server.send(&call.stream(CONTINUE, b"before")).await;
    settle().await;
    drop(server);
    let error = uploading.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Closed { call: "virStorageVolUpload", sent: true, .. }), "{error}");
    assert_eq!(download.chunk().await.unwrap().unwrap(), "before", "what came is not lost");
    let error = download.chunk().await.unwrap_err();
    assert!(matches!(error, Error::Closed { call: "virStorageVolDownload", .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn giving_up_waits_until_the_server_has_let_go() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (download, call) = server.stream(libvirt.storage_vol_download(&vol, 0, None)).await;
    let aborting = tokio::spawn(download.abort());
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    server.send(&call.stream(CONTINUE, b"on its way")).await;
    settle().await;
    assert!(!aborting.is_finished());
    server.send(&call.stream(OK, b"")).await;
    aborting.await.unwrap();
    assert!(server.silent().await);
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_an_upload_is_given_up_is_not_sent() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    let _ = timeout(Duration::from_millis(1), upload.write(&[7; 20_000_000])).await;
    let aborting = tokio::spawn(upload.abort());
    settle().await;
    assert_eq!(server.next().await.status, CONTINUE, "this was being written");
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    server.send(&call.stream(OK, b"")).await;
    aborting.await.unwrap();
    assert!(server.silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_finish_that_is_dropped_gives_up_only_what_was_not_sent() {
    let (libvirt, mut server) = Server::open().await;
    let vol = vol();
    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    upload.write(b"data").await.unwrap();
    assert!(timeout(Duration::from_secs(1), upload.finish()).await.is_err());
    assert_eq!(server.next().await, call.stream(CONTINUE, b"data"));
    assert_eq!(server.next().await, call.stream(OK, b""));
    assert!(server.silent().await, "it was complete, and the server is about to confirm it");

    let (mut upload, call) = server.stream(libvirt.storage_vol_upload(&vol, 0, None)).await;
    // Fits into the queue, but not into the pipe.
    upload.write(&[7; 500_000]).await.unwrap();
    assert!(timeout(Duration::from_secs(1), upload.finish()).await.is_err());
    let mut last = server.next().await;
    while last.status == CONTINUE {
        last = server.next().await;
    }
    assert_eq!(last, call.stream(ERROR, b""), "it was not complete");
}

#[tokio::test(start_paused = true)]
async fn a_console_goes_both_ways() {
    let (libvirt, mut server) = Server::open().await;
    let guest = domain("guest");
    let opening = libvirt.domain_open_console(&guest, None, libvirt_remote::ConsoleFlags::NONE);
    let (console, call) = server.stream(opening).await;
    console.write(b"root\n").await.unwrap();
    assert_eq!(server.next().await, call.stream(CONTINUE, b"root\n"));
    server.send(&call.stream(CONTINUE, b"Password:")).await;
    assert_eq!(console.read().await.unwrap().unwrap(), "Password:");
    server.send(&call.stream(CONTINUE, b"")).await;
    assert_eq!(console.read().await.unwrap(), None);
    let closing = tokio::spawn(console.close());
    assert_eq!(server.next().await, call.stream(ERROR, b""));
    server.send(&call.stream(OK, b"")).await;
    closing.await.unwrap();
}
