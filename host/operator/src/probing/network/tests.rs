//! Probes at real sockets: a proxy that does whatever is wrong with one, and a server behind it.

use std::{future::Future, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Long enough for whoever answers, and waited for in full only where nobody does.
const WITHIN: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
/// Of localhost alone, and for nothing but this.
const CERTIFICATE: &[u8] = include_bytes!("tests/cert.pem");
const KEY: &[u8] = include_bytes!("tests/key.pem");

fn network() -> Network {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    Network::trusting(roots).unwrap()
}

/// Listens, and lets each connection be answered so.
async fn listen<F: Future<Output = ()> + Send + 'static>(
    answer: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    SocketAddr::from(([127, 0, 0, 1], port))
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Answers every request so; `{}` stands for its first line.
async fn says(answer: &'static str) -> SocketAddr {
    listen(move |mut stream| async move {
        let asked = head(&mut stream).await;
        let first = asked.lines().next().unwrap_or_default().to_owned();
        let _ = stream.write_all(answer.replace("{}", &first).as_bytes()).await;
    })
    .await
}

fn url(text: &str) -> Uri {
    text.parse().unwrap()
}

async fn through(at: SocketAddr, within: Duration) -> Outcome {
    network().through(at, &url("http://probe.test/ok?a=1"), within).await
}

fn reason(outcome: Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Passed(text) => ("passed", text),
        Outcome::Broken(fault) => ("broken", fault.reason),
        Outcome::Doubtful(fault) => ("doubtful", fault.reason),
        Outcome::UrlAtFault(fault) => ("url", fault.reason),
    }
}

#[tokio::test]
async fn a_proxy_is_asked_in_absolute_form_and_past_its_cache() {
    let at = listen(|mut stream| async move {
        let asked = head(&mut stream).await;
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{asked}", asked.len());
        let _ = stream.write_all(text.as_bytes()).await;
    })
    .await;
    let Outcome::Passed(asked) = through(at, WITHIN).await else { panic!() };
    let asked = asked.to_lowercase();
    assert!(asked.starts_with("get http://probe.test/ok?a=1 http/1.1\r\nhost: probe.test\r\n"), "{asked}");
    assert!(asked.contains("cache-control: no-cache"), "{asked}");
}

#[tokio::test]
async fn each_thing_that_a_proxy_does_wrong_has_its_name() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = gone.local_addr().unwrap();
    drop(gone);
    assert_eq!(reason(network().connect(dead, WITHIN).await), ("broken", "connect-refused".into()));
    assert_eq!(reason(through(dead, WITHIN).await), ("broken", "connect-refused".into()));
    for (answer, wanted) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ("passed", "ok")),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", ("passed", "")),
        (
            "HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nContent-Length: 0\r\n\r\n",
            ("doubtful", "proxy-answered-503"),
        ),
        ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", ("url", "url-answered-503")),
        ("", ("broken", "hung-up")),
        ("220 mail.example.com ESMTP\r\n", ("broken", "no-http")),
    ] {
        let (kind, why) = reason(through(says(answer).await, WITHIN).await);
        assert_eq!((kind, why.as_str()), wanted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_says_nothing_at_all_hangs_and_one_that_still_speaks_is_in_doubt() {
    let silent = listen(|stream| async move {
        let _kept = stream;
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(reason(through(silent, SHORT).await), ("broken", "hangs".into()));
    assert_eq!(reason(network().connect(silent, WITHIN).await).0, "passed");
    let lost = listen(|mut stream| async move {
        if head(&mut stream).await.starts_with("GET / ") {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        } else {
            std::future::pending::<()>().await;
        }
    })
    .await;
    assert_eq!(reason(through(lost, SHORT).await), ("doubtful", "no-answer".into()));
}

#[tokio::test]
async fn no_more_is_read_than_is_needed_whatever_comes() {
    let endless = listen(|mut stream| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"10\r\n0123456789abcdef\r\n").await.is_ok() {}
    })
    .await;
    let Outcome::Passed(text) = through(endless, WITHIN).await else { panic!() };
    assert_eq!(text.len(), MOST_TEXT);
    let headers = listen(|mut stream| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"X-More: 0123456789abcdef0123456789abcdef\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(reason(through(headers, WITHIN).await).0, "broken");
}

/// A server with TLS on localhost.
async fn secure(answer: &'static str) -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listen(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            assert!(head(&mut stream).await.starts_with("GET /ok HTTP/1.1\r\n"));
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

/// A proxy that opens tunnels.
async fn tunnels() -> SocketAddr {
    listen(|mut stream| async move {
        let asked = head(&mut stream).await;
        let target =
            asked.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        let mut server = TcpStream::connect(target).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
    })
    .await
}

#[tokio::test]
async fn for_https_the_proxy_opens_a_tunnel_and_whom_it_leads_to_must_prove_its_name() {
    let server = secure("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let (proxy, ok) = (tunnels().await, url(&format!("https://localhost:{}/ok", server.port())));
    assert_eq!(reason(network().through(proxy, &ok, WITHIN).await), ("passed", "ok".into()));
    assert!(network().direct(&ok, WITHIN).await);
    let other = url(&format!("https://127.0.0.1:{}/ok", server.port()));
    assert_eq!(reason(network().through(proxy, &other, WITHIN).await), ("doubtful", "tls".into()));
    assert!(!network().direct(&other, WITHIN).await);
    let refuses = says("HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\n\r\n").await;
    assert_eq!(
        reason(network().through(refuses, &ok, WITHIN).await),
        ("doubtful", "proxy-answered-503".into())
    );
}

#[tokio::test]
async fn a_server_that_is_at_fault_is_not_up_though_it_answers() {
    let server = secure("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n").await;
    let (proxy, ok) = (tunnels().await, url(&format!("https://localhost:{}/ok", server.port())));
    assert_eq!(reason(network().through(proxy, &ok, WITHIN).await), ("url", "url-answered-500".into()));
    assert!(!network().direct(&ok, WITHIN).await);
    let plain = says("HTTP/1.1 200 {}\r\nContent-Length: 0\r\n\r\n").await;
    assert!(network().direct(&url(&format!("http://{plain}/x")), WITHIN).await);
}

/// What a probe finds as the condition Healthy shows it, against docs/troubleshooting.md.
fn compare(symptom: &str, outcome: Outcome) {
    let (Outcome::Broken(fault) | Outcome::Doubtful(fault) | Outcome::UrlAtFault(fault)) = outcome else {
        panic!("{symptom}: it passed")
    };
    let reason = crate::core::conditions::camel(&fault.reason);
    let shown = [format!("Reason: {reason}"), format!("Message: {}", fault.message)];
    let complaint = docs_tests::shown::complaint(symptom, &shown);
    assert!(complaint.is_empty(), "{complaint}");
}

#[tokio::test]
async fn what_a_probe_finds_is_shown_as_the_page_says() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = gone.local_addr().unwrap();
    drop(gone);
    compare("no-squid-listens", network().connect(dead, WITHIN).await);
    let silent = listen(|stream| async move {
        let _kept = stream;
        std::future::pending::<()>().await;
    })
    .await;
    compare("its-squid-hangs", through(silent, SHORT).await);
    let lost = listen(|mut stream| async move {
        if head(&mut stream).await.starts_with("GET / ") {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        } else {
            std::future::pending::<()>().await;
        }
    })
    .await;
    compare("requests-get-no-answer", through(lost, SHORT).await);
    for (symptom, answer) in [
        (
            "squid-answers-by-itself",
            "HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "the-probe-url-answers-with-a-fault",
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        ),
        ("it-ends-connections-without-an-answer", ""),
        ("what-answers-is-no-squid", "220 mail.example.com ESMTP\r\n"),
    ] {
        compare(symptom, through(says(answer).await, WITHIN).await);
    }
}
