//! Requests for images: one connection each, to an address that was looked at before it is connected to.
//!
//! A name may resolve to something else the next time, so what was checked is what is used. Each redirect is a
//! request of its own, and checked like the first.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use egress_runtime::capability::{TransferFailure, TransferFailureKind as Kind};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::{
    address::{self, Range},
    failure,
    grant::Timeouts,
    location::{self, host, server},
};

const MOST_REDIRECTS: usize = 5;
const MOST_HEAD: usize = 64 * 1024;
const LONGEST_URL: usize = 4096;
const AGENT: &str = concat!("egress-proxies-operator/", env!("CARGO_PKG_VERSION"));

/// See the module.
pub(super) struct Web {
    tls: TlsConnector,
    inside: Vec<Range>,
    timeouts: Timeouts,
}

/// An answer, whose body may still come.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Incoming,
    /// Its connection, which ends with it.
    pub(super) _connection: AbortOnDropHandle<()>,
}

type Failed = TransferFailure;

impl Web {
    /// Trusts whom the system trusts.
    pub(super) fn new(inside: Vec<Range>, timeouts: Timeouts) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        // A certificate that can't be read is none.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let ours = || Arc::new(rustls::crypto::ring::default_provider());
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ours);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), inside, timeouts })
    }

    /// Follows redirects to an answer that is none.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: &Uri,
        headers: &[(header::HeaderName, HeaderValue)],
    ) -> Result<Answer, Failed> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask_once(method.clone(), &url, headers).await?;
            let is_redirect = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect {
                return Ok(answer);
            }
            url = redirected(&url, &answer.headers)?;
        }
        Err(failure::plain(
            Kind::Redirects,
            format!("{}: more than {MOST_REDIRECTS} redirects", server(&url)),
        ))
    }

    async fn ask_once(
        &self,
        method: Method,
        url: &Uri,
        headers: &[(header::HeaderName, HeaderValue)],
    ) -> Result<Answer, Failed> {
        let at = server(url);
        let connecting = Duration::from_millis(self.timeouts.connect_ms);
        let connected = tokio::time::timeout(connecting, self.connect(url)).await.unwrap_or_else(|_| {
            let ms = self.timeouts.connect_ms;
            Err(failure::plain(Kind::Connect, format!("{at}: no connection within {ms} ms")))
        })?;
        let request = request(method, url, headers);
        let stall = Duration::from_millis(self.timeouts.stall_ms);
        let answered = tokio::time::timeout(stall, exchange(connected, request)).await.unwrap_or_else(|_| {
            let ms = self.timeouts.stall_ms;
            Ok(Err(failure::plain(Kind::Timeout, format!("{at}: no answer within {ms} ms"))))
        });
        match answered {
            Ok(answer) => answer,
            Err(error) => Err(failure::plain(Kind::Cut, format!("{at}: no answer that is HTTP: {error}"))),
        }
    }

    async fn connect(&self, url: &Uri) -> Result<Box<dyn Stream>, Failed> {
        let (at, host) = (server(url), host(url));
        let found = tokio::net::lookup_host((host, port(url))).await.map_err(|error| {
            failure::plain(Kind::Name, format!("{at}: the name does not resolve: {error}"))
        })?;
        let stream = TcpStream::connect(self.permitted(&at, found)?.as_slice())
            .await
            .map_err(|error| failure::plain(Kind::Connect, format!("{at}: no connection: {error}")))?;
        if url.scheme_str() != Some("https") {
            return Ok(Box::new(stream));
        }
        let no_tls = |why: String| failure::plain(Kind::Tls, format!("{at}: no TLS: {why}"));
        let name = ServerName::try_from(host.to_owned()).map_err(|error| no_tls(error.to_string()))?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| no_tls(error.to_string()))?;
        Ok(Box::new(stream))
    }

    /// The addresses that may be connected to.
    fn permitted(
        &self,
        at: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Failed> {
        let (mut permitted, mut refused) = (Vec::new(), Vec::new());
        for address in found {
            let plain = address::plain(address.ip());
            let granted = || self.inside.iter().any(|range| range.holds(plain));
            match address::is_public(address.ip()) || granted() {
                true => permitted.push(address),
                false => refused.push(address.ip().to_string()),
            }
        }
        if permitted.is_empty() {
            let refused = refused.join(", ");
            let message = format!(
                "{at} leads inside ({refused}), which the grant does not list; add it under grants.transfer.inside, if \
                 that is meant"
            );
            return Err(failure::plain(Kind::Denied, message));
        }
        Ok(permitted)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Empty<Bytes>>,
) -> hyper::Result<Result<Answer, Failed>> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(stream)).await?;
    // What ends it is told by the body too.
    let connection = AbortOnDropHandle::new(tokio::spawn(async { drop(connection.await) }));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Ok(Answer { status: head.status, headers: head.headers, body, _connection: connection }))
}

fn request(
    method: Method,
    url: &Uri,
    headers: &[(header::HeaderName, HeaderValue)],
) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = url.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    let fields = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&server(url)) {
        fields.insert(header::HOST, host);
    }
    fields.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    fields.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    // What is counted and hashed is what is written.
    fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.extend(headers.iter().cloned());
    request
}

/// A URL that may be asked for.
pub(super) fn url(text: &str) -> Result<Uri, Failed> {
    let no = |why: &str| Err(failure::plain(Kind::Denied, format!("the URL {why}")));
    if text.len() > LONGEST_URL {
        return no(&format!("has {} bytes; up to {LONGEST_URL} are allowed", text.len()));
    }
    let Ok(url) = text.parse::<Uri>() else { return no("can't be read") };
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return no("is neither http nor https");
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return no("holds a user; credentials in URLs are not sent");
    }
    if host(&url).is_empty() {
        return no("names no server");
    }
    Ok(url)
}

fn redirected(from: &Uri, headers: &HeaderMap) -> Result<Uri, Failed> {
    let at = server(from);
    let no = |why: &str| failure::plain(Kind::Redirects, format!("{at}: a redirect {why}"));
    let to =
        headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).ok_or_else(|| no("leads nowhere"))?;
    let to = url(&location::absolute(from, to))?;
    if from.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
        return Err(no("leads from https to http"));
    }
    Ok(to)
}

fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_wherever_it_is_relative_to() {
        let from = url("https://a.example:8443/x/y?z").unwrap();
        let follow = |to: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
            redirected(&from, &headers).map(|url| url.to_string()).map_err(|failure| failure.kind)
        };
        assert_eq!(follow("https://b.example/i#part").unwrap(), "https://b.example/i");
        assert_eq!(follow("//b.example/i").unwrap(), "https://b.example/i");
        assert_eq!(follow("/i?j").unwrap(), "https://a.example:8443/i?j");
        assert_eq!(follow("i").unwrap(), "https://a.example:8443/x/i");
        assert_eq!(follow("http://b.example/i"), Err(Kind::Redirects), "no way back out of TLS");
        assert_eq!(follow("file:///etc/shadow"), Err(Kind::Denied));
        assert_eq!(redirected(&from, &HeaderMap::new()).unwrap_err().kind, Kind::Redirects);
    }

    #[test]
    fn a_url_that_is_not_for_images_is_refused_without_being_quoted() {
        for wrong in
            ["", "secret", "ftp://a/b", "file:///etc/shadow", "http://user:secret@a/b", "/a", "http://"]
        {
            let failure = url(wrong).unwrap_err();
            assert_eq!(failure.kind, Kind::Denied, "{wrong}");
            assert!(!failure.message.contains("secret"), "{}", failure.message);
        }
    }
}
