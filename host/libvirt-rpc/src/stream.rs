//! Streams: a volume's content in either direction, and a guest's console.
//!
//! A stream shares the connection with calls. One that is dropped before its end is given up, and the server
//! is told so.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    connection::Connection,
    error::{Error, StreamError},
    flow::Next,
    packet::{Header, STREAM_CHUNK, Status},
    procedure::Procedure,
};

/// What all streams have in common.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Connection,
    procedure: Procedure,
    serial: u32,
    wake: Arc<Notify>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.shared().give_up(self.serial);
    }
}

impl Stream {
    pub(crate) fn new(connection: Connection, procedure: Procedure, serial: u32) -> Self {
        let wake = connection.shared().book().wake(serial).unwrap_or_default();
        Self { connection, procedure, serial, wake }
    }

    fn error(&self, why: StreamError) -> Error {
        Error::Stream { call: self.procedure.name(), why }
    }

    /// Tries again whenever the stream has changed, until there is a result.
    async fn until<R>(
        &self,
        mut attempt: impl FnMut(&mut crate::flow::Flow) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let shared = self.connection.shared();
        loop {
            let woken = self.wake.notified();
            let attempted = shared.book().with_flow(self.serial, &mut attempt);
            let Some((attempted, work)) = attempted else { return Err(self.error(StreamError::Over)) };
            if work {
                shared.work.notify_one();
            }
            match attempted? {
                Some(result) => return Ok(result),
                None => woken.await,
            }
        }
    }

    /// Queues one chunk, when there is room for it.
    async fn send(&self, chunk: Bytes) -> Result<(), Error> {
        let packet = Header::stream(&self.procedure, self.serial, Status::Continue).with(chunk);
        self.until(|flow| flow.offer(&packet).map(|queued| queued.then_some(()))).await
    }

    async fn receive(&self) -> Result<Option<Bytes>, Error> {
        let next = self
            .until(|flow| {
                flow.next().map(|next| match next {
                    Next::Chunk(chunk) => Some(Some(chunk)),
                    Next::End => Some(None),
                    Next::Wait => None,
                })
            })
            .await;
        self.connection.shared().room.notify_one();
        next
    }

    async fn finish(&self) -> Result<(), Error> {
        self.until(|flow| flow.finish().map(|confirmed| confirmed.then_some(()))).await
    }

    /// Gives it up, and waits until the server has let go of it.
    async fn abort(self) {
        self.connection.shared().abort(self.serial);
        // An error says that it is over, too.
        let _: Result<(), _> = self.until(|flow| Ok(flow.confirmed().then_some(()))).await;
    }
}

/// A volume that is being filled.
///
/// Bytes are counted: exactly what was declared must be written, no more, no less. libvirt would take less as
/// a complete upload, and some servers hang on more.
#[derive(Debug)]
#[must_use = "an upload that is dropped is given up"]
pub struct Upload {
    stream: Stream,
    declared: Option<u64>,
    sent: u64,
}

impl Upload {
    pub(crate) fn new(stream: Stream, declared: Option<u64>) -> Self {
        Self { stream, declared, sent: 0 }
    }

    /// Bytes that were handed over so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes all of `data`; waits while the server takes no more. If the server refuses, this or a later call
    /// tells why.
    ///
    /// A write that is dropped half-way may have sent a part: [`Upload::sent`] tells which.
    pub async fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        self.expect(data.len())?;
        for chunk in data.chunks(STREAM_CHUNK) {
            self.send(Bytes::copy_from_slice(chunk)).await?;
        }
        Ok(())
    }

    /// [`Upload::write`] without a copy.
    pub async fn write_bytes(&mut self, mut data: Bytes) -> Result<(), Error> {
        self.expect(data.len())?;
        while !data.is_empty() {
            self.send(data.split_to(data.len().min(STREAM_CHUNK))).await?;
        }
        Ok(())
    }

    /// That so many more bytes may be sent.
    fn expect(&self, more: usize) -> Result<(), Error> {
        let given = self.sent.saturating_add(count(more));
        match self.declared {
            Some(declared) if given > declared => {
                Err(self.stream.error(StreamError::Overrun { declared, given }))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn send(&mut self, chunk: Bytes) -> Result<(), Error> {
        let length = count(chunk.len());
        self.stream.send(chunk).await?;
        self.sent = self.sent.saturating_add(length);
        Ok(())
    }

    /// Says that this is all, waits until the server has confirmed it, and answers the number of bytes.
    pub async fn finish(self) -> Result<u64, Error> {
        if let Some(declared) = self.declared.filter(|&declared| declared != self.sent) {
            let error = self.stream.error(StreamError::Underrun { declared, sent: self.sent });
            self.stream.abort().await;
            return Err(error);
        }
        self.stream.finish().await?;
        Ok(self.sent)
    }

    /// Gives it up, and waits until the server has let go of the volume. What was written stays in it.
    pub async fn abort(self) {
        self.stream.abort().await;
    }
}

/// A volume that is being read.
///
/// libvirt sends as fast as the connection takes it. While chunks wait here beyond
/// [`Options::stream_buffer`](crate::Options::stream_buffer), reading from the connection pauses, for other
/// calls too: a large download that may be read slowly deserves a connection of its own.
#[derive(Debug)]
#[must_use = "a download that is dropped is given up"]
pub struct Download {
    stream: Stream,
    asked: Option<u64>,
    received: u64,
}

impl Download {
    pub(crate) fn new(stream: Stream, asked: Option<u64>) -> Self {
        Self { stream, asked, received: 0 }
    }

    /// Bytes that were received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; `None` at the end, once the server has confirmed that it is one.
    ///
    /// Dropping this future loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(chunk) = self.stream.receive().await? else {
            self.stream.finish().await?;
            return Ok(None);
        };
        self.received = self.received.saturating_add(count(chunk.len()));
        if let Some(asked) = self.asked.filter(|&asked| self.received > asked) {
            self.stream.connection.shared().abort(self.stream.serial);
            return Err(self.stream.error(StreamError::Excess { asked }));
        }
        Ok(Some(chunk))
    }

    /// Gives it up, and waits until the server has let go of the volume.
    pub async fn abort(self) {
        self.stream.abort().await;
    }
}

/// A guest's console, both ways.
#[derive(Debug)]
#[must_use = "a console that is dropped is closed"]
pub struct Console {
    stream: Stream,
}

impl Console {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream }
    }

    /// What the guest wrote; `None` when it is off. Dropping this future loses nothing.
    pub async fn read(&self) -> Result<Option<Bytes>, Error> {
        self.stream.receive().await
    }

    /// Types `data`.
    pub async fn write(&self, data: &[u8]) -> Result<(), Error> {
        for chunk in data.chunks(STREAM_CHUNK) {
            self.stream.send(Bytes::copy_from_slice(chunk)).await?;
        }
        Ok(())
    }

    /// Closes it, and waits until the server has let go of it.
    pub async fn close(self) {
        self.stream.abort().await;
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
