//! HTTP to endpoints that a grant names.
//!
//! One request at a time goes over a connection (HTTP/1.1), so that a reason phrase arrives, and so that what
//! changes something can have connections on which nothing leaves unless it may.

mod google;
mod grant;
mod pool;
mod request;
#[cfg(test)]
mod tests;
mod trace_context;
mod trust;
mod way;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use egress_contract::{EntryName, Fault};
use egress_runtime::capability::{
    Always, Http, HttpFailure, HttpFailureKind as Kind, HttpRequest, HttpResponse, Pairs, Writes,
};
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::ext::ReasonPhrase;
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, timeout_at},
};

pub use crate::timeouts::Timeouts;
use crate::{
    connecting::{Broken, find},
    credentials::Secrets,
};
use google::Google;
pub use google::GoogleCredentials;
pub use grant::{
    BasicCredentials, ClientCertificate, Credentials, Endpoint, ForwardProxy, HeaderCredentials, HttpGrant,
    ReadOnly,
};
use pool::{Carries, HEADERS_BYTES, Pool, Unanswered};
use trust::Trust;
use way::Way;

const MIB: usize = 1024 * 1024;

/// What one entry's grant lends of HTTP.
pub struct HttpCapability {
    entry: EntryName,
    agent: HeaderValue,
    servers: BTreeMap<String, Server>,
    secrets: Option<Arc<dyn Secrets>>,
    writes: Arc<dyn Writes>,
    request_bytes: usize,
    response_bytes: usize,
}

/// One endpoint.
struct Server {
    endpoint: Endpoint,
    base: Uri,
    /// Host and port, for people.
    shown: String,
    /// For requests; there is a connection for each that has one.
    turns: Semaphore,
    connections: Arc<Semaphore>,
    live: Mutex<Option<(Trust, Arc<Pool>)>>,
    google: Google,
}

impl HttpCapability {
    /// Or everything that is wrong with the grant; paths begin at the grant.
    pub fn new(entry: &EntryName, grant: HttpGrant) -> Result<Self, Vec<Fault>> {
        let faults = grant.faults();
        if !faults.is_empty() {
            return Err(faults);
        }
        let agent = HeaderValue::from_str(&format!("egress-proxies-operator ({entry})"))
            .unwrap_or_else(|_| HeaderValue::from_static("egress-proxies-operator"));
        let mut servers = BTreeMap::new();
        for (name, endpoint) in grant.endpoints {
            // Without faults every one of them has a URL.
            let Ok(base) = endpoint.base() else { continue };
            let shown = base.authority().map(ToString::to_string).unwrap_or_default();
            let turns = Semaphore::new(endpoint.connections);
            let connections = Arc::new(Semaphore::new(endpoint.connections));
            let (live, google) = (Mutex::new(None), Google::default());
            servers.insert(name, Server { endpoint, base, shown, turns, connections, live, google });
        }
        Ok(Self {
            entry: entry.clone(),
            agent,
            servers,
            secrets: None,
            writes: Arc::new(Always),
            request_bytes: 8 * MIB,
            response_bytes: 8 * MIB,
        })
    }

    /// Other limits of what one request may send and be answered than 8 MiB each.
    #[must_use]
    pub fn with_limits(self, request_bytes: usize, response_bytes: usize) -> Self {
        Self { request_bytes, response_bytes, ..self }
    }

    /// What `secretRef` is read by. Before the first call.
    #[must_use]
    pub fn with_secrets(self, secrets: Option<Arc<dyn Secrets>>) -> Self {
        Self { secrets, ..self }
    }

    /// Nothing leaves that would change something, unless it may. Before the first call.
    #[must_use]
    pub fn guarded(self, writes: &Arc<dyn Writes>) -> Self {
        Self { writes: Arc::clone(writes), ..self }
    }

    fn server(&self, name: &str) -> Result<&Server, HttpFailure> {
        self.servers.get(name).ok_or_else(|| {
            let granted: Vec<&str> = self.servers.keys().map(String::as_str).collect();
            let (entry, granted) = (&self.entry, granted.join(", "));
            failure(
                Kind::Denied,
                format!("entry {entry} has no endpoint {name:?}; its grant names {granted}"),
                false,
            )
        })
    }

    fn request(&self, server: &Server, request: &HttpRequest) -> Result<Request<Bytes>, HttpFailure> {
        // Long enough that nobody's content holds it by chance, or can be made to.
        let boundary = format!("epo-{:032x}", rand::random::<u128>());
        let invalid = |what| failure(Kind::Invalid, format!("{}: {what}", server.shown), false);
        let made = request::made(&server.base, request, &boundary).map_err(invalid)?;
        let size = made.body().len();
        if size > self.request_bytes {
            let (most, entry) = (self.request_bytes, &self.entry);
            let message =
                format!("{size} bytes to send reached limits.requestBytes ({most}) of entry {entry}");
            return Err(failure(Kind::TooLarge, message, false));
        }
        Ok(made)
    }

    async fn exchange(
        &self,
        server: &Server,
        pool: &Pool,
        request: Request<Bytes>,
        is_read: bool,
    ) -> Result<HttpResponse, HttpFailure> {
        let carries = if is_read { Carries::Reads } else { Carries::Writes };
        let answered = pool.send(carries, request.map(Full::new)).await;
        let (connection, answer) = answered.map_err(|why| server.unanswered(&why))?;
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, self.response_bytes).collect().await {
            Ok(whole) => {
                pool.keep(connection);
                whole.to_bytes().to_vec()
            }
            Err(error) if error.is::<LengthLimitError>() => {
                let (server, most, entry) = (&server.shown, self.response_bytes, &self.entry);
                let message =
                    format!("{server}: the answer reached limits.responseBytes ({most}) of entry {entry}");
                return Err(failure(Kind::TooLarge, message, true));
            }
            Err(error) => return Err(server.broken(&*error, false)),
        };
        Ok(response(&Response::from_parts(head, ()), body))
    }
}

impl Server {
    /// Made anew when what stands behind it has changed.
    async fn pool(
        &self,
        secrets: Option<&dyn Secrets>,
        writes: &Arc<dyn Writes>,
    ) -> Result<Arc<Pool>, HttpFailure> {
        let credentials = |what| failure(Kind::Credentials, format!("{}: {what}", self.shown), false);
        let trust = Trust::read(&self.endpoint, secrets).await.map_err(credentials)?;
        let mut live = self.live.lock().await;
        if let Some((kept, pool)) = live.as_ref()
            && *kept == trust
        {
            return Ok(Arc::clone(pool));
        }
        let tls = trust.config(&self.endpoint).map_err(credentials)?;
        let by = trust.proxy(&self.endpoint).map_err(credentials)?;
        let ways = (Way::new(Arc::new(Always), by.clone()), Way::new(Arc::clone(writes), by));
        let budget = Duration::from_millis(self.endpoint.timeouts.connect_ms);
        let pool = Pool::new(self.base.clone(), &tls, ways, budget, Arc::clone(&self.connections));
        let pool = Arc::new(pool);
        *live = Some((trust, Arc::clone(&pool)));
        Ok(pool)
    }

    /// Adds what says who asks.
    async fn sign(
        &self,
        request: &mut Request<Bytes>,
        secrets: Option<&dyn Secrets>,
    ) -> Result<(), HttpFailure> {
        let credentials = |what| failure(Kind::Credentials, format!("{}: {what}", self.shown), false);
        let (name, value, place) = match &self.endpoint.credentials {
            None => return Ok(()),
            Some(Credentials::Google(google)) => {
                let added = self.google.headers(google, secrets).await;
                let named =
                    |no: HttpFailure| failure(no.kind, format!("{}: {}", self.shown, no.message), false);
                request.headers_mut().extend(added.map_err(named)?);
                return Ok(());
            }
            Some(Credentials::Header(header)) => {
                let secret = trust::secret(&header.secret, secrets).await.map_err(credentials)?;
                let format = header.format.replace(grant::PRINCIPAL, &header.principal);
                let name = HeaderName::from_bytes(header.name.as_bytes()).ok();
                (name, format.replace(grant::SECRET, &secret), &header.secret)
            }
            Some(Credentials::Basic(basic)) => {
                let password = trust::secret(&basic.password, secrets).await.map_err(credentials)?;
                (Some(header::AUTHORIZATION), basic.value(&password), &basic.password)
            }
        };
        let value = trust::sensitive(&value, place).map_err(credentials)?;
        if let Some(name) = name {
            request.headers_mut().insert(name, value);
        }
        Ok(())
    }

    fn unanswered(&self, why: &Unanswered) -> HttpFailure {
        match why {
            Unanswered::Connecting(error) => self.broken(&**error, true),
            Unanswered::Exchange(error) => self.broken(error, false),
        }
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static), connecting: bool) -> HttpFailure {
        let too_large = find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large);
        let (kind, cause, sent) = match Broken::when(connecting, error) {
            _ if too_large => {
                (Kind::TooLarge, format!("the answer's headers take more than {HEADERS_BYTES} bytes"), true)
            }
            Broken::Name(cause) => (Kind::Name, cause, false),
            Broken::Tls(cause, sent) => (Kind::Tls, cause, sent),
            Broken::Late(cause) => {
                (Kind::Connect, format!("{cause} (timeouts.connectMs of the endpoint)"), false)
            }
            Broken::Connect(cause) => (Kind::Connect, cause, false),
            Broken::Cut(cause) => (Kind::Cut, cause, true),
        };
        failure(kind, format!("{}: {cause}", self.shown), sent)
    }
}

fn failure(kind: Kind, message: String, sent: bool) -> HttpFailure {
    HttpFailure { kind, message, sent }
}

fn response(head: &Response<()>, body: Vec<u8>) -> HttpResponse {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let reason = match head.extensions().get::<ReasonPhrase>() {
        Some(reason) => text(reason.as_bytes()),
        // hyper keeps a phrase only where it is not the usual one.
        None => head.status().canonical_reason().unwrap_or_default().to_owned(),
    };
    let headers: Pairs =
        head.headers().iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    HttpResponse { status: head.status().as_u16(), reason, headers, body }
}

#[async_trait]
impl Http for HttpCapability {
    fn is_read(&self, request: &HttpRequest) -> bool {
        let listed = |server: &Server| {
            server.endpoint.read_only.iter().any(|read| read.covers(&request.method, &request.path))
        };
        matches!(request.method.as_str(), "GET" | "HEAD")
            || self.servers.get(&request.endpoint).is_some_and(listed)
    }

    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        let server = self.server(&request.endpoint)?;
        let most = Duration::from_millis(server.endpoint.timeouts.request_ms);
        let budget = request.timeout.unwrap_or(most).min(most);
        let deadline = Instant::now() + budget;
        let is_read = self.is_read(request);
        let mut made = self.request(server, request)?;
        made.headers_mut().insert(header::USER_AGENT, self.agent.clone());
        if server.endpoint.trace_context {
            made.headers_mut().extend(trace_context::header());
        }
        let late = |what: &str, sent| {
            let message = format!("{}: {what} within {} ms", server.shown, budget.as_millis());
            failure(Kind::Timeout, message, sent)
        };
        let secrets = self.secrets.as_deref();
        let prepared = async {
            let turn = server.turns.acquire().await;
            let pool = server.pool(secrets, &self.writes).await?;
            server.sign(&mut made, secrets).await?;
            Ok((turn, pool))
        };
        let (turn, pool) =
            timeout_at(deadline, prepared).await.map_err(|_| late("no connection was free", false))??;
        let answer = timeout_at(deadline, self.exchange(server, &pool, made, is_read)).await;
        drop(turn);
        answer.map_err(|_| late("no whole answer (whether the request took effect is unknown)", true))?
    }

    async fn info(&self, endpoint: &str) -> Result<Value, HttpFailure> {
        let server = self.server(endpoint)?;
        let principal = match &server.endpoint.credentials {
            Some(Credentials::Header(header)) => header.principal.clone(),
            Some(Credentials::Basic(basic)) => basic.username.clone(),
            Some(Credentials::Google(google)) => Google::principal(google, self.secrets.as_deref()).await?,
            None => String::new(),
        };
        Ok(json!({ "server": server.shown, "principal": principal }))
    }
}
