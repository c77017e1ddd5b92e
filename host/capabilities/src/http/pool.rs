//! Connections to one server: kept between requests, and never more of them open than the endpoint allows. A backend
//! with few workers is not held by connections that wait.
//!
//! What changes something has connections of its own, see [`crate::guarded`]; both kinds share the number.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use rustls::ClientConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;
use tower::{Service, ServiceExt};

use super::way::Way;
use crate::connecting::{Bounded, BoxError};

/// Longer, and something on the way may have forgotten the connection.
const KEPT: Duration = Duration::from_secs(90);
/// What all headers of an answer may take together.
pub(super) const HEADERS_BYTES: usize = 64 * 1024;

type Connector = Bounded<HttpsConnector<Way>>;

/// What goes over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Only what changes nothing.
    Reads,
    /// What changes something.
    Writes,
}

/// See the module.
pub(super) struct Pool {
    server: Uri,
    reads: Connector,
    writes: Connector,
    /// A permit for each connection that is open.
    open: Arc<Semaphore>,
    kept: Mutex<Vec<Connection>>,
}

/// Closed when it is dropped, whatever it was doing.
pub(super) struct Connection {
    carries: Carries,
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
    _task: AbortOnDropHandle<()>,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// There was no connection; nothing was sent.
    Connecting(BoxError),
    /// It broke.
    Exchange(hyper::Error),
}

impl Pool {
    /// Of connections to the server of that URL, each of which takes one of `open` as long as it lives.
    pub(super) fn new(
        server: Uri,
        tls: &ClientConfig,
        (reads, writes): (Way, Way),
        budget: Duration,
        open: Arc<Semaphore>,
    ) -> Self {
        let connector = |way: Way| {
            let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
            Bounded { inner: builder.https_or_http().enable_http1().wrap_connector(way), budget }
        };
        Self { server, reads: connector(reads), writes: connector(writes), open, kept: Mutex::default() }
    }

    /// An answer as far as its head; the connection is free again once the body is whole, see [`Self::keep`].
    ///
    /// The request is sent once, and again only where a kept connection turned out to be closed before any of it was
    /// written.
    pub(super) async fn send(
        &self,
        carries: Carries,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), Unanswered> {
        self.address(&mut request);
        loop {
            let (mut connection, was_kept) = match self.take(carries).await {
                Some(kept) => (kept, true),
                None => (self.dial(carries).await?, false),
            };
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if was_kept => request = unsent,
                    _ => return Err(Unanswered::Exchange(failed.into_error())),
                },
            }
        }
    }

    /// As a server is asked: by the path alone, and its name beside it.
    fn address(&self, request: &mut Request<Full<Bytes>>) {
        let named = self.server.authority().and_then(|name| HeaderValue::from_str(name.as_str()).ok());
        if let Some(named) = named {
            request.headers_mut().insert(header::HOST, named);
        }
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
    }

    /// For the next request. Only after the whole answer was read.
    pub(super) fn keep(&self, connection: Connection) {
        if !connection.sender.is_closed() {
            self.kept().push(Connection { since: Instant::now(), ..connection });
        }
    }

    /// The one that was used last and still stands.
    async fn take(&self, carries: Carries) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut kept = self.kept();
                kept.retain(|kept| kept.since.elapsed() < KEPT);
                let at = kept.iter().rposition(|kept| kept.carries == carries)?;
                kept.remove(at)
            };
            if connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn dial(&self, carries: Carries) -> Result<Connection, Unanswered> {
        let open = self.permit().await?;
        let mut connector = match carries {
            Carries::Reads => self.reads.clone(),
            Carries::Writes => self.writes.clone(),
        };
        let connector = connector.ready().await.map_err(Unanswered::Connecting)?;
        let stream = connector.call(self.server.clone()).await.map_err(Unanswered::Connecting)?;
        let handshake = http1::Builder::new().max_buf_size(HEADERS_BYTES).handshake(stream);
        let (sender, connection) = handshake.await.map_err(Unanswered::Exchange)?;
        let task = tokio::spawn(async move {
            // What it ended with is told to whoever waits for an answer.
            let _ = connection.await;
            drop(open);
        });
        Ok(Connection { carries, sender, since: Instant::now(), _task: AbortOnDropHandle::new(task) })
    }

    /// A connection that waits is closed in favour of this one. There is one where permits are out: fewer requests
    /// run than there are permits, so not all of them are in use.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Unanswered> {
        if let Ok(permit) = Arc::clone(&self.open).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = {
            let mut kept = self.kept();
            if kept.is_empty() { None } else { Some(kept.remove(0)) }
        };
        drop(waiting);
        let permit = Arc::clone(&self.open).acquire_owned().await;
        permit.map_err(|closed| Unanswered::Connecting(closed.into()))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
