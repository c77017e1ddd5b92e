//! The one task that touches the bytes.
//!
//! Callers hold a handle and wait; whoever stops waiting leaves no half packet behind. Reading never waits
//! for writing, or two full pipes would stand still for ever; it waits for nobody else either, except, for a
//! bounded time, for a stream's reader whose buffer is full.

use std::{
    future::{pending, poll_fn},
    io::IoSlice,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, Semaphore},
    time::{Instant, sleep, timeout},
};

use crate::{
    book::Book,
    connection::{Keepalive, Options},
    error::{Cause, StreamError},
    packet::{self, Front},
};

/// Small packets are written together, up to about so many bytes.
const BATCH: usize = 64 * 1024;

/// What is read at once. A packet's memory grows in such steps, with the bytes that really came.
const READ: (usize, usize) = (16 * 1024, 256 * 1024);

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the owner and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    book: Mutex<Book>,
    pub(crate) options: Options,
    /// Bounds the calls in flight. Never closed: when the connection ends, each gives its permit back, and the
    /// next finds out by itself.
    pub(crate) in_flight: Semaphore,
    /// There is something to write.
    pub(crate) work: Notify,
    /// A stream's reader took something.
    pub(crate) room: Notify,
    /// The connection has ended.
    pub(crate) over: Notify,
    born: Instant,
    /// Microseconds from birth to the last sign of life.
    heard: AtomicU64,
    /// Reading waits for a stream's reader, so silence means nothing.
    paused: AtomicBool,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            book: Mutex::new(Book::new()),
            in_flight: Semaphore::new(options.calls_in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            options,
            work: Notify::new(),
            room: Notify::new(),
            over: Notify::new(),
            born: Instant::now(),
            heard: AtomicU64::new(0),
            paused: AtomicBool::new(false),
        }
    }

    /// Held for moments only, never across an await. A panic elsewhere leaves nothing half done here.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self, cause: Cause) {
        self.book().close(Arc::new(cause));
        self.over.notify_waiters();
    }

    pub(crate) fn give_up(&self, serial: u32) {
        let given_up = self.book().give_up(serial);
        self.work.notify_one();
        self.room.notify_one();
        if let Err(violation) = given_up {
            self.close(violation.into());
        }
    }

    /// Gives a stream up, but keeps it until the server has confirmed it.
    pub(crate) fn abort(&self, stream: u32) {
        self.book().abort(stream);
        self.work.notify_one();
        self.room.notify_one();
    }

    /// Until the connection has ended.
    pub(crate) async fn ended(&self) -> Arc<Cause> {
        loop {
            let over = self.over.notified();
            if let Some(cause) = self.book().closed() {
                return cause;
            }
            over.await;
        }
    }

    fn hear(&self) {
        let micros = u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard.store(micros, Relaxed);
    }

    fn last_heard(&self) -> Instant {
        self.born + Duration::from_micros(self.heard.load(Relaxed))
    }
}

/// Serves a connection until it ends.
pub(crate) async fn own<T: AsyncRead + AsyncWrite>(io: T, shared: Arc<Shared>) {
    /// If the runtime drops this task, nobody may wait for ever.
    struct Stopped(Arc<Shared>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            self.0.close(Cause::Stopped);
        }
    }
    let stopped = Stopped(shared);
    let shared = &*stopped.0;
    let (reader, writer) = tokio::io::split(io);
    let cause = tokio::select! {
        _ = shared.ended() => return,
        cause = read(reader, shared) => cause,
        cause = write(writer, shared) => cause,
        cause = watch(shared) => cause,
    };
    shared.close(cause);
}

async fn read(mut io: impl AsyncRead + Unpin, shared: &Shared) -> Cause {
    let mut bytes = BytesMut::with_capacity(READ.0);
    loop {
        let lacks = match packet::take(&mut bytes, shared.options.max_packet) {
            Ok(Front::Packet(header, payload)) => {
                let (received, urgent) = {
                    let mut book = shared.book();
                    (book.receive(header, payload), book.urgent())
                };
                if urgent {
                    shared.work.notify_one();
                }
                match received {
                    Ok(None) => {}
                    Ok(Some(stream)) => make_room(stream, shared).await,
                    Err(violation) => return violation.into(),
                }
                continue;
            }
            Ok(Front::Lacks(lacks)) => lacks,
            Err(violation) => return violation.into(),
        };
        bytes.reserve(lacks.clamp(READ.0, READ.1));
        match io.read_buf(&mut bytes).await {
            Ok(0) => return Cause::Eof { within_packet: !bytes.is_empty() },
            Ok(_) => shared.hear(),
            Err(error) => return error.into(),
        }
    }
}

/// Waits until a stream's reader has caught up, or gives the stream up.
async fn make_room(stream: u32, shared: &Shared) {
    while shared.book().held(stream) > shared.options.stream_buffer {
        shared.paused.store(true, Relaxed);
        let waited = shared.options.stream_patience;
        if timeout(waited, shared.room.notified()).await.is_err() {
            shared.book().break_off(stream, StreamError::Stalled { waited });
            shared.work.notify_one();
        }
    }
    if shared.paused.swap(false, Relaxed) {
        shared.hear();
    }
}

async fn write(mut io: impl AsyncWrite + Unpin, shared: &Shared) -> Cause {
    let mut batch = BytesMut::with_capacity(BATCH);
    loop {
        let work = shared.work.notified();
        let large = fill(&mut batch, shared);
        let left = shared.book().left();
        if !batch.is_empty() || large.is_some() {
            let mut packets = (&mut batch).chain(large.unwrap_or_default());
            let written = async {
                write_all(&mut io, &mut packets, shared).await?;
                io.flush().await
            };
            if let Err(error) = written.await {
                return error.into();
            }
        } else if left {
            // The server answers a farewell by closing, which ends the reading side first.
            sleep(FAREWELL).await;
            return Cause::Local;
        } else {
            work.await;
        }
    }
}

/// Collects packets until one has a large payload, which ends the batch, and is not copied into it.
fn fill(batch: &mut BytesMut, shared: &Shared) -> Option<Bytes> {
    let mut book = shared.book();
    while batch.len() < BATCH {
        let packet = book.next_packet()?;
        batch.extend_from_slice(&packet.head());
        if packet.payload.len() > BATCH / 2 {
            return Some(packet.payload);
        }
        batch.extend_from_slice(&packet.payload);
    }
    None
}

/// A write that had to wait and then went on shows that the other end is alive: pings may be far back in the
/// pipe while a slow link takes an upload.
async fn write_all(
    io: &mut (impl AsyncWrite + Unpin),
    bytes: &mut impl Buf,
    shared: &Shared,
) -> std::io::Result<()> {
    while bytes.has_remaining() {
        let mut waited = false;
        let written = poll_fn(|context| {
            let mut slices = [IoSlice::new(&[]); 2];
            let filled = bytes.chunks_vectored(&mut slices);
            let slices = slices.get(..filled).unwrap_or_default();
            let polled = Pin::new(&mut *io).poll_write_vectored(context, slices);
            waited |= polled.is_pending();
            match polled {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Poll::Ready(other) => Poll::Ready(other),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        bytes.advance(written);
        if waited {
            shared.hear();
        }
    }
    Ok(())
}

/// Pings a server that is silent, and gives up one that stays silent.
async fn watch(shared: &Shared) -> Cause {
    let Some(Keepalive { interval, count }) = shared.options.keepalive else { return pending().await };
    let mut last = shared.last_heard();
    let mut pings = 0_u32;
    loop {
        let silence = interval.max(Duration::from_millis(1)).saturating_mul(pings.saturating_add(1));
        sleep(silence.saturating_sub(last.elapsed())).await;
        let heard = if shared.paused.load(Relaxed) { Instant::now() } else { shared.last_heard() };
        if heard != last {
            (last, pings) = (heard, 0);
        } else if pings == count {
            return Cause::Quiet { quiet: last.elapsed() };
        } else {
            pings += 1;
            shared.book().ping();
            shared.work.notify_one();
        }
    }
}
