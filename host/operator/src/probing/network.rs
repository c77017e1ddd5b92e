//! Probes over the network.
//!
//! Each asks over a connection of its own, within one deadline for all of it, and reads no more than it needs: whoever
//! answers may be anybody. Nothing is cached on the way: a proxy that answers from its memory has lost its way out
//! unseen.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::answer::Asked;
use crate::core::probe::{Fault, Outcome, Probe};

/// Of an answer's text.
const MOST_TEXT: usize = 4096;
/// Of an answer's head.
const MOST_HEAD: usize = 32 * 1024;
const AGENT: &str = concat!("egress-proxies-operator/", env!("CARGO_PKG_VERSION"));

/// The machine's own network and its trust.
pub struct Network {
    tls: TlsConnector,
}

/// An answer, or why there is none.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

enum Unanswered {
    /// It ended the connection, or said what is no HTTP.
    Broke(hyper::Error),
    Late,
}

impl Network {
    /// Trusts whom the system trusts.
    pub fn new() -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        // A certificate that can't be read is none.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::trusting(roots)
    }

    fn trusting(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let ours = || Arc::new(rustls::crypto::ring::default_provider());
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ours);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Inside a tunnel, or straight to the server: TLS where the URL wants it, and the request in origin form.
    async fn ask_server<S>(&self, stream: S, url: &Uri, until: Instant) -> Result<Answer, Fault>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let what = super::answer::host(url);
        let fault = |unanswered| match unanswered {
            Unanswered::Broke(_) => {
                Fault::new("hung-up", format!("{what} ends the connection without an answer"))
            }
            Unanswered::Late => Fault::new("no-answer", format!("{what} does not answer in time")),
        };
        if url.scheme_str() != Some("https") {
            return ask(stream, request(url, false), until).await.map_err(fault);
        }
        let unnamed = |_| Fault::new("tls", format!("{what} has no name that a certificate can bear"));
        let name = ServerName::try_from(host(url).to_owned()).map_err(unnamed)?;
        match timeout_at(until, self.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => ask(stream, request(url, false), until).await.map_err(fault),
            Ok(Err(error)) => Err(Fault::new("tls", format!("no TLS with {what}: {error}"))),
            Err(_) => Err(fault(Unanswered::Late)),
        }
    }

    async fn tunnel(
        &self,
        asked: Asked<'_>,
        stream: TcpStream,
        until: Instant,
    ) -> Result<Outcome, Unanswered> {
        let Asked { at, url } = asked;
        let target = format!("{}:{}", authority_host(url), port(url));
        let mut ask = bare(&target);
        *ask.method_mut() = Method::CONNECT;
        *ask.uri_mut() = Uri::builder().authority(target.as_str()).build().unwrap_or_default();
        let opened = async {
            let (mut sender, connection) = handshake(stream).await?;
            let connection = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
            let response = sender.send_request(ask).await?;
            Ok::<_, hyper::Error>((response, connection))
        };
        let (response, connection) = match timeout_at(until, opened).await {
            Ok(opened) => opened.map_err(Unanswered::Broke)?,
            Err(_) => return Err(Unanswered::Late),
        };
        if !response.status().is_success() {
            return Ok(asked.no_tunnel(response.status(), response.headers()));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(Unanswered::Broke)?;
        drop(connection.detach());
        Ok(match self.ask_server(TokioIo::new(upgraded), url, until).await {
            Ok(answer) => judge(asked, answer, true),
            Err(Fault { reason, message }) => {
                Outcome::Doubtful(Fault::new(reason, format!("through {at}, {message}")))
            }
        })
    }
}

#[async_trait]
impl Probe for Network {
    async fn connect(&self, at: SocketAddr, within: Duration) -> Outcome {
        match open(at, Instant::now() + within).await {
            Ok(_) => Outcome::Passed(String::new()),
            Err(fault) => Outcome::Broken(fault),
        }
    }

    async fn through(&self, at: SocketAddr, url: &Uri, within: Duration) -> Outcome {
        let (asked, until) = (Asked { at, url }, Instant::now() + within);
        let stream = match open(at, until).await {
            Ok(stream) => stream,
            Err(fault) => return Outcome::Broken(fault),
        };
        let answered = if url.scheme_str() == Some("https") {
            self.tunnel(asked, stream, until).await
        } else {
            ask(stream, request(url, true), until).await.map(|answer| judge(asked, answer, false))
        };
        match answered {
            Ok(outcome) => outcome,
            Err(Unanswered::Broke(error)) if error.is_parse() => {
                Outcome::Broken(Fault::new("no-http", format!("what {at} answers is no HTTP")))
            }
            Err(Unanswered::Broke(_)) => {
                Outcome::Broken(Fault::new("hung-up", format!("{at} ends the connection without an answer")))
            }
            Err(Unanswered::Late) if lives(at, within).await => Outcome::Doubtful(Fault::new(
                "no-answer",
                format!("{at} does not answer a request for {} in time", asked.what()),
            )),
            Err(Unanswered::Late) => Outcome::Broken(Fault::new(
                "hangs",
                format!("{at} takes connections and answers nothing; its Squid hangs"),
            )),
        }
    }

    async fn direct(&self, url: &Uri, within: Duration) -> bool {
        let until = Instant::now() + within;
        let target = (host(url).to_owned(), port(url));
        let Ok(Ok(stream)) = timeout_at(until, TcpStream::connect(target)).await else { return false };
        let answer = self.ask_server(stream, url, until).await;
        answer.is_ok_and(|answer| !answer.status.is_server_error())
    }
}

async fn open(at: SocketAddr, until: Instant) -> Result<TcpStream, Fault> {
    let Ok(connected) = timeout_at(until, TcpStream::connect(at)).await else {
        return Err(Fault::new("connect-timeout", format!("{at} takes no connection in time")));
    };
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            Fault::new("connect-refused", format!("{at} refuses connections; no Squid listens there"))
        }
        kind => Fault::new("unreachable", format!("{at} can't be reached: {kind}")),
    })
}

/// Whether it says anything at all: a forward proxy refuses by itself what names no server.
async fn lives(at: SocketAddr, within: Duration) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: proxy.invalid\r\nConnection: close\r\n\r\n").await?;
        stream.read_u8().await
    };
    timeout(within, asked).await.is_ok_and(|read| read.is_ok())
}

async fn ask<S>(stream: S, request: Request<Empty<Bytes>>, until: Instant) -> Result<Answer, Unanswered>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let asked = async {
        let (mut sender, connection) = handshake(stream).await?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, text: begin_of(body).await })
    };
    match timeout_at(until, asked).await {
        Ok(answered) => answered.map_err(Unanswered::Broke),
        Err(_) => Err(Unanswered::Late),
    }
}

type Connection<S> = http1::Connection<TokioIo<S>, Empty<Bytes>>;

async fn handshake<S>(stream: S) -> hyper::Result<(http1::SendRequest<Empty<Bytes>>, Connection<S>)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    http1::Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(stream)).await
}

/// As much of the text as anybody needs, or as came before it broke off.
async fn begin_of(mut body: Incoming) -> String {
    let mut begin = Vec::new();
    while begin.len() < MOST_TEXT {
        let Some(Ok(frame)) = body.frame().await else { break };
        let Some(data) = frame.data_ref() else { continue };
        begin.extend(data.iter().take(MOST_TEXT.saturating_sub(begin.len())));
    }
    String::from_utf8_lossy(&begin).into_owned()
}

fn judge(asked: Asked<'_>, answer: Answer, tunnelled: bool) -> Outcome {
    let Answer { status, headers, text } = answer;
    asked.judge(status, &headers, tunnelled).unwrap_or(Outcome::Passed(text))
}

/// In absolute form for a proxy, else in origin form.
fn request(url: &Uri, absolute: bool) -> Request<Empty<Bytes>> {
    let mut request = bare(url.authority().map_or("", |authority| authority.as_str()));
    let origin = url.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    *request.uri_mut() = if absolute { url.clone() } else { origin };
    let no_cache = header::HeaderValue::from_static("no-cache");
    request.headers_mut().insert(header::CACHE_CONTROL, no_cache.clone());
    request.headers_mut().insert(header::PRAGMA, no_cache);
    request.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    request
}

fn bare(host: &str) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    if let Ok(host) = header::HeaderValue::from_str(host) {
        request.headers_mut().insert(header::HOST, host);
    }
    request.headers_mut().insert(header::USER_AGENT, header::HeaderValue::from_static(AGENT));
    request
}

/// As a resolver or a certificate has it.
fn host(url: &Uri) -> &str {
    authority_host(url).trim_start_matches('[').trim_end_matches(']')
}

fn authority_host(url: &Uri) -> &str {
    url.host().unwrap_or_default()
}

fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 })
}

#[cfg(test)]
mod tests;
