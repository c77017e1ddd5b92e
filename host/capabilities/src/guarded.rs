//! A byte stream on which nothing leaves this process unless it may write.
//!
//! It stands beneath encryption, right before each call of the system: what is queued above it waits for the
//! same question. What is refused ends the connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use egress_runtime::capability::Writes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) struct Guarded<T> {
    pub(crate) inner: T,
    pub(crate) writes: Arc<dyn Writes>,
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
        self.writes.may_begin().map_err(io::Error::other)?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    /// A socket keeps nothing back that this would send.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
