//! A registry in this process, which answers what Debian's was seen to answer, and whatever else a test wants.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use egress_registry::Hash;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

pub type Answer = Response<Full<Bytes>>;
type Rule = Box<dyn Fn(&Asked) -> Option<Answer> + Send + Sync>;

/// What was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub authorization: Option<String>,
    pub body: Bytes,
}

/// Whom it lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admits {
    Everybody,
    /// Who shows the password.
    Basic,
    /// Who shows a token, which who knows the password gets at `/token`.
    Bearer,
}

pub const USER: &str = "squirrel";
pub const PASSWORD: &str = "hunter2-of-the-registry";
pub const TOKEN: &str = "token-of-the-registry";
pub const IDENTITY: &str = "identity-of-the-user";

#[derive(Default)]
struct Shared {
    blobs: Mutex<HashMap<String, Bytes>>,
    /// By repository and tag or digest.
    manifests: Mutex<BTreeMap<(String, String), Bytes>>,
    asked: Mutex<Vec<Asked>>,
    rule: Mutex<Option<Rule>>,
}

/// Gone with the value.
pub struct Fake {
    pub at: SocketAddr,
    /// Its certificate, where it speaks TLS.
    pub pem: Option<String>,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Fake {
    pub async fn new(admits: Admits) -> Self {
        Self::start(admits, None).await
    }

    pub async fn with_tls() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        Self::start(Admits::Everybody, Some((TlsAcceptor::from(Arc::new(config)), cert.pem()))).await
    }

    async fn start(admits: Admits, tls: Option<(TlsAcceptor, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let (acceptor, pem) = tls.unzip();
        let served = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            // Ends its connections with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, acceptor) = (Arc::clone(&served), acceptor.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = Arc::clone(&shared);
                        async move { Ok::<_, Infallible>(shared.answer(admits, at, request).await) }
                    });
                    let _ = match acceptor {
                        None => http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => {
                                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
                            }
                            Err(_) => return,
                        },
                    };
                });
            }
        });
        Self { at, pem, shared, serving }
    }

    /// Of a repository and a tag here.
    pub fn image(&self, rest: &str) -> String {
        format!("{}/{rest}", self.at)
    }

    /// Puts any manifest there.
    pub fn put_manifest(&self, repository: &str, tag: &str, manifest: &[u8]) {
        self.shared.put_manifest(repository, tag, manifest.to_vec().into());
    }

    pub fn put_blob(&self, bytes: &[u8]) {
        self.shared.blobs.lock().unwrap().insert(Hash::of(bytes).to_string(), bytes.to_vec().into());
    }

    /// Puts other bytes where these are.
    pub fn change_blob(&self, bytes: &[u8], instead: &[u8]) {
        self.shared.blobs.lock().unwrap().insert(Hash::of(bytes).to_string(), instead.to_vec().into());
    }

    /// Answers so, where the rule has an answer.
    pub fn rule(&self, rule: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }
}

pub fn says(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Full::from(body.to_vec())).unwrap()
}

fn error(status: u16, code: &str) -> Answer {
    let body =
        format!(r#"{{"errors":[{{"code":"{code}","message":"words of the registry","detail":null}}]}}"#);
    says(status, &[("content-type", "application/json; charset=utf-8")], body.as_bytes())
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

impl Shared {
    fn put_manifest(&self, repository: &str, tag: &str, manifest: Bytes) {
        let mut manifests = self.manifests.lock().unwrap();
        manifests.insert((repository.to_owned(), Hash::of(&manifest).to_string()), manifest.clone());
        manifests.insert((repository.to_owned(), tag.to_owned()), manifest);
    }

    async fn answer(&self, admits: Admits, at: SocketAddr, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let authorization = head.headers.get(header::AUTHORIZATION);
        let asked = Asked {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
            body: body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default(),
        };
        self.asked.lock().unwrap().push(asked.clone());
        let ruled = self.rule.lock().unwrap().as_ref().and_then(|rule| rule(&asked));
        ruled.unwrap_or_else(|| self.usual(admits, at, &asked))
    }

    fn usual(&self, admits: Admits, at: SocketAddr, asked: &Asked) -> Answer {
        let shown = asked.authorization.as_deref();
        if asked.path == "/token" {
            let known = shown == Some(&basic(USER, PASSWORD))
                || String::from_utf8_lossy(&asked.body).contains(&format!("refresh_token={IDENTITY}"));
            return match known {
                true => {
                    says(200, &[], format!(r#"{{"access_token":"{TOKEN}","expires_in":300}}"#).as_bytes())
                }
                false => error(401, "UNAUTHORIZED"),
            };
        }
        let challenge = match admits {
            Admits::Everybody => None,
            Admits::Basic => {
                (shown != Some(&basic(USER, PASSWORD))).then(|| "Basic realm=\"lab\"".to_owned())
            }
            Admits::Bearer => (shown != Some(&format!("Bearer {TOKEN}"))).then(|| {
                format!(r#"Bearer realm="http://{at}/token",service="fake",scope="repository:p:pull""#)
            }),
        };
        if let Some(challenge) = challenge {
            let mut refused = error(401, "UNAUTHORIZED");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
            return refused;
        }
        let path = asked.path.strip_prefix("/v2/").unwrap_or_default();
        if let Some((repository, wanted)) = path.split_once("/manifests/") {
            return self.manifest(asked, repository, wanted);
        }
        match path.split_once("/blobs/") {
            Some((repository, "uploads/")) if asked.method == Method::POST => {
                // With the host, and with a query, as Debian's does.
                let to = format!("http://{at}/v2/{repository}/blobs/uploads/1?_state=a%3D");
                says(202, &[("location", &to)], b"")
            }
            Some((_, "uploads/1")) if asked.method == Method::PUT => {
                let digest = asked.query.split("digest=").nth(1).unwrap_or_default();
                if digest != Hash::of(&asked.body).as_str() {
                    return error(400, "DIGEST_INVALID");
                }
                self.blobs.lock().unwrap().insert(digest.to_owned(), asked.body.clone());
                says(201, &[("docker-content-digest", digest)], b"")
            }
            Some((_, digest)) => match self.blobs.lock().unwrap().get(digest) {
                Some(bytes) => says(200, &[("docker-content-digest", digest)], bytes),
                None => error(404, "BLOB_UNKNOWN"),
            },
            None => error(404, "NAME_UNKNOWN"),
        }
    }

    fn manifest(&self, asked: &Asked, repository: &str, wanted: &str) -> Answer {
        if asked.method == Method::PUT {
            self.put_manifest(repository, wanted, asked.body.clone());
            return says(201, &[("docker-content-digest", Hash::of(&asked.body).as_str())], b"");
        }
        let manifests = self.manifests.lock().unwrap();
        match manifests.get(&(repository.to_owned(), wanted.to_owned())) {
            Some(bytes) => {
                let mut answer = says(200, &[("docker-content-digest", Hash::of(bytes).as_str())], bytes);
                if asked.method == Method::HEAD {
                    *answer.body_mut() = Full::default();
                }
                answer
            }
            None if manifests.keys().any(|(known, _)| known == repository) => error(404, "MANIFEST_UNKNOWN"),
            None => error(StatusCode::NOT_FOUND.as_u16(), "NAME_UNKNOWN"),
        }
    }
}
