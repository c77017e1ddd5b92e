//! The operator's own listener: `/metrics` for Prometheus, `/healthz` and `/readyz` for the kubelet.
//!
//! Whoever can reach the Pod can reach it, so it reads no body, waits for no slow client and serves a
//! bounded number at once.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tracing::warn;

use crate::failure::Failure;

const AT_ONCE: usize = 32;
const HEAD: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(30);

/// Whether the operator does its work, or why not.
pub type Ready = Result<(), String>;

/// What the listener answers with.
#[derive(Clone)]
pub struct Answers {
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// Asked each time.
    pub ready: Arc<dyn Fn() -> Ready + Send + Sync>,
}

/// Binds the address and serves it for as long as the process lives.
pub async fn serve(address: SocketAddr, answers: Answers) -> Result<SocketAddr, Failure> {
    let failed = |error| {
        Failure::Setup(format!(
            "can't listen at {address}: {error}; give another --metrics-address, or 'off'"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tokio::spawn(accept(listener, answers));
    Ok(bound)
}

async fn accept(listener: TcpListener, answers: Answers) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answers = answers.clone();
                tokio::spawn(async move {
                    // Time is up or the client is gone: neither is worth a line.
                    let _ = timeout(WHOLE, connection(stream, answers)).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, say: it passes, and spinning would not help.
                warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, answers: Answers) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &answers);
        async { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(method: &Method, path: &str, answers: &Answers) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
    }
    match path {
        "/metrics" => text(StatusCode::OK, answers.metrics.render()),
        // Answering at all is the proof: the loops that matter end the process when they end.
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match (answers.ready)() {
            Ok(()) => text(StatusCode::OK, "ok\n"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
        },
        _ => text(StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(request: &str, ready: Ready) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || metrics::counter!("asked_total").increment(1));
        let answers = Answers { metrics: recorder.handle(), ready: Arc::new(move || ready.clone()) };
        let bound = serve("127.0.0.1:0".parse().unwrap(), answers).await.unwrap();
        let mut stream = TcpStream::connect(bound).await.unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_tells_the_truth_and_the_reason() {
        assert!(ask("GET /readyz", Ok(())).await.starts_with("HTTP/1.1 200"));
        let not = ask("GET /readyz", Err("the Proxies are not listed yet".to_owned())).await;
        assert!(not.starts_with("HTTP/1.1 503") && not.contains("not listed yet"), "{not}");
    }

    #[tokio::test]
    async fn an_operator_that_is_not_ready_still_lives() {
        assert!(ask("GET /healthz", Err("not yet".to_owned())).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn metrics_are_rendered() {
        let answer = ask("GET /metrics", Ok(())).await;
        assert!(answer.contains("asked_total 1"), "{answer}");
    }

    #[tokio::test]
    async fn what_is_not_served_is_refused() {
        assert!(ask("GET /other", Ok(())).await.starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics", Ok(())).await.starts_with("HTTP/1.1 405"));
    }
}
