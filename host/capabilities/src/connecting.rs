//! How a server is reached over HTTP, and why it was not: by types, not by words.

use std::{
    error::Error as StdError,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use egress_runtime::capability::Writes;
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::Uri;
use hyper_util::client::legacy::connect::{
    HttpConnector,
    dns::{GaiResolver, Name},
};
use tower::Service;

use crate::guarded;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;
/// What TLS is spoken over.
pub(crate) type Plain = guarded::Connector<HttpConnector<Resolver>>;

/// On which nothing leaves unless it may.
pub(crate) fn plain(writes: Arc<dyn Writes>) -> Plain {
    let mut http = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(Duration::from_secs(30)));
    guarded::Connector { inner: http, writes }
}

/// Why a request has no answer.
pub(crate) enum Broken {
    /// The server's name does not resolve.
    Name(String),
    /// No trust; whether the request may have been sent.
    Tls(String, bool),
    /// No connection within its time.
    Late(String),
    /// No connection.
    Connect(String),
    /// The connection broke before the answer was whole.
    Cut(String),
}

impl Broken {
    /// What an exchange by hyper-util's client ended with.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Self {
        let connecting = find::<hyper_util::client::legacy::Error>(error).is_some_and(|e| e.is_connect());
        Self::when(connecting, error)
    }

    /// What happened while there was no connection yet, or over one.
    pub(crate) fn when(connecting: bool, error: &(dyn StdError + 'static)) -> Self {
        if let Some(no_name) = find::<NoName>(error) {
            return Self::Name(no_name.to_string());
        }
        if let Some(tls) = find::<rustls::Error>(error) {
            return Self::Tls(format!("TLS: {tls}"), !connecting);
        }
        if let Some(late) = find::<NoConnection>(error) {
            return Self::Late(late.to_string());
        }
        let cause = innermost(error);
        match connecting {
            true => Self::Connect(format!("no connection: {cause}")),
            false => Self::Cut(format!("the connection broke before the answer was whole: {cause}")),
        }
    }
}

/// The server's name does not resolve.
#[derive(Debug, thiserror::Error)]
#[error("the name {name} does not resolve: {cause}")]
pub(crate) struct NoName {
    name: String,
    cause: std::io::Error,
}

/// No connection, TLS included, in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {} ms", budget.as_millis())]
struct NoConnection {
    budget: Duration,
}

/// The system's resolver, with an error of its own.
#[derive(Clone)]
pub(crate) struct Resolver(GaiResolver);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = NoName;
    type Future = BoxFuture<'static, Result<Self::Response, NoName>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoName>> {
        Poll::Ready(Ok(())) // as the resolver beneath says
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let text = name.as_str().to_owned();
        self.0
            .call(name)
            .map_ok(|found| found.collect::<Vec<_>>().into_iter())
            .map_err(|cause| NoName { name: text, cause })
            .boxed()
    }
}

/// A connector with a time budget over all of it: a frozen server accepts and then says nothing.
#[derive(Clone)]
pub(crate) struct Bounded<C> {
    pub(crate) inner: C,
    pub(crate) budget: Duration,
}

impl<C> Service<Uri> for Bounded<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let budget = self.budget;
        Box::pin(async move {
            match tokio::time::timeout(budget, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(NoConnection { budget }.into()),
            }
        })
    }
}

/// The first error of a type in a chain; `io::Error` hides what it wraps from `source`.
pub(crate) fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    chain(error).last().unwrap_or(error)
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}
