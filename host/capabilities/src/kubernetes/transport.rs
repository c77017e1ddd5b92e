//! The connections to one API server.
//!
//! kube's own stack is not used as it comes: it logs every failed call, waits and repeats by default, and
//! names no error so that one could tell a missing name from a refused connection. kube's parts are, for
//! trust, credentials and impersonation.

use std::{
    error::Error as StdError,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{HeaderValue, Uri, header};
use hyper_util::{
    client::legacy::{
        Client as HttpClient,
        connect::{
            HttpConnector,
            dns::{GaiResolver, Name},
        },
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{Service, ServiceBuilder};

type BoxError = Box<dyn StdError + Send + Sync>;

/// More idle connections than calls that run at once are of no use; the rest is closed.
const IDLE_CONNECTIONS: usize = 16;

/// A client of this server, as this identity. Reads credential files, and runs a credential helper where
/// the config names one: not to be called where blocking harms.
pub(super) fn connect(
    mut config: Config,
    connect: Duration,
    agent: &HeaderValue,
) -> Result<Client, kube::Error> {
    config.headers.push((header::USER_AGENT, agent.clone()));
    let mut http = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(Duration::from_secs(30)));
    let connector = Bounded { inner: config.rustls_https_connector_with_connector(http)?, budget: connect };
    // It repeats a request only if the connection was closed before any of it was written: that is no
    // repetition.
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace))
}

/// The server's name does not resolve.
#[derive(Debug, thiserror::Error)]
#[error("the name {name} does not resolve: {cause}")]
pub(super) struct NoName {
    name: String,
    cause: std::io::Error,
}

/// No connection, TLS included, in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {} ms (connectMs of the grant's timeouts)", budget.as_millis())]
pub(super) struct NoConnection {
    budget: Duration,
}

/// The system's resolver, with an error of its own.
#[derive(Clone)]
struct Resolver(GaiResolver);

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
struct Bounded<C> {
    inner: C,
    budget: Duration,
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
