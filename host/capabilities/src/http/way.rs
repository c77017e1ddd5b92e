//! How a server is reached: directly, or by way of a proxy that forwards what is said to it.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

use egress_runtime::capability::Writes;
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{HeaderValue, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tower::Service;

use crate::connecting::{self, BoxError, Plain};

/// What a proxy may say before the way is open.
const HEAD_BYTES: usize = 8 * 1024;

/// See the module.
#[derive(Clone)]
pub(super) struct Way {
    plain: Plain,
    by: Option<By>,
}

/// A proxy, and who is told to it.
#[derive(Clone)]
pub(super) struct By {
    pub(super) proxy: Uri,
    pub(super) authorization: Option<HeaderValue>,
}

/// The proxy opens no way.
#[derive(Debug, thiserror::Error)]
enum NoWay {
    #[error("the endpoint's proxy {proxy} answers CONNECT with {answer:?}")]
    Refused { proxy: String, answer: String },
    #[error("the endpoint's proxy {proxy} does not answer CONNECT as HTTP has it")]
    Garbled { proxy: String },
    #[error("the endpoint's proxy {proxy}: {cause}")]
    Broken { proxy: String, cause: io::Error },
}

impl Way {
    /// On which nothing leaves unless it may.
    pub(super) fn new(writes: Arc<dyn Writes>, by: Option<By>) -> Self {
        Self { plain: connecting::plain(writes), by }
    }
}

impl Service<Uri> for Way {
    type Response = <Plain as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.plain.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(by) = self.by.clone() else {
            return self.plain.call(uri).map_err(Into::into).boxed();
        };
        let connecting = self.plain.call(by.proxy.clone());
        async move {
            let mut stream = connecting.await?.into_inner();
            by.open(&mut stream, &uri).await?;
            Ok(TokioIo::new(stream))
        }
        .boxed()
    }
}

impl By {
    /// Nothing that the proxy could read is said behind this, where TLS follows.
    async fn open(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin), to: &Uri) -> Result<(), NoWay> {
        let proxy = self.proxy.authority().map(ToString::to_string).unwrap_or_default();
        let broken = |cause| NoWay::Broken { proxy: proxy.clone(), cause };
        stream.write_all(&self.question(to)).await.map_err(broken)?;
        let mut head = Vec::new();
        // Byte by byte: what comes behind is the server's.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == HEAD_BYTES {
                return Err(NoWay::Garbled { proxy });
            }
            head.push(stream.read_u8().await.map_err(broken)?);
        }
        let head = String::from_utf8_lossy(&head);
        let line = head.lines().next().unwrap_or_default();
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("HTTP/1.1" | "HTTP/1.0"), Some(status)) if status.starts_with('2') => Ok(()),
            (Some(version), Some(_)) if version.starts_with("HTTP/") => {
                let answer = line.split_once(' ').map(|(_, answer)| answer).unwrap_or_default();
                Err(NoWay::Refused { proxy, answer: answer.chars().take(200).collect() })
            }
            _ => Err(NoWay::Garbled { proxy }),
        }
    }

    fn question(&self, to: &Uri) -> Vec<u8> {
        let port = to.port_u16().unwrap_or(if to.scheme_str() == Some("http") { 80 } else { 443 });
        let server = format!("{}:{port}", to.host().unwrap_or_default());
        let mut question = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            question.extend_from_slice(b"Proxy-Authorization: ");
            question.extend_from_slice(authorization.as_bytes());
            question.extend_from_slice(b"\r\n");
        }
        question.extend_from_slice(b"\r\n");
        question
    }
}
