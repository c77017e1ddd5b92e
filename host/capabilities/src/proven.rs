//! Connections on which nothing leaves this process unless it may write.
//!
//! A request is handed to its connection, and the connection writes it when it comes to it: a process that stands
//! still in between goes on with the request, whatever was asked before. So the question is asked here as well,
//! beneath TLS and right before each call of the system. What is refused ends the connection; of a request that
//! had begun the server has a part at most, and executes none of it.
//!
//! Requests that change something have connections of their own, so that no byte's meaning has to be known. All of
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
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::Service;

/// Makes such connections out of another connector's.
#[derive(Clone)]
pub(crate) struct Connector<C> {
    pub(crate) inner: C,
    pub(crate) writes: Arc<dyn Writes>,
}

impl<C> Service<Uri> for Connector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
{
    type Response = Proven<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let writes = Arc::clone(&self.writes);
        self.inner.call(uri).map_ok(|inner| Proven { inner, writes }).boxed()
    }
}

/// See the module.
pub(crate) struct Proven<T> {
    inner: T,
    writes: Arc<dyn Writes>,
}

impl<T> Proven<T> {
    fn ask(&self) -> io::Result<()> {
        self.writes.may_begin().map_err(io::Error::other)
    }
}

impl<T: Write + Unpin> Write for Proven<T> {
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

impl<T: Read + Unpin> Read for Proven<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: Connection> Connection for Proven<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}
