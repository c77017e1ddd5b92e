//! Connections on which nothing leaves this process unless it may write.
//!
//! A request is handed to its connection, and the connection writes it when it comes to it: a process that stands
//! still in between goes on with the request, whatever was asked before. So the question is asked here as well,
//! beneath encryption and right before each call of the system. What is refused ends the connection; of a request
//! that had begun the server has a part at most, and executes none of it.
//!
//! What changes something has connections of its own, so that no byte's meaning has to be known. Over HTTP all of
//! them speak HTTP/1.1: one request at a time.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use egress_runtime::capability::Writes;
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower::Service;

/// See the module.
pub(crate) struct Guarded<T> {
    pub(crate) inner: T,
    pub(crate) writes: Arc<dyn Writes>,
}

impl<T> Guarded<T> {
    fn ask(&self) -> io::Result<()> {
        self.writes.may_begin().map_err(io::Error::other)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// A socket keeps nothing back that this would send.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<T: Connection> Connection for Guarded<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

/// Makes such connections out of another connector's, for HTTP.
#[derive(Clone)]
pub(crate) struct Connector<C> {
    pub(crate) inner: C,
    pub(crate) writes: Arc<dyn Writes>,
}

impl<C, T> Service<Uri> for Connector<C>
where
    C: Service<Uri, Response = TokioIo<T>>,
    C::Future: Send + 'static,
{
    type Response = TokioIo<Guarded<T>>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let writes = Arc::clone(&self.writes);
        let guarded = |stream: TokioIo<T>| TokioIo::new(Guarded { inner: stream.into_inner(), writes });
        self.inner.call(uri).map_ok(guarded).boxed()
    }
}
