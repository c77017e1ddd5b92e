//! A web server on this machine that Pods reach, and requests through a proxy. Written by hand, since what is
//! tested is that the bytes come through: no pool, no retry, no redirect.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// Answers each request with its path and a word that nobody else knows.
pub struct Web {
    pub port: u16,
    word: String,
    asked: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Web {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let word = format!("{:016x}", rand::random::<u64>());
        let asked = Arc::new(AtomicUsize::new(0));
        let (said, count) = (word.clone(), asked.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, said.clone(), count.clone()));
            }
        });
        Self { port, word, asked, accepting: accepting.abort_handle() }
    }

    /// What the answer to this path is.
    pub fn answer_to(&self, path: &str) -> String {
        format!("{} {path}", self.word)
    }

    /// How many requests came.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Where a Pod of this address finds it: the bridge has the first address of the Pods' network.
    pub fn at(&self, pod: &str) -> String {
        let (network, _) = pod.rsplit_once('.').expect("an IPv4 address");
        format!("{network}.1:{}", self.port)
    }
}

async fn answer(mut stream: TcpStream, word: String, asked: Arc<AtomicUsize>) -> Option<()> {
    let head = read_head(&mut stream).await?;
    let path = head.split(' ').nth(1)?;
    asked.fetch_add(1, Ordering::SeqCst);
    let body = format!("{word} {path}");
    let text =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.ok()
}

/// A GET of `http://SERVER/PATH` by way of a proxy; the answer's body.
pub async fn get_through(proxy: &str, server: &str, path: &str) -> Result<String, String> {
    within(async {
        let mut stream =
            TcpStream::connect(proxy).await.map_err(|e| format!("no connection to {proxy}: {e}"))?;
        get(&mut stream, &format!("http://{server}{path}"), server).await
    })
    .await
}

/// The same inside a tunnel, as for HTTPS.
pub async fn connect_through(proxy: &str, server: &str, path: &str) -> Result<String, String> {
    within(async {
        let mut stream =
            TcpStream::connect(proxy).await.map_err(|e| format!("no connection to {proxy}: {e}"))?;
        let ask = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.map_err(|e| e.to_string())?;
        let head = read_head(&mut stream).await.ok_or("the proxy hung up")?;
        if head.split(' ').nth(1) != Some("200") {
            return Err(format!("no tunnel: {}", head.lines().next().unwrap_or_default()));
        }
        get(&mut stream, path, server).await
    })
    .await
}

async fn within<T>(what: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .unwrap_or_else(|_| Err("no answer in a minute".into()))
}

async fn get(stream: &mut TcpStream, target: &str, host: &str) -> Result<String, String> {
    let ask = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.map_err(|e| e.to_string())?;
    let head = read_head(stream).await.ok_or("the proxy hung up")?;
    let mut body = String::new();
    stream.read_to_string(&mut body).await.map_err(|e| e.to_string())?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body),
        _ => Err(format!("{}: {body}", head.lines().next().unwrap_or_default())),
    }
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
