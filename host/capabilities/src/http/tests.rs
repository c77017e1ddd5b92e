//! At real sockets: a server that does whatever is wrong with one.

mod google;
mod trust;

use std::{
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Mutex as Locked,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use egress_runtime::capability::Withheld;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

/// Longer than any of these takes.
const LONG_MS: u64 = 20_000;

/// Listens, and lets each connection be answered so.
async fn listen<F: Future<Output = ()> + Send + 'static>(
    answer: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    at
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

/// Answers the first request of each connection so, and closes it; keeps what it was asked.
async fn says(answer: &'static [u8]) -> (SocketAddr, Arc<Locked<Vec<String>>>) {
    let asked = Arc::<Locked<Vec<String>>>::default();
    let kept = Arc::clone(&asked);
    let at = listen(move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            let head = head(&mut stream).await;
            kept.lock().unwrap().push(head);
            let _ = stream.write_all(answer).await;
        }
    });
    (at.await, asked)
}

fn endpoint(url: &str) -> Value {
    json!({ "url": url, "plainHttp": url.starts_with("http:"),
            "timeouts": { "connectMs": LONG_MS - 1, "requestMs": LONG_MS } })
}

fn capability(endpoint: Value) -> HttpCapability {
    let grant = serde_json::from_value(json!({ "endpoints": { "a": endpoint } })).unwrap();
    HttpCapability::new(&"pve".parse().unwrap(), grant).unwrap()
}

fn at(at: SocketAddr) -> HttpCapability {
    capability(endpoint(&format!("http://{at}/base")))
}

fn asking(method: &str) -> HttpRequest {
    HttpRequest {
        endpoint: "a".to_owned(),
        method: method.to_owned(),
        path: vec!["nodes".to_owned()],
        ..HttpRequest::default()
    }
}

async fn fails(http: &HttpCapability) -> HttpFailure {
    http.send(&asking("GET")).await.unwrap_err()
}

#[tokio::test]
async fn an_answer_comes_whole_with_its_reason_and_whatever_its_status() {
    let answer = b"HTTP/1.1 500 VM is locked (clone)\r\nA: 1\r\nA: 2\r\nContent-Length: 4\r\n\r\n\xffabc";
    let (server, asked) = says(answer).await;
    let response = at(server).send(&asking("GET")).await.unwrap();
    assert_eq!((response.status, response.reason.as_str()), (500, "VM is locked (clone)"));
    assert_eq!(response.body, b"\xffabc");
    let of_a: Vec<&str> =
        response.headers.iter().filter(|(name, _)| name == "a").map(|(_, value)| value.as_str()).collect();
    assert_eq!(of_a, ["1", "2"]);
    let asked = asked.lock().unwrap().join("");
    assert!(asked.starts_with("GET /base/nodes HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("host: {server}\r\n")), "{asked}");
    assert!(asked.contains("user-agent: egress-proxies-operator (pve)\r\n"), "{asked}");
}

#[tokio::test]
async fn a_server_is_told_its_trace_only_where_the_entry_says_so() {
    use opentelemetry::trace::{
        FutureExt, SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState,
    };

    let (server, asked) = says(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut told = endpoint(&format!("http://{server}"));
    told["traceContext"] = json!(true);
    let (told, untold) = (capability(told), at(server));
    let (trace, span) = (TraceId::from_bytes([0xab; 16]), SpanId::from_bytes([0xcd; 8]));
    let span = SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default());
    let context = opentelemetry::Context::new().with_remote_span_context(span);
    untold.send(&asking("GET")).with_context(context.clone()).await.unwrap();
    // And where nobody keeps traces there is nothing to tell.
    told.send(&asking("GET")).await.unwrap();
    told.send(&asking("GET")).with_context(context).await.unwrap();
    let asked = asked.lock().unwrap().clone();
    let with: Vec<usize> = (0..3).filter(|index| asked[*index].contains("traceparent")).collect();
    assert_eq!(with, [2], "{asked:?}");
    let header = format!("traceparent: 00-{}-{}-01\r\n", "ab".repeat(16), "cd".repeat(8));
    assert!(asked[2].contains(&header), "{asked:?}");
}

#[tokio::test]
async fn no_redirect_is_followed_and_nothing_is_unpacked() {
    let answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Encoding: gzip\r\n\
                   Content-Length: 3\r\n\r\n\x1f\x8b\x08";
    let (server, asked) = says(answer).await;
    let response = at(server).send(&asking("GET")).await.unwrap();
    assert_eq!((response.status, response.reason.as_str()), (302, "Found"));
    assert_eq!(response.body, b"\x1f\x8b\x08");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(!asked[0].contains("accept-encoding"), "{asked:?}");
}

#[tokio::test]
async fn an_endpoint_that_the_grant_does_not_name_is_denied() {
    let (server, asked) = says(b"").await;
    let request = HttpRequest { endpoint: "b".to_owned(), ..asking("GET") };
    let failure = at(server).send(&request).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (Kind::Denied, false));
    assert!(failure.message.contains("names a"), "{}", failure.message);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn whoever_can_t_be_reached_was_sent_nothing() {
    let gone = listen(async |_| {}).await;
    let refuses = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = fails(&at(refuses)).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Connect, false), "{}", failure.message);
    assert!(failure.message.starts_with(&refuses.to_string()), "{}", failure.message);
    let failure = fails(&capability(endpoint("https://no-such-name.invalid"))).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Name, false), "{}", failure.message);
    let failure = fails(&at(gone)).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Cut, true), "{}", failure.message);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_cut() {
    let (server, _) = says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
    let failure = fails(&at(server)).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Cut, true), "{}", failure.message);
}

#[tokio::test]
async fn a_server_that_drips_is_given_up_at_the_requests_own_time() {
    let server = listen(async |mut stream| {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let request = HttpRequest { timeout: Some(Duration::from_millis(300)), ..asking("GET") };
    let failure = at(server.await).send(&request).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (Kind::Timeout, true));
    assert!(failure.message.contains("within 300 ms"), "{}", failure.message);
}

#[tokio::test]
async fn what_is_too_large_either_way_has_a_failure_of_its_own() {
    let flood = listen(async |mut stream| {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    let failure = fails(&at(flood.await).with_limits(10, 100_000)).await;
    assert_eq!((failure.kind, failure.sent), (Kind::TooLarge, true));
    assert!(failure.message.contains("limits.responseBytes (100000) of entry pve"), "{}", failure.message);

    let headers = listen(async |mut stream| {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    let failure = fails(&at(headers.await)).await;
    assert_eq!((failure.kind, failure.sent), (Kind::TooLarge, true), "{}", failure.message);

    let (server, asked) = says(b"").await;
    let request =
        HttpRequest { body: egress_runtime::capability::HttpBody::Bytes(vec![0; 11]), ..asking("POST") };
    let failure = at(server).with_limits(10, 10).send(&request).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (Kind::TooLarge, false));
    assert!(asked.lock().unwrap().is_empty());
}

struct Secret {
    dir: TempDir,
}

impl Secret {
    fn new(text: &str) -> Self {
        let secret = Self { dir: tempfile::tempdir().unwrap() };
        secret.becomes(text);
        secret
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("token")
    }

    fn becomes(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }
}

#[tokio::test]
async fn a_token_is_read_at_every_request_and_never_told() {
    let (server, asked) = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let secret = Secret::new(" first-secret\n");
    let mut granted = endpoint(&format!("http://{server}"));
    granted["credentials"] = json!({ "header": {
        "format": "PVEAPIToken={principal}={secret}", "principal": "epo@pve!a", "secret": { "file": secret.path() },
    } });
    let http = capability(granted);
    http.send(&asking("GET")).await.unwrap();
    secret.becomes("second-secret");
    http.send(&asking("GET")).await.unwrap();
    let asked: Vec<String> = asked.lock().unwrap().drain(..).collect();
    assert!(asked[0].contains("authorization: PVEAPIToken=epo@pve!a=first-secret\r\n"), "{asked:?}");
    assert!(asked[1].contains("authorization: PVEAPIToken=epo@pve!a=second-secret\r\n"), "{asked:?}");
    assert_eq!(http.info("a").await.unwrap()["principal"], "epo@pve!a");
    for text in ["", "third\nsecret"] {
        secret.becomes(text);
        let failure = fails(&http).await;
        assert_eq!((failure.kind, failure.sent), (Kind::Credentials, false));
        assert!(failure.message.contains(&secret.path().display().to_string()), "{}", failure.message);
        assert!(
            !failure.message.contains("secret\n") && !failure.message.contains("third"),
            "{}",
            failure.message
        );
    }
    std::fs::remove_file(secret.path()).unwrap();
    assert_eq!(fails(&http).await.kind, Kind::Credentials);
}

#[tokio::test]
async fn basic_credentials_go_as_http_has_them() {
    let (server, asked) = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let secret = Secret::new("open sesame");
    let mut granted = endpoint(&format!("http://{server}"));
    granted["credentials"] =
        json!({ "basic": { "username": "Aladdin", "password": { "file": secret.path() } } });
    capability(granted).send(&asking("GET")).await.unwrap();
    let asked = asked.lock().unwrap().join("");
    assert!(asked.contains("authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "{asked}");
}

#[tokio::test]
async fn no_more_requests_run_at_once_than_the_endpoint_has_connections() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (n, m) = (Arc::clone(&now), Arc::clone(&most));
    let server = listen(move |mut stream| {
        let (now, most) = (Arc::clone(&n), Arc::clone(&m));
        async move {
            head(&mut stream).await;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
    });
    let mut granted = endpoint(&format!("http://{}", server.await));
    granted["connections"] = json!(2);
    let http = capability(granted);
    let answers = futures::future::join_all((0..12).map(|_| async { http.send(&asking("GET")).await })).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

/// Connections that are open at that port, as the kernel has it.
fn established(port: u16) -> usize {
    let (local, established) = (format!(":{port:04X}"), "01");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[1].ends_with(&local) && fields[3] == established).count()
}

#[tokio::test]
async fn connections_are_kept_and_reads_and_writes_together_open_no_more_than_the_endpoint_has() {
    let (most, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (m, a) = (Arc::clone(&most), Arc::clone(&accepted));
    let server = listen(move |mut stream| {
        m.fetch_max(established(stream.local_addr().unwrap().port()), Ordering::SeqCst);
        a.fetch_add(1, Ordering::SeqCst);
        async move {
            while !head(&mut stream).await.is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    });
    let mut granted = endpoint(&format!("http://{}", server.await));
    granted["connections"] = json!(3);
    let http = capability(granted);
    let ask = async |methods: &[&str]| {
        let all = methods.iter().map(|method| {
            let http = &http;
            async move { http.send(&asking(method)).await }
        });
        let answers = futures::future::join_all(all).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.body == b"ok")));
    };
    for _ in 0..20 {
        ask(&["GET", "GET", "GET", "POST", "GET", "POST", "DELETE"]).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let before = accepted.load(Ordering::SeqCst);
    for _ in 0..20 {
        ask(&["GET"]).await;
    }
    assert!(accepted.load(Ordering::SeqCst) <= before + 1);
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_costs_no_request() {
    let closing = listen(async |mut stream| {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    });
    let http = at(closing.await);
    for _ in 0..50 {
        assert_eq!(http.send(&asking("POST")).await.unwrap().body, b"ok");
    }
}

/// Answers CONNECT so, and forwards what follows to whom it was asked for.
async fn forwards(answer: &'static str) -> (SocketAddr, Arc<Locked<Vec<String>>>) {
    let asked = Arc::<Locked<Vec<String>>>::default();
    let kept = Arc::clone(&asked);
    let proxy = listen(move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            let question = head(&mut stream).await;
            let server = question.split(' ').nth(1).unwrap_or_default().to_owned();
            kept.lock().unwrap().push(question);
            let _ = stream.write_all(answer.as_bytes()).await;
            if let Ok(mut server) = TcpStream::connect(server).await {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
            }
        }
    });
    (proxy.await, asked)
}

#[tokio::test]
async fn an_endpoint_behind_a_proxy_is_reached_through_it_and_the_proxy_alone_learns_its_password() {
    let (server, asked) = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let (proxy, told) = forwards("HTTP/1.1 200 Connection established\r\n\r\n").await;
    let secret = Secret::new("open sesame");
    let mut granted = endpoint(&format!("http://{server}"));
    granted["proxy"] = json!({ "url": format!("http://{proxy}"),
                               "basic": { "username": "Aladdin", "password": { "file": secret.path() } } });
    assert_eq!(capability(granted).send(&asking("GET")).await.unwrap().body, b"ok");
    let told = told.lock().unwrap().join("");
    assert!(told.starts_with(&format!("CONNECT {server} HTTP/1.1\r\n")), "{told}");
    assert!(told.contains("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "{told}");
    let asked = asked.lock().unwrap().join("");
    assert!(asked.starts_with("GET /nodes HTTP/1.1\r\n") && !asked.contains("QWxhZGRpb"), "{asked}");
}

#[tokio::test]
async fn a_proxy_that_opens_no_way_is_named_with_its_answer_and_nothing_was_sent() {
    for (answer, expected) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "\"407 Proxy Authentication Required\""),
        ("HTTP/1.0 403 Forbidden\r\n\r\n", "\"403 Forbidden\""),
        ("SSH-2.0-OpenSSH\r\n\r\n", "as HTTP has it"),
    ] {
        let (proxy, _) = forwards(answer).await;
        let mut granted = endpoint("http://127.0.0.1:1");
        granted["proxy"] = json!({ "url": format!("http://{proxy}") });
        let failure = fails(&capability(granted)).await;
        assert_eq!((failure.kind, failure.sent), (Kind::Connect, false), "{}", failure.message);
        assert!(failure.message.contains(&proxy.to_string()), "{}", failure.message);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

/// Shut, it withholds.
#[derive(Default)]
struct Door(AtomicBool);

impl Writes for Door {
    fn may_begin(&self) -> Result<(), Withheld> {
        if self.0.load(Ordering::SeqCst) { Err(Withheld("shut".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test]
async fn what_changes_something_does_not_leave_while_nothing_may_be_written() {
    let (server, asked) = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    let mut granted = endpoint(&format!("http://{server}"));
    granted["readOnly"] = json!([{ "method": "POST", "path": ["nodes", "*"] }]);
    let door = Arc::new(Door::default());
    let http = capability(granted).guarded(&(Arc::clone(&door) as Arc<dyn Writes>));
    http.send(&asking("POST")).await.unwrap();
    door.0.store(true, Ordering::SeqCst);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let request = asking(method);
        assert!(!http.is_read(&request));
        http.send(&request).await.unwrap_err();
    }
    let question = HttpRequest { path: vec!["nodes".to_owned(), "ask".to_owned()], ..asking("POST") };
    assert!(http.is_read(&question) && http.is_read(&asking("GET")));
    http.send(&question).await.unwrap();
    http.send(&asking("GET")).await.unwrap();
    assert_eq!(asked.lock().unwrap().iter().filter(|head| !head.is_empty()).count(), 3);
}
