//! A connection: opened over any byte stream, held by many.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};

use crate::{
    book::{Answer, Statistics},
    error::{Cause, Error},
    flow::Direction,
    host::AuthMethod,
    owner::{self, Shared},
    packet::{MAX_PACKET, PREFIX},
    procedure::{self, Procedure},
    stream::Stream,
    xdr::{Decode, Decoder, Encode, EncodeError, Encoder},
};

/// The protocol's limit on kinds of authentication.
const MAX_AUTH_METHODS: usize = 20;

/// How a connection is kept. The defaults suit a server behind an SSH tunnel.
#[derive(Debug, Clone)]
pub struct Options {
    /// Ask for a connection that can change nothing.
    pub read_only: bool,
    /// When to take a silent server for dead; `None` leaves that to the transport. Pings of the server are
    /// answered in any case.
    pub keepalive: Option<Keepalive>,
    /// Calls that may wait for an answer at once; more wait for their turn. A daemon takes 5 at a time by default,
    /// so many more gain nothing.
    pub calls_in_flight: usize,
    /// The largest packet that is taken: at least 4 MiB, which one text may have, and at most 32, which libvirt
    /// sends. With `calls_in_flight` it bounds the memory that a server can fill.
    pub max_packet: usize,
    /// Bytes of one stream that may wait for their reader before reading from the connection pauses.
    pub stream_buffer: usize,
    /// How long reading may pause for one stream before that stream is given up.
    pub stream_patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            keepalive: Some(Keepalive::default()),
            calls_in_flight: 64,
            max_packet: 8 * 1024 * 1024,
            stream_buffer: 1024 * 1024,
            stream_patience: Duration::from_secs(10),
        }
    }
}

/// When a silent server is pinged and given up: after `interval * (count + 1)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Of silence before a ping, and between pings.
    pub interval: Duration,
    /// Pings before it is given up.
    pub count: u32,
}

impl Default for Keepalive {
    /// Half a minute, as libvirt's own client.
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), count: 5 }
    }
}

/// A connection to a libvirt daemon.
///
/// Cheap to clone: all clones share one byte stream, over which any number of calls go at once. Dropping a
/// call's future gives that call up and harms no other. When the connection ends, all that wait fail at once
/// with the same cause, and so does every later call; whoever needs another opens it.
///
/// When the last clone and the last stream are gone, the connection says farewell and closes.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.book().leave();
        self.0.work.notify_one();
    }
}

impl Connection {
    /// Opens a connection to the driver that `uri` names, such as `qemu:///system`, at the daemon behind
    /// `io`.
    ///
    /// Spawns a task on the current Tokio runtime.
    pub async fn open<T>(io: T, uri: &str) -> Result<Self, Error>
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::open_with(io, uri, Options::default()).await
    }

    /// [`Connection::open`] with other options.
    pub async fn open_with<T>(io: T, uri: &str, options: Options) -> Result<Self, Error>
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let read_only = u32::from(options.read_only);
        let shared = Arc::new(Shared::new(options));
        tokio::spawn(owner::own(io, shared.clone()));
        let connection = Self(Arc::new(Handle(shared)));
        let offered = connection.auth_list().await?;
        if !offered.contains(&AuthMethod::None) {
            return Err(Error::Authentication { offered });
        }
        let () = connection.call(procedure::CONNECT_OPEN, &(Some(uri), read_only)).await?;
        Ok(connection)
    }

    async fn auth_list(&self) -> Result<Vec<AuthMethod>, Error> {
        struct Methods(Vec<AuthMethod>);
        impl Decode for Methods {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, crate::xdr::DecodeError> {
                from.list(MAX_AUTH_METHODS).map(Self)
            }
        }
        self.call(procedure::AUTH_LIST, &()).await.map(|Methods(methods)| methods)
    }

    /// Closes the connection for all who hold it, after telling the server.
    ///
    /// Returns when the server has answered or is gone; a caller that does not want to wait drops the
    /// connection instead.
    pub async fn close(&self) {
        // Whatever it answers, this is the end.
        let _: Result<(), _> = self.call(procedure::CONNECT_CLOSE, &()).await;
        self.shared().close(Cause::Local);
    }

    /// Waits until the connection has ended, and tells why.
    pub async fn closed(&self) -> Arc<Cause> {
        self.shared().ended().await
    }

    /// Why the connection has ended; `None` while it lives, as far as is known.
    pub fn cause(&self) -> Option<Arc<Cause>> {
        self.shared().book().closed()
    }

    /// What it has seen besides answers.
    pub fn statistics(&self) -> Statistics {
        self.shared().book().statistics()
    }

    /// Calls any procedure that opens no stream. The methods beside this one are made of it.
    pub async fn call<R: Decode>(
        &self,
        procedure: Procedure,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<R, Error> {
        let payload = match self.exchange(procedure, encode(procedure, arguments)?, None).await? {
            (_, Answer::Reply(payload)) => payload,
            // Only a call that opens a stream is answered so.
            (_, Answer::Opened) => Bytes::new(),
        };
        Decoder::whole(&payload).map_err(|why| Error::Answer { call: procedure.name(), why })
    }

    pub(crate) async fn open_stream(
        &self,
        procedure: Procedure,
        arguments: &impl Encode,
        direction: Direction,
    ) -> Result<Stream, Error> {
        let arguments = encode(procedure, arguments)?;
        let (serial, _) = self.exchange(procedure, arguments, Some(direction)).await?;
        Ok(Stream::new(self.clone(), procedure, serial))
    }

    async fn exchange(
        &self,
        procedure: Procedure,
        arguments: Bytes,
        opens: Option<Direction>,
    ) -> Result<(u32, Answer), Error> {
        let shared = self.shared();
        let Ok(_permit) = shared.in_flight.acquire().await else { return Err(self.not_sent(procedure)) };
        let (serial, answer) = shared.book().begin(procedure, arguments, opens)?;
        shared.work.notify_one();
        let mut pending = Pending { shared, serial, answer, answered: false };
        let answer = (&mut pending.answer).await;
        pending.answered = true;
        // A book that drops a waiter without a word does not exist, but nobody may panic over it.
        answer.unwrap_or_else(|_| Err(self.not_sent(procedure))).map(|answer| (serial, answer))
    }

    fn not_sent(&self, procedure: Procedure) -> Error {
        let cause = self.cause().unwrap_or_else(|| Arc::new(Cause::Stopped));
        Error::Closed { call: procedure.name(), cause, sent: false }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.0
    }
}

fn encode(procedure: Procedure, arguments: &(impl Encode + ?Sized)) -> Result<Bytes, Error> {
    const MAX: usize = MAX_PACKET - PREFIX;
    let mut to = Encoder::new();
    arguments
        .encode(&mut to)
        .and_then(|()| match to.len() {
            length if length > MAX => Err(EncodeError::TooLong { length, max: MAX }),
            _ => Ok(()),
        })
        .map_err(|why| Error::Argument { call: procedure.name(), why })?;
    Ok(to.finish())
}

/// A call whose caller may walk away.
struct Pending<'a> {
    shared: &'a Shared,
    serial: u32,
    answer: oneshot::Receiver<Result<Answer, Error>>,
    answered: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.give_up(self.serial);
        }
    }
}
