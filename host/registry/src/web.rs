//! Requests to a registry and to where it sends: one connection each, to an address that was looked at before.
//!
//! Whoever named the registry may reach it wherever it is. Where it leads from there, to a store of blobs or to
//! whom hands out tokens, is the registry's word alone: such an address is to be public, or be listed.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use egress_capabilities::transfer::{
    address,
    location::{self, host, server},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    access::Access,
    failure::{Kind, RegistryError, failed},
};

const MOST_REDIRECTS: usize = 5;
const MOST_HEAD: usize = 64 * 1024;
const LONGEST_URL: usize = 16 * 1024;
const AGENT: &str = concat!("egress-proxies-operator/", env!("CARGO_PKG_VERSION"));

type Failed = RegistryError;

/// See the module.
pub(crate) struct Web {
    tls: TlsConnector,
    access: Access,
    /// The registry's own host and port.
    home: String,
}

/// What is asked.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) url: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

/// An answer, whose body may still come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Whose it is.
    pub(crate) at: String,
    /// Whether the registry itself said so, and nobody whom it sends to.
    pub(crate) is_home: bool,
    body: Incoming,
    /// Its connection, which ends with it.
    _connection: AbortOnDropHandle<()>,
}

impl Web {
    pub(crate) fn new(home: &str, access: Access) -> Result<Self, Failed> {
        let untrusted = |why: &str| failed(Kind::TlsTrust, format!("{home}: {why}"));
        let mut roots = RootCertStore::empty();
        match &access.ca {
            Some(pem) => {
                let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
                let read = read.unwrap_or_default();
                let (good, _) = roots.add_parsable_certificates(read);
                if good == 0 {
                    return Err(untrusted("the authority given holds no certificate in PEM"));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let ours = || Arc::new(rustls::crypto::ring::default_provider());
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(ours);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| untrusted(&error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), access, home: home.to_owned() })
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Below the registry's root.
    pub(crate) fn url(&self, path_and_query: &str) -> Result<Uri, Failed> {
        let scheme = if self.access.plain_http { "http" } else { "https" };
        self.read_url(&format!("{scheme}://{}{path_and_query}", self.home))
    }

    /// One that the registry named, seen from one that was asked.
    pub(crate) fn read(&self, from: &Uri, to: &str) -> Result<Uri, Failed> {
        self.read_url(&location::absolute(from, to))
    }

    fn read_url(&self, text: &str) -> Result<Uri, Failed> {
        let no = |why: &str| {
            Err(failed(Kind::RedirectRefused, format!("{}: it sends to a URL that {why}", self.home)))
        };
        let Some(url) = text.parse::<Uri>().ok().filter(|_| text.len() <= LONGEST_URL) else {
            return no("can't be read");
        };
        match url.scheme_str() {
            Some("https") => {}
            Some("http") if self.access.plain_http => {}
            Some("http") => {
                return no("is http, so everybody on the way could read and change what goes there");
            }
            _ => return no("is neither http nor https"),
        }
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) || host(&url).is_empty()
        {
            return no("names a user or no server");
        }
        Ok(url)
    }

    /// Whether a URL is the registry's own: a login is shown to nobody else.
    fn is_home(&self, url: &Uri) -> bool {
        let scheme = if self.access.plain_http { "http" } else { "https" };
        let Ok(home) = format!("{scheme}://{}", self.home).parse::<Uri>() else { return false };
        host(url).eq_ignore_ascii_case(host(&home))
            && port(url) == port(&home)
            && url.scheme_str() == home.scheme_str()
    }

    /// Follows redirects to an answer that is none. What says who asks stays with the registry.
    pub(crate) async fn follow(&self, asked: &Asked) -> Result<Answer, Failed> {
        let mut asked = asked.clone();
        for _ in 0..=MOST_REDIRECTS {
            if !self.is_home(&asked.url) {
                asked.headers.retain(|(name, _)| *name != header::AUTHORIZATION);
            }
            let answer = self.ask(&asked).await?;
            let redirects = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !redirects || !matches!(asked.method, Method::GET | Method::HEAD) {
                return Ok(answer);
            }
            let to = answer.headers.get(header::LOCATION).and_then(|to| to.to_str().ok());
            asked.url = self.read(&asked.url, to.unwrap_or_default())?;
        }
        let message = format!("{}: more than {MOST_REDIRECTS} redirects", self.home);
        Err(failed(Kind::RedirectRefused, message))
    }

    /// Once, and wherever it leads.
    pub(crate) async fn ask(&self, asked: &Asked) -> Result<Answer, Failed> {
        let (at, times) = (server(&asked.url), self.access.timeouts);
        let late = |what: &str, most: Duration| {
            failed(Kind::Unreachable, format!("{at}: no {what} within {} ms", most.as_millis()))
        };
        let connected = timeout(times.connect, self.connect(&asked.url)).await;
        let connected = connected.map_err(|_| late("connection", times.connect))??;
        // What is sent takes its time too.
        let most = if asked.body.is_empty() { times.stall } else { times.whole };
        match timeout(most, exchange(connected, request(asked), at.clone(), self.is_home(&asked.url))).await {
            Err(_) => Err(late("answer", most)),
            Ok(Err(error)) => {
                Err(failed(Kind::Unreachable, format!("{at}: no answer that is HTTP: {error}")))
            }
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    async fn connect(&self, url: &Uri) -> Result<Box<dyn Stream>, Failed> {
        let (at, host) = (server(url), host(url));
        let found = tokio::net::lookup_host((host, port(url))).await.map_err(|error| {
            failed(Kind::Unreachable, format!("{at}: the name does not resolve: {error}"))
        })?;
        let addresses: Vec<SocketAddr> =
            if self.is_home(url) { found.collect() } else { self.permitted(&at, found)? };
        let stream = TcpStream::connect(addresses.as_slice())
            .await
            .map_err(|error| failed(Kind::Unreachable, format!("{at}: no connection: {error}")))?;
        if url.scheme_str() != Some("https") {
            return Ok(Box::new(stream));
        }
        let no_tls = |why: String| failed(Kind::TlsTrust, format!("{at}: no TLS: {why}"));
        let name = ServerName::try_from(host.to_owned()).map_err(|error| no_tls(error.to_string()))?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                Err(no_tls(error.to_string()))
            }
            Err(error) => {
                Err(failed(Kind::Unreachable, format!("{at}: the connection broke before TLS: {error}")))
            }
        }
    }

    /// The addresses that it may lead to.
    fn permitted(
        &self,
        at: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Failed> {
        let (mut permitted, mut refused) = (Vec::new(), Vec::new());
        for one in found {
            let plain = address::plain(one.ip());
            let listed = || self.access.inside.iter().any(|range| range.holds(plain));
            match address::is_public(one.ip()) || listed() {
                true => permitted.push(one),
                false => refused.push(one.ip().to_string()),
            }
        }
        if permitted.is_empty() {
            let message =
                format!("{}: it sends to {at}, which is inside ({})", self.home, refused.join(", "));
            return Err(failed(Kind::RedirectRefused, message));
        }
        Ok(permitted)
    }
}

impl Answer {
    /// The whole body, if it has at most so many bytes.
    pub(crate) async fn body(mut self, what: &str, most: u64, stall: Duration) -> Result<Bytes, Failed> {
        let too_large = || failed(Kind::TooLarge, format!("{what} has more than {most} bytes"));
        let told = self
            .headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if told.is_some_and(|told| told > most) {
            return Err(too_large());
        }
        let mut whole = BytesMut::new();
        loop {
            let broken = |why: String| failed(Kind::Unreachable, format!("{}: {why}", self.at));
            let frame = timeout(stall, self.body.frame())
                .await
                .map_err(|_| broken(format!("{what} stopped coming for {} ms", stall.as_millis())))?;
            match frame {
                None => return Ok(whole.freeze()),
                Some(Err(error)) => return Err(broken(format!("{what} broke off: {error}"))),
                Some(Ok(frame)) => whole.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
            if whole.len() as u64 > most {
                return Err(too_large());
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
    at: String,
    is_home: bool,
) -> hyper::Result<Answer> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(stream)).await?;
    // What ends it is told by the body too.
    let connection = AbortOnDropHandle::new(tokio::spawn(async { drop(connection.await) }));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Answer { status: head.status, headers: head.headers, at, is_home, body, _connection: connection })
}

fn request(asked: &Asked) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(asked.body.clone()));
    *request.method_mut() = asked.method.clone();
    *request.uri_mut() = asked.url.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    let fields = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&server(&asked.url)) {
        fields.insert(header::HOST, host);
    }
    fields.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    // What is counted and hashed is what was asked for.
    fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.extend(asked.headers.iter().cloned());
    request
}

fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 })
}
