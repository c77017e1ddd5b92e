//! The connections to one API server.
//!
//! kube's own stack is not used as it comes: it logs every failed call, waits and repeats by default, and
//! names no error so that one could tell a missing name from a refused connection. kube's parts are, for
//! trust, credentials and impersonation.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use egress_runtime::capability::{Always, Writes};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{Service, ServiceBuilder};

use crate::connecting::{Bounded, BoxError, Plain, plain};

/// More idle connections than calls that run at once are of no use; the rest is closed.
const IDLE_CONNECTIONS: usize = 64;

/// A client of this server, as this identity, on which nothing is written unless it may be. Reads credential files,
/// and runs a credential helper where the config names one: not to be called where blocking harms.
pub fn connect(
    config: Config,
    connect: Duration,
    agent: HeaderValue,
    writes: Arc<dyn Writes>,
) -> Result<Client, kube::Error> {
    let namespace = config.default_namespace.clone();
    Ok(Client::new(service(config, connect, agent, writes)?, namespace))
}

fn service(
    mut config: Config,
    connect: Duration,
    agent: HeaderValue,
    writes: Arc<dyn Writes>,
) -> Result<
    impl Service<Request<Body>, Response = Answer, Error = BoxError, Future: Send + 'static> + Clone,
    kube::Error,
> {
    if let Some(proxy_url) = config.proxy_url.take() {
        return Err(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy_url) });
    }
    config.headers.push((header::USER_AGENT, agent));
    let split = Split {
        reads: http_client(&config, connect, Arc::new(Always))?,
        writes: http_client(&config, connect, writes)?,
    };
    Ok(ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(split))
}

type Connector = TimeoutConnector<Bounded<HttpsConnector<Plain>>>;
type Answer = Response<Incoming>;

fn http_client(
    config: &Config,
    connect: Duration,
    writes: Arc<dyn Writes>,
) -> Result<HttpClient<Connector, Body>, kube::Error> {
    let inner = config.rustls_https_connector_with_connector(plain(writes))?;
    let mut connector = TimeoutConnector::new(Bounded { inner, budget: connect });
    // A watch over a connection that is dead, and does not know it.
    connector.set_read_timeout(config.read_timeout);
    // It repeats a request only if the connection was closed before any of it was written: that is no
    // repetition, and the other connection asks again.
    Ok(HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(connector))
}

/// Requests that change something have connections of their own; see [`crate::guarded`].
#[derive(Clone)]
struct Split {
    reads: HttpClient<Connector, Body>,
    writes: HttpClient<Connector, Body>,
}

impl Service<Request<Body>> for Split {
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // as a client says: it makes another connection
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = if is_read(&request) { &self.reads } else { &self.writes };
        client.request(request).map_err(BoxError::from).boxed()
    }
}

/// Kinds below these paths are questions, though they are posted.
const QUESTIONS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// Whether a request changes nothing. A server's own path may stand before what Kubernetes says.
fn is_read<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    *request.method() == Method::GET
        || *request.method() == Method::HEAD
        || (*request.method() == Method::POST && QUESTIONS.iter().any(|kinds| path.contains(kinds)))
}

#[cfg(test)]
mod tests {
    use std::{
        error::Error as StdError,
        sync::{
            Mutex,
            atomic::{AtomicBool, Ordering},
        },
    };

    use egress_runtime::capability::Withheld;
    use futures::poll;
    use http::Method;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        sync::mpsc,
    };

    use super::*;

    /// Shut, it withholds.
    #[derive(Default)]
    struct Door(AtomicBool);

    impl Door {
        fn shut(&self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    impl Writes for Door {
        fn may_begin(&self) -> Result<(), Withheld> {
            if self.0.load(Ordering::SeqCst) { Err(Withheld("shut".to_owned())) } else { Ok(()) }
        }
    }

    /// Answers each request that came whole with an empty object, and notes its first line.
    async fn serve(listener: TcpListener, lines: Arc<Mutex<Vec<String>>>) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let lines = Arc::clone(&lines);
            tokio::spawn(async move {
                let mut request = String::new();
                while let Ok(byte) = stream.read_u8().await {
                    request.push(byte.into());
                    let end = if request.starts_with("GET") { "\r\n\r\n" } else { "\r\n\r\n{}" };
                    if request.ends_with(end) {
                        lines.lock().unwrap().push(request.lines().next().unwrap().to_owned());
                        request.clear();
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
                    }
                }
            });
        }
    }

    fn reach(
        listener: &TcpListener,
        door: &Arc<Door>,
    ) -> impl Service<Request<Body>, Response = Answer, Error = BoxError, Future: Send + 'static> + use<>
    {
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let agent = HeaderValue::from_static("test");
        service(config, Duration::from_secs(20), agent, Arc::clone(door) as Arc<dyn Writes>).unwrap()
    }

    fn request(method: Method, path: &str, body: Vec<u8>) -> Request<Body> {
        Request::builder().method(method).uri(path).body(Body::from(body)).unwrap()
    }

    /// The innermost cause.
    fn why(error: &BoxError) -> String {
        let mut error: &(dyn StdError + 'static) = &**error;
        while let Some(cause) = error.source() {
            error = cause;
        }
        error.to_string()
    }

    #[tokio::test]
    async fn a_write_that_waits_in_its_connection_does_not_leave_when_it_may_not_any_more() {
        let (lines, door) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Door>::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut server = reach(&listener, &door);
        tokio::spawn(serve(listener, Arc::clone(&lines)));
        server.call(request(Method::POST, "/first", b"{}".to_vec())).await.unwrap();
        let mut held = Box::pin(server.call(request(Method::PUT, "/held", b"{}".to_vec())));
        // One thread: the connection's own task has had no turn yet, as when the process stops right here.
        assert!(poll!(&mut held).is_pending());
        door.shut();
        assert_eq!(why(&held.await.unwrap_err()), "shut");
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = server.call(request(method, "/later", b"{}".to_vec())).await.unwrap_err();
            assert_eq!(why(&error), "shut");
        }
        server.call(request(Method::GET, "/read", Vec::new())).await.unwrap();
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        server.call(request(Method::POST, review, b"{}".to_vec())).await.unwrap();
        let came = lines.lock().unwrap().clone();
        assert_eq!(
            came,
            ["POST /first HTTP/1.1", "GET /read HTTP/1.1", &format!("POST {review} HTTP/1.1")],
            "what left"
        );
    }

    #[tokio::test]
    async fn a_write_that_is_halfway_out_is_never_made_whole_when_it_may_not_go_on() {
        let door = Arc::<Door>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut server = reach(&listener, &door);
        // More than the system takes of anybody at once.
        const LENGTH: usize = 256 << 20;
        let (begun, mut began) = mpsc::channel::<TcpStream>(1);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 16]).await.unwrap();
            begun.send(stream).await.unwrap();
        });
        let answer = tokio::spawn(server.call(request(Method::POST, "/large", vec![b' '; LENGTH])));
        let mut stream = began.recv().await.unwrap();
        door.shut();
        let (mut rest, mut buffer) = (0, vec![0; 1 << 20]);
        while rest < LENGTH
            && let Ok(read @ 1..) = stream.read(&mut buffer).await
        {
            rest += read;
        }
        assert!(rest < LENGTH, "{rest}");
        assert!(answer.await.unwrap().is_err());
    }
}
